// Package carry is the proxy of captures: it passes requests and replies on, unchanged and at once.
//
// A [Proxy] is an http.Handler in front of one or more upstreams. An [Observer] gets copies of what passes. Carrying never
// waits for an observer, changes no byte for one, and survives one that panics. The package imports nothing of this
// project, so that it cannot parse, tokenize or write files; a test at the root of the module says so.
//
//	proxy, err := carry.New(carry.Options{Upstreams: []carry.Upstream{upstream}, Observer: sessions})
//	...
//	proxy.Server().Serve(listener)
//
// # One exchange
//
// [Proxy.ServeHTTP] reads from top to bottom as one exchange runs: arrive, dispatch, head of the reply, its body, trailers,
// end. The calls of an [Exchange] come in that order, with one exception: a body may still be on its way up while its reply
// is on its way down. [Exchange.End] comes exactly once and last, whatever happened, a panic included.
//
// # What net/http does to messages
//
// Both sides speak HTTP/1.1 by net/http. It orders headers, spells their names canonically, forgets reason phrases and
// chunk boundaries, and drops a Content-Type beside status 304. Everything else arrives as it was sent.
package carry
