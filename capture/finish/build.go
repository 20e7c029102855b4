package finish

import (
	"fmt"

	"github.com/agentx/agentx/capture/journal"
	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/trace"
)

// Result says what became of a session.
type Result struct {
	Trace       string
	Requests    int                    // of the journal
	Recorded    int                    // of them, those in the trace
	NotRecorded map[journal.Reason]int // the others
	Marks       map[string]int         // of recorded requests
	Incomplete  bool                   // a prompt is missing, or the journal ends early
	Bad         bool                   // the trace failed its check and was set aside; or nothing could be read
	Written     bool                   // there is a trace: it has at least as many requests as asked for
	Problems    []string               // of a bad one
}

// files are the bytes that a journal becomes.
type files struct {
	Result
	trace []byte // nil: none is written
	note  []byte
}

// build makes a trace and its note from a session.
func build(s *journal.Session) *files {
	v := judge(s)
	d := newDocument(s, v.reasons)
	f := &files{Result: Result{Trace: s.Trace, Requests: len(s.Requests), NotRecorded: map[journal.Reason]int{}, Marks: map[string]int{}}}
	for k, reason := range d.reasons {
		if reason != "" {
			f.NotRecorded[reason]++
			continue
		}
		f.Recorded++
		for _, mark := range marksOf(&s.Requests[k]).Names() {
			f.Marks[mark]++
		}
	}
	f.Incomplete = v.cut >= 0 || s.Torn != nil
	recording := d.recording()
	var alarms []string
	if f.Recorded >= s.Export.WithDefaults().MinRequests {
		f.trace = recording.AppendJSON(nil)
		checked := weka.Check(f.trace)
		f.Problems, alarms = checked.Problems, append(checked.Alarms, refusals(checked.Trace)...)
	}
	f.Bad = len(f.Problems) > 0
	f.Written = f.trace != nil && !f.Bad
	f.note = d.note(v, &f.Result, alarms)
	return f
}

// refusals says which profiles of conversion refuse a trace, and why. It makes no trace bad.
func refusals(t *trace.Trace) (alarms []string) {
	if t == nil {
		return nil
	}
	for _, profile := range []struct {
		name  string
		rules weka.Rules
	}{{"default", weka.Default()}, {"aiperf", weka.AIPerf()}} {
		if _, _, err := weka.MakePlan(t, profile.rules); err != nil {
			alarms = append(alarms, fmt.Sprintf("convert --profile %s refuses it: %v", profile.name, err))
		}
	}
	return alarms
}

// marksOf returns the marks of a recorded request, those of how it ended among them.
func marksOf(r *journal.Request) journal.Mark {
	m := r.End.Marks
	switch r.End.X {
	case journal.Partial:
		m |= journal.MarkPartial
	case journal.ClientGone:
		m |= journal.MarkClientGone
	}
	return m
}

// Add adds what became of another session.
func (t *Total) Add(r Result) {
	t.Sessions++
	t.Requests += r.Requests
	t.Recorded += r.Recorded
	for reason, n := range r.NotRecorded {
		t.NotRecorded[reason] += n
	}
	for mark, n := range r.Marks {
		t.Marks[mark] += n
	}
	for is, n := range map[*int]bool{&t.Traces: r.Written, &t.Incomplete: r.Incomplete, &t.Bad: r.Bad} {
		if n {
			*is++
		}
	}
}

// Total sums up results.
type Total struct {
	Sessions    int                    `json:"sessions"`
	Traces      int                    `json:"traces"`
	Requests    int                    `json:"requests"`
	Recorded    int                    `json:"recorded"`
	NotRecorded map[journal.Reason]int `json:"not_recorded"`
	Marks       map[string]int         `json:"marks"`
	Incomplete  int                    `json:"incomplete"`
	Bad         int                    `json:"bad"`
}

// NewTotal returns the sum of no results.
func NewTotal() *Total {
	return &Total{NotRecorded: map[journal.Reason]int{}, Marks: map[string]int{}}
}
