package replay

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/timeline"
	"github.com/agentx/agentx/mmapcache"
)

// newSampler deals a cache to so many lanes.
func newSampler(c *mmapcache.Cache, lanes int) *sampler {
	return &sampler{
		cache: c, traces: timeline.Select(make([]int, c.Structure.Traces.Len()), 0, 0), markers: true, benchID: "bench-1",
		passes: map[int]int{}, scripts: map[int]*script{}, trees: map[int]*lane{}, lanes: make([]*lane, lanes),
	}
}

// deal asks for the next tree of a lane, and returns the id of its trace, "" for none.
func (s *sampler) deal(lane int) string {
	if _, ok := s.Next(lane); !ok {
		return ""
	}
	return s.lanes[lane].plan.Trace.ID
}

func threeTraces(t *testing.T) *mmapcache.Cache {
	return prepare(t, cacheRoot(), traceLine("a", 128)+traceLine("b", 64)+traceLine("c", 192, 256), "code")
}

func TestTracesAreDealtInOrderAndAgain(t *testing.T) {
	s := newSampler(threeTraces(t), 2)
	var dealt []string
	for _, lane := range []int{0, 1, 0, 0, 1, 0, 1} {
		dealt = append(dealt, s.deal(lane))
	}
	require.Equal(t, "a b c a b c a", strings.Join(dealt, " "))
	require.Equal(t, map[int]int{0: 3, 1: 2, 2: 2}, s.passes)
	require.Equal(t, []int{1, 2}, []int{s.lanes[0].pass, s.lanes[1].pass})
}

func TestOnceDealsEveryTraceOnce(t *testing.T) {
	s := newSampler(threeTraces(t), 5)
	s.once = true
	require.Equal(t, []string{"a", "b", "c", "", ""}, []string{s.deal(0), s.deal(1), s.deal(2), s.deal(3), s.deal(4)})
	require.Equal(t, "", s.deal(1))
}

func TestOnlyTheFirstTracesAreDealt(t *testing.T) {
	s := newSampler(threeTraces(t), 1)
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
	s := newSampler(threeTraces(t), 4)
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
	s := newSampler(threeTraces(t), 4)
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
	require.Equal(t, []*lane{nil, nil, nil, nil}, s.lanes)
}

func TestNothingGrowsWithTheNumberOfTrees(t *testing.T) {
	s := newSampler(threeTraces(t), 2)
	for k := range 10_000 {
		require.NotEmpty(t, s.deal(k%2))
	}
	require.Len(t, s.trees, 2)
	require.LessOrEqual(t, len(s.scripts), 2)
	require.Len(t, s.passes, 3)
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
		Want struct{ Results []*string }
	}
	c := prepare(t, cacheRoot(), traceLine("trace-a", 64), "code")
	played := 0
	for _, v := range vectors(t, "marker_ledger", func(v vector) string { return v.Profile }) {
		raw, err := json.Marshal(v.In)
		require.NoError(t, err)
		if strings.Contains(string(raw), `"none"`) || !onceEach(v.In.Ops, func(k int) string {
			if op := v.In.Ops[k]; op.Op == "mint" {
				return op.Root
			}
			return ""
		}) {
			continue // a marker is minted when a tree opens, once
		}
		played++
		t.Run(v.Name, func(t *testing.T) {
			s := newSampler(c, 2)
			lanes := map[string]int{}
			for k, op := range v.In.Ops {
				switch op.Op {
				case "mint":
					require.Equal(t, "trace-a", op.Trace)
					require.NotEmpty(t, s.deal(op.Lane))
					lanes[op.Root] = op.Lane
				case "drained":
					s.leave(op.Lane)
					continue
				}
				require.Equal(t, *v.Want.Results[k], "[rid:"+string(s.lanes[lanes[op.Root]].marker)+"]")
			}
		})
	}
	require.GreaterOrEqual(t, played, 3)
}

// onceEach reports whether no name that f gives, but "", comes twice.
func onceEach[T any](list []T, f func(int) string) bool {
	seen := map[string]bool{}
	for k := range list {
		n := f(k)
		if n != "" && seen[n] {
			return false
		}
		seen[n] = true
	}
	return true
}
