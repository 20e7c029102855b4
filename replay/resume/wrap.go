package resume

import (
	"errors"
	"fmt"
)

// ErrNoTraces is about a run without anything to play.
var ErrNoTraces = errors.New("no trace to play: the cache or the selection from it has no trace that a lane can begin in")

// WrapPolicy is what a run asks for, as far as it decides whether there are too many lanes for the traces.
type WrapPolicy struct {
	Lanes, Traces int  // Traces: distinct ones, of which every lane takes one
	AllowWrap     bool // lanes may share traces
	MarkerPermits bool // a marker keeps lanes that share a trace apart, and that is taken for permission
	OnePass       bool // every trace is opened once; no bound on trees, requests or time
	Trees         int  // the run opens no more than these; 0: no such bound
}

// Check decides whether the lanes may start: section 2.1 of the specification of the replay. shared asks for one warning,
// that lanes share traces because a marker permits it. The error says what to do.
func (l WrapPolicy) Check() (shared bool, err error) {
	switch {
	case l.Traces < 1:
		return false, ErrNoTraces
	case l.Lanes <= l.Traces, l.AllowWrap, l.OnePass, l.Trees > 0 && l.Trees <= l.Traces:
		return false, nil
	case l.MarkerPermits:
		return true, nil
	}
	return false, fmt.Errorf("%d lanes, but %d distinct traces: ask for at most %[2]d lanes or %[2]d trees, play every trace once, or allow lanes to share traces (--set AllowWrap=true)",
		l.Lanes, l.Traces)
}
