package resume

import "math"

// Lane is what a lane has to play when a phase starts: offsets from its t*, in milliseconds and at the speed that is
// played.
type Lane struct {
	Ready  []float64 // of the states that can be sent; 0 for one of a trace without times
	Parked []float64 // of the states that wait for children
}

// Alignment says which offset becomes the start of the phase: section 4.1 of the specification of the replay.
type Alignment uint8

const (
	Spread  Alignment = iota // the smallest of all lanes: they keep their distances, and one starts at once
	Burst                    // the smallest of each lane: all start at once
	AsDrawn                  // none: every t* is the start of the phase
)

// Shifts returns, by lane, what is to be subtracted from its offsets, in milliseconds. untimed tells that a lane plays a
// trace without times: it starts at once, so the others of a spread start keep their offsets.
func (a Alignment) Shifts(lanes []Lane, untimed bool) []float64 {
	shifts, common := make([]float64, len(lanes)), math.Inf(1)
	for n, l := range lanes {
		shifts[n] = l.first()
		common = min(common, shifts[n])
	}
	for n := range shifts {
		switch {
		case a == AsDrawn || a == Spread && untimed:
			shifts[n] = 0
		case a == Spread:
			shifts[n] = common
		}
		if !finite(shifts[n]) { // nothing to send
			shifts[n] = 0
		}
	}
	return shifts
}

// Skipped returns, by lane, what is to be subtracted from its offsets besides its shift so that it sends its first request
// limit milliseconds after the start of the phase at the latest: the lane start cap of section 4.1 of the specification of
// the replay. +Inf is no limit.
func Skipped(lanes []Lane, shifts []float64, limit float64) []float64 {
	skipped := make([]float64, len(lanes))
	for n, l := range lanes {
		if first := l.first(); finite(first) {
			skipped[n] = max(0, first-shifts[n]-limit)
		}
	}
	return skipped
}

// Due returns when a state is sent that can be sent, and the deadline of one that waits, in milliseconds after the start
// of the phase.
func Due(offset, shift, skipped float64) float64 { return max(0, offset-shift-skipped) }

// first returns the smallest offset that can be sent, +Inf when none can.
func (l Lane) first() float64 {
	first := math.Inf(1)
	for _, offset := range l.Ready {
		first = min(first, offset)
	}
	return first
}
