// Package arrivals decides when sessions begin on their own: doc/spec/replay.md 14. It computes instants, has no clock and reads
// no files, so that a replay and a simulation of it have the same arrivals.
//
//	starts, err := arrivals.Window{From: time.Minute, Speed: 60}.Select(recorded) // which traces, in which order, when
//	s := arrivals.Recorded(instants)
//
//	p := arrivals.Process{Rate: 50, Kind: arrivals.Poisson, Seed: "42"}
//	s := p.Schedule() // after p.Validate()
//	at, ok := s.Next()
//
// Instants count from the first arrival. They are whole nanoseconds and never go back. Nothing that a server does changes them.
package arrivals
