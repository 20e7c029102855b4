package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/agentx/agentx/internal/suggest"
	"github.com/agentx/agentx/mmapcache"
)

// traceRow is a line of the list of traces.
type traceRow struct {
	ID           string  `json:"id"`
	Sessions     int     `json:"sessions"`
	Turns        int     `json:"turns"`
	PromptTokens int64   `json:"prompt_tokens"`
	OutputTokens int64   `json:"output_tokens"`
	Span         float64 `json:"span"` // seconds from the start of the first turn to the end of the last, as recorded

	RecordedStart *float64 `json:"recorded_start_ms"` // on the clock of the recording; nil where it has none
}

// traceRows reads the list of traces of a cache.
func traceRows(c *mmapcache.Cache) (list []traceRow, err error) {
	err = c.EachShard(func(_ int, s *mmapcache.Structure) error {
		for k := range s.Traces.Len() {
			r := rowOf(s, s.Traces.At(k))
			if ms, ok := s.RecordedStart(k); ok {
				r.RecordedStart = &ms
			}
			list = append(list, r)
		}
		return nil
	})
	return list, err
}

func rowOf(s *mmapcache.Structure, t mmapcache.Trace) traceRow {
	r := traceRow{ID: t.ID, Sessions: int(t.Sessions), Turns: int(t.Turns)}
	begin, end := 0.0, 0.0
	for k, turn := range s.Turns.Range(nil, t.FirstTurn, t.Turns) {
		r.PromptTokens += int64(turn.In)
		r.OutputTokens += int64(turn.Out)
		if k == 0 {
			begin, end = turn.T, turn.T
		}
		begin, end = min(begin, turn.T), max(end, turn.T)
		if turn.APITime > 0 { // it was recorded
			end = max(end, turn.T+turn.APITime)
		}
	}
	r.Span = end - begin
	return r
}

// writeTraces prints the list of traces of a cache.
func writeTraces(w io.Writer, c *mmapcache.Cache, asJSON bool) error {
	list, err := traceRows(c)
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(w, map[string]any{"traces": list})
	}
	t := tabwriter.NewWriter(sanitizer{w}, 0, 0, 2, ' ', 0)
	starts := slices.ContainsFunc(list, func(r traceRow) bool { return r.RecordedStart != nil })
	head := "TRACE\tSESSIONS\tTURNS\tPROMPT TOKENS\tSPAN"
	if starts {
		head += "\tSTART"
	}
	fmt.Fprintln(t, head)
	for _, r := range list {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s", sanitize(r.ID), groupDigits(r.Sessions), groupDigits(r.Turns), groupDigits(int(r.PromptTokens)), spanText(r.Span))
		if starts {
			fmt.Fprint(t, "\t"+startText(r.RecordedStart))
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

// startText writes a recorded start, in milliseconds, for people: all of its digits, in seconds.
func startText(ms *float64) string {
	if ms == nil {
		return "-"
	}
	return strconv.FormatFloat(*ms/1000, 'f', -1, 64) + "s"
}

const year = 365.25 * 24 * 3600 // seconds

// spanText writes a span of recorded time, in seconds, for people. Damaged times give spans of centuries, which a
// time.Duration does not hold.
func spanText(seconds float64) string {
	if seconds > 100*year {
		return fmt.Sprintf("%.0f years", seconds/year)
	}
	unit := time.Second
	if seconds < 10 {
		unit = time.Second / 10
	}
	return time.Duration(seconds * 1e9).Round(unit).String()
}

// checkSelection returns an error if a cache lacks the trace or session of a selection. It suggests the most similar name.
func checkSelection(c *mmapcache.Cache, cache string, sel mmapcache.Selection) error {
	if sel.Trace == "" && sel.Session == "" {
		return nil
	}
	var traces, sessions []string
	err := c.EachShard(func(_ int, s *mmapcache.Structure) error {
		for i := range s.Traces.Len() {
			t := s.Traces.At(i)
			traces = append(traces, t.ID)
			if sel.Session == "" || sel.Trace != "" && sel.Trace != t.ID {
				continue
			}
			for k := range t.Sessions {
				sessions = append(sessions, s.Sessions.At(int(t.FirstSession+k)).ID)
			}
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case sel.Trace != "" && !slices.Contains(traces, sel.Trace):
		return unknownName("trace", sel.Trace, traces, "agentx inspect "+cache+" lists them")
	case sel.Session != "" && !slices.Contains(sessions, sel.Session):
		return unknownName("session", sel.Session, sessions, "agentx inspect "+cache+" --all | grep ^session")
	}
	return nil
}

// unknownName returns an error about a name that a cache lacks. It suggests the most similar name, or else how to look.
func unknownName(what, name string, names []string, look string) error {
	err := fmt.Errorf("no %s %q in this cache", what, name)
	if near := suggest.Closest(name, names); near != "" {
		return hintError{err, fmt.Sprintf("--%s %s", what, near)}
	}
	return hintError{err, look}
}
