package resume

import (
	"math"

	"github.com/agentx/agentx/internal/pyrand"
	"github.com/agentx/agentx/replay/conductor"
)

// Candidates returns the turns after which a lane may begin in a trace without times: doc/spec/replay.md 2.5. canOpen
// says of every turn of the root whether a session can begin with it. A candidate, which warmup sends, and the turn after
// it, with which profiling goes on, can both open one.
func (r Ratios) Candidates(canOpen []bool) []int {
	n := len(canOpen)
	turn := func(ratio float64) int { return min(int(math.Floor(ratio*float64(n))), n-2) }
	var list []int
	for k := max(0, turn(r.Min)); k <= turn(r.Max); k++ {
		if canOpen[k] && canOpen[k+1] {
			list = append(list, k)
		}
	}
	return list
}

// Split draws one of the candidates of a trace without times. Warmup sends that turn, and profiling goes on with the next.
// ok is false if there is no candidate.
func (r Ratios) Split(canOpen []bool, seed uint64) (turn int, ok bool) {
	list := r.Candidates(canOpen)
	if len(list) == 0 {
		return 0, false
	}
	return list[pyrand.NewPCG64(seed).Bounded(uint32(len(list)))], true
}

// From returns the state of a trace whose root goes on with a turn, due at once, whatever its times say. Sessions that
// earlier turns spawned are over.
func (t *Trace) From(turn int) *conductor.StartState {
	state := &conductor.StartState{}
	if len(t.Sessions) > 0 && turn < len(t.Sessions[0].Turns) {
		state.Live = []conductor.LiveSession{{Turn: turn}}
	}
	t.finish(state, make([]int, len(t.Sessions)))
	return state
}
