package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
	"github.com/agentx/agentx/simulate"
)

// printSimulated prints the result of one run, or of several.
func (f *simulateFlags) printSimulated(w io.Writer, list []*simulateRun, a *sizeAnswer) error {
	one := len(list) == 1 && a == nil
	switch {
	case one && list[0].Summary == nil:
		return nil
	case one && f.asJSON:
		return list[0].Summary.WriteJSON(w)
	case one:
		return errors.Join(writeSimulated(w, list[0].Summary), printPage(w, list[0].Page))
	}
	path, err := f.writeComparison(list, a)
	switch {
	case err != nil:
		return err
	case f.asJSON:
		return printJSON(w, struct {
			Runs    []*simulateRun `json:"runs"`
			Answer  *sizeAnswer    `json:"answer"`  // null: nothing was searched
			Answers []string       `json:"answers"` // in words
			Out     string         `json:"out"`
			Page    string         `json:"page,omitempty"` // file; empty: none
		}{list, a, f.answers(list, a), f.out, path})
	}
	return errors.Join(f.writeRuns(w, list, a), printPage(w, path))
}

// writeSimulated prints a summary for people.
func writeSimulated(w io.Writer, s *simulate.Summary) error {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-16s"+format+"\n", append([]any{name}, args...)...)
	}
	left := ""
	if s.Rejected > 0 {
		left += fmt.Sprintf(", %s rejected", groupDigits(s.Rejected))
	}
	if s.KVExhausted > 0 {
		left += fmt.Sprintf(", %s outgrew the pool", groupDigits(s.KVExhausted))
	}
	line("requests", "%s, %s completed%s", groupDigits(s.Requests), groupDigits(s.Completed), left)
	line("duration", "%s simulated", secondsFigure(s.Duration))
	line("rates", "%s requests, %s output tokens", rateFigure(s.RequestRate), rateFigure(s.OutputTokenRate))
	line("tokens", "%s prompt, %s output", groupDigits(int(s.InputTokens)), groupDigits(int(s.OutputTokens)))
	line("reuse", "%s of prompt tokens; %s with an unlimited cache", shareFigure(s.Reuse), shareFigure(s.ReuseUnlimited))
	line("engines", "%s passes, %s preemptions, %s evictions", groupDigits(int(s.Passes)), groupDigits(int(s.Preemptions)), groupDigits(int(s.Evictions)))
	line("GPU-hours", "%.4g", float64(s.GPUHours))
	if p := s.Planner; p != nil {
		line("planner", "%s ticks, %s changes of a pool's size", groupDigits(p.Ticks), groupDigits(p.Transitions))
	}
	if g := s.Goodput; g != nil {
		line("good", "%s of %s requests (%s), %s", groupDigits(g.Good), groupDigits(s.Requests), shareFigure(g.Ratio), rateFigure(g.RequestRate))
	}
	fmt.Fprintf(&b, "\n%-16s%11s%11s%11s%11s%11s%11s\n", "", "mean", "p50", "p90", "p95", "p99", "max")
	for _, row := range []struct {
		name string
		d    simulate.Distribution
	}{{"ttft", s.TTFT}, {"itl", s.ITL}, {"token gap", s.TokenGap}, {"request latency", s.RequestLatency}} {
		d := row.d
		fmt.Fprintf(&b, "%-16s", row.name)
		for _, v := range []measure.Number{d.Mean, d.P50, d.P90, d.P95, d.P99, d.Max} {
			fmt.Fprintf(&b, "%11s", secondsFigure(v))
		}
		b.WriteByte('\n')
	}
	if s.Out != "" {
		fmt.Fprintf(&b, "\nresults         %s\n", s.Out)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func secondsFigure(v measure.Number) string { return measure.FormatFigure(v, slo.Seconds) }
func rateFigure(v measure.Number) string    { return measure.FormatFigure(v, slo.Rate) }
func shareFigure(v measure.Number) string   { return measure.FormatFigure(v, slo.Share) }

// runColumns are the columns of the table of several runs.
var runColumns = []struct {
	name string
	of   func(*simulate.Summary) string
}{
	{"completed", func(s *simulate.Summary) string { return groupDigits(s.Completed) }},
	{"requests", func(s *simulate.Summary) string { return rateFigure(s.RequestRate) }},
	{"out tok/s", func(s *simulate.Summary) string { return strings.TrimSuffix(rateFigure(s.OutputTokenRate), "/s") }},
	{"ttft p50", func(s *simulate.Summary) string { return secondsFigure(s.TTFT.P50) }},
	{"ttft p99", func(s *simulate.Summary) string { return secondsFigure(s.TTFT.P99) }},
	{"itl p50", func(s *simulate.Summary) string { return secondsFigure(s.ITL.P50) }},
	{"gap p99", func(s *simulate.Summary) string { return secondsFigure(s.TokenGap.P99) }},
	{"reuse", func(s *simulate.Summary) string { return shareFigure(s.Reuse) }},
	{"good", func(s *simulate.Summary) string {
		if s.Goodput == nil {
			return "-"
		}
		return shareFigure(s.Goodput.Ratio)
	}},
	{"GPU-hours", func(s *simulate.Summary) string { return fmt.Sprintf("%.4g", float64(s.GPUHours)) }},
}

// writeRuns prints a line for each run, and the answer to the search.
func (f *simulateFlags) writeRuns(w io.Writer, list []*simulateRun, a *sizeAnswer) error {
	width := len("run")
	for _, r := range list {
		width = max(width, len(r.Name))
	}
	var b strings.Builder
	write := func(name, exit string, cell func(k int) string) {
		fmt.Fprintf(&b, "%-*s", width, name)
		for k := range runColumns {
			fmt.Fprintf(&b, " %10s", cell(k))
		}
		fmt.Fprintf(&b, " %5s\n", exit)
	}
	write("run", "exit", func(k int) string { return runColumns[k].name })
	for _, r := range list {
		write(r.Name, strconv.Itoa(r.Exit), func(k int) string {
			if r.Summary == nil {
				return "-"
			}
			return runColumns[k].of(r.Summary)
		})
	}
	if lines := f.answers(list, a); len(lines) > 0 {
		fmt.Fprintf(&b, "\n%s\n", strings.Join(lines, "\n"))
	}
	if f.out != "" {
		fmt.Fprintf(&b, "\n%-16s%s\n", "results", f.out)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
