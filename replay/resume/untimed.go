package resume

import (
	"math"

	"github.com/agentx/agentx/internal/pyrand"
)

// Candidates returns the turns after which a lane may begin in a trace without times: section 2.5 of the specification
// of the replay. canOpen tells of every turn of the root whether a session can begin with it; both the candidate, which
// warmup sends, and the turn behind it, with which profiling goes on, must be able to.
func (r Ratios) Candidates(canOpen []bool) []int {
	n := len(canOpen)
	at := func(ratio float64) int { return min(int(math.Floor(ratio*float64(n))), n-2) }
	var list []int
	for k := max(0, at(r.Min)); k <= at(r.Max); k++ {
		if canOpen[k] && canOpen[k+1] {
			list = append(list, k)
		}
	}
	return list
}

// Split draws one of the candidates of a trace without times: the turn that warmup sends. Profiling goes on with the
// turn behind it. Without a candidate the trace cannot be started, and nothing is drawn.
func (r Ratios) Split(canOpen []bool, g *pyrand.PCG64) (primer int, ok bool) {
	list := r.Candidates(canOpen)
	if len(list) == 0 {
		return 0, false
	}
	return list[g.Bounded(uint32(len(list)))], true
}

// From returns the start of a trace whose root goes on with turn next, whatever its times: the turn behind the one that
// Split drew, or turn 0 for a lane that plays its trace from the beginning. What earlier turns spawned is over, and all
// of it is history.
func (t *Trace) From(next int) *Start {
	s := &Start{TStar: math.NaN(), Finished: make([]int, len(t.Sessions)), Places: make([]Place, len(t.Sessions))}
	if len(t.Sessions) > 0 && next < len(t.Sessions[0].Starts) {
		s.Finished[0] = next
		s.States = []State{{Next: next}}
		s.Spawnable = true
	}
	t.place(s)
	for n, p := range s.Places {
		if p == Over {
			s.Finished[n] = len(t.Sessions[n].Starts)
		}
	}
	return s
}
