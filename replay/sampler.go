package replay

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/payload"
)

// loadedTrace is a trace of the cache while at least one lane plays it. Lanes that play the same trace share it.
type loadedTrace struct {
	*schedule
	index int // in the cache
	plan  *mmapcache.Plan
	users int // lanes that play it

	// render locates the blocks of the prompts, at its first call. It takes long, so it is not called in the loop.
	render func() (*mmapcache.RenderedTrace, error)
}

// activeTree is a tree that a lane plays.
type activeTree struct {
	*loadedTrace
	ordinal        int // of the tree in the run
	pass           int // how many trees of the run played the trace before
	marker         payload.Marker
	correlationIDs []string // by session; "" before its first request
}

// correlationID returns the id of a session, which it gets at its first request.
func (t *activeTree) correlationID(session int, newID func() string) string {
	if t.correlationIDs[session] == "" {
		t.correlationIDs[session] = newID()
	}
	return t.correlationIDs[session]
}

// sampler gives lanes the selected traces to play, again and again unless each is to be played once. A trace that cannot be
// played is skipped, with one warning. It is the source of trees of the conductor, and runs in the loop's goroutine.
type sampler struct {
	cache    *mmapcache.Cache
	view     view
	encoding mmapcache.Encoding
	dealer   *dealer  // of the first traces
	recycler recycler // of those after them; the dealer until the first trees are open
	recycle  Recycle
	guarded  bool // no trace is played by more lanes at a time than at the start
	ledger   *ledger
	unmarked bool // trees have no marker
	warn     func(string)

	opened  int                       // trees opened
	passes  map[int]int               // by trace: trees that played it
	loaded  map[int]*loadedTrace      // by trace: those that lanes play
	skipped map[int]bool              // traces that cannot be played
	warned  map[int]bool              // traces that a warning was about
	lanes   []*activeTree             // by lane; nil: it has nothing to play
	first   []conductor.Assignment    // by lane: its first tree, until the conductor takes it
	ahead   map[int]func() loadResult // by trace: being loaded ahead

	prefetches sync.WaitGroup
	closed     atomic.Bool
}

// newSampler returns a sampler. Its dealer has no traces yet.
func newSampler(o Options, warn func(string)) *sampler {
	s := &sampler{
		cache: o.Cache, view: o.view(), encoding: o.Endpoint.Encoding(), unmarked: o.Marker == payload.NoMarker, warn: warn,
		dealer: &dealer{order: o.Order, seed: o.Seed, once: o.once()}, recycle: o.Recycle, guarded: o.MaxLivePerTrace, ledger: newLedger(o.NewID()),
		passes: map[int]int{}, loaded: map[int]*loadedTrace{}, skipped: map[int]bool{}, warned: map[int]bool{},
		lanes: make([]*activeTree, o.Concurrency), first: make([]conductor.Assignment, o.Concurrency), ahead: map[int]func() loadResult{},
	}
	s.recycler = s.dealer
	return s
}

// register notes the traces of all lanes, before anything of them is sent: else a lane that ends at once could take the trace of
// a lane that has yet to begin (doc/spec/replay.md 2.6).
func (s *sampler) register() {
	var playing []int
	for _, t := range s.lanes {
		if t != nil {
			playing = append(playing, t.index)
		}
	}
	switch {
	case s.recycle == RecycleFIFOGuarded:
		s.recycler = &guardedQueue{live: newLiveTraces(playing), queue: s.dealer.queue(), once: s.dealer.once}
	case s.guarded:
		s.recycler = &guardedDealer{dealer: s.dealer, live: newLiveTraces(playing)}
	}
}

// Next opens the next tree on a lane. A lane that had no first tree stays empty.
func (s *sampler) Next(lane int) (conductor.Assignment, bool) {
	if a := s.first[lane]; a.Tree != nil {
		s.first[lane] = conductor.Assignment{}
		return a, true
	}
	if s.lanes[lane] == nil {
		return conductor.Assignment{}, false
	}
	t := s.nextPlayable()
	s.release(lane) // not before, so that a lane that plays a trace again keeps it loaded
	if t == nil {
		return conductor.Assignment{}, false
	}
	s.open(lane, t)
	s.prefetch()
	return conductor.Assignment{Tree: t.Tree}, true
}

// nextPlayable returns the next trace that can be played; nil: none can.
func (s *sampler) nextPlayable() (t *loadedTrace) {
	s.recycler.next(func(trace int) bool {
		t = s.load(trace)
		return t != nil
	})
	return t
}

// open gives a lane a tree that plays a trace.
func (s *sampler) open(lane int, t *loadedTrace) {
	s.loaded[t.index] = t
	t.users++
	tree := &activeTree{loadedTrace: t, ordinal: s.opened, pass: s.passes[t.index], correlationIDs: make([]string, len(t.plan.Sessions))}
	tree.marker = s.ledger.mint(tree.ordinal, lane, t.plan.Trace.ID, s.unmarked)
	s.passes[t.index]++
	s.opened++
	s.lanes[lane] = tree
}

// ended drops what only the run of a tree needs. The trace stays loaded until the lane opens its next tree, which may play it
// again.
func (s *sampler) ended(lane int) {
	t := s.lanes[lane]
	s.ledger.drop(t.ordinal)
	s.recycler.ended(t.index)
}

// release removes the tree of a lane. A trace is freed when no lane plays it.
func (s *sampler) release(lane int) {
	t := s.lanes[lane]
	if t == nil {
		return
	}
	s.lanes[lane] = nil
	if t.users--; t.users == 0 {
		delete(s.loaded, t.index)
	}
}

// load returns a trace; nil: it cannot be played.
func (s *sampler) load(trace int) *loadedTrace {
	if t := s.loaded[trace]; t != nil {
		return t
	}
	if s.skipped[trace] {
		return nil
	}
	result := s.ahead[trace]
	delete(s.ahead, trace)
	if result == nil {
		result = s.loader(trace)
	}
	r := result()
	if r.err != nil {
		s.skipped[trace] = true
		s.warnOnce(trace, fmt.Sprintf("trace %q cannot be played and is skipped: %v", r.plan.Trace.ID, r.err))
		return nil
	}
	return r.loadedTrace
}

// warnOnce warns of a trace, once.
func (s *sampler) warnOnce(trace int, text string) {
	if !s.warned[trace] {
		s.warned[trace] = true
		s.warn(text)
	}
}
