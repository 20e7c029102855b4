package measure

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/agentx/agentx/replay/slo"
	"github.com/agentx/agentx/replay/wire"
)

// WriteTable writes the summary as aligned lines of plain text. No line is longer than a number of columns; 0 is no limit.
func (s Summary) WriteTable(w io.Writer, columns int) error {
	var b strings.Builder
	s.Part.row(&b)
	s.Parts.row(&b)
	if text := s.Run.ServerText(); text != "" {
		row(&b, "server", "%s", text)
	}
	if step, why := s.refusal(); why != "" { // nothing was sent
		row(&b, step, "%s", why)
	} else {
		row(&b, "result", "%s", s.Conclusion())
		s.counts(&b)
		s.throughput(&b)
		s.latencies(&b, columns)
		s.Until.row(&b)
		s.client(&b)
		s.fidelity(&b)
		s.remarkRows(&b)
	}
	s.settings(&b)
	s.verdict(&b)
	_, err := io.WriteString(w, fit(b.String(), columns))
	return err
}

// refusal returns why the run was not started, and the step that found it; "": it was started.
func (s *Summary) refusal() (step, why string) {
	if n := len(s.Run.Preparation); n > 0 && s.Run.Preparation[n-1].Error != "" {
		return s.Run.Preparation[n-1].Step, s.Run.Preparation[n-1].Error
	}
	if s.Preflight != nil {
		return "preflight", s.Preflight.Error
	}
	return "", ""
}

// labelWidth is the width of the first column.
const labelWidth = 12

// fit breaks lines that are too long, between words where it can. The rest of a line is indented to the second column.
func fit(text string, columns int) string {
	if columns <= 2*labelWidth {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		for runes := []rune(strings.TrimRight(line, " \n")); ; {
			if len(runes) <= columns {
				b.WriteString(string(runes) + "\n")
				break
			}
			at := columns
			for k := columns; k > labelWidth; k-- {
				if runes[k] == ' ' {
					at = k
					break
				}
			}
			b.WriteString(strings.TrimRight(string(runes[:at]), " ") + "\n")
			runes = []rune(strings.Repeat(" ", labelWidth) + strings.TrimLeft(string(runes[at:]), " "))
		}
	}
	return b.String()
}

// row writes one line: a label and a text.
func row(b *strings.Builder, label, format string, args ...any) {
	fmt.Fprintf(b, "%-*s", labelWidth, label)
	fmt.Fprintf(b, format, args...)
	b.WriteByte('\n')
}

// counts writes how many requests were sent, how they ended and what the load was.
func (s *Summary) counts(b *strings.Builder) {
	parts := []string{Plural(s.Completed, "completed", "completed")}
	if failed := ErrorCounts(s.Errors).Failed(); failed+s.Completed > 0 {
		of := "" // the gate of agentx report looks at the headline alone
		if s.Buckets.Cooldown > 0 {
			of = " with the cooldown"
		}
		parts = append(parts, fmt.Sprintf("%d failed (%s%s)", failed, FormatShare(s.ErrorRate), of))
	}
	first := fmt.Sprintf("%d sent: ", s.Requests)
	if unseen := s.UnseenText(); unseen != "" {
		first += unseen + "; "
	}
	row(b, "requests", "%s%s", first, strings.Join(parts, ", "))
	s.failures(b)
	if s.Resent > 0 {
		row(b, "resent", "%s: the server had closed a kept connection", Plural(s.Resent, "request", "requests"))
	}
	s.FinishReasons.row(b)
	s.deviations(b)
	if n := s.Throttled.Answers; n > 0 {
		row(b, "throttled", "%s with Retry-After, %s waited in sum", Plural(n, "answer", "answers"), duration(s.Throttled.Seconds))
	}
	if s.BackOff.Pauses > 0 {
		row(b, "back-off", "%s of lanes without a connection, %s in sum", Plural(s.BackOff.Pauses, "pause", "pauses"), duration(s.BackOff.Seconds))
	}
	s.Warmup.row(b)
	s.Arrivals.row(b)
	s.addresses(b)
	row(b, "load", "%s in %s%s", Plural(s.Trees, "tree", "trees"), Plural(s.Lanes.Started, "lane", "lanes"), s.laneStart())
}

// failures writes the categories of failures, the commonest first, with their messages, then the overflows.
func (s *Summary) failures(b *strings.Builder) {
	label := "errors"
	for _, c := range ErrorCounts(s.Errors).CommonestFirst() {
		row(b, label, "%6d  %s (%s)", s.Errors[c], c, FormatShare(s.ErrorRates[c]))
		label = ""
		s.messages(b, c)
	}
	if len(s.ErrorSamples[wire.ContextOverflow]) > 0 {
		row(b, "", "%6d  %s", s.Buckets.ContextOverflow, wire.ContextOverflow)
		s.messages(b, wire.ContextOverflow)
	}
}

// messages writes the sample messages of a category.
func (s *Summary) messages(b *strings.Builder, category wire.Category) {
	for _, m := range s.ErrorSamples[category] {
		row(b, "", "%6d    %s", m.N, m.Message)
	}
}

// deviations writes the kinds of deviation with an example of each.
func (s *Summary) deviations(b *strings.Builder) {
	label := "deviations"
	for _, d := range deviations {
		if n := s.Deviations[d.kind]; n.Requests > 0 {
			row(b, label, "%6d  %s", n.Requests, d.label)
			row(b, "", "%6s    e.g. %s", "", n.Example)
			label = ""
		}
	}
}

// laneStart returns how many lanes started and when, as the end of a line.
func (s *Summary) laneStart() string {
	of := ""
	if s.Lanes.N > 0 && s.Lanes.Started != s.Lanes.N {
		of = fmt.Sprintf(" of %d", s.Lanes.N)
	}
	if s.Lanes.FirstRequest.First.IsMissing() {
		return of
	}
	return of + fmt.Sprintf(", first requests from %s to %s%s",
		duration(float64(s.Lanes.FirstRequest.First)), duration(float64(s.Lanes.FirstRequest.Last)), s.ClockMargin(false))
}

// throughput writes the rates and the counts of tokens.
func (s *Summary) throughput(b *strings.Builder) {
	if sure := s.ClockMargin(true); s.Completed == 0 {
		row(b, "throughput", "none: no request completed")
	} else {
		row(b, "throughput", "%s requests/s%s, %s prompt tokens/s%s, %s output tokens/s%s over %s%s%s", FormatQuantity(s.RequestRate), sure,
			FormatQuantity(s.PromptTokenRate), sure, FormatQuantity(s.OutputTokenRate), sure, FormatSeconds(s.ThroughputWindow.Seconds), s.ClockMargin(false), s.inTime())
	}
	cached := "cached not reported"
	if !s.TokenHitRate.IsMissing() {
		cached = fmt.Sprintf("%s of them cached (hit rate per token %.1f %%)", FormatQuantity(s.CachedTokens), 100*s.TokenHitRate)
	}
	s.deliveredRow(b)
	s.levels(b)
	row(b, "tokens", "%s prompt, %s; %s output for %s asked; %s prompt recorded", FormatQuantity(s.PromptTokens), cached,
		FormatQuantity(s.OutputTokens), FormatQuantity(s.RequestedOutputTokens), FormatQuantity(s.RecordedPromptTokens))
}

// inTime says how many requests the rate is of, where some completed after its window; else "".
func (s *Summary) inTime() string {
	w := &s.ThroughputWindow
	if w.Kind != "delivered" || w.Seconds.IsMissing() || w.Requests == Number(s.Completed) {
		return ""
	}
	return fmt.Sprintf(" up to the deadline, by which %.0f of the %d had completed", w.Requests, s.Completed)
}

// figure is one statistic of a distribution, a column of the latencies.
type figure struct {
	name string // as in slo.Statistics
	rank int    // 0 is left out last
	of   func(*Stat) Number
}

// figures are the columns of the latencies. Where there is no room, those with the highest ranks are left out.
var figures = []figure{
	{"mean", 3, func(s *Stat) Number { return s.Mean }}, {"p50", 0, func(s *Stat) Number { return s.P50 }},
	{"p75", 6, func(s *Stat) Number { return s.P75 }}, {"p90", 4, func(s *Stat) Number { return s.P90 }},
	{"p95", 5, func(s *Stat) Number { return s.P95 }}, {"p99", 1, func(s *Stat) Number { return s.P99 }},
	{"max", 2, func(s *Stat) Number { return s.Max }},
}

// latencies writes a table of the distributions, with as many figures as fit.
func (s *Summary) latencies(b *strings.Builder, columns int) {
	cell, room := 10, len(figures)
	if columns > 0 && labelWidth+room*cell > columns {
		cell = 9 // "-5.00 ms" and a space
		room = max(1, (columns-labelWidth)/cell)
	}
	write := func(label string, value func(k int) string) {
		fmt.Fprintf(b, "%-*s", labelWidth, label)
		for k, f := range figures {
			if f.rank < room {
				fmt.Fprintf(b, "%*s", cell, value(k))
			}
		}
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	write("", func(k int) string { return figures[k].name })
	few := false
	line := func(label string, unit slo.Unit, stat *Stat) {
		write(label, func(k int) string { return stat.marked(figures[k].name, unit) })
		few = few || stat.few("p99")
	}
	for _, m := range MetricList {
		if m.OfEach && !m.elsewhere {
			line(m.Name, m.Unit, m.Stat(&s.Metrics))
		}
	}
	if s.Arrivals != nil {
		line("queued", slo.Seconds, &s.Arrivals.Queued)
	}
	for _, m := range MetricList {
		if !m.OfEach && !m.elsewhere {
			row(b, m.Name, "%s", FormatFigure(m.Value(s), m.Unit))
		}
	}
	if few {
		row(b, "", FewNote)
	}
	if s.Arrivals != nil && s.Arrivals.Waiting > 0 {
		row(b, "", "queued leaves out trees that never opened: %.0f", s.Arrivals.Waiting)
	}
	b.WriteByte('\n')
}

// settings writes what differs from the preset default, and the scenario.
func (s *Summary) settings(b *strings.Builder) {
	if s.Run.Preset != "" && (s.Run.Preset != defaultPreset || len(s.Run.Switches) > 0) {
		text := s.Run.Preset
		for _, name := range slices.Sorted(maps.Keys(s.Run.Switches)) {
			text += fmt.Sprintf(", %s=%s", name, strings.Trim(string(s.Run.Switches[name]), `"`))
		}
		row(b, "preset", "%s", text)
	}
	if sc := s.Run.Scenario; sc != nil {
		text := sc.Name
		if n := len(sc.Overridden); n > 0 {
			text += fmt.Sprintf(", %s overridden", Plural(n, "conflict", "conflicts"))
		}
		row(b, "scenario", "%s", text)
	}
}

// pinned says, beside a verdict, which corpus was played, and what of it was checked; "" if it is none, or not known.
func (s *Scenario) pinned() string {
	checked := map[string]string{"name": "its name was checked, its content is recorded", "content": "its content was checked"}
	if s == nil || checked[s.PinnedBy] == "" {
		return ""
	}
	return fmt.Sprintf(" (corpus %s: %s)", s.Corpus, checked[s.PinnedBy])
}

// defaultPreset is the preset that a table does not name.
const defaultPreset = "default"

// verdict writes whether the run is valid, and where the results are.
func (s *Summary) verdict(b *strings.Builder) {
	switch {
	case s.Valid != nil && *s.Valid:
		row(b, "valid", "yes%s%s", s.Run.Scenario.pinned(), s.Doubt())
	case s.Valid != nil:
		row(b, "valid", "no: %s", strings.Join(s.Reasons, ", "))
	}
	if s.Out != "" {
		row(b, "results", "%s", s.Out)
	}
}
