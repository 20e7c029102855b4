package replay

import (
	"slices"
	"sync"

	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/conductor"
)

// loadResult is a trace, or the reason why it cannot be played.
type loadResult struct {
	*loadedTrace
	err error
}

// loader returns a function that loads a trace at its first call. It may be called by several goroutines.
func (s *sampler) loader(trace int) func() loadResult {
	return sync.OnceValue(func() loadResult {
		t := &loadedTrace{index: trace, plan: s.cache.Structure.Plan(trace)}
		t.render = sync.OnceValues(func() (*mmapcache.RenderedTrace, error) { return s.cache.Render(trace, s.encoding) })
		var err error
		t.schedule, err = newSchedule(t.plan, s.view, s.cache.Facts.Rules)
		return loadResult{t, err}
	})
}

// prefetchDepth is how many traces are loaded before a lane plays them.
const prefetchDepth = 4

// prefetch loads the traces that are likely to be played next, in goroutines of their own: so a long one does not delay the loop.
func (s *sampler) prefetch() {
	for _, trace := range s.recycler.upcoming(prefetchDepth) {
		if s.loaded[trace] != nil || s.skipped[trace] || s.ahead[trace] != nil {
			continue
		}
		load := s.loader(trace)
		s.ahead[trace] = load
		s.prefetches.Go(func() {
			if r := load(); r.err == nil && !s.closed.Load() {
				_, _ = r.render() // an error comes up again when the trace is sent
			}
		})
	}
}

// renderLater renders the traces of the lanes that send nothing at first, while the other lanes begin.
func (s *sampler) renderLater() {
	var later []*loadedTrace
	for lane, a := range s.first {
		if a.Start != nil && !slices.ContainsFunc(a.Start.Live, func(l conductor.LiveSession) bool { return l.Due <= 0 }) {
			later = append(later, s.lanes[lane].loadedTrace)
		}
	}
	s.prefetches.Go(func() {
		for _, t := range later {
			if !s.closed.Load() {
				_, _ = t.render() // as above
			}
		}
	})
}

// close waits until nothing is loaded any more.
func (s *sampler) close() {
	s.closed.Store(true)
	s.prefetches.Wait()
}
