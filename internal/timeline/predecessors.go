package timeline

import "sort"

// Interval is when a recorded request ran, milliseconds.
type Interval struct{ Start, End float64 }

// Stream is one session of a replay scope: the requests of one agent, in order.
type Stream struct {
	ID        string
	Intervals []Interval
}

// Ref names a turn: a stream by its number, and a place in it.
type Ref struct{ Stream, Turn int }

// Predecessors returns, for every turn of every stream, the turns of other streams that had completed when it began and
// that no other of them implies: section 6.5. Lists are sorted by (stream id, turn).
func Predecessors(streams []Stream) [][][]Ref {
	after := make([][][]Ref, len(streams))
	at := func(t Ref) Interval { return streams[t.Stream].Intervals[t.Turn] }
	for x, s := range streams {
		after[x] = make([][]Ref, len(s.Intervals))
		for k, target := range s.Intervals {
			var kept []Ref
			for y := range streams {
				if y == x {
					continue
				}
				if c, ok := latest(streams[y].Intervals, target.Start); ok {
					kept = append(kept, Ref{y, c})
				}
			}
			var list []Ref
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

// latest returns the request that had begun before an instant and was over by then, the last by end, start and place.
func latest(list []Interval, instant float64) (at int, ok bool) {
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
