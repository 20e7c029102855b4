package replay

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/agentx/agentx/internal/pyrand"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/resume"
)

// script is one trace of the cache while at least one lane plays it. Lanes that play the same trace share it.
type script struct {
	*sheet
	trace int
	plan  *mmapcache.Plan
	users int // lanes; the conductor's goroutine alone counts

	load func() (*mmapcache.RenderedTrace, error) // places every block, at the first request, not in the conductor's goroutine
}

// opened is a tree that a lane plays.
type opened struct {
	*script
	ordinal  int // of the tree in the run
	pass     int // how often the trace was begun before
	marker   payload.Marker
	sessions []string // correlation ids, by session; empty until its first turn
}

// sampler deals the selected traces to lanes in an order, again and again, unless each is to be played once. A trace that
// cannot be played is passed over, and told of once.
type sampler struct {
	cache    *mmapcache.Cache
	pace     Pace
	encoding mmapcache.Encoding
	order    order // of positions in the cache
	once     bool
	ledger   *ledger
	plain    bool // without markers
	warn     func(string)

	next    int
	begun   map[int]int // by trace: how often
	scripts map[int]*script
	coming  map[int]func() (*script, error) // by trace: made ready before their turn
	makers  sync.WaitGroup
	closed  atomic.Bool
	passed  map[int]bool // traces that cannot be played
	told    map[int]bool // traces that a warning was about
	opened  int          // trees
	trees   map[int]*opened
	lanes   []*opened              // by number; nil: has nothing to play
	ready   []conductor.Assignment // by lane: prepared, not yet asked for
}

// newSampler returns a sampler for so many lanes.
func newSampler(cache *mmapcache.Cache, lanes int) *sampler {
	return &sampler{
		cache: cache, warn: func(string) {}, begun: map[int]int{}, scripts: map[int]*script{}, passed: map[int]bool{}, coming: map[int]func() (*script, error){},
		told: map[int]bool{}, trees: map[int]*opened{}, lanes: make([]*opened, lanes), ready: make([]conductor.Assignment, lanes),
	}
}

// Next opens the next tree on a lane. A lane for which nothing was prepared stays empty.
func (s *sampler) Next(lane int) (conductor.Assignment, bool) {
	if o := s.ready[lane]; o.Tree != nil {
		s.ready[lane] = conductor.Assignment{}
		return o, true
	}
	if s.lanes[lane] == nil {
		return conductor.Assignment{}, false
	}
	sc := s.draw()
	s.leave(lane) // only now, so that a lane that plays a trace again keeps its script
	if sc == nil {
		return conductor.Assignment{}, false
	}
	s.open(lane, sc)
	s.makeNext()
	return conductor.Assignment{Tree: sc.tree}, true
}

// draw returns the script of the next trace that can be played from its beginning, nil when there is none.
func (s *sampler) draw() *script {
	for range s.order.traces {
		trace, ok := s.turn()
		if !ok {
			return nil
		}
		if sc := s.script(trace); sc != nil {
			return sc
		}
	}
	return nil
}

// turn returns the trace whose turn it is.
func (s *sampler) turn() (trace int, ok bool) {
	if s.once && s.next >= len(s.order.traces) {
		return 0, false
	}
	s.next++
	return s.order.at(s.next - 1), true
}

// open gives a lane a tree.
func (s *sampler) open(lane int, sc *script) {
	s.scripts[sc.trace] = sc
	sc.users++
	t := &opened{script: sc, ordinal: s.opened, pass: s.begun[sc.trace], sessions: make([]string, len(sc.plan.Sessions))}
	t.marker = s.ledger.mint(t.ordinal, lane, sc.plan.Trace.ID, s.plain)
	s.begun[sc.trace]++
	s.opened++
	s.lanes[lane] = t
	s.trees[t.ordinal] = t
}

// leave ends what a lane has played so far. The last lane frees the script.
func (s *sampler) leave(lane int) {
	t := s.lanes[lane]
	if t == nil {
		return
	}
	s.lanes[lane] = nil
	delete(s.trees, t.ordinal)
	s.ledger.drop(t.ordinal)
	if t.users--; t.users == 0 {
		delete(s.scripts, t.trace)
	}
}

// script returns the script of a trace, nil when it cannot be played.
func (s *sampler) script(trace int) *script {
	if sc := s.scripts[trace]; sc != nil {
		return sc
	}
	if s.passed[trace] {
		return nil
	}
	m := s.coming[trace]
	delete(s.coming, trace)
	if m == nil {
		m = s.making(trace)
	}
	sc, err := m()
	if err == nil {
		return sc
	}
	s.passed[trace] = true
	s.tell(trace, fmt.Sprintf("trace %q cannot be played and is passed over: %v", sc.plan.Trace.ID, err))
	return nil
}

// making returns what makes the script of a trace, once. An error says that the trace cannot be played.
func (s *sampler) making(trace int) func() (*script, error) {
	return sync.OnceValues(func() (*script, error) {
		plan := s.cache.Structure.Plan(trace)
		sc := &script{trace: trace, plan: plan}
		sc.load = sync.OnceValues(func() (*mmapcache.RenderedTrace, error) { return s.cache.Render(trace, s.encoding) })
		var err error
		sc.sheet, err = newSheet(plan, s.pace, s.cache.Facts.Rules)
		return sc, err
	})
}

// ahead is how many traces are made ready before their turn.
const ahead = 4

// makeNext lets the next scripts be made beside the conductor, so that a long trace holds nobody up.
func (s *sampler) makeNext() {
	for turn := s.next; turn < s.next+ahead && !(s.once && turn >= len(s.order.traces)); turn++ {
		trace := s.order.at(turn)
		if s.scripts[trace] != nil || s.passed[trace] || s.coming[trace] != nil {
			continue
		}
		m := s.making(trace)
		s.coming[trace] = m
		s.makers.Go(func() { // whoever draws or sends it sees the errors
			if sc, err := m(); err == nil && !s.closed.Load() {
				_, _ = sc.load()
			}
		})
	}
}

// place places the blocks of the lanes that do not begin at once, beside the first requests: they find theirs in place.
func (s *sampler) place() {
	var later []*script
	for lane, o := range s.ready {
		if o.Start != nil && !slices.ContainsFunc(o.Start.Live, func(l conductor.LiveSession) bool { return l.Due <= 0 }) {
			later = append(later, s.lanes[lane].script)
		}
	}
	s.makers.Go(func() {
		for _, sc := range later {
			if !s.closed.Load() {
				_, _ = sc.load()
			}
		}
	})
}

// close waits for what is being made.
func (s *sampler) close() {
	s.closed.Store(true)
	s.makers.Wait()
}

// tell warns of a trace, once.
func (s *sampler) tell(trace int, about string) {
	if !s.told[trace] {
		s.told[trace] = true
		s.warn(about)
	}
}

// begin says where the lanes of a run begin.
type begin struct {
	sampled bool // at t*, else with the first turn
	ratios  resume.Ratios
	anchor  resume.Alignment
	cap     float64 // longest time to a lane's first request, milliseconds as played; +Inf: none
	seed    string
}

// begun says where a lane has begun.
type begun struct {
	Trace   string
	TStar   float64 // milliseconds; NaN: with the first turn
	Skipped float64 // milliseconds by which its start was brought forward
}

// prepare opens the first trees of so many lanes, before the clock starts. It makes no more tries than the lanes and twice
// the traces: section 2.2 of the specification of the replay. Lanes may stay without a tree.
func (s *sampler) prepare(lanes int, b begin) []begun {
	list := make([]begun, lanes)
	states, offsets := make([]*resume.Start, lanes), make([]resume.Lane, lanes)
	tries, untimed, n := lanes+2*max(1, len(s.order.traces)), false, 0
	for ; n < lanes && tries > 0; tries-- {
		trace, ok := s.turn()
		if !ok {
			break
		}
		sc := s.script(trace)
		if sc == nil {
			continue
		}
		list[n].TStar = math.NaN()
		if b.sampled {
			state := b.state(sc, n)
			if state == nil {
				s.tell(trace, fmt.Sprintf("trace %q has nothing that a lane could take up in the middle, and is passed over", sc.plan.Trace.ID))
				continue
			}
			states[n], offsets[n], list[n].TStar = state, laneOf(state, s.pace), state.TStar
			untimed = untimed || math.IsNaN(state.TStar)
		}
		s.open(n, sc)
		list[n].Trace = sc.plan.Trace.ID
		s.ready[n] = conductor.Assignment{Tree: sc.tree}
		n++
	}
	s.makeNext()
	if !b.sampled {
		return list[:n]
	}
	shifts := b.anchor.Shifts(offsets[:n], untimed)
	for k, skipped := range resume.Skipped(offsets[:n], shifts, b.cap) {
		list[k].Skipped = skipped
		s.ready[k].Start = s.lanes[k].at(states[k], s.pace, shifts[k]+skipped)
	}
	return list[:n]
}

// state draws where a lane takes up a trace; nil where it cannot. The draw depends on seed, trace and lane alone.
func (b begin) state(sc *script, lane int) *resume.Start {
	g := pyrand.NewPCG64(resume.LaneSeed(b.seed, sc.plan.Trace.ID, lane))
	if first, last, ok := sc.start.Bounds(); ok {
		if state := sc.start.At(b.ratios.Instant(first, last, g)); state.Spawnable {
			return state
		}
		return nil
	}
	open := make([]bool, len(sc.start.Sessions[0].Starts)) // a turn of a cache is a whole prompt: any can open a session
	for k := range open {
		open[k] = true
	}
	primer, ok := b.ratios.Split(open, g)
	if !ok {
		return nil
	}
	return sc.start.From(primer + 1)
}
