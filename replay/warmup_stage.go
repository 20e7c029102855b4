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

// Next gives a lane what the sampler does, without gaps.
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

// stagePlan is which trees each lane plays in a pressure stage of so many requests a lane, and which of their turns: those that were
// recorded first. It knows no answer, so the seed alone decides what the stage leaves to the next phase: HandoffOrder seed of
// doc/spec/replay.md 3.6. A turn of the plan is sent as soon as it can be, in any order.
//
// It is the source of trees of that stage. A lane whose trees have ended before their time, because the server failed requests, takes
// what the sampler deals.
type stagePlan struct {
	*sampler
	lanes [][]plannedTree // by lane: its trees, the next first
	over  map[int]bool    // ordinals of the trees that end in the stage: the recycler knows it since the plan was made
}

// plannedTree is a tree that the plan has opened for a lane.
type plannedTree struct {
	*activeTree
	start *conductor.StartState // as recorded; nil: from the first turn
	until []int                 // by session: its first turn that is left to the next phase
}

// planStage plans a stage, lane by lane. The trees of later rounds are drawn in that order.
func planStage(s *sampler, begun []startedLane, requests int) *stagePlan {
	p := &stagePlan{sampler: s, lanes: make([][]plannedTree, len(s.lanes)), over: map[int]bool{}}
	var later []*loadedTrace
	var held []int // traces that lanes may still play when they are over in the plan
	for lane, first := range s.lanes {
		if first == nil {
			continue
		}
		l := lanePlan{stagePlan: p, lane: lane, start: s.first[lane].Start, origin: begun[lane].tStar}
		if l.start == nil {
			l.origin = first.Starts[0][0]
		}
		counted := map[int]bool{} // traces of the lane, once each
		if l.play(requests) {
			counted[s.lanes[lane].index] = true // by the recycler
		}
		for _, t := range p.lanes[lane] {
			later = append(later, t.loadedTrace)
			if !counted[t.index] {
				counted[t.index] = true
				held = append(held, t.index)
				s.recycler.hold(t.index, 1)
			}
		}
		s.lanes[lane], s.first[lane] = nil, conductor.Assignment{}
	}
	for _, trace := range held {
		s.recycler.hold(trace, -1)
	}
	s.renderAhead(later)
	return p
}

// Next gives a lane the next tree of the plan, without gaps.
func (p *stagePlan) Next(lane int) (conductor.Assignment, bool) {
	if len(p.lanes[lane]) == 0 {
		return acceleratedSource{p.sampler}.Next(lane)
	}
	t := p.lanes[lane][0]
	p.lanes[lane] = p.lanes[lane][1:]
	p.release(lane)
	p.sampler.lanes[lane] = t.activeTree
	return conductor.Assignment{Tree: t.accelerated(), Start: atOnce(t.start), Until: t.until}, true
}

// ended drops what only the run of a tree needs.
func (p *stagePlan) ended(lane int) {
	if n := p.sampler.lanes[lane].ordinal; p.over[n] {
		p.ledger.drop(n)
		return
	}
	p.sampler.ended(lane)
}

// lanePlan plans the trees of a lane: it plays them as recorded, each request answered at once.
type lanePlan struct {
	*stagePlan
	lane     int
	start    *conductor.StartState // of the tree that is opened next, which is open already if it is the first; nil: from its first turn
	origin   float64               // recorded instant of that, in milliseconds
	inFlight []int                 // ids of requests
}

// play plays a number of requests, and reports whether a tree is left then. The tree that follows one that ends with the last request is
// of the plan as well: whether the stage or the phase after it opens that depends on the answers.
func (l *lanePlan) play(requests int) (left bool) {
	drained := false
	c := conductor.New(1, l, conductor.Limits{LaneRequests: requests}, l.launch, func(e conductor.Event) {
		switch e.Kind {
		case conductor.TreeOpened:
			drained = false
		case conductor.TreeDrained, conductor.TreeReleased:
			drained = true
			t := l.sampler.lanes[l.lane]
			l.over[t.ordinal] = true
			l.recycler.ended(t.index)
		}
	})
	now := time.Duration(0)
	_ = c.Start(now) // launch refuses nothing
	for !c.Done() {
		if len(l.inFlight) > 0 {
			id := l.inFlight[0]
			l.inFlight = l.inFlight[1:]
			_ = c.Returned(id, now, now, conductor.OK) // it is in flight
			continue
		}
		at, _ := c.NextWake()
		now = max(now, at)
		c.Wake(now)
	}
	if drained {
		_, left = l.Next(0)
		return left
	}
	return true
}

// launch counts a turn into the plan of its tree.
func (l *lanePlan) launch(d conductor.Dispatch) error {
	trees := l.lanes[l.lane]
	trees[len(trees)-1].until[d.Session] = d.Turn + 1
	l.inFlight = append(l.inFlight, d.ID)
	return nil
}

// Next opens the next tree of the lane, of which the first is open.
func (l *lanePlan) Next(int) (conductor.Assignment, bool) {
	if len(l.lanes[l.lane]) > 0 {
		t := l.nextPlayable()
		if t == nil {
			return conductor.Assignment{}, false
		}
		l.open(l.lane, t)
		l.start, l.origin = nil, t.Starts[0][0]
	}
	t := plannedTree{activeTree: l.sampler.lanes[l.lane], start: l.start}
	t.until = make([]int, len(t.Sessions))
	if t.start != nil {
		copy(t.until, t.start.TurnsDone)
	}
	l.lanes[l.lane] = append(l.lanes[l.lane], t)
	tree := t.byStarts(l.origin)
	return conductor.Assignment{Tree: tree, Start: redue(t.start, func(s conductor.LiveSession) time.Duration {
		return max(0, tree.Sessions[s.Session].Turns[s.Turn].At)
	})}, true
}
