package timeline

import (
	"fmt"
	"sort"
)

// eps is the tolerance of comparisons between recorded times, seconds.
const eps = 1e-6

// None stands for a turn that does not exist.
const None = -1

// MainTurn is a main turn: its place in the recording and its start, seconds.
type MainTurn struct {
	Outer int
	Start float64
}

// SpawnTurn returns the last main turn that stands before an outer index, None if there is none: section 5.7.
func SpawnTurn(main []MainTurn, outer int) int {
	at := None
	for k, t := range main {
		if t.Outer < outer {
			at = k
		}
	}
	return at
}

// JoinTurn returns the main turn that waits for what stands at an outer index, was spawned by a turn and ends at a time:
// the first behind it, in document order, that starts no earlier. None waits: None. Turns up to the spawning one are
// passed over, or refused.
func JoinTurn(main []MainTurn, outer int, end float64, spawn int, refuse bool) (int, error) {
	behind := make([]int, 0, len(main))
	for k, t := range main {
		if t.Outer > outer {
			behind = append(behind, k)
		}
	}
	sort.Slice(behind, func(i, j int) bool { return main[behind[i]].Outer < main[behind[j]].Outer })
	for _, k := range behind {
		if main[k].Start+eps < end {
			continue
		}
		if k > spawn {
			return k, nil
		}
		if refuse {
			return None, fmt.Errorf("spawned by turn %d, it would be joined by turn %d", spawn, k)
		}
	}
	return None, nil
}
