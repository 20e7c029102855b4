package replay

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/internal/fixtures"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/resume"
	"github.com/agentx/agentx/replay/wire"
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

// singles returns traces with one turn each.
func singles(t *testing.T, names ...string) *mmapcache.Cache {
	var lines strings.Builder
	for _, id := range names {
		lines.WriteString(cachetest.TraceLine(id, 64))
	}
	return cachetest.Prepare(t, lines.String(), "code")
}

// guarded returns a sampler of all traces of a cache, whose lanes begin with some of them.
func guarded(t *testing.T, recycle Recycle, c *mmapcache.Cache, lanes ...int) *sampler {
	s := dealing(c, len(lanes))
	s.recycle, s.guarded = recycle, recycle == RecycleSampler
	for lane, trace := range lanes {
		_, ok := s.begin(lane, trace, startPolicy{})
		require.True(t, ok)
	}
	s.register()
	t.Cleanup(s.close)
	return s
}

// playing returns the traces of all lanes.
func (s *sampler) playing() (list []int) {
	for _, t := range s.lanes {
		list = append(list, t.index)
	}
	return list
}

// A lane that ends at once takes no trace of a lane that has yet to begin, in whatever order the lanes begin, end and go on; and
// the lane that begins later keeps its tree and marker.
//
// Covers T-3, INV-5, INV-10.
func TestEveryInterleavingOfStarts(t *testing.T) {
	c := singles(t, "B", "A", "C")
	for name, lanes := range map[string][]int{"A, B": {1, 0}, "swapped": {0, 1}, "wrap": {1, 0, 0}} {
		for _, recycle := range []Recycle{RecycleFIFOGuarded, RecycleSampler} {
			t.Run(fmt.Sprint(name, "/", recycle), func(t *testing.T) {
				const trees = 3
				interleavings(make([]int, len(lanes)), trees, func(order []int) {
					s, taken := guarded(t, recycle, c, lanes...), make([]int, len(lanes))
					atStart := newLiveTraces(lanes).atStart
					markers := map[int]payload.Marker{}
					for lane := range lanes {
						markers[lane] = s.lanes[lane].marker
					}
					for _, lane := range order {
						if taken[lane] > 0 {
							s.ended(lane)
						}
						next, ok := s.Next(lane)
						require.True(t, ok)
						require.Same(t, s.lanes[lane].Tree, next.Tree)
						taken[lane]++
						requireBound(t, s.playing(), atStart)
						if q, ok := s.recycler.(*guardedQueue); ok {
							require.Len(t, q.queue, 3)
						}
						distinct := map[payload.Marker]bool{}
						for lane, tree := range s.lanes {
							distinct[tree.marker] = true
							if taken[lane] <= 1 {
								require.Equal(t, markers[lane], tree.marker, "order %v", order)
							}
						}
						require.Len(t, distinct, len(lanes))
					}
				})
			})
		}
	}
}

// interleavings calls f with every order in which each lane occurs so many times.
func interleavings(used []int, times int, f func(order []int), order ...int) {
	if len(order) == len(used)*times {
		f(order)
		return
	}
	for lane := range used {
		if used[lane] < times {
			used[lane]++
			interleavings(used, times, f, append(slices.Clone(order), lane)...)
			used[lane]--
		}
	}
}

// The trace of a lane that has sent nothing yet is skipped, and the finished trace is taken again. Once one of two lanes of a
// trace has ended, the trace may be taken.
//
// Covers T-3.
func TestLiveTraceIsSkipped(t *testing.T) {
	s := guarded(t, RecycleFIFOGuarded, singles(t, "B", "A", "C"), 1, 0)
	s.Next(0)
	s.ended(0)
	s.Next(0)
	require.Equal(t, []int{1, 0}, s.playing(), "A again: B is live")
	require.Equal(t, []int{2, 1, 0}, s.recycler.(*guardedQueue).queue)

	s = guarded(t, RecycleFIFOGuarded, singles(t, "B", "A"), 1, 0, 0)
	s.Next(0)
	s.ended(0)
	s.Next(0)
	require.Equal(t, []int{1, 0, 0}, s.playing(), "both lanes of B are live")
	s.Next(2)
	s.ended(2)
	s.Next(2)
	require.Equal(t, []int{1, 0, 0}, s.playing())
	require.Equal(t, 2, s.lanes[2].pass)
}

// The first tree of a lane is due later than another lane needs for several trees.
//
// Covers T-3, INV-10.
func TestLateLaneKeepsItsTrace(t *testing.T) {
	for _, due := range []time.Duration{0, time.Second, 2500 * time.Millisecond, 5 * time.Second} {
		s := guarded(t, RecycleFIFOGuarded, singles(t, "B", "A", "C"), 1, 0)
		s.first[1].Start = &conductor.StartState{Live: []conductor.LiveSession{{Due: due}}, TurnsDone: []int{0}}
		marker := s.lanes[1].marker
		sim := &simulation{}
		sim.script = func(d conductor.Dispatch) (time.Duration, time.Duration, wire.Category) {
			requireBound(t, s.playing(), map[int]int{0: 1, 1: 1})
			if d.Lane == 1 && s.lanes[1].ordinal == 1 {
				require.Equal(t, due, sim.at)
				require.Equal(t, marker, s.lanes[1].marker)
			}
			return time.Second, 0, ""
		}
		require.NoError(t, sim.loop(Options{Concurrency: 2, Duration: 9 * time.Second, Grace: time.Minute}, s).run())
		require.Greater(t, s.passes[2], 0, "C is played too")
		require.Empty(t, s.ledger.live, "no tree is open")
	}
}

// Lanes of a run play no trace more often at a time than at its start, from the first trees on.
//
// Covers INV-10.
func TestRunKeepsTheBound(t *testing.T) {
	for _, o := range []Options{{}, {MaxLivePerTrace: true}, {Recycle: RecycleFIFOGuarded}} {
		o.Concurrency, o.Duration = 4, 200*time.Second
		s := dealing(several(t, 1, 4, 9), 4)
		s.recycle, s.guarded = o.Recycle, o.MaxLivePerTrace
		begun, _ := s.openFirst(4, startPolicy{})
		require.Len(t, begun, 4)
		atStart, most := newLiveTraces(s.playing()).atStart, 0
		require.Equal(t, map[int]int{0: 2, 1: 1, 2: 1}, atStart)
		sim := &simulation{script: func(conductor.Dispatch) (time.Duration, time.Duration, wire.Category) {
			for trace, n := range newLiveTraces(s.playing()).now {
				most = max(most, n-atStart[trace])
			}
			return time.Second, 0, ""
		}}
		require.NoError(t, sim.loop(o, s).run())
		if o.MaxLivePerTrace || o.Recycle == RecycleFIFOGuarded {
			require.Zero(t, most)
		} else {
			require.Positive(t, most, "the sampler alone has no bound")
		}
		require.Greater(t, s.opened, 40)
		require.Empty(t, s.ledger.live)
		s.close()
	}
}

// The bound holds across the phases of a run, from the first primers to the last tree: through lanes that draw another trace
// because a primer overflows, a pressure stage and its hand-off. Trees keep their markers, no two are alike, and at the end
// nothing is left but the queue.
//
// Covers INV-5, INV-10, INV-16.
func TestBoundAcrossPhases(t *testing.T) {
	c := several(t, 3, 5, 8, 13)
	for _, name := range fixtures.Presets {
		for k, warmup := range []Warmup{{}, {Primers: true}, {Primers: true, Requests: 7}, {Primers: true, Duration: 9 * time.Second}} {
			for _, recycle := range []Recycle{RecycleFIFOGuarded, RecycleSampler} {
				if name == preset.AIPerf && warmup.Requests > 0 {
					continue // it bounds a stage by a duration alone
				}
				o := warming(t, c, name, warmup)
				o.Switches.OverflowFails = false
				o.Concurrency, o.Duration, o.Grace, o.Recycle, o.MaxLivePerTrace = 6, 120*time.Second, time.Minute, recycle, recycle == RecycleSampler
				o.Pace.ASAP = k%2 == 0
				markers, owner := map[int]payload.Marker{}, map[payload.Marker]int{}
				var v *virtualRun
				var atStart map[int]int
				r, err := virtually(t, o, func(s sentTurn) answerTo {
					if _, primers := v.phases[s.phase].source.(onceSource); primers || atStart == nil {
						atStart = newLiveTraces(v.sampler.playing()).atStart
					}
					requireBound(t, v.sampler.playing(), atStart)
					if m, ok := markers[s.ordinal]; ok {
						require.Equal(t, m, s.marker)
					}
					markers[s.ordinal] = s.marker
					if tree, ok := owner[s.marker]; ok {
						require.Equal(t, tree, s.ordinal)
					}
					owner[s.marker] = s.ordinal
					a := answerTo{takes: time.Duration(1+(7*s.lane+3*s.turn+s.ordinal)%5) * 300 * time.Millisecond}
					if s.trace == "trace-1" && s.phase == 0 && warmup.Primers {
						a.category = wire.ContextOverflow
					}
					return a
				}, func(r *virtualRun) { v = r })
				require.NoError(t, err)
				require.Greater(t, r.sampler.opened, 12)
				require.Empty(t, r.sampler.ledger.live)
				if q, ok := r.sampler.recycler.(*guardedQueue); ok {
					require.Len(t, q.queue, 4+6, "each of six lanes ended a tree that none followed")
					require.Empty(t, q.live.now)
				} else {
					require.Empty(t, r.sampler.recycler.(*guardedDealer).live.now)
				}
			}
		}
	}
}

// A tree that ends at the deadline is followed by none, and its trace is in the queue. Its return counts once.
//
// Covers T-30, INV-10.
func TestQueueAtTheDeadline(t *testing.T) {
	for takes, trees := range map[time.Duration]int{10*time.Second - 1: 2, 10 * time.Second: 1, 10*time.Second + 1: 1} {
		s := guarded(t, RecycleFIFOGuarded, singles(t, "A", "B", "C"), 0)
		sim := &simulation{script: func(conductor.Dispatch) (time.Duration, time.Duration, wire.Category) { return takes, 0, "" }}
		l := sim.loop(Options{Concurrency: 1, Duration: 10 * time.Second, Grace: time.Minute}, s)
		require.NoError(t, l.run())
		require.Len(t, sim.sent, trees)
		queue := s.recycler.(*guardedQueue).queue
		require.Len(t, queue, 3+1, "one trace for each tree that ended, less one for each that was recycled")
		require.Error(t, l.conductor.Returned(trees-1, sim.at, sim.at, conductor.OK))
		require.Equal(t, queue, s.recycler.(*guardedQueue).queue)
		require.Empty(t, s.recycler.(*guardedQueue).live.now)
	}
}

// Every trace once: the queue is not refilled.
func TestGuardedQueueOnce(t *testing.T) {
	s := guarded(t, RecycleFIFOGuarded, singles(t, "A", "B", "C"), 0)
	s.dealer.once, s.dealer.dealt = true, 1
	s.register()
	require.Equal(t, []string{"B", "C", ""}, []string{s.openNext(0), s.openNext(0), s.openNext(0)})
}

// Traces that are likely to be played next are loaded ahead, with each recycler.
func TestRecyclersLoadAhead(t *testing.T) {
	for _, recycle := range []Recycle{RecycleSampler, RecycleFIFOGuarded} {
		s := guarded(t, recycle, singles(t, "A", "B", "C", "D", "E", "F", "G"), 0, 1)
		s.prefetch()
		require.Len(t, s.ahead, prefetchDepth)
		for _, a := range s.ahead {
			require.NotContains(t, []int{0, 1}, a.load().index, "lanes play these")
		}
		require.Equal(t, []string{"A", "C"}, []string{s.openNext(0), s.openNext(0)}, "B is live")
		require.Len(t, s.ahead, prefetchDepth-1, "it was loaded ahead")
	}
}

// dealing returns a sampler of all traces of a cache.
func dealing(c *mmapcache.Cache, lanes int) *sampler {
	s := newSampler(Options{Cache: c, Concurrency: lanes, Switches: withoutTreeIdle(), NewID: func() string { return "bench-1" }}, func(string) {})
	s.dealer.once = false
	s.dealer.traces = firstFitting(make([]int, c.Traces()), 0, 0)
	return s
}

// openNext gives a lane its next tree, the first one too, and returns the id of its trace, "" for none.
func (s *sampler) openNext(lane int) string {
	if s.lanes[lane] != nil {
		s.ended(lane)
	}
	s.release(lane)
	t := s.nextPlayable()
	if t == nil {
		return ""
	}
	s.open(lane, t)
	return t.plan.Trace.ID
}

func threeTraces(t *testing.T) *mmapcache.Cache {
	return cachetest.Prepare(t, cachetest.TraceLine("a", 128)+cachetest.TraceLine("b", 64)+cachetest.TraceLine("c", 192, 256), "code")
}

func TestTracesAreDealtInOrderAndAgain(t *testing.T) {
	s := dealing(threeTraces(t), 2)
	var dealt []string
	for _, lane := range []int{0, 1, 0, 0, 1, 0, 1} {
		dealt = append(dealt, s.openNext(lane))
	}
	require.Equal(t, "a b c a b c a", strings.Join(dealt, " "))
	require.Equal(t, map[int]int{0: 3, 1: 2, 2: 2}, s.passes)
	require.Equal(t, []int{1, 2}, []int{s.lanes[0].pass, s.lanes[1].pass})
}

func TestOnceDealsEveryTraceOnce(t *testing.T) {
	s := dealing(threeTraces(t), 5)
	s.dealer.once = true
	require.Equal(t, []string{"a", "b", "c", "", ""}, []string{s.openNext(0), s.openNext(1), s.openNext(2), s.openNext(3), s.openNext(4)})
	require.Equal(t, "", s.openNext(1))
}

func TestOnlyTheFirstTracesAreDealt(t *testing.T) {
	s := dealing(threeTraces(t), 1)
	s.dealer.traces = []int{0, 1}
	require.Equal(t, []string{"a", "b", "a"}, []string{s.openNext(0), s.openNext(0), s.openNext(0)})
}

func TestOnlyTracesThatFitTheContextAreDealt(t *testing.T) {
	c := threeTraces(t) // 128, 64, 192 and 256 tokens; completions of 2
	for _, test := range []struct {
		context, traces int
		want            []int
	}{{0, 0, []int{0, 1, 2}}, {129, 0, []int{1}}, {130, 0, []int{0, 1}}, {257, 0, []int{0, 1}}, {258, 0, []int{0, 1, 2}}, {130, 1, []int{0}}} {
		got, err := selectTraces(Options{Cache: c, MaxContext: test.context, Traces: test.traces}, 0)
		require.NoError(t, err)
		require.Equal(t, test.want, got)
	}
	got, err := selectTraces(Options{Cache: c, MaxContext: 147}, 17)
	require.NoError(t, err)
	require.Equal(t, []int{0, 1}, got, "as 130 without 17 tokens more")
	got, err = selectTraces(Options{Cache: c, MaxContext: 146}, 17)
	require.NoError(t, err)
	require.Equal(t, []int{1}, got)
	_, err = selectTraces(Options{Cache: c, MaxContext: 10}, 0)
	require.EqualError(t, err, "none of 3 traces fits a context of 10 tokens: the smallest needs 66")
	_, err = selectTraces(Options{Cache: c, MaxContext: 10}, 1<<40)
	require.EqualError(t, err, "none of 3 traces fits a context of 10 tokens: the smallest needs 1099511627842, of which 1099511627776 are a marker, and the chat template as the server counts it")
}

func TestLanesThatPlayTheSameTraceShareIt(t *testing.T) {
	s := dealing(threeTraces(t), 4)
	for lane := range 4 {
		s.openNext(lane) // a b c a
	}
	require.Same(t, s.lanes[0].loadedTrace, s.lanes[3].loadedTrace)
	require.NotEqual(t, s.lanes[0].marker, s.lanes[3].marker)
	first, err := s.lanes[0].render()
	require.NoError(t, err)
	second, err := s.lanes[3].render()
	require.NoError(t, err)
	require.Same(t, first, second)
}

func TestTracesAreFreedWithTheirLastLane(t *testing.T) {
	s := dealing(threeTraces(t), 4)
	s.dealer.once = true
	s.dealer.traces = []int{0}
	s.openNext(0)
	s.dealer.once, s.dealer.dealt = false, 0
	s.openNext(1)
	s.dealer.once = true
	require.Len(t, s.loaded, 1)
	require.Equal(t, "", s.openNext(0))
	require.Len(t, s.loaded, 1, "the other lane plays it still")
	require.Equal(t, "", s.openNext(1))
	require.Empty(t, s.loaded)
	require.Equal(t, []*activeTree{nil, nil, nil, nil}, s.lanes)
	require.Empty(t, s.ledger.live)
}

func TestNothingGrowsWithTheNumberOfTrees(t *testing.T) {
	s := dealing(threeTraces(t), 2)
	for k := range 10_000 {
		require.NotEmpty(t, s.openNext(k%2))
	}
	require.LessOrEqual(t, len(s.loaded), 2)
	require.Len(t, s.passes, 3)
	require.Len(t, s.ledger.live, 2)
}

// TestMarkerLedger plays the vectors about trees that come and go.
//
// Covers T-4, T-5, M-3, M-4, M-5, M-6, M-7, INV-5, INV-6.
func TestMarkerLedger(t *testing.T) {
	type in struct {
		Benchmark string `json:"benchmark_id"`
		Ops       []struct {
			Op, Root, Target, Trace string
			Lane                    int
		}
	}
	type want struct {
		Results []*string
		Passes  map[string]int // of the last one minted
		Live    []string
	}
	fixtures.EachCase(t, "marker_ledger", fixtures.Counts{10, 10, 10}, func(t *testing.T, _ fixtures.Case, in in, want want) {
		l, trees, names := newLedger(in.Benchmark), map[string]int{}, []string{}
		for k, op := range in.Ops {
			tree, ok := trees[op.Root]
			if !ok {
				tree, names = len(names), append(names, op.Root)
				trees[op.Root] = tree
			}
			m := l.live[tree]
			switch op.Op {
			case "mint":
				m = l.mint(tree, op.Lane, op.Trace, op.Target == "none")
			case "drained":
				l.drop(tree)
				continue
			default:
				require.Equal(t, "child", op.Op)
			}
			if result := want.Results[k]; result == nil {
				require.Empty(t, m)
			} else {
				require.Equal(t, *result, "[rid:"+string(m)+"]")
			}
		}
		passes, live := map[string]int{}, []string{}
		for trace, n := range l.passes {
			passes[trace] = n - 1
		}
		for tree := range l.live {
			live = append(live, names[tree])
		}
		require.Equal(t, want.Passes, passes)
		require.ElementsMatch(t, want.Live, live)
	})
}

// several returns traces with so many turns each, a second apart.
func several(t *testing.T, turns ...int) *mmapcache.Cache {
	var lines strings.Builder
	for k, n := range turns {
		prompts := make([]int, n)
		for i := range prompts {
			prompts[i] = 64 * (i + 1)
		}
		lines.WriteString(cachetest.TraceLine(fmt.Sprintf("trace-%d", k), prompts...))
	}
	return cachetest.Prepare(t, lines.String(), "code")
}

// beginning opens the first trees at sampled instants, and returns where they begin, with the warnings.
func beginning(c *mmapcache.Cache, lanes int, l startPolicy) (*sampler, []startedLane, []string) {
	s, warned := dealing(c, lanes), []string{}
	s.warn = func(about string) { warned = append(warned, about) }
	l.sampled = true
	return s, s.openAligned(lanes, l), warned
}

var anywhere = startPolicy{ratios: resume.Ratios{Max: 1}, seed: "42"}

// A lane's t* depends on the seed, its trace and its number alone.
//
// Covers T-13.
func TestInstantDependsOnSeedTraceAndLaneAlone(t *testing.T) {
	c := several(t, 20, 30, 40)
	_, all, _ := beginning(c, 3, anywhere)
	s := dealing(c, 3)
	s.dealer.traces = []int{2, 1, 0} // lane 1 plays the same trace, its neighbours others
	b := anywhere
	b.sampled = true
	others := s.openAligned(3, b)
	require.Equal(t, all[1].trace, others[1].trace)
	require.Equal(t, all[1].tStar, others[1].tStar)
	require.NotEqual(t, all[0].tStar, others[2].tStar, "trace-0 on another lane")
	b.seed = "43"
	require.NotEqual(t, all[1].tStar, dealt(c, 3, b)[1].tStar)
	for k, turns := range []float64{20, 30, 40} {
		require.InDelta(t, 500*(turns-1), all[k].tStar, 500*(turns-1))
	}
}

func dealt(c *mmapcache.Cache, lanes int, l startPolicy) []startedLane {
	return dealing(c, lanes).openAligned(lanes, l)
}

// openAligned opens first trees as a run without a warmup does.
func (s *sampler) openAligned(lanes int, l startPolicy) []startedLane {
	list, _ := s.openFirst(lanes, l)
	s.align(list, l)
	return list
}

// Lanes that share a trace differ in t* and in marker.
//
// Covers T-16.
func TestLanesOfOneTraceDifferInInstantAndMarker(t *testing.T) {
	s, list, _ := beginning(several(t, 50), 8, anywhere)
	markers, instants := map[payload.Marker]bool{}, map[float64]bool{}
	for k := range list {
		markers[s.lanes[k].marker], instants[list[k].tStar] = true, true
		require.Equal(t, k, s.lanes[k].pass)
	}
	require.Len(t, markers, 8)
	require.Len(t, instants, 8)
}

// A trace in which no lane can begin is skipped, with one warning, and its lane gets another. Without a playable trace the
// search ends, and no lane begins.
//
// Covers T-16.
func TestTraceThatCannotBeResumedIsSkipped(t *testing.T) {
	b := anywhere
	b.ratios = resume.Ratios{Min: 1, Max: 1} // the last start of a trace: there is always one state
	_, list, warned := beginning(several(t, 1, 5), 4, b)
	require.Len(t, list, 4)
	require.Empty(t, warned)
	for _, l := range list {
		require.Contains(t, []float64{0, 4000}, l.tStar)
	}

	s := dealing(several(t, 3, 5), 4)
	s.warn = func(about string) { warned = append(warned, about) }
	broken := s.load(0)
	broken.Starts[0], broken.Sessions[0].Turns = nil, nil // as if it had no turn left
	s.loaded[0] = broken
	b.sampled = true
	list, _ = s.openFirst(4, b)
	require.Len(t, list, 4)
	for _, l := range list {
		require.Equal(t, "trace-1", l.trace)
	}
	require.Len(t, warned, 1)
	require.Contains(t, warned[0], `trace "trace-0" is skipped: no lane can begin in the middle`)

	s = dealing(several(t, 3), 4)
	broken = s.load(0)
	broken.Starts[0], broken.Sessions[0].Turns = nil, nil
	s.loaded[0] = broken
	list, _ = s.openFirst(4, b)
	require.Empty(t, list)
	require.LessOrEqual(t, s.dealer.dealt, 4+2)
}

// Lanes whose first trace cannot be played draw another, and keep their number.
func TestFirstTreeIsReplaced(t *testing.T) {
	s, list, _ := beginning(several(t, 20, 30, 40, 50), 2, anywhere)
	old := s.lanes[1]
	starts := anywhere
	starts.sampled = true
	start, ok := s.replaceFirst(1, starts, map[int]bool{1: true, 2: true})
	require.True(t, ok)
	require.Equal(t, "trace-3", start.trace)
	require.Equal(t, "trace-3", s.lanes[1].plan.Trace.ID)
	require.Equal(t, map[int]payload.Marker{0: s.lanes[0].marker, 2: s.lanes[1].marker}, s.ledger.live, "the marker of the tree before is dropped")
	require.Equal(t, 1, s.ledger.passes["trace-1"])
	require.NotContains(t, s.loaded, old.index)
	require.Equal(t, list[0].trace, s.lanes[0].plan.Trace.ID)
	next, ok := s.Next(1)
	require.True(t, ok)
	require.Same(t, s.lanes[1].Tree, next.Tree)
	require.NotNil(t, next.Start)

	_, ok = s.replaceFirst(1, starts, map[int]bool{0: true, 1: true, 2: true, 3: true})
	require.False(t, ok)
	_, ok = s.Next(1)
	require.False(t, ok, "a lane without a first tree stays empty")
	s.close()
}

// Spread lanes keep their distances, and the first starts at once. In a burst all lanes do. None starts after the limit.
func TestLanesAreAligned(t *testing.T) {
	c := several(t, 20, 30, 40)
	first := func(l startPolicy, pace Pace) (list []time.Duration, skipped []float64) {
		s := dealing(c, 3)
		s.view.pace, l.sampled = pace, true
		for k, start := range s.openAligned(3, l) {
			o, ok := s.Next(k)
			require.True(t, ok)
			list, skipped = append(list, o.Start.Live[0].Due), append(skipped, start.skipped.Seconds())
		}
		return list, skipped
	}
	spread, _ := first(anywhere, Pace{})
	require.Zero(t, slices.Min(spread))
	require.Less(t, slices.Max(spread), time.Second)
	require.Positive(t, slices.Max(spread))
	slow, _ := first(anywhere, Pace{Speed: 0.01})
	for k := range spread {
		require.InDelta(t, 100*spread[k].Seconds(), slow[k].Seconds(), 1e-6)
	}
	asap, _ := first(anywhere, Pace{ASAP: true})
	require.Equal(t, []time.Duration{0, 0, 0}, asap)
	burst := anywhere
	burst.alignment = resume.Burst
	at, _ := first(burst, Pace{})
	require.Equal(t, []time.Duration{0, 0, 0}, at)
	capped := anywhere
	capped.limit = 10 * time.Second
	at, skipped := first(capped, Pace{Speed: 0.01})
	for k := range at {
		require.InDelta(t, min(slow[k].Seconds(), 10), at[k].Seconds(), 1e-6)
		require.InDelta(t, max(0, slow[k].Seconds()-10), skipped[k], 1e-6)
	}
	require.Positive(t, slices.Max(skipped))
}

// Two trees that are open never share a marker, a tree keeps its own, and passes never go back (INV-5, INV-6).
func TestMarkersOfOpenTrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l, open, last := newLedger("b"), map[int]payload.Marker{}, map[string]int{}
		trees := 0
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			if len(open) > 0 && rapid.Bool().Draw(t, "ends") {
				tree := rapid.SampledFrom(slices.Sorted(maps.Keys(open))).Draw(t, "tree")
				l.drop(tree)
				delete(open, tree)
				continue
			}
			trace := fmt.Sprint("t", rapid.IntRange(0, 2).Draw(t, "trace"))
			lane := rapid.IntRange(0, 3).Draw(t, "lane")
			m := l.mint(trees, lane, trace, false)
			for tree, other := range open {
				require.NotEqual(t, other, m)
				require.Equal(t, other, l.mint(tree, lane, trace, false))
			}
			require.Greater(t, l.passes[trace], last[trace])
			last[trace] = l.passes[trace]
			open[trees] = m
			trees++
		}
		require.Equal(t, open, l.live)
	})
}
