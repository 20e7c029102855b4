package replay

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/agentx/agentx/mmapcache"
)

// EstimateDuration estimates how long it takes to play every trace once: gaps as they are played, and answers that take as
// long as in the recording. Lanes that begin in the middle of a trace need less. Traces that only the marker or the chat
// template keeps out of MaxContext are counted.
func EstimateDuration(o Options) (time.Duration, error) {
	if err := o.Validate(); err != nil {
		return 0, fmt.Errorf("replay: %w", err)
	}
	o = o.withDefaults()
	traces, err := selectTraces(o, 0)
	if err != nil || len(traces) == 0 {
		return 0, err
	}
	lanes := make([]time.Duration, min(o.Concurrency, len(traces)))
	d := dealer{traces: traces, order: o.Order, seed: o.Seed}
	for k := range traces {
		next := 0 // the lane that is the first to take another trace
		for n, end := range lanes {
			if end < lanes[next] {
				next = n
			}
		}
		lanes[next] = saturatingAdd(lanes[next], traceDuration(o.Cache.Structure.Plan(d.at(k)).Turns, o.Pace, o.treeIdle()))
	}
	return slices.Max(lanes), nil
}

// traceDuration estimates how long a trace is played: time with a request in flight as recorded, and time without as it is
// played, but no longer than idle at a time; 0 is no limit.
func traceDuration(turns []mmapcache.Turn, pace Pace, idle time.Duration) (total time.Duration) {
	if idle <= 0 {
		idle = maxPlayed
	}
	turns = slices.Clone(turns)
	slices.SortFunc(turns, func(a, b mmapcache.Turn) int { return cmp.Compare(a.T, b.T) })
	for k, end := 0, 0.0; k < len(turns); k++ { // end: of the requests so far, seconds of the recording
		t := turns[k]
		if k == 0 {
			end = t.T
		}
		total = saturatingAdd(total, min(pace.gap(1000*(t.T-end)), idle))
		end = max(end, t.T)
		if over := t.T + t.APITime; over > end { // APITime may be NaN
			total = saturatingAdd(total, time.Duration(min((over-end)*1e9, maxPlayed)))
			end = over
		}
	}
	return total
}

// saturatingAdd adds durations that are not negative. A sum that is too long becomes the longest duration.
func saturatingAdd(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
