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

	"github.com/agentx/agentx/fixtures"
	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/resume"
)

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
