// Package timeline turns recorded times into the gaps that a replay plays: pure functions, imported by the builder of
// a cache and by its player, so that neither has a copy.
//
// Inputs are seconds as recorded, NaN where a value is missing. Outputs are milliseconds. The order of the arithmetic
// is that of the specification (sections 6.1 and 6.7), so results compare bit for bit.
package timeline

import "math"

// Missing marks a time that was not recorded.
var Missing = math.NaN()

// Duration returns a recorded duration in milliseconds; a missing, negative or non-finite one has width 0.
func Duration(apiTime float64) float64 {
	if math.IsNaN(apiTime) || math.IsInf(apiTime, 0) || apiTime < 0 {
		return 0
	}
	return apiTime * 1000
}

// Delay returns the pause between the end of one turn and the start of the next, in milliseconds, never negative.
// prevStart and prevAPI are start and duration of the turn before, start is that of the turn itself, in seconds.
func Delay(prevStart, prevAPI, start float64) float64 {
	gap := start*1000 - prevStart*1000
	d := gap - Duration(prevAPI)
	if !(d > 0) { // NaN too
		return 0
	}
	return d
}

// Origin says from when a spawn offset counts.
type Origin uint8

const (
	Return Origin = iota // the return of the spawning turn
	Issue                // the issue of the spawning turn
)

func (o Origin) String() string { return [...]string{"return", "issue"}[o] }

// SpawnOffset returns when the first turn of a child session is due, counted from the return or the issue of its
// spawning turn, in milliseconds. turnStart and turnAPI are start and duration of the spawning turn, childStart is the
// start of the child's first request, in seconds.
func SpawnOffset(turnStart, turnAPI, childStart float64) (Origin, float64) {
	gap := childStart*1000 - turnStart*1000
	api := Duration(turnAPI)
	if gap >= api {
		return Return, gap - api
	}
	return Issue, max(0, gap)
}
