package replay

import (
	"fmt"
	"runtime"
	"slices"

	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/wire"
)

// activeTree is a tree that a lane plays.
type activeTree struct {
	*loadedTrace
	ordinal        int // of the tree in the run
	pass           int // how many trees of the run played the trace before
	marker         payload.Marker
	correlationIDs []string    // by session; "" before its first request
	cookies        *wire.Jar   // of the answers so far
	leaving        []*leaving  // by session: its latest turn; nil: there is none, or nothing can wait for it
	route          *wire.Route // nil: it has sent nothing
	histories      [][]byte    // by session: messages and answers, where the cache says to keep them
}

// correlationID returns the id of a session, which it gets at its first request.
func (t *activeTree) correlationID(session int, newID func() string) string {
	if t.correlationIDs[session] == "" {
		t.correlationIDs[session] = newID()
	}
	return t.correlationIDs[session]
}

// historyOf returns the messages and answers that stand before the next prompt of a session. A branch begins with those of its parent.
func (t *activeTree) historyOf(session int) []byte {
	if t.histories == nil {
		t.histories = make([][]byte, len(t.plan.Sessions))
	}
	if s := t.plan.Sessions[session]; s.Kind == mmapcache.Flat && t.histories[session] == nil {
		t.histories[session] = slices.Clip(t.histories[s.Parent]) // what either appends is its own
	}
	return t.histories[session]
}

// sampler gives lanes the selected traces to play, again and again unless each is to be played once. It skips those that cannot
// be played. It is the source of trees of the conductor, and runs in the loop's goroutine.
type sampler struct {
	traceLoader
	dealer   *dealer  // of the first traces
	recycler recycler // of those after them; the dealer until the first trees are open
	recycle  Recycle
	guarded  bool // no trace is played by more lanes at a time than at the start
	ledger   *ledger
	unmarked bool // trees have no marker
	part     Part // of the load that the lanes are; their numbers here are those in the part
	arriving bool // trees arrive on their own: a lane is used again and again, and there are as many as are open at a time
	scanned  int  // traces that were dealt when the next ones were looked at

	opened int                    // trees opened
	played []int                  // by tree: its trace
	passes map[int]int            // by trace: trees that played it
	lanes  []*activeTree          // by lane; nil: it has nothing to play
	first  []conductor.Assignment // by lane: its first tree, until the conductor takes it

	elsewhere elsewhere // the lanes of other parts
}

// newSampler returns a sampler. Its dealer has no traces yet.
func newSampler(o Options, warn func(string)) *sampler {
	encoding, _ := o.Endpoint.EncodingOf(o.Cache) // the encoder of the run tells the error
	s := &sampler{
		traceLoader: traceLoader{
			cache: o.Cache, view: o.view(), encoding: encoding, warn: warn,
			loaded: map[int]*loadedTrace{}, ahead: map[int]aheadTrace{}, skipped: map[int]bool{}, warned: map[int]bool{},
		},
		dealer: &dealer{order: o.Order, seed: o.Seed, once: o.once()}, recycle: o.Recycle, guarded: o.MaxLivePerTrace,
		ledger: newLedger(o.NewID()), unmarked: o.Marker == payload.NoMarker,
		passes: map[int]int{}, lanes: make([]*activeTree, o.Concurrency), first: make([]conductor.Assignment, o.Concurrency),
		arriving: o.Arrivals.arrive(), part: o.Part,
	}
	s.recycler = s.dealer
	if s.arriving {
		s.dealer.part = o.Part
		s.workers = make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))
	}
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
	if s.arriving {
		return s.nextArrival(lane)
	}
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
	s.keep(t)
	tree := &activeTree{loadedTrace: t, ordinal: s.opened, pass: s.passes[t.index], correlationIDs: make([]string, len(t.plan.Sessions)), cookies: new(wire.Jar)}
	for lane >= len(s.lanes) {
		s.lanes = append(s.lanes, nil)
	}
	tree.marker = s.ledger.mint(tree.ordinal, s.part.whole(lane), t.plan.Trace.ID, s.unmarked)
	s.passes[t.index]++
	s.opened++
	s.played = append(s.played, t.index)
	s.lanes[lane] = tree
}

// ended drops what only the run of a tree needs. The trace stays loaded until the lane opens its next tree, which may play it
// again. Where trees arrive, the lane may have no next tree.
func (s *sampler) ended(lane int) {
	t := s.lanes[lane]
	s.ledger.drop(t.ordinal)
	s.recycler.ended(t.index)
	if s.arriving {
		s.release(lane)
	}
}

// release removes the tree of a lane.
func (s *sampler) release(lane int) {
	t := s.lanes[lane]
	if t == nil {
		return
	}
	s.lanes[lane] = nil
	s.free(t.loadedTrace)
}

// prefetchDepth is how many traces are loaded before a lane plays them.
const prefetchDepth = 4

// prefetch loads the traces that are likely to be played next.
func (s *sampler) prefetch() {
	if s.arriving {
		s.prefetchArrivals()
		return
	}
	s.loadAhead(s.recycler.upcoming(prefetchDepth))
}

// renderLater renders the traces of the lanes, while the first of them begin.
func (s *sampler) renderLater() {
	var all []*loadedTrace
	for lane, first := range s.first {
		if first.Tree != nil {
			all = append(all, s.lanes[lane].loadedTrace)
		}
	}
	s.renderAhead(all)
}

// nextArrival opens the tree that arrives next on a lane. Where every trace is played once, one that cannot be played is an arrival
// without a tree; else the next one takes its place.
func (s *sampler) nextArrival(lane int) (conductor.Assignment, bool) {
	trace, ok := s.dealer.deal()
	if !ok {
		return conductor.Assignment{}, false
	}
	t := s.load(trace)
	if t == nil && !s.dealer.once {
		if t = s.nextPlayable(); t == nil {
			return conductor.Assignment{}, false
		}
	}
	s.prefetch()
	if t == nil {
		return conductor.Assignment{}, true
	}
	s.open(lane, t)
	return conductor.Assignment{Tree: t.Tree}, true
}

// How far traces are loaded before they arrive: bursts must not wait for the disk.
const (
	arrivalDepth = 256 // traces
	arrivalScan  = 32  // so many more are looked at together, so that a tree that opens seldom pays for it
)

// prefetchArrivals loads the traces that arrive next.
func (s *sampler) prefetchArrivals() {
	if s.scanned > 0 && s.dealer.dealt < s.scanned+arrivalScan {
		return
	}
	s.scanned = s.dealer.dealt
	s.loadAhead(s.dealer.upcoming(min(arrivalDepth+arrivalScan, len(s.dealer.traces))))
}

// readyArrivals is how many traces are loaded before the first arrives.
const readyArrivals = 64

// prepareArrivals loads the traces that arrive first. The error says that none of all traces can be played.
func (s *sampler) prepareArrivals(traces []int) error {
	s.dealer.traces = traces
	playable := false
	for k := 0; k < len(traces) && !playable; k++ {
		playable = s.loader(s.dealer.at(k))().err == nil
	}
	if !playable {
		for _, trace := range traces {
			s.load(trace) // which warns
		}
		if s.err != nil {
			return s.err
		}
		return fmt.Errorf("replay: none of %d traces can be played: see the warnings", len(traces))
	}
	s.prefetchArrivals()
	for _, trace := range s.dealer.upcoming(readyArrivals) {
		if a, ok := s.ahead[trace]; ok {
			if r := a.load(); r.err == nil {
				_, _ = r.render() // an error comes up again when the trace is sent
			}
		}
	}
	return nil
}

// ledger gives every tree of a run a cache-bust marker of its own, which it keeps until it is over: doc/spec/replay.md 5,
// M-3 to M-7.
type ledger struct {
	benchmark string                 // id of the run, which every marker depends on
	passes    map[string]int         // by trace: markers minted for it
	live      map[int]payload.Marker // by open tree
}

func newLedger(benchmark string) *ledger {
	return &ledger{benchmark: benchmark, passes: map[string]int{}, live: map[int]payload.Marker{}}
}

// mint returns the marker of a tree that plays a trace on a lane: the one that it has, or a new one. An unmarked tree has
// none.
func (l *ledger) mint(tree, lane int, trace string, unmarked bool) payload.Marker {
	m, ok := l.live[tree]
	if !ok && !unmarked {
		base := payload.BaseTrace(trace)
		m = payload.NewMarker(l.benchmark, l.passes[base], lane, base)
		l.passes[base]++
	}
	l.live[tree] = m
	return m
}

// drop forgets a tree that is over. The passes of its trace stay counted.
func (l *ledger) drop(tree int) { delete(l.live, tree) }

// markerCost returns a warning of the prefix hits that markers cost, "" if they cost none.
func markerCost(c *mmapcache.Cache, t payload.MarkerTarget) (string, error) {
	n := c.SharedTraces()
	if t == payload.NoMarker || n == 0 {
		return "", nil
	}
	r, err := c.Reuse(t.Place())
	if err != nil || r.Hits == r.HitsWithMarker {
		return "", err
	}
	return preset.Text(fmt.Sprintf("%d traces share blocks: the marker %s costs %.1f %% of the recorded prefix hits (of the blocks %.1f %% without it, %.1f %% with it): {marker} off keeps them",
		n, t, 100*r.LostToMarker(), 100*r.Rate(r.Hits), 100*r.Rate(r.HitsWithMarker))).String(), nil
}
