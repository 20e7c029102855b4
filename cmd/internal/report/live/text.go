package live

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/agentx/agentx/replay/measure"
)

// part is a piece of a line. Where a line is too narrow for all, those of the highest rank are left out.
type part struct {
	rank int
	text string
}

// fit returns the parts that fit into columns, in their order: the lowest ranks first, and of one rank the first ones.
func fit(parts []part, columns int) string {
	order := make([]int, len(parts))
	for k := range order {
		order[k] = k
	}
	slices.SortStableFunc(order, func(x, y int) int { return parts[x].rank - parts[y].rank })
	fits, left := make([]bool, len(parts)), columns+len(gap)
	for _, k := range order {
		if n := utf8.RuneCountInString(parts[k].text) + len(gap); parts[k].text != "" && n <= left {
			fits[k] = true
			left -= n
		}
	}
	var line []string
	for k, p := range parts {
		if fits[k] {
			line = append(line, p.text)
		}
	}
	return strings.Join(line, gap)
}

const gap = "  " // between two parts

// blockLines is how many lines a block has.
const blockLines = 5

// Block describes the run in blockLines lines of at most so many columns.
func (s *Status) Block(columns int) (lines [blockLines]string) {
	for k, parts := range [blockLines][]part{s.clock(), s.counts(), s.rates(), s.latencies(), s.trouble()} {
		lines[k] = fit(parts, columns)
	}
	return lines
}

// Log describes the run in one line.
func (s *Status) Log() string {
	var clauses []string
	for _, parts := range [][]part{s.counts(), s.rates(), s.latencies(), s.trouble()} {
		var clause []string
		for _, p := range parts {
			if p.text != "" {
				clause = append(clause, p.text)
			}
		}
		clauses = append(clauses, strings.Join(clause, ", "))
	}
	at := round(s.Elapsed)
	if !s.Remaining.IsMissing() {
		at += ", " + round(float64(s.Remaining)) + " left"
	}
	if of := s.partsText(); of != "" {
		at += ", " + of
	}
	return fmt.Sprintf("%s %s: %s", s.label(), at, strings.ReplaceAll(strings.Join(clauses, "; "), ", (", " ("))
}

// label names what is played: the warmup, or the replay that is measured.
func (s *Status) label() string {
	if s.State == measure.WarmupPhase {
		return "warmup"
	}
	return "replay"
}

// clock is how far the run has come.
func (s *Status) clock() []part {
	parts := []part{{0, s.label()}}
	bar, percent, left := "", "", ""
	if whole := s.Elapsed + float64(s.Remaining); !s.Remaining.IsMissing() && whole > 0 {
		const cells = 20
		done := s.Elapsed / whole
		full := int(done * cells)
		bar = "[" + strings.Repeat("=", full) + strings.Repeat("-", cells-full) + "]"
		percent, left = fmt.Sprintf("%.0f %%", 100*done), round(float64(s.Remaining))+" left"
	}
	return append(parts, part{3, bar}, part{2, percent}, part{1, round(s.Elapsed)}, part{1, left}, part{1, s.partsText()})
}

// partsText says how many parts of a load play.
func (s *Status) partsText() string {
	if s.Parts == nil {
		return ""
	}
	return fmt.Sprintf("%d of %d parts", s.Parts.Playing, s.Parts.Of)
}

// saidSilent is from how many seconds without a byte on that is said.
const saidSilent = 10

// counts are those of requests and trees.
func (s *Status) counts() []part {
	busy := fmt.Sprintf("%d of %d lanes", s.OpenTrees, s.Lanes)
	if s.WaitingTrees != nil {
		busy = fmt.Sprintf("%d trees open, %d waiting", s.OpenTrees, *s.WaitingTrees)
	}
	flying := fmt.Sprintf("%d in flight", s.InFlight)
	if s.Silent >= saidSilent {
		flying += fmt.Sprintf(", nothing received for %.0f s", s.Silent)
	}
	return []part{
		{1, busy}, {0, flying}, {3, fmt.Sprintf("%d sent", s.Sent)}, {2, fmt.Sprintf("%d completed", s.Completed)},
		{4, count(s.Overflows, "context overflow")}, {4, count(s.Cancelled, "cancelled")},
	}
}

// rates are those of the last seconds.
func (s *Status) rates() []part {
	r := s.Recent
	cached := ""
	if !r.TokenHitRate.IsMissing() {
		cached = measure.FormatShare(r.TokenHitRate) + " cached"
	}
	return []part{
		{0, measure.FormatQuantity(r.RequestRate) + " requests/s"}, {1, "tokens/s in " + measure.FormatQuantity(r.PromptTokenRate)},
		{2, cached}, {1, "out " + measure.FormatQuantity(r.OutputTokenRate)},
	}
}

// latencies are those of the last seconds.
func (s *Status) latencies() []part {
	pair := func(name string, of Stat) string {
		return name + " " + measure.FormatSeconds(of.P50) + " / " + measure.FormatSeconds(of.P95)
	}
	return []part{{0, pair("ttft", s.Recent.TTFT)}, {1, pair("itl", s.Recent.ITL)}, {2, "(p50 / p95, last 30 s)"}}
}

// trouble is what failed, and what the client itself costs.
func (s *Status) trouble() []part {
	failed := s.failed()
	parts := []part{{0, "0 failed"}, {2, ""}, {1, "lateness p99 " + measure.FormatSeconds(s.Recent.Lateness.P99)}}
	if failed > 0 {
		parts[0].text = fmt.Sprintf("%d failed (%s)", failed, measure.FormatShare(s.ErrorRate))
		parts[1].text = s.categories()
	}
	if s.ClientBound {
		parts = append(parts, part{0, "client-bound"})
	}
	if s.Standstills.Long() {
		parts = append(parts, part{0, "stood still for " + measure.FormatSeconds(measure.Number(s.Standstills.Longest.Seconds))})
	}
	return parts
}

// categories counts the failed requests by category, the commonest first.
func (s *Status) categories() string {
	var parts []string
	for _, c := range measure.ErrorCounts(s.Errors).CommonestFirst() {
		parts = append(parts, fmt.Sprintf("%s %d", c, s.Errors[c]))
	}
	return strings.Join(parts, ", ")
}

// count describes a count that is not 0.
func count(n int, of string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d %s", n, of)
}

// round formats seconds without a fraction.
func round(seconds float64) string {
	return time.Duration(seconds * float64(time.Second)).Round(time.Second).String()
}
