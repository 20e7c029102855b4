package resume

import (
	"errors"
	"fmt"
)

// ErrNoTraces is the error of a run that has no trace to play.
var ErrNoTraces = errors.New("no trace to play: the cache or the selection from it has no trace that a lane can begin in")

// WrapPolicy decides whether a run may have more lanes than traces, so that lanes share a trace.
type WrapPolicy struct {
	Lanes     int
	Traces    int  // distinct ones
	AllowWrap bool // lanes may share traces
	Marked    bool // every tree has a cache-bust marker, which keeps lanes that share a trace apart
	OnePass   bool // every trace is played once, so that lanes too many stay empty
	Trees     int  // the run plays at most so many trees; 0: no such bound
}

// Check returns an error if there are too many lanes: doc/spec/replay.md 2.1. shared is true if lanes share traces for no
// other reason than their markers, which deserves a warning.
func (l WrapPolicy) Check() (shared bool, err error) {
	switch {
	case l.Traces < 1:
		return false, ErrNoTraces
	case l.Lanes <= l.Traces, l.AllowWrap, l.OnePass, l.Trees > 0 && l.Trees <= l.Traces:
		return false, nil
	case l.Marked:
		return true, nil
	}
	return false, fmt.Errorf("%d lanes, but %d distinct traces: ask for at most %[2]d lanes or %[2]d trees, play every trace once, or allow lanes to share traces (--set AllowWrap=true)",
		l.Lanes, l.Traces)
}
