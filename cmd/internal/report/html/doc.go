// Package html makes the page of one run: doc/spec/report.md 3.
//
// A Builder reads records one at a time and keeps, of at most maxRequests of them, the numbers that the page draws. Page makes of
// these the tables of a page.Page:
//
//	trees     ordinal, lane, pass, trace; a row for each tree with a request on the page
//	sessions  tree, parent, name, depth, kind, requests; the requests of a session stand together, in the order of its turns
//	requests  a row for each request, by session; metrics are columns as all else. A column may be packed as what it has above the sum of others
//	bins      sums over slices of time, if requests were left out
//	server    what the servers said of themselves, by time
//
// Instants are nanoseconds since the start of the phase, as integers; so are times, rounded to them.
package html
