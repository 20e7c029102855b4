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

	loaded  map[int]*loadedTrace      // by trace: those that lanes play
	ahead   map[int]func() loadResult // by trace: being loaded ahead
	skipped map[int]bool              // traces that cannot be played
	warned  map[int]bool              // traces that a warning was about

	workers    chan struct{} // those that load ahead now; nil: one for each trace
	memory     int64         // of traces that are loaded ahead, about; with workers at most maxAhead
	prefetches sync.WaitGroup
	closed     atomic.Bool
}

// loadResult is a trace, or the reason why it cannot be played.
type loadResult struct {
	*loadedTrace
	err error
}

// load returns a trace; nil: it cannot be played.
func (l *traceLoader) load(trace int) *loadedTrace {
	if t := l.loaded[trace]; t != nil {
		return t
	}
	if l.skipped[trace] {
		return nil
	}
	result := l.ahead[trace]
	if result == nil {
		result = l.loader(trace)
	} else {
		l.memory -= l.memoryOf(trace)
		delete(l.ahead, trace)
	}
	r := result()
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
		t := &loadedTrace{index: trace, plan: l.cache.Structure.Plan(trace)}
		t.render = sync.OnceValues(func() (*mmapcache.RenderedTrace, error) { return l.cache.Render(trace, l.encoding) })
		var err error
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

// memoryOf returns about how many bytes a trace takes once it is loaded and rendered.
func (l *traceLoader) memoryOf(trace int) int64 {
	t := l.cache.Structure.Traces.At(trace)
	return 2048 + 400*int64(t.Turns) + 300*int64(t.Sessions) + 16*int64(t.Blocks) + 80*int64(t.Segments) + 40*int64(t.Runs)
}

// loadAhead loads traces in goroutines of their own, so that a long one does not delay the loop.
func (l *traceLoader) loadAhead(traces []int) {
	if l.plans {
		return
	}
	for _, trace := range traces {
		if l.loaded[trace] != nil || l.skipped[trace] || l.ahead[trace] != nil {
			continue
		}
		size := l.memoryOf(trace)
		if l.workers != nil && len(l.ahead) > 0 && l.memory+size > maxAhead {
			return
		}
		load := l.loader(trace)
		l.ahead[trace] = load
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
