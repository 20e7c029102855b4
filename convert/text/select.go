package text

import (
	"cmp"
	"errors"
	"path"
	"slices"
)

// Selection says which sessions of an input are taken, and how long they may rest. The zero value takes all as they are.
type Selection struct {
	Sessions    string `json:"sessions,omitempty"`     // pattern of path.Match for the ids of root sessions
	Since       int64  `json:"since,omitempty"`        // root sessions that begin then or later, milliseconds since 1970
	Until       int64  `json:"until,omitempty"`        // and before this
	MinTurns    int    `json:"min_turns,omitempty"`    // of a root session
	MaxSessions int    `json:"max_sessions,omitempty"` // root sessions, the first ones
	MaxGap      int64  `json:"max_gap,omitempty"`      // milliseconds: a longer stretch without a request is cut, and what follows moves
}

// ErrNoneSelected is about a selection that takes no session of an input which has some.
var ErrNoneSelected = errors.New("no session of the input is among those that are asked for")

// apply leaves out the traces that are not selected. They stand in their order.
func (s *Selection) apply(traces []*Trace) []*Trace {
	traces = slices.DeleteFunc(traces, func(t *Trace) bool {
		if s.Sessions != "" {
			if ok, err := path.Match(s.Sessions, t.Sessions[0].ID); err != nil || !ok {
				return true
			}
		}
		if s.Since != 0 && (t.Start == NoTime || t.Start < s.Since) || s.Until != 0 && (t.Start == NoTime || t.Start >= s.Until) {
			return true
		}
		return len(t.Sessions[0].Turns) < s.MinTurns
	})
	if s.MaxSessions > 0 {
		traces = traces[:min(len(traces), s.MaxSessions)]
	}
	return traces
}

// cut shortens stretches of a trace in which no request runs.
func (s *Selection) cut(t *Trace) {
	var turns []*Turn
	for k := range t.Sessions {
		for n := range t.Sessions[k].Turns {
			if u := &t.Sessions[k].Turns[n]; u.At != NoTime {
				turns = append(turns, u)
			}
		}
	}
	if s.MaxGap <= 0 || len(turns) == 0 {
		return
	}
	slices.SortStableFunc(turns, func(a, b *Turn) int { return cmp.Compare(a.At, b.At) })
	shift, busy := int64(0), turns[0].At // busy is an instant of the input
	for _, u := range turns {
		before := shift
		if idle := u.At - busy; idle > s.MaxGap {
			shift += idle - s.MaxGap
		}
		busy = max(busy, u.At, u.End)
		for _, at := range [...]*int64{&u.At, &u.End, &u.First} {
			if *at != NoTime {
				*at -= shift
			}
		}
		if u.LastResult != NoTime {
			u.LastResult -= before // placeGap keeps it within the gap
		}
	}
}
