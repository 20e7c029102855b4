package measure

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/agentx/agentx/replay/capacity"
	"github.com/agentx/agentx/replay/slo"
	"github.com/agentx/agentx/replay/wire"
)

// List is what a list of runs reports: the object of concurrencies.json and, with the summaries, of replay --json.
type List struct {
	Preset   string      `json:"preset"`
	CacheKey string      `json:"cache_key"`
	Out      string      `json:"out"`              // directory of the list, empty when none was asked for
	Repeat   int         `json:"repeat,omitempty"` // how often each concurrency is played; 0: once, and the runs have no number
	Runs     []ListedRun `json:"runs"`             // that have ended, in the order in which they were played

	Capacity *capacity.Answer `json:"capacity,omitempty"` // nil: nothing was searched
}

// ListedRun is one run of a list.
type ListedRun struct {
	Concurrency int      `json:"concurrency"`
	Repeat      int      `json:"repeat,omitempty"` // which of the runs with this concurrency it is, from 1; 0: there is one
	Dir         string   `json:"dir"`              // of its results, below that of the list; empty when none was asked for
	Exit        int      `json:"exit"`             // exit status that the command would have for this run alone
	Headline    *Figures `json:"headline"`         // nil: it has no results
	Summary     *Summary `json:"summary,omitempty"`
}

// Name names the run in its list: its concurrency, and which of several it is.
func (r *ListedRun) Name() string {
	if r.Repeat > 0 {
		return fmt.Sprintf("%d r%02d", r.Concurrency, r.Repeat)
	}
	return strconv.Itoa(r.Concurrency)
}

// Figures are those of a summary that runs are compared by, with the keys and the meaning that they have there.
type Figures struct {
	Requests        int                   `json:"requests"`
	Completed       int                   `json:"completed"`
	Overflows       int                   `json:"overflows"` // of the context
	Errors          map[wire.Category]int `json:"errors"`
	ErrorRate       Number                `json:"error_rate"`
	Duration        Number                `json:"duration"`
	RequestRate     Number                `json:"request_rate"`
	OutputTokenRate Number                `json:"output_token_rate"`
	TTFT            Stat                  `json:"ttft"`
	ITL             Stat                  `json:"itl"`
	RequestLatency  Stat                  `json:"request_latency"`
	Unseen          Unseen                `json:"unseen"`
	Valid           *bool                 `json:"valid"`
}

// Figures returns the figures of the summary that runs are compared by.
func (s *Summary) Figures() *Figures {
	return &Figures{
		Requests: s.Requests, Completed: s.Completed, Overflows: s.Buckets.ContextOverflow, Errors: s.Errors, ErrorRate: s.ErrorRate, Duration: s.Duration, RequestRate: s.RequestRate,
		OutputTokenRate: s.OutputTokenRate, TTFT: s.TTFT, ITL: s.ITL, RequestLatency: s.RequestLatency, Valid: s.Valid, Unseen: s.Unseen,
	}
}

// WithoutSummaries returns the list as concurrencies.json has it.
func (l *List) WithoutSummaries() *List {
	short := *l
	short.Runs = make([]ListedRun, len(l.Runs))
	for k, r := range l.Runs {
		r.Summary = nil
		short.Runs[k] = r
	}
	return &short
}

// figureColumns are the columns of the table of a list, between the concurrency and the exit status.
var figureColumns = []struct {
	name string
	of   func(*Figures) string
}{
	{"requests", func(h *Figures) string { return strconv.Itoa(h.Requests) }},
	{"errors", func(h *Figures) string { return FormatShare(h.ErrorRate) }},
	{"requests/s", func(h *Figures) string { return FormatQuantity(h.RequestRate) }},
	{"output/s", func(h *Figures) string { return FormatQuantity(h.OutputTokenRate) }},
	{"ttft p50", func(h *Figures) string { return FormatSeconds(h.TTFT.P50) }},
	{"ttft p99", func(h *Figures) string { return h.TTFT.marked("p99", slo.Seconds) }},
	{"itl p50", func(h *Figures) string { return FormatSeconds(h.ITL.P50) }},
}

// errors writes how many requests of each run failed, the rates by category, how many overflowed the context, how many are in no figure, how
// the run did by its service levels, and which remarks say that figures are not what they seem.
func (l *List) errors(b *strings.Builder) {
	for _, r := range l.Runs {
		h := r.Headline
		if h != nil && len(h.Errors) > 0 {
			e := ErrorCounts(h.Errors)
			row(b, "errors", "concurrency %s: %d of %d: %s", r.Name(), e.Failed(), h.Completed+e.Failed(), e.rates(h.Completed+e.Failed()))
		}
		if h != nil && h.Overflows > 0 {
			row(b, "overflow", "concurrency %s: %d of %d overflowed the context", r.Name(), h.Overflows, h.Requests)
		}
		if h != nil && h.Unseen.Requests > 0 {
			row(b, "left out", "concurrency %s: %d of %d requests (%s in no figure)", r.Name(), h.Unseen.Requests, h.Requests, FormatShare(h.Unseen.Share))
		}
		if r.Summary != nil {
			r.Summary.listed(b, r.Name())
		}
	}
}

// listed writes goodput, the levels of the run, and the kinds of its warnings.
func (s *Summary) listed(b *strings.Builder, name string) {
	if g := s.Goodput; g != nil {
		var parts []string
		for k, c := range g.Conditions {
			switch {
			case c.OfEach && k == slices.IndexFunc(g.Conditions, func(c LevelResult) bool { return c.OfEach }):
				parts = append(parts, fmt.Sprintf("%s good requests/s, %s of the requests", FormatQuantity(g.Rate), FormatShare(g.Share)))
			case c.Met != nil:
				parts = append(parts, c.Text+map[bool]string{true: " met", false: " not met"}[*c.Met])
			}
		}
		row(b, "levels", "concurrency %s: %s", name, strings.Join(parts, "; "))
	}
	var kinds []string
	for _, r := range s.Remarks {
		if r.Level != Note {
			kinds = append(kinds, r.Kind)
		}
	}
	if len(kinds) > 0 {
		row(b, "remarks", "concurrency %s: %s", name, strings.Join(kinds, ", "))
	}
}

// WriteTable writes a line for each run, and where the results are. No line is longer than a number of columns; 0 is no
// limit.
func (l *List) WriteTable(w io.Writer, columns int) error {
	var b strings.Builder
	write := func(first, last string, cell func(k int) string) {
		fmt.Fprintf(&b, "%-*s", labelWidth, first)
		for k := range figureColumns {
			fmt.Fprintf(&b, "%11s", cell(k))
		}
		fmt.Fprintf(&b, "%6s\n", last)
	}
	write("concurrency", "exit", func(k int) string { return figureColumns[k].name })
	for _, r := range l.Runs {
		write(r.Name(), strconv.Itoa(r.Exit), func(k int) string {
			if r.Headline == nil {
				return "-"
			}
			return figureColumns[k].of(r.Headline)
		})
	}
	l.errors(&b)
	if l.Out != "" {
		b.WriteByte('\n')
		row(&b, "results", "%s", l.Out)
	}
	_, err := io.WriteString(w, fit(b.String(), columns))
	return err
}
