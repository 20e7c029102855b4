// Package replay plays a prepared cache against an inference server and records what happened.
//
// The data path: sheet.go turns recorded times into what is played of a trace; package resume draws where lanes take their
// first traces up; sampler.go deals traces to lanes; package conductor decides, in one goroutine and without a clock of its
// own, what goes out when; phase.go gives it the clock and the end of the phase; transport.go starts a goroutine per request
// in flight; body.go streams the prompt from the mapped cache; package wire sends and times it; player.go puts all this
// together, and package measure records and sums up.
package replay
