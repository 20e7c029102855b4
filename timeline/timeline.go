// Package timeline turns the recorded times of a trace into the times at which a replay plays it: delays, spawn offsets,
// joins, predecessors, and the views that change them without another cache. Its functions are pure. The conversion and the
// replay both import them, so that neither has a copy.
//
// View.TurnTimes returns the times of the turns of one session. SpawnTurn, JoinTurn and SpawnOffset place a session among the
// turns of the main one. Predecessors finds which turns of other sessions must have completed before a turn is sent. A
// Warp cuts idle gaps of a whole trace.
//
// Inputs are seconds as recorded, NaN where a value is missing. Outputs are milliseconds. The order of the arithmetic is
// that of doc/spec/reconstruction.md 6, so that results compare bit for bit.
package timeline

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
)

// Missing stands for a time that was not recorded, or is not played.
var Missing = math.NaN()

// Rules say how recorded times are read. They are fixed when a cache is built.
type Rules struct {
	SubtractNegative bool `json:"subtract_negative"` // a negative recorded duration lengthens the delay after it
	RawThink         bool `json:"raw_think"`         // a think time counts as recorded, even beyond the recorded gap
	RefuseNegative   bool `json:"refuse_negative"`   // a negative delay of a child turn is an error
}

// View changes recorded times without another cache. The zero value leaves them as they are.
type View struct {
	ThinkTimeOnly bool    // a recorded think time is the delay
	IgnoreDelays  bool    // every time is Missing
	TurnCap       float64 // longest delay, seconds; 0: none
	BranchSpawns  bool    // spawn offsets count from the start of the child's branch, as AIPerf's do
}

// Validate returns an error about a cap that is negative or no number.
func (v View) Validate() error {
	if !(v.TurnCap >= 0) {
		return fmt.Errorf("view: turn cap %g s: want 0 or more", v.TurnCap)
	}
	return nil
}

// Recorded are the times of one request as recorded, seconds.
type Recorded struct{ Start, API, Think float64 }

// TurnTimes are the times at which one turn is played, milliseconds; Missing where there is none.
type TurnTimes struct{ Start, Delay, API float64 }

// TurnTimes returns the times of the turns of one session: doc/spec/reconstruction.md 6.1, and 6.3 where warp is not nil. child
// says that another session spawned it. The error is about a delay that the rules refuse.
func (v View) TurnTimes(r Rules, turns []Recorded, child bool, warp *Warp) ([]TurnTimes, error) {
	out := make([]TurnTimes, len(turns))
	for k, t := range turns {
		p := &out[k]
		*p = TurnTimes{Missing, Missing, Missing}
		if v.IgnoreDelays {
			continue
		}
		p.Start = warp.Map(t.Start) * 1000
		if finite(t.API) {
			p.API = Duration(t.API)
		}
		if k == 0 {
			continue
		}
		before := turns[k-1]
		width := Duration(before.API)
		if r.SubtractNegative && finite(before.API) {
			width = before.API * 1000
		}
		d := v.delay(r, before, t, width, warp)
		if d < 0 && child && r.RefuseNegative {
			return nil, fmt.Errorf("turn %d: negative delay of %g ms, which the rule refusals=error refuses: convert with refusals=repair, which plays it as 0", k, d)
		}
		if finite(d) {
			p.Delay = max(0, d)
		}
	}
	return out, nil
}

// delay returns the delay of a turn, which may be negative, in milliseconds. width is the duration of the turn before it.
func (v View) delay(r Rules, before, t Recorded, width float64, warp *Warp) float64 {
	if warp != nil {
		return positive((warp.Map(t.Start)-warp.Map(before.Start))*1000 - width)
	}
	gap := t.Start*1000 - before.Start*1000
	d := positive(gap - width)
	if v.ThinkTimeOnly && !math.IsNaN(t.Think) {
		d = t.Think * 1000
		if !r.RawThink {
			d = min(d, positive(gap))
		}
	}
	if limit := v.TurnCap * 1000; v.TurnCap > 0 && d > limit {
		d = limit
	}
	return d
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// positive returns max(0, v), 0 for NaN.
func positive(v float64) float64 {
	if v > 0 {
		return v
	}
	return 0
}

// Duration returns a recorded duration in milliseconds, 0 for one that is missing, negative or not finite.
func Duration(apiTime float64) float64 {
	if !finite(apiTime) || apiTime < 0 {
		return 0
	}
	return apiTime * 1000
}

// Origin is the event from which a spawn offset counts.
type Origin uint8

// The origins.
const (
	FromReturn Origin = iota // the return of the spawning turn
	FromIssue                // the issue of the spawning turn
)

func (o Origin) String() string { return [...]string{"return", "issue"}[o] }

// SpawnOffset returns when the first turn of a child session is due: doc/spec/reconstruction.md 6.7. It counts in
// milliseconds from the return or the issue of the spawning turn. turnStart and turnAPI are start and duration of the
// spawning turn, childStart is the start of the child's first request, in seconds.
func SpawnOffset(turnStart, turnAPI, childStart float64) (Origin, float64) {
	gap := childStart*1000 - turnStart*1000
	api := Duration(turnAPI)
	if gap >= api {
		return FromReturn, gap - api
	}
	return FromIssue, max(0, gap)
}

// BranchSpawnOffset is SpawnOffset as AIPerf computes it. It decides once for a branch, whose start is that of its earliest
// child, so that the recorded time between the end of the spawning turn and the branch is lost. It takes seconds and
// returns milliseconds: doc/spec/replay.md 6.3.
func BranchSpawnOffset(turnStart, turnAPI, branchStart, childStart float64) (Origin, float64) {
	api := Duration(turnAPI)
	if api == 0 || branchStart*1000-turnStart*1000 >= api {
		return FromReturn, max(0, childStart*1000-branchStart*1000)
	}
	return FromIssue, max(0, childStart*1000-turnStart*1000)
}

// tolerance is the difference up to which two recorded times count as equal, in seconds.
const tolerance = 1e-6

// None is the index of no turn.
const None = -1

// MainTurn is a turn of the main session.
type MainTurn struct {
	Outer int     // index in the requests of the trace
	Start float64 // seconds
}

// SpawnTurn returns the last main turn before an outer index, None if there is none: doc/spec/reconstruction.md 5.7.
func SpawnTurn(main []MainTurn, outer int) int {
	at := None
	for k, t := range main {
		if t.Outer < outer {
			at = k
		}
	}
	return at
}

// JoinTurn returns the main turn that waits for a session, None if no turn does. outer is the index of the session in the
// requests of the trace, spawn the turn that spawned it, and end its end in seconds. The join turn is the first turn after
// outer, in document order, that starts no earlier than end. A turn that is not after spawn cannot join: with refuse it is
// an error, otherwise JoinTurn skips it.
func JoinTurn(main []MainTurn, outer int, end float64, spawn int, refuse bool) (int, error) {
	behind := make([]int, 0, len(main))
	for k, t := range main {
		if t.Outer > outer {
			behind = append(behind, k)
		}
	}
	sort.Slice(behind, func(i, j int) bool { return main[behind[i]].Outer < main[behind[j]].Outer })
	for _, k := range behind {
		if main[k].Start+tolerance < end {
			continue
		}
		if k > spawn {
			return k, nil
		}
		if refuse {
			return None, fmt.Errorf("spawn turn %d: the join turn would be %d, want a later one", spawn, k)
		}
	}
	return None, nil
}

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

// Warp cuts long idle gaps of a whole trace: doc/spec/reconstruction.md 6.3. Where no request starts for longer than a cap,
// everything after the gap moves earlier by the excess. A nil Warp changes nothing.
type Warp struct {
	cap  float64 // seconds
	gaps []gap
}

// gap is a period without a request start that the warp cuts, in seconds.
type gap struct {
	from, to float64
	before   float64 // what earlier gaps cut
	excess   float64 // what this one cuts
}

// NewWarp returns the warp of a trace whose requests start at the given seconds, in any order. limit is the cap in seconds.
func NewWarp(starts []float64, limit float64) *Warp {
	sorted := append([]float64(nil), starts...)
	sort.Float64s(sorted)
	w := &Warp{cap: limit}
	shift := 0.0
	for k := 1; k < len(sorted); k++ {
		a, b := sorted[k-1], sorted[k]
		if b-a > limit {
			excess := b - a - limit
			w.gaps = append(w.gaps, gap{a, b, shift, excess})
			shift += excess
		}
	}
	return w
}

// Map returns the time to which the warp moves t, in seconds.
func (w *Warp) Map(t float64) float64 {
	if w == nil {
		return t
	}
	shift := 0.0
	for _, g := range w.gaps {
		if t < g.from {
			return t - g.before
		}
		if t < g.to {
			if t-g.from <= w.cap {
				return t - g.before
			}
			return g.from - g.before + w.cap
		}
		shift = g.before + g.excess
	}
	return t - shift
}
