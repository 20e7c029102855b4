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
}

// sampler deals traces to lanes in the order of the cache, again from the start when they run out, unless each is to be
// played once.
type sampler struct {
	cache   *mmapcache.Cache
	pace    Pace
	form    mmapcache.Form
	traces  int // the first so many are played
	once    bool
	benchID string
	markers bool

	next    int
	passes  map[int]int // by trace
	scripts map[int]*script
	trees   []*lane // by ordinal of the tree, in the order of opening; nil when it is over
	lanes   []int   // ordinal of the tree on every lane, -1 for none
}

// Next opens the next tree on a lane. Traces without a turn are passed over.
func (s *sampler) Next(n int) (*conductor.Tree, bool) {
	s.leave(n)
	for tries := 0; tries < s.traces; tries++ {
		if s.once && s.next >= s.traces {
			return nil, false
		}
		trace := s.next % s.traces
		s.next++
		sc := s.script(trace)
		if len(sc.plan.Turns) == 0 {
			continue
		}
		sc.users++
		l := &lane{script: sc, pass: s.passes[trace], sessions: make([]string, len(sc.plan.Sessions))}
		s.passes[trace]++
		if s.markers {
			l.marker = newMarker(s.benchID, l.pass, n, sc.plan.Trace.ID)
		}
		s.lanes[n] = len(s.trees)
		s.trees = append(s.trees, l)
		return sc.sheet, true
	}
	return nil, false
}

// leave ends what a lane has played so far. The last lane frees the script.
func (s *sampler) leave(n int) {
	if s.lanes[n] < 0 {
		return
	}
	l := s.trees[s.lanes[n]]
	s.trees[s.lanes[n]] = nil
	s.lanes[n] = -1
	if l.users--; l.users == 0 {
		delete(s.scripts, l.trace)
	}
}

func (s *sampler) script(trace int) *script {
	if sc := s.scripts[trace]; sc != nil {
		return sc
	}
	plan := s.cache.Structure.Plan(trace)
	sc := &script{trace: trace, plan: plan, sheet: sheet(plan, s.pace)}
	sc.load = sync.OnceValues(func() (*mmapcache.Tree, error) { return s.cache.Tree(trace, s.form) })
	s.scripts[trace] = sc
	return sc
}
