// Package resume resolves where lanes begin, before the conductor starts: sections 2.1 to 2.5 and 4.1 of the
// specification of the replay. Pure functions of numbers: no files, no clock, no idea of switches or presets.
//
// The path: wrap.go says whether there may be as many lanes; seed.go gives each lane its own random numbers, of
// internal/pyrand; instant.go draws the instant t* with them, at which a lane enters its trace; state.go says what of the trace is live then;
// legacy.go does both for a trace without times; anchor.go sets the lanes against each other.
//
// Times are milliseconds on the clock of the recording. One that is not finite is absent.
package resume

import "math"

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
