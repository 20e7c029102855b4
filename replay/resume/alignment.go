package resume

import (
	"time"

	"github.com/agentx/agentx/replay/conductor"
)

// Alignment says which instant of a lane becomes the start of the phase: doc/spec/replay.md 4.1.
type Alignment uint8

// The alignments.
const (
	Spread  Alignment = iota // the first request of all lanes: lanes keep their distances, and one starts at once
	Burst                    // the first request of each lane: all lanes start at once
	AsDrawn                  // t*
)

// Align moves the due times of lanes, which count from t*, to the start of the phase. untimed says that a lane plays a
// trace without times: it starts at once, so with Spread the others keep their due times. The first request of a lane is
// due after at most limit; 0 is no limit. Align returns, by lane, how much earlier that made its requests.
func (a Alignment) Align(lanes []*conductor.StartState, untimed bool, limit time.Duration) (skipped []time.Duration) {
	skipped = make([]time.Duration, len(lanes))
	shared, shares := time.Duration(0), false
	for _, lane := range lanes {
		if first, ok := FirstDue(lane); ok && (!shares || first < shared) {
			shared, shares = first, true
		}
	}
	for n, lane := range lanes {
		first, ok := FirstDue(lane)
		shift := time.Duration(0)
		switch {
		case a == Spread && !untimed:
			shift = shared
		case a == Burst:
			shift = first
		}
		if ok && limit > 0 {
			skipped[n] = max(0, first-shift-limit)
		}
		advance(lane, shift+skipped[n])
	}
	return skipped
}

// FirstDue returns when the first request of a lane is due. ok is false if all its sessions wait for others.
func FirstDue(lane *conductor.StartState) (first time.Duration, ok bool) {
	for _, s := range lane.Live {
		if !s.Parked && (!ok || s.Due < first) {
			first, ok = s.Due, true
		}
	}
	return first, ok
}

// advance makes the sessions of a lane due earlier, but not before the start of the phase.
func advance(lane *conductor.StartState, by time.Duration) {
	for k := range lane.Live {
		lane.Live[k].Due = max(0, lane.Live[k].Due-by)
	}
}
