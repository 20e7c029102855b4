package replay

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/timeline"
	"github.com/agentx/agentx/mmapcache"
)

// dealing deals a cache to so many lanes, each of which has begun.
func dealing(c *mmapcache.Cache, lanes int) *sampler {
	s := newSampler(c, lanes)
	s.traces = timeline.Select(make([]int, c.Structure.Traces.Len()), 0, 0)
	s.ledger = newLedger("bench-1")
	return s
}

// deal gives a lane its next tree, the first one too, and returns the id of its trace, "" for none.
func (s *sampler) deal(lane int) string {
	s.leave(lane)
	sc := s.draw()
	if sc == nil {
		return ""
	}
	s.open(lane, sc)
	return sc.plan.Trace.ID
}

func threeTraces(t *testing.T) *mmapcache.Cache {
	return prepare(t, cacheRoot(), traceLine("a", 128)+traceLine("b", 64)+traceLine("c", 192, 256), "code")
}

func TestTracesAreDealtInOrderAndAgain(t *testing.T) {
	s := dealing(threeTraces(t), 2)
	var dealt []string
	for _, lane := range []int{0, 1, 0, 0, 1, 0, 1} {
		dealt = append(dealt, s.deal(lane))
	}
	require.Equal(t, "a b c a b c a", strings.Join(dealt, " "))
	require.Equal(t, map[int]int{0: 3, 1: 2, 2: 2}, s.begun)
	require.Equal(t, []int{1, 2}, []int{s.lanes[0].pass, s.lanes[1].pass})
}

func TestOnceDealsEveryTraceOnce(t *testing.T) {
	s := dealing(threeTraces(t), 5)
	s.once = true
	require.Equal(t, []string{"a", "b", "c", "", ""}, []string{s.deal(0), s.deal(1), s.deal(2), s.deal(3), s.deal(4)})
	require.Equal(t, "", s.deal(1))
}

func TestOnlyTheFirstTracesAreDealt(t *testing.T) {
	s := dealing(threeTraces(t), 1)
	s.traces = []int{0, 1}
	require.Equal(t, []string{"a", "b", "a"}, []string{s.deal(0), s.deal(0), s.deal(0)})
}

func TestOnlyTracesThatFitTheContextAreDealt(t *testing.T) {
	c := threeTraces(t) // 128, 64, 192 and 256 tokens; completions of 2
	for _, test := range []struct {
		context, traces int
		want            []int
	}{{0, 0, []int{0, 1, 2}}, {129, 0, []int{1}}, {130, 0, []int{0, 1}}, {257, 0, []int{0, 1}}, {258, 0, []int{0, 1, 2}}, {130, 1, []int{0}}} {
		got, err := selected(Options{Cache: c, MaxContext: test.context, Traces: test.traces})
		require.NoError(t, err)
		require.Equal(t, test.want, got)
	}
	_, err := selected(Options{Cache: c, MaxContext: 10})
	require.ErrorContains(t, err, "none of 3 traces fits a context of 10 tokens: the smallest needs 66")
}

func TestLanesThatPlayTheSameTraceShareItsScript(t *testing.T) {
	s := dealing(threeTraces(t), 4)
	for lane := range 4 {
		s.deal(lane) // a b c a
	}
	require.Same(t, s.lanes[0].script, s.lanes[3].script)
	require.NotEqual(t, s.lanes[0].marker, s.lanes[3].marker)
	first, err := s.lanes[0].load()
	require.NoError(t, err)
	second, err := s.lanes[3].load()
	require.NoError(t, err)
	require.Same(t, first, second)
}

func TestScriptsAreFreedWithTheirLastLane(t *testing.T) {
	s := dealing(threeTraces(t), 4)
	s.once = true
	s.traces = []int{0}
	s.deal(0)
	s.once, s.next = false, 0
	s.deal(1)
	s.once = true
	require.Len(t, s.scripts, 1)
	require.Equal(t, "", s.deal(0))
	require.Len(t, s.scripts, 1, "the other lane plays it still")
	require.Equal(t, "", s.deal(1))
	require.Empty(t, s.scripts)
	require.Empty(t, s.trees)
	require.Equal(t, []*opened{nil, nil, nil, nil}, s.lanes)
	require.Empty(t, s.ledger.live)
}

func TestNothingGrowsWithTheNumberOfTrees(t *testing.T) {
	s := dealing(threeTraces(t), 2)
	for k := range 10_000 {
		require.NotEmpty(t, s.deal(k%2))
	}
	require.Len(t, s.trees, 2)
	require.LessOrEqual(t, len(s.scripts), 2)
	require.Len(t, s.begun, 3)
	require.Len(t, s.ledger.live, 2)
}

// TestMarkerLedger plays the vectors about trees that come and go.
func TestMarkerLedger(t *testing.T) {
	type vector struct {
		Name, Profile string
		In            struct {
			Benchmark string `json:"benchmark_id"`
			Ops       []struct {
				Op, Root, Target, Trace string
				Lane                    int
			}
		}
		Want struct {
			Results []*string
			Passes  map[string]int // of the last one minted
			Live    []string
		}
	}
	list := vectors(t, "marker_ledger", func(v vector) string { return v.Profile })
	require.Len(t, list, 10)
	for _, v := range list {
		t.Run(v.Name, func(t *testing.T) {
			l, trees, names := newLedger(v.In.Benchmark), map[string]int{}, []string{}
			for k, op := range v.In.Ops {
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
				if want := v.Want.Results[k]; want == nil {
					require.Empty(t, m)
				} else {
					require.Equal(t, *want, "[rid:"+string(m)+"]")
				}
			}
			passes, live := map[string]int{}, []string{}
			for trace, n := range l.passes {
				passes[trace] = n - 1
			}
			for tree := range l.live {
				live = append(live, names[tree])
			}
			require.Equal(t, v.Want.Passes, passes)
			require.ElementsMatch(t, v.Want.Live, live)
		})
	}
}
