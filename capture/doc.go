// Package capture records sessions of live agents: it stands between them and an LLM API, carries their traffic unchanged and
// writes each session as an anonymised trace of hash blocks.
//
//	c, err := capture.New(ctx, capture.Options{Dir: dir, Upstreams: upstreams, ...})
//	err = c.Serve(ctx, traffic, admin)
//
// # The way of an exchange
//
// capture/carry passes bytes on and gives copies to an exchange. Its calls return at once: they take places in queues. A pool of
// workers does what is pure: it decodes the copies, parses the prompt (capture/canon), tokenizes what is new of it
// (capture/chain) and reads the reply (capture/reply). The recorder of the session takes the results in the order in which the
// requests arrived, numbers blocks, tells agents apart (capture/agents) and writes the journal (capture/journal). When the
// session is over, its journal becomes a trace (capture/finish).
//
// What does not fit into a queue is dropped whole, and counted under a reason; traffic never waits for any of this.
// doc/spec/capture.md has the rules.
package capture
