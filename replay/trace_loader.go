package replay

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/agentx/agentx/mmapcache"
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
