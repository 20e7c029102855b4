package replay

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/resume"
)

// maxStageGrace bounds how long a pressure stage that ends after a duration waits for its last requests, unless Options.Grace
// is longer.
const maxStageGrace = 300 * time.Second

// press plays the pressure stage, then makes what it leaves the start of profiling.
func (w *warmup) press(ctx context.Context) error {
	w.pressing = true
	first := slices.Clone(w.sampler.lanes) // the trees that the stage takes up
	var source treeSource = acceleratedSource{w.sampler}
	if w.Warmup.Requests > 0 && !w.Switches.HandoffByArrival {
		source = planStage(w.sampler, w.begun, w.Warmup.Requests)
	}
	p := w.phase(source, conductor.Limits{LaneRequests: w.Warmup.Requests, InOrder: true})
	p.handsOff, p.target.Requests = true, w.Warmup.Requests*w.Concurrency
	if d := w.Warmup.Duration; d > 0 {
		p.deadlines = deadlines{duration: d, grace: max(w.Grace, min(d, maxStageGrace))}
	}
	l, err := w.play(ctx, p)
	if err != nil {
		return err
	}
	w.sampler.elsewhere = elsewhere{} // this part does not know where others end the stage
	end := l.clock.now()
	for lane := range w.begun {
		w.takeOver(lane, l.conductor, source, end, w.sampler.lanes[lane] == first[lane])
	}
	if !slices.ContainsFunc(w.sampler.lanes, func(t *activeTree) bool { return t != nil }) {
		return errors.New("replay: the pressure stage has played every trace to its end, once: nothing is left to measure: bound the run by a duration, requests or trees, or the stage by less")
	}
	return nil
}

// acceleratedSource gives lanes their trees without gaps.
type acceleratedSource struct{ *sampler }

func (s acceleratedSource) Next(lane int) (conductor.Assignment, bool) {
	a, ok := s.sampler.Next(lane)
	if ok {
		a.Tree, a.Start = s.lanes[lane].accelerated(), atOnce(a.Start)
	}
	return a, ok
}

// atOnce returns a start state with every session due at once; nil for nil.
func atOnce(s *conductor.StartState) *conductor.StartState {
	return redue(s, func(conductor.LiveSession) time.Duration { return 0 })
}

// redue returns a start state with other due times; nil for nil.
func redue(s *conductor.StartState, due func(conductor.LiveSession) time.Duration) *conductor.StartState {
	if s == nil {
		return nil
	}
	state := *s
	state.Live = slices.Clone(s.Live)
	for k, l := range s.Live {
		state.Live[k].Due = due(l)
	}
	return &state
}

// takeOver makes the tree of a lane as the pressure stage leaves it the first tree of the lane. A lane with nothing left draws
// another. drawn says that the tree is the one that the stage took up at t*.
func (w *warmup) takeOver(lane int, c *conductor.Conductor, source treeSource, end time.Duration, drawn bool) {
	s := w.sampler
	state, ok := c.Handoff(lane)
	if !ok {
		if _, ok := source.Next(lane); ok {
			s.first[lane] = conductor.Assignment{Tree: s.lanes[lane].Tree}
		}
		w.begun[lane] = startedLane{tStar: math.NaN(), atOnce: true}
		if t := s.lanes[lane]; t != nil {
			w.begun[lane].trace = t.plan.Trace.ID
		}
		return
	}
	t := s.lanes[lane]
	h := resume.Handoff{
		SinceReturn: w.Switches.HandoffSinceReturn, End: end, Longest: w.Limits.TraceIdle, Origin: t.Starts[0][0],
	}
	start := startedLane{trace: t.plan.Trace.ID, tStar: math.NaN()}
	if drawn && w.Start.Sampled {
		start.tStar, h.Origin = w.begun[lane].tStar, w.begun[lane].tStar
	}
	_, _, timed := t.Bounds()
	start.atOnce = !timed
	s.first[lane], w.begun[lane] = conductor.Assignment{Tree: t.Tree, Start: h.Resume(&t.Trace, state)}, start
}
