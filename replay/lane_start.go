package replay

import (
	"fmt"
	"math"
	"time"

	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/resume"
)

// Start says where lanes begin in their first traces. The zero value is the first turn of each.
type Start struct {
	Sampled bool           // at an instant drawn from the seed, the trace and the lane
	Ratios  *resume.Ratios // the part of the trace in which that instant lies; nil: that of Defaults
	Burst   bool           // all lanes send at once; else they keep the distances of their instants
}

// startPolicy says where the lanes of a run begin in their first traces.
type startPolicy struct {
	sampled   bool // at t*, an instant drawn for each lane; else at the first turn
	ratios    resume.Ratios
	alignment resume.Alignment
	limit     time.Duration // longest time to a lane's first request; 0: none
	seed      string
}

// newStartPolicy returns the policy of options with defaults. With Anchor zero a cap on the idle time of traces bounds the
// time to a lane's first request as LaneStart does.
func newStartPolicy(o Options) startPolicy {
	p := startPolicy{sampled: o.Start.Sampled, ratios: *o.Start.Ratios, limit: o.Limits.LaneStart, seed: o.Seed}
	switch {
	case o.Start.Burst:
		p.alignment = resume.Burst
	case o.Switches.AnchorZero:
		p.alignment = resume.AsDrawn
		if idle := o.Limits.TraceIdle; idle > 0 && (p.limit == 0 || idle < p.limit) {
			p.limit = idle
		}
	}
	return p
}

// startedLane says where a lane begins.
type startedLane struct {
	trace   string
	tStar   float64       // t* in milliseconds; NaN: with the first turn, or in a trace without times
	atOnce  bool          // its first request is due at the start: it has no t* from which the others could count theirs
	skipped time.Duration // how much earlier its first request is, because of the limit
	due     time.Duration // when its first request is due
}

// openLanes opens the first tree of every lane that options ask for. The error says that no trace can be played.
func (s *sampler) openLanes(o *Options, traces []int, starts startPolicy) ([]startedLane, error) {
	lanes := o.Concurrency
	if o.Trees > 0 {
		lanes = min(lanes, o.Trees)
	}
	s.dealer.traces = traces
	s.elsewhere.primed = o.Warmup.asked()
	begun, opened := s.openFirst(lanes, starts)
	switch {
	case s.err != nil:
		return nil, s.err
	case opened == 0:
		return nil, fmt.Errorf("replay: none of %d traces can be played: see the warnings", len(traces))
	case len(begun) == 0:
		return nil, fmt.Errorf("replay: part %v: only %d lanes of the whole load have a trace to begin with, and none is of this part: see the warnings", s.part, opened)
	case opened < lanes && !o.once():
		s.warn(fmt.Sprintf("only %d of %d lanes have a trace to begin with: the load is capped", opened, lanes))
	}
	return begun, nil
}

// openFirst opens the first tree of each lane, before the run starts. lanes and opened count those of the whole load: of a lane of another
// part it finds out where that begins, and opens nothing. Due times count from t*, until align. It skips
// traces in which no lane can begin. The search ends after one try per lane and two per trace, and the remaining lanes stay
// empty: doc/spec/replay.md 2.2.
func (s *sampler) openFirst(lanes int, starts startPolicy) (list []startedLane, opened int) {
	var begun []int // traces
	for tries := lanes + 2*max(1, len(s.dealer.traces)); opened < lanes && tries > 0; tries-- {
		trace, ok := s.dealer.deal()
		if !ok {
			break
		}
		if !s.part.has(opened) {
			if s.beginElsewhere(opened, trace, starts) {
				opened++
			}
			continue
		}
		start, ok := s.begin(s.part.own(opened), trace, starts)
		if !ok {
			continue
		}
		opened++
		list, begun = append(list, start), append(begun, trace)
	}
	s.dealer = s.dealer.laterDealer(s.part, begun)
	s.recycler = s.dealer
	s.register()
	s.prefetch()
	return list, opened
}

// elsewhere is what the lanes of a part need to know of those of other parts, so that all begin as the lanes of one client do.
type elsewhere struct {
	primed bool                    // there is a warmup: the leads of primers matter
	states []*conductor.StartState // of the lanes that begin in the middle of a trace
	atOnce bool                    // one has a trace without times
	lead   time.Duration           // longest of the primers
}

// beginElsewhere notes where a lane of another part, by its number in the whole load, begins in a trace. ok is false if it cannot.
func (s *sampler) beginElsewhere(lane, trace int, starts startPolicy) (ok bool) {
	t := s.load(trace)
	if t == nil {
		return false
	}
	state, tStar, ok := s.startState(t, lane, starts)
	if !ok || state == nil {
		return ok
	}
	e := &s.elsewhere
	e.states, e.atOnce = append(e.states, state), e.atOnce || math.IsNaN(tStar)
	if e.primed {
		for _, p := range t.Primers(state, tStar) {
			e.lead = max(e.lead, p.Lead)
		}
	}
	return true
}

// startState returns where a lane, by its number in the whole load, begins in a trace; nil: with the first turn. ok is false if
// no lane can begin where it should.
func (s *sampler) startState(t *loadedTrace, lane int, starts startPolicy) (state *conductor.StartState, tStar float64, ok bool) {
	if !starts.sampled {
		return nil, math.NaN(), true
	}
	if state, tStar = starts.draw(t, lane); state == nil || len(state.Live) == 0 {
		s.warnOnce(t.index, fmt.Sprintf("trace %q is skipped: no lane can begin in the middle of it", t.plan.Trace.ID))
		return nil, tStar, false
	}
	return state, tStar, true
}

// align makes the due times of the lanes' first requests count from the start of a phase, not from t*. It notes those times, and
// how much earlier the limit made them.
func (s *sampler) align(list []startedLane, starts startPolicy) {
	var lanes []int
	var states []*conductor.StartState
	atOnce := s.elsewhere.atOnce
	for lane, start := range list {
		atOnce = atOnce || start.atOnce
		if state := s.first[lane].Start; state != nil {
			lanes, states = append(lanes, lane), append(states, state)
		}
	}
	states = append(states, s.elsewhere.states...)
	for k, skipped := range starts.alignment.Align(states, atOnce, starts.limit)[:len(lanes)] {
		list[lanes[k]].skipped = skipped
		list[lanes[k]].due, _ = resume.FirstDue(states[k])
	}
}

// begin gives a lane its first tree, which plays a trace. ok is false if the trace cannot be played, or no lane can begin in
// it.
func (s *sampler) begin(lane, trace int, starts startPolicy) (start startedLane, ok bool) {
	t := s.load(trace)
	if t == nil {
		return start, false
	}
	state, tStar, ok := s.startState(t, s.part.whole(lane), starts)
	if !ok {
		return start, false
	}
	s.open(lane, t)
	s.first[lane] = conductor.Assignment{Tree: t.Tree, Start: state}
	return startedLane{trace: t.plan.Trace.ID, tStar: tStar, atOnce: starts.sampled && math.IsNaN(tStar)}, true
}

// replaceFirst gives a lane another first tree, before the conductor has taken its first one, and draws no trace of excluded.
// The tree before is over: its marker is dropped, and the pass of its trace stays counted. The new start counts from t*: it is
// not aligned with those of other lanes. ok is false if no other trace can be played: then the lane has no tree.
func (s *sampler) replaceFirst(lane int, starts startPolicy, excluded map[int]bool) (start startedLane, ok bool) {
	defer s.register()
	s.ended(lane)
	s.release(lane)
	s.first[lane] = conductor.Assignment{}
	_, ok = s.dealer.next(func(trace int) (begun bool) {
		if !excluded[trace] {
			start, begun = s.begin(lane, trace, starts)
		}
		return begun
	})
	return start, ok
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
