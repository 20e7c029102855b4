package measure

import (
	"fmt"
	"math"
	"strings"

	"github.com/agentx/agentx/replay/slo"
)

// Unseen counts the requests that were sent, and that neither a number of the headline nor its errors are over.
type Unseen struct {
	Requests int    `json:"requests"`
	Share    Number `json:"share"` // of those that were sent
}

// MaxUnseen is the share of unseen requests above which the numbers of a run are not those of its load.
const MaxUnseen = 0.05

// unseen counts the requests that are not of the headline.
func (s *Summary) unseen() Unseen {
	n := s.Requests - s.Buckets.Profiling
	return Unseen{n, shareOf(n, s.Requests)}
}

// UnseenText says how many requests no number is over, and why; "" where all are seen.
func (s *Summary) UnseenText() string {
	if s.Unseen.Requests == 0 {
		return ""
	}
	return fmt.Sprintf("%s (%s in no figure)", strings.Join(s.unseenCauses(), ", "), FormatShare(s.Unseen.Share))
}

// unseenCauses counts these requests by why.
func (s *Summary) unseenCauses() (why []string) {
	b := &s.Buckets
	for _, c := range []struct {
		n    int
		text string
	}{{b.ContextOverflow, "overflowed the context"}, {b.CancelledAtEnd, "cut off at the end"}, {b.Cooldown, "ended after the deadline"}} {
		if c.n > 0 {
			why = append(why, fmt.Sprintf("%d %s", c.n, c.text))
		}
	}
	return why
}

// leftOut says that more than MaxUnseen of the requests are in no figure.
func (e *evidence) leftOut() (string, []string) {
	return when(e.Unseen.Share > MaxUnseen, "%d of %d requests are in no figure (%s), so tails are cut", e.Unseen.Requests, e.Requests, strings.Join(e.unseenCauses(), ", "))
}

// Doubt returns what stands behind a verdict that a run is valid: how much of it no number is over; "" up to MaxUnseen.
func (s *Summary) Doubt() string {
	if s.Unseen.Share > MaxUnseen {
		return fmt.Sprintf(", but of %d requests %s", s.Requests, s.UnseenText())
	}
	return ""
}

// deliveredRow writes what was delivered, where the rates say something else by more than a tenth.
func (s *Summary) deliveredRow(b *strings.Builder) {
	d := &s.Delivered
	of := func(n, rate Number) bool { return math.Abs(float64(d.Rate(n)-rate)) > 0.1*math.Abs(float64(rate)) }
	if of(d.Requests, s.RequestRate) || of(d.PromptTokens, s.PromptTokenRate) || of(d.OutputTokens, s.OutputTokenRate) {
		row(b, "delivered", "%s requests/s, %s prompt tokens/s, %s output tokens/s over %s, from the start to the deadline: the throughput above is by the window %s",
			FormatQuantity(d.Rate(d.Requests)), FormatQuantity(d.Rate(d.PromptTokens)), FormatQuantity(d.Rate(d.OutputTokens)), FormatSeconds(d.Seconds), s.ThroughputWindow.Kind)
	}
}

// fewSamples are the samples below which a percentile is little more than the largest of them.
var fewSamples = map[string]int{"p95": 20, "p99": 100}

// few reports whether a statistic is over too few samples to be what its name says.
func (s *Stat) few(statistic string) bool { return s.N > 0 && s.N < fewSamples[statistic] }

// FewMark stands behind a percentile of few samples, FewNote says what it means.
const (
	FewMark = "?"
	FewNote = "? of few samples: p95 of fewer than 20, p99 of fewer than 100"
)

// marked formats a figure in its unit, with FewMark behind a percentile of few samples.
func (s *Stat) marked(statistic string, unit slo.Unit) string {
	text := FormatFigure(s.Figure(statistic), unit)
	if s.few(statistic) {
		text += FewMark
	}
	return text
}

// Few reports whether a figure of the run is a percentile of too few samples.
func (s *Summary) Few(f slo.Figure) bool {
	m := MetricNamed(f.Name)
	return m != nil && m.OfEach && m.Stat(&s.Metrics).few(f.Statistic)
}
