// Package page makes the page of a simulated run, and the log of all that it draws: doc/spec/simulate.md 12. [Make] makes of a
// [simulate.Result] the tables of a page of cmd/internal/report/page, whose kind simulate draws them; [WriteLog] writes the log.
//
//	pool.K       the workers of pool K by state, where it changes
//	NAME         a figure of the planner's ticks, at those that have it: rate.observed, floor.K, capacity.K and so on
//	load.K       why load decided as it did for pool K, throughput.K why traffic did
//	lines        a row for each worker: its pool, its id, how many rows of points it has
//	points       what each worker had, by tick or by sample
//	requests     a row for each request on the page, in the order of arrival
//	windows      counts and percentiles of all requests, by the window in which they arrived
//
// Instants are seconds of the run. Lines are thinned to the least and the greatest value of each of so many columns of time that the page
// has at most [maxBytes]; the page says so.
package page
