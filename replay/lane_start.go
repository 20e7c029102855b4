package replay

import (
	"fmt"
	"math"
	"time"

	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/resume"
)

// startPolicy says where the lanes of a run begin in their first traces.
type startPolicy struct {
	sampled   bool // at t*, an instant drawn for each lane; else at the first turn
	ratios    resume.Ratios
	alignment resume.Alignment
	limit     time.Duration // longest time to a lane's first request; 0: none
	seed      string
}

// startedLane says where a lane begins.
type startedLane struct {
	trace   string
	tStar   float64       // t* in milliseconds; NaN: with the first turn, or in a trace without times
	skipped time.Duration // how much earlier its first request is, because of the limit
}

// openFirst opens the first tree of each lane, before the phase starts. It skips traces in which no lane can begin. The
// search ends after one try per lane and two per trace, and the remaining lanes stay empty: doc/spec/replay.md 2.2.
func (s *sampler) openFirst(lanes int, starts startPolicy) []startedLane {
	var list []startedLane
	var states []*conductor.StartState
	untimed := false
	for tries := lanes + 2*max(1, len(s.dealer.traces)); len(list) < lanes && tries > 0; tries-- {
		trace, ok := s.deal()
		if !ok {
			break
		}
		t := s.load(trace)
		if t == nil {
			continue
		}
		lane, state, tStar := len(list), (*conductor.StartState)(nil), math.NaN()
		if starts.sampled {
			if state, tStar = starts.draw(t, lane); state == nil || len(state.Live) == 0 {
				s.warnOnce(trace, fmt.Sprintf("trace %q is skipped: no lane can begin in the middle of it", t.plan.Trace.ID))
				continue
			}
			states, untimed = append(states, state), untimed || math.IsNaN(tStar)
		}
		s.open(lane, t)
		s.first[lane] = conductor.Assignment{Tree: t.Tree, Start: state}
		list = append(list, startedLane{trace: t.plan.Trace.ID, tStar: tStar})
	}
	s.prefetch()
	for lane, skipped := range starts.alignment.Align(states, untimed, starts.limit) {
		list[lane].skipped = skipped
	}
	return list
}

// draw draws the state in which a lane begins a trace; nil: it cannot begin in the middle. The draw depends on the seed, the
// trace and the lane alone.
func (p startPolicy) draw(t *loadedTrace, lane int) (state *conductor.StartState, tStar float64) {
	seed := resume.LaneSeed(p.seed, t.plan.Trace.ID, lane)
	if first, last, ok := t.Bounds(); ok {
		tStar = p.ratios.Instant(first, last, seed)
		return t.At(tStar), tStar
	}
	canOpen := make([]bool, len(t.Sessions[0].Turns))
	for k := range canOpen {
		canOpen[k] = true // a turn of a cache is a whole prompt
	}
	if turn, ok := p.ratios.Split(canOpen, seed); ok {
		return t.From(turn + 1), math.NaN()
	}
	return nil, math.NaN()
}
