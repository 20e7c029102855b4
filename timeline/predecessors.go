package timeline

import (
	"cmp"
	"slices"
	"sort"
)

// Interval is when a recorded request ran, milliseconds.
type Interval struct{ Start, End float64 }

// Stream is one session of a replay scope: the requests of one agent, in order.
type Stream struct {
	ID        string
	Intervals []Interval
}

// TurnRef names a turn: a stream by its number, and a place in it.
type TurnRef struct{ Stream, Turn int }

// Predecessors returns, for every turn of every stream, the turns of other streams that had completed when it began and
// that no other of them implies: section 6.5. Lists are sorted by (stream id, turn). It costs one binary search for a turn
// and another stream.
func Predecessors(streams []Stream) [][][]TurnRef {
	after := make([][][]TurnRef, len(streams))
	at := func(t TurnRef) Interval { return streams[t.Stream].Intervals[t.Turn] }
	ended := make([][]int, len(streams))
	for y, s := range streams {
		ended[y] = byEnd(s.Intervals)
	}
	var kept []TurnRef
	for x, s := range streams {
		after[x] = make([][]TurnRef, len(s.Intervals))
		for k, target := range s.Intervals {
			if !finite(target.Start) {
				continue
			}
			kept = kept[:0]
			last := 0.0 // the latest start of those kept
			for y := range streams {
				if y == x {
					continue
				}
				if c, ok := latest(streams[y].Intervals, ended[y], target.Start); ok {
					if start := streams[y].Intervals[c].Start; len(kept) == 0 || start > last {
						last = start
					}
					kept = append(kept, TurnRef{y, c})
				}
			}
			var list []TurnRef
			for _, c := range kept {
				if implied := at(c).Start < last && at(c).End <= last; !implied {
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

// byEnd returns the requests of a stream ordered by end, start and place. Those without a finite start are left out: they
// come after nothing and before nothing.
func byEnd(list []Interval) []int {
	order := make([]int, 0, len(list))
	for k, c := range list {
		if finite(c.Start) && finite(c.End) {
			order = append(order, k)
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(list[a].End, list[b].End), cmp.Compare(list[a].Start, list[b].Start), a-b)
	})
	return order
}

// latest returns the request that had begun before an instant and was over by then, the last by end, start and place.
func latest(list []Interval, ended []int, instant float64) (at int, ok bool) {
	n := sort.Search(len(ended), func(k int) bool { return !(list[ended[k]].End <= instant) })
	for n--; n >= 0; n-- { // a request without a width that starts at the instant is none
		if c := ended[n]; list[c].Start < instant {
			return c, true
		}
	}
	return 0, false
}
