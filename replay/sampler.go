package replay

import (
	"sync"

	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/conductor"
)

// script is one trace of the cache while at least one lane plays it. Lanes that play the same trace share it.
type script struct {
	trace int
	plan  *mmapcache.Plan
	sheet *conductor.Tree
	users int // lanes; the conductor's goroutine alone counts

	load func() (*mmapcache.Tree, error) // places every block, at the first request, not in the conductor's goroutine
}

// lane is what a lane plays at the moment.
type lane struct {
	*script
	pass     int      // how often the trace was begun before
	marker   marker   // zero: none
	sessions []string // correlation ids, by session; empty until its first turn
	ordinal  int      // of the tree in the run
}

// sampler deals selected traces to lanes in the order of the cache, again from the start when they run out, unless each is to be
// played once.
type sampler struct {
	cache   *mmapcache.Cache
	pace    Pace
	form    mmapcache.Form
	traces  []int // positions in the cache, in the order they are dealt
	once    bool
	benchID string
	markers bool

	next    int
	passes  map[int]int // by trace
	scripts map[int]*script
	opened  int           // trees
	trees   map[int]*lane // that are open, by ordinal
	lanes   []*lane       // by number; nil: has nothing to play
	err     error         // the cache became unreadable: no tree is opened any more
}

// Next opens the next tree on a lane. Traces without a turn to begin with are passed over.
func (s *sampler) Next(n int) (*conductor.Tree, bool) {
	s.leave(n)
	for tries := 0; tries < len(s.traces) && s.err == nil; tries++ {
		if s.once && s.next >= len(s.traces) {
			return nil, false
		}
		trace := s.traces[s.next%len(s.traces)]
		s.next++
		sc := s.script(trace)
		if sc == nil || sc.plan.Sessions[0].Turns == 0 {
			continue
		}
		s.scripts[trace] = sc
		sc.users++
		l := &lane{script: sc, pass: s.passes[trace], sessions: make([]string, len(sc.plan.Sessions)), ordinal: s.opened}
		s.passes[trace]++
		if s.markers {
			l.marker = newMarker(s.benchID, l.pass, n, sc.plan.Trace.ID)
		}
		s.opened++
		s.lanes[n] = l
		s.trees[l.ordinal] = l
		return sc.sheet, true
	}
	return nil, false
}

// leave ends what a lane has played so far. The last lane frees the script.
func (s *sampler) leave(n int) {
	l := s.lanes[n]
	if l == nil {
		return
	}
	s.lanes[n] = nil
	delete(s.trees, l.ordinal)
	if l.users--; l.users == 0 {
		delete(s.scripts, l.trace)
	}
}

// script returns the script of a trace, nil when it cannot be read.
func (s *sampler) script(trace int) *script {
	if sc := s.scripts[trace]; sc != nil {
		return sc
	}
	sc := &script{trace: trace}
	if sc.plan, s.err = s.cache.Plan(trace); s.err == nil {
		sc.sheet, s.err = sheet(sc.plan, s.pace, s.cache.Facts.Rules)
	}
	if s.err != nil {
		return nil
	}
	sc.load = sync.OnceValues(func() (*mmapcache.Tree, error) { return s.cache.Tree(trace, s.form) })
	return sc
}
