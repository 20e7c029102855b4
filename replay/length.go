package replay

import (
	"cmp"
	"slices"
	"time"

	"github.com/agentx/agentx/mmapcache"
)

// EstimateDuration estimates how long it takes to play every trace once: its gaps as they are played, and its answers as long as
// they took in the recording. Lanes that begin in the middle of a trace need less, and traces that only the marker or the
// template keeps out of MaxContext are counted.
func EstimateDuration(o Options) (time.Duration, error) {
	traces, err := selected(o, 0)
	if err != nil {
		return 0, err
	}
	lanes := make([]time.Duration, min(o.Concurrency, len(traces)))
	deal := order{traces: traces, how: o.Order, seed: o.Seed}
	for k := range traces {
		p := o.Cache.Structure.Plan(deal.at(k))
		free := 0 // the lane that is first to take another
		for n, at := range lanes {
			if at < lanes[free] {
				free = n
			}
		}
		lanes[free] += length(p.Turns, o.Pace, o.Limits.TreeIdle)
	}
	return slices.Max(lanes), nil
}

// length is that of a trace: times with a request on the wire as recorded, those without as they are played, none of them
// longer than the cap on idle time.
func length(turns []mmapcache.Turn, pace Pace, idle time.Duration) (total time.Duration) {
	if idle <= 0 {
		idle = 1<<63 - 1
	}
	turns = slices.Clone(turns)
	slices.SortFunc(turns, func(a, b mmapcache.Turn) int { return cmp.Compare(a.T, b.T) })
	for k, end := 0, 0.0; k < len(turns); k++ { // seconds of the recording
		t := turns[k]
		if k == 0 {
			end = t.T
		}
		total += min(pace.gap(1000*(t.T-end)), idle)
		end = max(end, t.T)
		if over := t.T + t.APITime; over > end { // not where it is missing
			total += time.Duration((over - end) * 1e9)
			end = over
		}
	}
	return total
}
