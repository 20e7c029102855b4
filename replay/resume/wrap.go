package resume

import (
	"errors"
	"fmt"
)

// ErrNoTraces is the error of a run that has no trace to play.
var ErrNoTraces = errors.New("no trace to play: the cache or the selection from it has no trace that a lane can begin in")

// WrapPolicy decides whether a run may have more lanes than traces, so that lanes share a trace.
type WrapPolicy struct {
	Lanes             int
	Traces            int  // distinct traces to play
	AllowWrap         bool // lanes may share traces
	Marked            bool // every tree has a cache-bust marker, so lanes that share a trace share no prefix
	MarkerPermitsWrap bool // and that is permission
	OnePass           bool // every trace is played once, so surplus lanes stay empty
	Trees             int  // most trees that the run plays; 0: no limit
}

// Check returns an error if there are too many lanes: doc/spec/replay.md 2.1. shared is true if lanes share traces only
// because their trees have markers; the caller warns of that.
func (p WrapPolicy) Check() (shared bool, err error) {
	switch {
	case p.Traces < 1:
		return false, ErrNoTraces
	case p.Lanes <= p.Traces, p.AllowWrap, p.OnePass, p.Trees > 0 && p.Trees <= p.Traces:
		return false, nil
	case p.Marked && p.MarkerPermitsWrap:
		return true, nil
	}
	return false, fmt.Errorf("%d lanes, but %d distinct traces: ask for at most %[2]d lanes or %[2]d trees, play every trace once, or allow lanes to share traces (--allow-wrap)",
		p.Lanes, p.Traces)
}
