package timeline

import (
	"fmt"
	"math"
	"sort"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// plainPredecessors is Predecessors the plain way: it compares every turn with every other.
func plainPredecessors(streams []Stream) [][][]TurnRef {
	after := make([][][]TurnRef, len(streams))
	at := func(t TurnRef) Interval { return streams[t.Stream].Intervals[t.Turn] }
	for x, s := range streams {
		after[x] = make([][]TurnRef, len(s.Intervals))
		for k, target := range s.Intervals {
			var kept []TurnRef
			for y := range streams {
				if y == x {
					continue
				}
				if c, ok := plainLatest(streams[y].Intervals, target.Start); ok {
					kept = append(kept, TurnRef{y, c})
				}
			}
			var list []TurnRef
			for _, c := range kept {
				implied := false
				for _, d := range kept {
					implied = implied || at(c).Start < at(d).Start && at(c).End <= at(d).Start
				}
				if !implied {
					list = append(list, c)
				}
			}
			sort.Slice(list, func(i, j int) bool {
				a, b := list[i], list[j]
				if streams[a.Stream].ID != streams[b.Stream].ID {
					return streams[a.Stream].ID < streams[b.Stream].ID
				}
				return a.Turn < b.Turn
			})
			after[x][k] = list
		}
	}
	return after
}

// plainLatest is latest the plain way.
func plainLatest(list []Interval, instant float64) (at int, ok bool) {
	for k, c := range list {
		if !(c.Start < instant && c.End <= instant) {
			continue
		}
		if best := list[at]; !ok || c.End > best.End || c.End == best.End && c.Start >= best.Start {
			at, ok = k, true
		}
	}
	return at, ok
}

// Covers P18.
func TestPredecessorsAreThoseOfTheComparisonOfAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := func(label string) float64 {
			switch n := rapid.IntRange(-2, 12).Draw(t, label); n {
			case -2:
				return math.NaN()
			default:
				return float64(max(0, n))
			}
		}
		streams := make([]Stream, rapid.IntRange(1, 5).Draw(t, "streams"))
		for n := range streams {
			streams[n].ID = fmt.Sprint((n * 7) % 5)
			for range rapid.IntRange(0, 6).Draw(t, "turns") {
				start := at("start")
				streams[n].Intervals = append(streams[n].Intervals, Interval{start, start + float64(rapid.IntRange(0, 4).Draw(t, "width"))})
			}
		}
		require.Equal(t, plainPredecessors(streams), Predecessors(streams))
	})
}

// A request whose start is infinite has no predecessors and is none.
func TestPredecessorsOfWhatHasNoStart(t *testing.T) {
	inf := math.Inf(1)
	got := Predecessors([]Stream{{"a", []Interval{{0, 1}, {inf, inf}, {-inf, -inf}}}, {"b", []Interval{{inf, inf}, {2, 3}}}})
	require.Equal(t, [][][]TurnRef{{nil, nil, nil}, {nil, {{0, 0}}}}, got)
}

// BenchmarkPredecessors: 2,000 requests in 200 streams, one after the other and all at a time (hazard H35).
func BenchmarkPredecessors(b *testing.B) {
	for name, gap := range map[string]float64{"serial": 10, "parallel": 0.001} {
		streams := make([]Stream, 200)
		for n := range streams {
			streams[n].ID = fmt.Sprint(n)
			for k := range 10 {
				start := float64(k*200+n) * gap
				streams[n].Intervals = append(streams[n].Intervals, Interval{start, start + 5})
			}
		}
		for how, f := range map[string]func([]Stream) [][][]TurnRef{"searched": Predecessors, "compared": plainPredecessors} {
			b.Run(name+"/"+how, func(b *testing.B) {
				for b.Loop() {
					f(streams)
				}
			})
		}
	}
}
