// Package wire sends inference requests over HTTP/1.1 and times the answers.
//
// A [Client] sends requests to one server. [Client.Do] sends one [Request] and returns one [Result]: instants, counts, and
// a [Failure] with one [Category] when the request did not end well. The package knows nothing of traces, lanes or caches.
//
//	client, err := wire.New("http://localhost:8000", wire.Options{})
//	...
//	res := client.Do(ctx, &wire.Request{Path: "/v1/chat/completions", Stream: true, Body: body})
//	if res.Err == nil {
//		ttft := res.FirstToken - res.Sent
//	}
//
// # Instants
//
// Every instant is a duration since Options.Epoch on the monotonic clock, or [Never]. Result.Sent is taken before a
// connection is taken from the pool or dialled, so that the time for a connection counts. The instant of a message is the
// return of the read that completed it: messages that arrive in one read share an instant.
//
// # Retry and redirect
//
// Servers close idle connections without notice. A request on a kept connection that breaks before the first byte of an
// answer is sent once more, on a new connection: Result.Resent is set and Result.Sent stays the first. Nothing else is
// retried. One redirect is followed, to the same origin, where the method stays (307, 308).
//
// # Categories
//
// Every failure has exactly one category. A text of the server that matches an overflow pattern makes it
// [ContextOverflow], whatever the category would have been. A Result keeps what was measured beside a failure: a stream
// that broke after ten tokens has a first token.
//
// # Limits
//
// The client writes a request completely before it reads the answer. A server that answers early (413) and closes the
// connection is heard; the client waits until the timeout for one that answers early and then neither reads nor closes.
// HTTP/2, proxies and compression are not supported.
//
// The package is the hot path of a replay, so it implements HTTP itself: the head is sent in one system call with the first
// piece of the body, answers are read in place, and so are their events. A request on a kept connection costs few
// allocations and no goroutine. For requests of 40 and 400 KB, and for streams of 500 events, a tuned
// client of net/http that splits the lines of an answer, and parses none, takes 2.8 to 5.3 times the CPU.
package wire
