package replay

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/resume"
	"github.com/agentx/agentx/timeline"
)

// schedule is a trace as it is played: the tree for the conductor, and the recorded times that decide where a lane may
// take it up.
type schedule struct {
	resume.Trace
	branchIDs []string        // by branch
	fast      *conductor.Tree // see accelerated; nil: not asked for
}

// newSchedule resolves the times of a trace in a view. The error says that the trace cannot be played.
func newSchedule(p *mmapcache.Plan, v view, rules mmapcache.TimeRules) (*schedule, error) {
	times, err := v.times(p, rules)
	if err != nil {
		return nil, err
	}
	s := &schedule{Trace: resume.Trace{Tree: &conductor.Tree{}, Pace: v.pace.offset, ImmediateJoins: v.immediateJoins}}
	ranks := ranksByID(p.Sessions)
	for n, session := range p.Sessions {
		c, starts := newSession(session, times, v)
		c.Rank = ranks[n]
		if session.Parent != mmapcache.None {
			spawn := times.Sessions[n]
			c.Depth = 1 // every session hangs on the root
			c.OnIssue = spawn.From == timeline.FromIssue
			c.Offset = v.pace.gap(spawn.Offset)
			c.Unplayable = session.Turns == 0
		}
		s.Sessions, s.Starts = append(s.Sessions, c), append(s.Starts, starts)
	}
	for n, b := range times.Branches {
		s.addBranch(n, b)
	}
	if v.absolute {
		if err := s.playInstants(v.pace); err != nil {
			return nil, err
		}
	}
	return s, s.Validate()
}

// playInstants makes turns due at their recorded instants, counted from the first turn of the root.
func (s *schedule) playInstants(pace Pace) error {
	s.Absolute = true
	for n := range s.Sessions {
		for k := range s.Sessions[n].Turns {
			at := s.Starts[n][k] - s.Starts[0][0]
			if math.IsNaN(at) {
				return fmt.Errorf("session %d, turn %d: it has no recorded instant, so it cannot be due at it", n, k)
			}
			s.Sessions[n].Turns[k].At = pace.offset(at)
		}
	}
	return nil
}

// newSession returns the turns of a session, and when each started, in milliseconds.
func newSession(session mmapcache.Session, times *mmapcache.Times, v view) (c conductor.Session, starts []float64) {
	c.Turns, starts = make([]conductor.Turn, session.Turns), make([]float64, session.Turns)
	for k := range c.Turns {
		row := int(session.FirstTurn) + k
		played := times.Turns[row]
		c.Turns[k].Delay = v.pace.gap(played.Delay)
		if !v.immediateJoins {
			c.Turns[k].JoinDelay = c.Turns[k].Delay
		}
		starts[k] = played.Start
		for _, r := range times.After[row] {
			c.Turns[k].After = append(c.Turns[k].After, conductor.TurnRef{Session: r.Stream, Turn: r.Turn})
		}
	}
	return c, starts
}

// addBranch adds a branch of the root.
func (s *schedule) addBranch(n int, b mmapcache.Branch) {
	branch := conductor.Branch{Spawn: int(b.Spawn), Sessions: b.Sessions}
	for _, k := range b.Sessions {
		s.Sessions[k].Branch = n
		branch.OnIssue = branch.OnIssue || s.Sessions[k].OnIssue
	}
	turns := s.Sessions[0].Turns
	if int(b.Spawn) < len(turns) {
		turns[b.Spawn].Spawns = append(turns[b.Spawn].Spawns, n)
	}
	if b.Join != mmapcache.None && int(b.Join) < len(turns) {
		turns[b.Join].Joins = append(turns[b.Join].Joins, n)
	}
	s.Branches, s.BranchStarts, s.branchIDs = append(s.Branches, branch), append(s.BranchStarts, b.Start), append(s.branchIDs, b.ID)
}

// accelerated returns the tree as the pressure stage plays it: every delay, spawn offset and join deadline is 0. Recorded
// predecessors and joins stay. The first call makes it; calls must not overlap.
func (s *schedule) accelerated() *conductor.Tree {
	if s.fast != nil {
		return s.fast
	}
	s.fast = &conductor.Tree{Sessions: slices.Clone(s.Sessions), Branches: s.Branches}
	for n := range s.fast.Sessions {
		c := &s.fast.Sessions[n]
		c.Offset, c.Turns = 0, slices.Clone(c.Turns)
		for k := range c.Turns {
			c.Turns[k].Delay, c.Turns[k].JoinDelay = 0, 0
		}
	}
	return s.fast
}

// byStarts returns the accelerated tree with every turn due at its recorded start, which counts from an instant of the recording, in
// milliseconds. A turn whose start is not known can go at once.
func (s *schedule) byStarts(origin float64) *conductor.Tree {
	fast := s.accelerated()
	tree := &conductor.Tree{Sessions: slices.Clone(fast.Sessions), Branches: fast.Branches, Absolute: true}
	for n := range tree.Sessions {
		turns := slices.Clone(tree.Sessions[n].Turns)
		for k := range turns {
			if at := s.Starts[n][k] - origin; !math.IsNaN(at) {
				turns[k].At = time.Duration(at * float64(time.Millisecond))
			}
		}
		tree.Sessions[n].Turns = turns
	}
	return tree
}

// ranksByID returns the place of every session in the order of their ids.
func ranksByID(sessions []mmapcache.Session) []int {
	order, rank := make([]int, len(sessions)), make([]int, len(sessions))
	for n := range order {
		order[n] = n
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(sessions[a].ID, sessions[b].ID) })
	for k, n := range order {
		rank[n] = k
	}
	return rank
}

// loadedTrace is a trace of the cache while at least one lane plays it. Lanes that play the same trace share it.
type loadedTrace struct {
	*schedule
	index int // in the cache
	plan  *mmapcache.Plan
	users int // lanes that play it

	// render locates the blocks of the prompts, at its first call. It takes long, so it is not called in the loop.
	render func() (*mmapcache.RenderedTrace, error)
}

// traceLoader loads traces for the lanes of a run, and keeps each while a lane plays it. It warns once of a trace that cannot be
// played. Its methods run in the loop's goroutine.
type traceLoader struct {
	cache    *mmapcache.Cache
	view     view
	encoding mmapcache.Encoding
	plans    bool // plans are all that is needed of traces: none is loaded ahead, none rendered
	warn     func(string)

	loaded  map[int]*loadedTrace // by trace: those that lanes play
	ahead   map[int]aheadTrace   // by trace: being loaded ahead
	skipped map[int]bool         // traces that cannot be played
	err     error                // the cache cannot be read, which ends the run
	warned  map[int]bool         // traces that a warning was about

	workers    chan struct{} // those that load ahead now; nil: one for each trace
	memory     int64         // of traces that are loaded ahead, about; with workers at most maxAhead
	prefetches sync.WaitGroup
	closed     atomic.Bool
}

// aheadTrace is a trace that is being loaded ahead.
type aheadTrace struct {
	load   func() loadResult
	memory int64 // bytes, about
}

// loadResult is a trace, or the reason why it cannot be played. Without a trace the cache cannot be read.
type loadResult struct {
	*loadedTrace
	err error
}

// failed returns the error about a cache that cannot be read.
func (l *traceLoader) failed() error { return l.err }

// load returns a trace; nil: it cannot be played, or the cache cannot be read.
func (l *traceLoader) load(trace int) *loadedTrace {
	if t := l.loaded[trace]; t != nil {
		return t
	}
	if l.skipped[trace] || l.err != nil {
		return nil
	}
	load := l.loader(trace)
	if a, ok := l.ahead[trace]; ok {
		load = a.load
		l.memory -= a.memory
		delete(l.ahead, trace)
	}
	r := load()
	if r.loadedTrace == nil {
		l.err = r.err
		return nil
	}
	if r.err != nil {
		l.skipped[trace] = true
		l.warnOnce(trace, fmt.Sprintf("trace %q cannot be played and is skipped: %v", r.plan.Trace.ID, r.err))
		return nil
	}
	return r.loadedTrace
}

// loader returns a function that loads a trace at its first call. It may be called by several goroutines.
func (l *traceLoader) loader(trace int) func() loadResult {
	return sync.OnceValue(func() loadResult {
		plan, err := l.cache.Plan(trace)
		if err != nil {
			return loadResult{err: fmt.Errorf("replay: trace %d of the cache cannot be read: %w", trace, err)}
		}
		t := &loadedTrace{index: trace, plan: plan}
		t.render = sync.OnceValues(func() (*mmapcache.RenderedTrace, error) { return l.cache.Render(trace, l.encoding) })
		t.schedule, err = newSchedule(t.plan, l.view, l.cache.Facts.Rules)
		return loadResult{t, err}
	})
}

// keep counts a lane that plays a trace.
func (l *traceLoader) keep(t *loadedTrace) {
	l.loaded[t.index] = t
	t.users++
}

// free counts a lane that no longer plays a trace, and forgets the trace after the last.
func (l *traceLoader) free(t *loadedTrace) {
	if t.users--; t.users == 0 {
		delete(l.loaded, t.index)
	}
}

// warnOnce warns of a trace, once.
func (l *traceLoader) warnOnce(trace int, text string) {
	if !l.warned[trace] {
		l.warned[trace] = true
		l.warn(text)
	}
}

// maxAhead bounds what is loaded ahead by few workers, in bytes.
const maxAhead = 128 << 20

// loadAhead loads traces in goroutines of their own, so that a long one does not delay the loop.
func (l *traceLoader) loadAhead(traces []int) {
	if l.plans {
		return
	}
	for _, trace := range traces {
		if l.loaded[trace] != nil || l.skipped[trace] || l.ahead[trace].load != nil {
			continue
		}
		size := l.cache.RenderedBytes(trace)
		if l.workers != nil && len(l.ahead) > 0 && l.memory+size > maxAhead {
			return
		}
		load := l.loader(trace)
		l.ahead[trace] = aheadTrace{load, size}
		l.memory += size
		l.prefetches.Go(func() {
			if l.workers != nil {
				l.workers <- struct{}{}
				defer func() { <-l.workers }()
				if l.closed.Load() {
					return
				}
			}
			if r := load(); r.err == nil && !l.closed.Load() {
				_, _ = r.render() // an error comes up again when the trace is sent
			}
		})
	}
}

// renderAhead renders traces, one after the other, in a goroutine of its own.
func (l *traceLoader) renderAhead(traces []*loadedTrace) {
	l.prefetches.Go(func() {
		for _, t := range traces {
			if !l.closed.Load() {
				_, _ = t.render() // as above
			}
		}
	})
}

// close waits until nothing is loaded any more.
func (l *traceLoader) close() {
	l.closed.Store(true)
	l.prefetches.Wait()
}
