package replay

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/fixtures"
	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/wire"
)

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
					if _, primers := v.phases[s.phase].source.(primerSource); primers || atStart == nil {
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
