// Package replay plays a prepared cache against an inference server and records what happened.
//
// The data path: sheet.go turns recorded times into the gaps that are played; sampler.go deals traces to lanes;
// package conductor decides, in one goroutine and without a clock of its own, what goes out when; player.go gives it
// the clock, starts a goroutine per request in flight, and hands its outcome back; body.go streams the prompt from the
// mapped cache; package wire sends and times it; package measure records and sums up.
package replay
