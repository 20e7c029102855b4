// Package resume decides where lanes begin in their first traces: doc/spec/replay.md 2.1 to 2.5 and 4.1. It computes with
// numbers, has no clock and reads no files. Its results are what package conductor takes:
//
//	seed := resume.LaneSeed("42", "trace-1", lane)
//	first, last, ok := trace.Bounds()
//	tStar := resume.Ratios{Min: 0.25, Max: 0.75}.Instant(first, last, seed)
//	state := trace.At(tStar) // *conductor.StartState
//	skipped := resume.Spread.Align(states, false, limit)
//
// alignment.go decides whether a run may have more lanes than traces, gives each lane its random numbers, draws t* with them, and
// moves the lanes of a run to the start of the phase; it also draws where a trace without times begins. state.go finds the sessions
// of a trace that are live at t*.
//
// Recorded times are milliseconds on the clock of the recording. A time that is not finite is not known.
package resume

import "math"

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
