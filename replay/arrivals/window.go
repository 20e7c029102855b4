package arrivals

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// Window is the part of a recording that is played.
type Window struct {
	From  time.Duration // counted from the first recorded start
	To    time.Duration // the first instant that is not played any more; 0: to the end
	Speed float64       // instants are divided by it; 0 means 1
}

// Start is when a trace was recorded to begin.
type Start struct {
	Trace int   // its position in the cache
	Nanos int64 // on the clock of the recording
	Known bool  // false: the recording does not say
}

// Arrival is when a trace arrives.
type Arrival struct {
	Trace int
	At    time.Duration // after the first arrival
}

// Select returns the arrivals of a window, in order of their starts. Traces that start at the same instant keep the order of the
// cache. The first arrives at 0.
//
// All starts must be known (else the error is a *MissingError) and one must lie in the window (else an *EmptyError). Starts that do
// not ascend in the order of the cache are no error.
func (w Window) Select(starts []Start) ([]Arrival, error) {
	sorted, err := sortStarts(starts)
	if err != nil {
		return nil, err
	}
	inside := sorted
	if len(sorted) > 0 {
		inside = w.cut(sorted)
	}
	if len(inside) == 0 {
		return nil, w.empty(sorted)
	}
	list := make([]Arrival, len(inside))
	for k, s := range inside {
		at, err := w.instant(s.Nanos - inside[0].Nanos)
		if err != nil {
			return nil, err
		}
		list[k] = Arrival{s.Trace, at}
	}
	return list, nil
}

// sortStarts returns starts in order of time and trace. Any two of them are less than 292 years apart.
func sortStarts(starts []Start) ([]Start, error) {
	if err := missing(starts); err != nil {
		return nil, err
	}
	sorted := slices.Clone(starts)
	slices.SortFunc(sorted, func(a, b Start) int { return cmp.Or(cmp.Compare(a.Nanos, b.Nanos), cmp.Compare(a.Trace, b.Trace)) })
	if n := len(sorted); n > 0 && uint64(sorted[n-1].Nanos-sorted[0].Nanos) > math.MaxInt64 {
		return nil, fmt.Errorf("arrivals: trace %d starts %d ns and trace %d %d ns after the clock began: more than 292 years apart",
			sorted[0].Trace, sorted[0].Nanos, sorted[n-1].Trace, sorted[n-1].Nanos)
	}
	return sorted, nil
}

// cut returns the starts in the window.
func (w Window) cut(sorted []Start) []Start {
	before := func(d time.Duration) int {
		k, _ := slices.BinarySearchFunc(sorted, int64(d), func(s Start, d int64) int { return cmp.Compare(s.Nanos-sorted[0].Nanos, d) })
		return k
	}
	end := len(sorted)
	if w.To > 0 {
		end = before(w.To)
	}
	return sorted[before(w.From):end]
}

// instant divides recorded nanoseconds by the speed, and rounds half to even.
func (w Window) instant(nanos int64) (time.Duration, error) {
	if w.Speed == 0 || w.Speed == 1 {
		return time.Duration(nanos), nil
	}
	at, ok := nanoseconds(float64(nanos) / w.Speed)
	if !ok {
		return 0, fmt.Errorf("arrivals: speed %g: a start %v into the window would be more than 292 years after its beginning", w.Speed, time.Duration(nanos))
	}
	return at, nil
}

// nanoseconds rounds to a whole number, half to even. ok is false for what no Duration can hold.
func nanoseconds(x float64) (d time.Duration, ok bool) {
	if x = math.RoundToEven(x); !(x < 1<<63) {
		return 0, false
	}
	return time.Duration(x), true
}

// MissingError says that the recording does not give the start of every trace.
type MissingError struct {
	Missing, Traces int // of so many
	First           int // position in the cache of the first without a start
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("arrivals: %d of %d traces have no recorded start, the first is trace %d", e.Missing, e.Traces, e.First)
}

// missing returns a *MissingError if a trace has no recorded start.
func missing(starts []Start) error {
	e := &MissingError{Traces: len(starts)}
	for _, s := range starts {
		if s.Known {
			continue
		}
		if e.Missing == 0 {
			e.First = s.Trace
		}
		e.Missing++
	}
	if e.Missing == 0 {
		return nil
	}
	return e
}

// EmptyError says that no trace starts in a window.
type EmptyError struct {
	Window Window
	Last   time.Duration // the last recorded start, counted from the first
	Traces int
}

// empty returns the error of a window in which no trace starts.
func (w Window) empty(sorted []Start) error {
	e := &EmptyError{Window: w, Traces: len(sorted)}
	if n := len(sorted); n > 0 {
		e.Last = time.Duration(sorted[n-1].Nanos - sorted[0].Nanos)
	}
	return e
}

func (e *EmptyError) Error() string {
	switch {
	case e.Traces == 0:
		return "arrivals: there is no trace"
	case e.Window.To > 0:
		return fmt.Sprintf("arrivals: no trace starts in the window from %v to %v: the %d recorded starts lie between 0s and %v", e.Window.From, e.Window.To, e.Traces, e.Last)
	}
	return fmt.Sprintf("arrivals: no trace starts at %v or later: the %d recorded starts lie between 0s and %v", e.Window.From, e.Traces, e.Last)
}
