package timeline

import (
	"fmt"
	"sort"
)

// tolerance is the difference up to which two recorded times count as equal, in seconds.
const tolerance = 1e-6

// None is the index of no turn.
const None = -1

// MainTurn is a turn of the main session.
type MainTurn struct {
	Outer int     // index in the requests of the trace
	Start float64 // seconds
}

// SpawnTurn returns the last main turn before an outer index, None if there is none: doc/spec/reconstruction.md 5.7.
func SpawnTurn(main []MainTurn, outer int) int {
	at := None
	for k, t := range main {
		if t.Outer < outer {
			at = k
		}
	}
	return at
}

// JoinTurn returns the main turn that waits for a session, None if no turn does. outer is the index of the session in the
// requests of the trace, spawn the turn that spawned it, and end its end in seconds. The join turn is the first turn after
// outer, in document order, that starts no earlier than end. A turn that is not after spawn cannot join: with refuse it is
// an error, otherwise JoinTurn skips it.
func JoinTurn(main []MainTurn, outer int, end float64, spawn int, refuse bool) (int, error) {
	behind := make([]int, 0, len(main))
	for k, t := range main {
		if t.Outer > outer {
			behind = append(behind, k)
		}
	}
	sort.Slice(behind, func(i, j int) bool { return main[behind[i]].Outer < main[behind[j]].Outer })
	for _, k := range behind {
		if main[k].Start+tolerance < end {
			continue
		}
		if k > spawn {
			return k, nil
		}
		if refuse {
			return None, fmt.Errorf("spawn turn %d: the join turn would be %d, want a later one", spawn, k)
		}
	}
	return None, nil
}
