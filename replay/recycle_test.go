package replay

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/fixtures"
)

// Covers T-3, INV-10.
func TestGuardedQueue(t *testing.T) {
	type in struct {
		LanesPerTrace map[string]int `json:"lanes_per_trace"`
		Active        map[string]int
		Queue         []string
		Finished      string
		Unusable      []string
		MayStart      *bool `json:"may_start"`
	}
	type want struct {
		Next   *string
		Queue  []string
		Active map[string]int
	}
	fixtures.EachCase(t, "recycle_guarded", fixtures.Counts{7, 7, 7}, func(t *testing.T, _ fixtures.Case, in in, want want) {
		traces := slices.Sorted(maps.Keys(in.LanesPerTrace))
		number := func(name string) int {
			if k := slices.Index(traces, name); k >= 0 {
				return k
			}
			traces = append(traces, name)
			return len(traces) - 1
		}
		counts := func(byName map[string]int) map[int]int {
			list := map[int]int{}
			for name, n := range byName {
				list[number(name)] = n
			}
			return list
		}
		q := guardedQueue{live: liveTraces{now: counts(in.Active), atStart: counts(in.LanesPerTrace)}}
		for _, name := range in.Queue {
			q.queue = append(q.queue, number(name))
		}
		q.ended(number(in.Finished))
		if in.MayStart == nil || *in.MayStart {
			next, ok := q.next(func(trace int) bool { return !slices.Contains(in.Unusable, traces[trace]) })
			require.True(t, ok)
			require.Equal(t, *want.Next, traces[next])
		} else {
			require.Nil(t, want.Next)
		}
		var queue []string
		for _, trace := range q.queue {
			queue = append(queue, traces[trace])
		}
		require.Equal(t, want.Queue, queue)
		require.Equal(t, counts(want.Active), q.live.now)
	})
}

// recycling is a recycler and what its lanes play, counted beside it.
type recycling struct {
	recycler
	traces int
	lanes  []int // traces
	limit  map[int]int
	queued map[int]int // by trace, if it is a queue
}

// begun returns a recycler of a policy whose lanes play traces.
func begun(policy Recycle, order Order, traces int, lanes []int) *recycling {
	d := &dealer{traces: firstFitting(make([]int, traces), 0, 0), order: order, seed: "42", dealt: len(lanes)}
	r := &recycling{traces: traces, lanes: lanes, limit: map[int]int{}, queued: map[int]int{}}
	r.recycler = &guardedDealer{dealer: d, live: newLiveTraces(lanes)}
	if policy == RecycleFIFOGuarded {
		r.recycler = &guardedQueue{live: newLiveTraces(lanes), queue: d.queue()}
	}
	for _, trace := range lanes {
		r.limit[trace]++
	}
	for trace := range traces {
		r.queued[trace] = 1
	}
	return r
}

// replace ends the tree of a lane and begins the next. It checks the bound, and the queue.
func (r *recycling) replace(t require.TestingT, lane int, usable func(int) bool) int {
	r.ended(r.lanes[lane])
	r.queued[r.lanes[lane]]++
	next, ok := r.next(usable)
	require.True(t, ok, "the trace that has just ended may always be played")
	require.True(t, usable(next))
	r.queued[next]--
	r.lanes[lane] = next
	requireBound(t, r.lanes, r.limit)
	if q, ok := r.recycler.(*guardedQueue); ok {
		require.Len(t, q.queue, r.traces)
		for _, trace := range q.queue {
			r.queued[trace]--
		}
		for trace := range r.traces {
			require.Zero(t, r.queued[trace])
		}
		for _, trace := range q.queue {
			r.queued[trace]++
		}
	}
	return next
}

// requireBound checks INV-10: no trace is on more lanes than at the start, or than one.
func requireBound(t require.TestingT, lanes []int, atStart map[int]int) {
	live := map[int]int{}
	for _, trace := range lanes {
		live[trace]++
		require.LessOrEqual(t, live[trace], max(1, atStart[trace]), "INV-10: trace %d on lanes %v", trace, lanes)
	}
}

// A lane always finds a trace, and no more lanes play a trace than at the start. A queue keeps its length and every trace. A
// dealer deals a trace that it passed over before any other, once it is not full.
//
// Covers T-3, INV-10.
func TestRecyclersKeepTheBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		traces := rapid.IntRange(1, 6).Draw(t, "traces")
		lanes := rapid.SliceOfN(rapid.IntRange(0, traces-1), 1, 9).Draw(t, "lanes")
		broken := rapid.SliceOfN(rapid.Bool(), traces, traces).Draw(t, "broken")
		for _, trace := range lanes {
			broken[trace] = false // a lane plays it
		}
		r := begun(rapid.SampledFrom([]Recycle{RecycleSampler, RecycleFIFOGuarded}).Draw(t, "policy"),
			rapid.SampledFrom([]Order{Sequential, Shuffle, Random}).Draw(t, "order"), traces, lanes)
		for range rapid.IntRange(1, 60).Draw(t, "trees") {
			lane := rapid.IntRange(0, len(lanes)-1).Draw(t, "lane")
			ended, waiting := r.lanes[lane], []int(nil)
			g, isDealer := r.recycler.(*guardedDealer)
			if isDealer {
				waiting = slices.Clone(g.passedOver)
			}
			next := r.replace(t, lane, func(trace int) bool { return !broken[trace] })
			if k := slices.Index(waiting, ended); k >= 0 { // it is not full any more, nor was any before it
				require.Contains(t, waiting[:k+1], next)
			}
			if isDealer {
				require.LessOrEqual(t, len(g.passedOver), traces, "each once")
			}
			for _, trace := range r.upcoming(4) {
				require.False(t, r.full(trace))
			}
		}
	})
}

// full reports whether no more lanes may play a trace.
func (r *recycling) full(trace int) bool {
	n := 0
	for _, other := range r.lanes {
		if other == trace {
			n++
		}
	}
	return n >= max(1, r.limit[trace])
}

// A trace that no lane plays is played soon, however long other lanes take. Draws with replacement promise nothing.
func TestNoTraceStarves(t *testing.T) {
	for _, policy := range []Recycle{RecycleSampler, RecycleFIFOGuarded} {
		for _, order := range []Order{Sequential, Shuffle} {
			const traces = 5
			r, idle := begun(policy, order, traces, []int{0, 1, 1}), make([]int, traces)
			for k := range 500 {
				lane := k % 3
				if lane == 1 && k%50 > 1 { // a slow lane
					lane = 0
				}
				r.replace(t, lane, func(int) bool { return true })
				for trace := range idle {
					if idle[trace]++; slices.Contains(r.lanes, trace) {
						idle[trace] = 0
					}
					require.LessOrEqual(t, idle[trace], 2*traces, "trees since a lane played trace %d", trace)
				}
			}
		}
	}
}

// The queue has the order of the first pass; draws make none.
func TestOrderOfTheQueue(t *testing.T) {
	traces := []int{3, 5, 7, 11, 13}
	for order, want := range map[Order][]int{Sequential: traces, Random: traces} {
		require.Equal(t, want, (&dealer{traces: traces, order: order, seed: "42"}).queue())
	}
	shuffled := &dealer{traces: traces, order: Shuffle, seed: "42"}
	require.ElementsMatch(t, traces, shuffled.queue())
	require.NotEqual(t, traces, shuffled.queue())
	for k, trace := range shuffled.queue() {
		require.Equal(t, shuffled.at(k), trace)
	}
}
