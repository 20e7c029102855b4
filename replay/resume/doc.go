// Package resume decides where lanes begin in their first traces: doc/spec/replay.md 2.1 to 2.5 and 4.1. It computes with
// numbers, has no clock and reads no files. Its results are what package conductor takes:
//
//	seed := resume.LaneSeed("42", "trace-1", lane)
//	first, last, ok := trace.Bounds()
//	tStar := resume.Ratios{Min: 0.25, Max: 0.75}.Instant(first, last, seed)
//	state := trace.At(tStar) // *conductor.StartState
//	skipped := resume.Spread.Align(states, false, limit)
//
// wrap.go decides whether a run may have more lanes than traces. seed.go gives each lane its random numbers, and instant.go
// draws t* with them. state.go finds the sessions of a trace that are live at t*; untimed.go does both for a trace without
// times. alignment.go moves the lanes of a run to the start of the phase.
//
// Recorded times are milliseconds on the clock of the recording. A time that is not finite is not known.
package resume

import "math"

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
