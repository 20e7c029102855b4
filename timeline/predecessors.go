package timeline

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"strings"
)

// Interval is when a recorded request ran, milliseconds.
type Interval struct{ Start, End float64 }

// Stream is the requests of one session, in order.
type Stream struct {
	ID        string
	Intervals []Interval
}

// TurnRef names a turn by the number of its stream and its place there.
type TurnRef struct{ Stream, Turn int }

// Predecessors returns, for every turn of every stream, the turns of other streams that had completed when it began. It
// leaves out those that another of them implies: doc/spec/reconstruction.md 6.5. Lists are sorted by (stream id, turn).
// Each turn costs one binary search in every other stream.
func Predecessors(streams []Stream) [][][]TurnRef {
	f := finder{streams: streams, ended: make([][]int, len(streams))}
	for y, s := range streams {
		f.ended[y] = byEnd(s.Intervals)
	}
	after := make([][][]TurnRef, len(streams))
	for x, s := range streams {
		after[x] = make([][]TurnRef, len(s.Intervals))
		for k, target := range s.Intervals {
			if finite(target.Start) {
				after[x][k] = f.predecessors(x, target.Start)
			}
		}
	}
	return after
}

// finder looks for predecessors among streams.
type finder struct {
	streams   []Stream
	ended     [][]int   // by stream: byEnd
	completed []TurnRef // the last turn of each other stream
}

// predecessors returns those of a turn of stream x that begins at an instant.
func (f *finder) predecessors(x int, instant float64) (list []TurnRef) {
	f.completed = f.completed[:0]
	last := math.Inf(-1) // the latest start of the completed turns
	for y := range f.streams {
		if y == x {
			continue
		}
		if c, ok := latest(f.streams[y].Intervals, f.ended[y], instant); ok {
			last = max(last, f.streams[y].Intervals[c].Start)
			f.completed = append(f.completed, TurnRef{y, c})
		}
	}
	for _, c := range f.completed {
		ran := f.streams[c.Stream].Intervals[c.Turn]
		if implied := ran.Start < last && ran.End <= last; !implied {
			list = append(list, c)
		}
	}
	slices.SortFunc(list, func(a, b TurnRef) int {
		return cmp.Or(strings.Compare(f.streams[a.Stream].ID, f.streams[b.Stream].ID), a.Turn-b.Turn)
	})
	return list
}

// byEnd returns the requests of a stream ordered by end, start and place. It leaves out those without a finite start or
// end, which neither precede nor follow anything.
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

// latest returns the last request, by end, start and place, that had begun before an instant and ended by it.
func latest(list []Interval, ended []int, instant float64) (at int, ok bool) {
	n := sort.Search(len(ended), func(k int) bool { return !(list[ended[k]].End <= instant) })
	for n--; n >= 0; n-- { // a request of width 0 that starts at the instant has not begun before it
		if c := ended[n]; list[c].Start < instant {
			return c, true
		}
	}
	return 0, false
}
