// Package gate judges runs for a pipeline: by bounds on their figures, and by how much these may differ from those of another run.
package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/agentx/agentx/cmd/internal/aiperf"
	"github.com/agentx/agentx/cmd/internal/aiperf/inferencex"
	"github.com/agentx/agentx/cmd/internal/report/compare"
	"github.com/agentx/agentx/cmd/internal/report/interval"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/merge"
	"github.com/agentx/agentx/replay/slo"
	"github.com/agentx/agentx/report"
)

// ErrorRate is the name of the gate that decides by the rule of InferenceX, which package inferencex has.
const ErrorRate = "error-rate"

// Gate bounds a figure of a run, or its difference to another run's.
type Gate struct {
	Text     string // as it was written
	figure   slo.Figure
	sign     slo.Sign
	limit    float64
	Errors   bool // Limit is of errors over completed requests, by the rule of InferenceX
	Relative bool // Limit is of the difference, as part of the other run's figure: 0.05 in ttft.p95<+5%
}

// Parse reads a gate: ttft.p95<2s, goodput>3, error-rate<1%, error-rate=X, or against another run ttft.p95<+5%, output_token_rate>-3%.
func Parse(text string) (Gate, error) {
	if value, ok := strings.CutPrefix(text, ErrorRate+"="); ok {
		limit, err := strconv.ParseFloat(value, 64)
		if err != nil || !(limit >= 0 && limit <= 1) {
			return Gate{}, fmt.Errorf("want %s=X, X from 0 to 1", ErrorRate)
		}
		return Gate{Text: ErrorRate, limit: limit, Errors: true}, nil
	}
	name, sign, value, err := slo.Cut(text)
	if err != nil {
		return Gate{}, errors.New("want NAME<VALUE or NAME>VALUE, such as 'ttft.p95<2s', against another run 'ttft.p95<+5%', or error-rate=X")
	}
	f, err := measure.ParseFigure(name)
	if err != nil {
		return Gate{}, err
	}
	g := Gate{Text: text, figure: f, sign: sign}
	if g.Relative = strings.HasPrefix(value, "+") || strings.HasPrefix(value, "-"); g.Relative {
		g.limit, err = parseChange(value)
		return g, err
	}
	c, err := measure.ParseCondition(text)
	g.limit = c.Limit
	return g, err
}

// parseChange reads +5% or -3%.
func parseChange(value string) (float64, error) {
	number, percent := strings.CutSuffix(value, "%")
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || !percent || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0, fmt.Errorf("%.40q: want a difference in per cent, such as +5%% or -3%%", value)
	}
	return v / 100, nil
}

// Verdict is what a gate says of a run.
type Verdict struct {
	Gate   string  `json:"gate"`
	Limit  float64 `json:"limit"`
	Passed bool    `json:"passed"`
	Reason string  `json:"reason"`          // why it passed, or did not
	Doubt  string  `json:"doubt,omitempty"` // what makes a gate that passed worth little, and fails none: the run is not valid, or was stopped

	Value    *measure.Number    `json:"value,omitempty"`    // of the run
	Base     *measure.Number    `json:"base,omitempty"`     // of the other run
	Change   *measure.Number    `json:"change,omitempty"`   // (value - base) / base; of paired runs over the trees that both played
	Interval *interval.Interval `json:"interval,omitempty"` // of Change
	Method   compare.Method     `json:"method,omitempty"`   // of Interval

	figure slo.Figure // what is judged; of error-rate=X none
}

// String returns the gate as it was written.
func (v *Verdict) String() string {
	if v.Gate == ErrorRate {
		return fmt.Sprintf("%s=%v", ErrorRate, v.Limit)
	}
	return v.Gate
}

// Outcome says whether the gate passed, with the doubt about one that did.
func (v *Verdict) Outcome() string {
	switch {
	case !v.Passed:
		return "failed"
	case v.Doubt != "":
		return "passed, but " + v.Doubt
	}
	return "passed"
}

// doubt says why the figures of a run are worth little: it is not valid, or was stopped.
func doubt(s *measure.Summary) string {
	if s.Valid != nil && !*s.Valid {
		return "the run is not valid: " + strings.Join(s.Reasons, ", ")
	}
	k := slices.IndexFunc(s.Remarks, func(r measure.Remark) bool { return r.Kind == "interrupted" || r.Kind == "deadlocked" })
	if k < 0 {
		return ""
	}
	return s.Remarks[k].Text
}

// judge judges a figure of a run by its bound. A figure that is not known does not pass.
func (g *Gate) judge(value measure.Number) Verdict {
	v := Verdict{Gate: g.Text, Limit: g.limit, Value: &value, figure: g.figure}
	switch {
	case value.IsMissing() && g.figure.Name == "goodput":
		v.Reason = "goodput is not known: the run has no service levels, which --slo gives it"
	case value.IsMissing():
		v.Reason = g.figure.String() + " is not known of this run"
	default:
		v.Passed = g.sign.Holds(float64(value), g.limit)
		v.Reason = fmt.Sprintf("%s is %s", g.figure, measure.FormatFigure(value, g.figure.Unit))
	}
	return v
}

// judgeAgainst judges how the second run of a comparison differs from the first. The gate passes if any value of the interval passes, so that
// noise fails no build. Without an interval the difference itself decides.
func (g *Gate) judgeAgainst(c *compare.Comparison) Verdict {
	name := g.figure.String()
	base, f := c.Runs[0].Figures[name], c.Runs[1].Figures[name]
	v := Verdict{Gate: g.Text, Limit: g.limit, Value: &f.Value, Base: &base.Value, figure: g.figure}
	d := f.Difference
	if d == nil {
		v.Reason = name + " is not known of both runs"
		return v
	}
	v.Change, v.Interval, v.Method = &d.Ratio, d.Interval, d.Method
	best := float64(d.Ratio)
	if d.Interval != nil && g.sign.Upper() {
		best = d.Interval.Low
	} else if d.Interval != nil {
		best = d.Interval.High
	}
	v.Passed = g.sign.Holds(best, g.limit)
	v.Reason = fmt.Sprintf("%s is %s, %s from %s; %s", name, measure.FormatFigure(f.Value, g.figure.Unit), d.Change(g.figure.Unit),
		measure.FormatFigure(base.Value, g.figure.Unit), how(d, c.Verdicts[0]))
	if d.Trees > 0 { // the values are of all trees of the runs
		v.Reason = fmt.Sprintf("%s is %s after %s, and %s; %s", name, measure.FormatFigure(f.Value, g.figure.Unit),
			measure.FormatFigure(base.Value, g.figure.Unit), d.Change(g.figure.Unit), how(d, c.Verdicts[0]))
	}
	return v
}

// how says what decided about a difference: its interval, or why there is none.
func how(d *compare.Difference, v compare.Verdict) string {
	switch {
	case d.Interval == nil && v.Why != "" && v.Method == compare.NoInterval:
		return "no interval: " + v.Why
	case d.Interval == nil:
		return "no interval"
	}
	over := string(d.Method)
	if v.Trees > 0 {
		over = fmt.Sprintf("%s, over %d trees", d.Method, v.Trees)
	}
	return fmt.Sprintf("its 95 %% interval goes from %s to %s (%s)", compare.FormatChange(d.Interval.Low), compare.FormatChange(d.Interval.High), over)
}

// look adds to a verdict how many requests of a run are in none of its figures, and whether the figure has few samples. Failed requests have no
// values for figures with a statistic. If more than a share of the requests is missing, the gate fails, because their values are unknown. name is
// "" for the run that is judged, else that of the other run; s is nil if nothing is known of it.
func (v *Verdict) look(name string, s *measure.Summary, share float64) {
	if s == nil {
		return
	}
	it, of := "it", ""
	if name == "" {
		v.Doubt = doubt(s)
	} else {
		it, of = "that of "+name, " of "+name
	}
	if s.Few(v.figure) {
		v.Reason += fmt.Sprintf("; %s is of few samples, %d", it, s.Measured)
	}
	if slices.ContainsFunc(s.Remarks, func(r measure.Remark) bool { return r.Kind == "killed" }) {
		v.Reason += fmt.Sprintf("; of requests%s that were in flight when the run was killed nothing is known", of)
	}
	n, why := s.Unseen.Requests, []string{}
	if failed := s.Buckets.Profiling - s.Measured; v.figure.Statistic != "" && failed > 0 {
		n, why = n+failed, append(why, fmt.Sprintf("%d failed and have none", failed))
	}
	if text := s.UnseenText(); text != "" {
		why = append(why, text)
	}
	if len(why) == 0 {
		return
	}
	v.Reason += fmt.Sprintf("; of %s%s %s", measure.Plural(s.Requests, "request", "requests"), of, strings.Join(why, ", "))
	if float64(n) > share*float64(s.Requests) {
		v.Passed = false
		v.Reason += fmt.Sprintf(", more than the %s of --gate-unseen", measure.FormatShare(measure.Number(share)))
	}
}

// Subject is a run that is judged and described. It computes each of its results once, when it is needed.
type Subject struct {
	Dir     string
	Levels  []slo.Condition   // they override the run's own service levels; nil: those of the run
	Base    string            // directory of the run that it is compared with; "": none
	Partial bool              // the parts of Base that are there are enough
	Warn    func(text string) // is called if the run and Base may not be compared

	Summarize func() (_ *measure.Summary, about []string, err error) // computes the summary of Opened, and what is not known of it

	Files   *aiperf.Directory // nil: the directory has records of our own
	Opened  *merge.Run        // nil: it has none
	Results *report.Results   // nil: not computed yet

	summary    *measure.Summary
	run        *compare.Run
	comparison *compare.Comparison
}

// Judge returns what every gate says of the run. unseen is the largest share of requests that no figure is over.
func (s *Subject) Judge(ctx context.Context, gates []Gate, unseen float64) (verdicts []Verdict, err error) {
	for _, g := range gates {
		v, err := s.judge(ctx, &g)
		if err != nil {
			return nil, err
		}
		summary, err := s.Summary()
		if err != nil {
			return nil, err
		}
		if g.Relative {
			v.look(s.Base, s.comparison.Summary(0), unseen)
		}
		v.look("", summary, unseen)
		verdicts = append(verdicts, v)
	}
	return verdicts, nil
}

// judge judges the run by one gate.
func (s *Subject) judge(ctx context.Context, g *Gate) (v Verdict, err error) {
	switch {
	case g.Errors:
		v = Verdict{Gate: g.Text, Limit: g.limit}
		accepted, no, err := s.errors(g.limit)
		if v.Reason = accepted; no != nil {
			v.Reason = no.Error()
		}
		v.Passed = no == nil
		return v, err
	case g.Relative:
		c, err := s.Against(ctx)
		if err != nil {
			return v, err
		}
		return g.judgeAgainst(c), nil
	}
	value, err := s.figure(g.figure)
	if err != nil {
		return v, err
	}
	return g.judge(value), nil
}

// errors judges the failures of the headline by the rule of InferenceX. It returns why they are accepted, or as the error no why not.
func (s *Subject) errors(limit float64) (accepted string, no, err error) {
	if s.Files != nil {
		accepted, no = inferencex.Gate(s.Files.Path, limit)
		return accepted, no, nil
	}
	if s.Results == nil {
		run, err := report.Of(s.Opened)
		if err != nil {
			return "", nil, err
		}
		if s.Results, err = run.Compute(); err != nil {
			return "", nil, err
		}
	}
	data, err := json.Marshal(aiperf.Blocks(s.Results.Headline))
	if err != nil {
		return "", nil, err
	}
	accepted, no = inferencex.GateAggregate(data, limit)
	return accepted, no, nil
}

// Rebuild makes the summary of the run again. It also returns what is not known of it.
func (s *Subject) Rebuild() (_ *measure.Summary, about []string, err error) {
	s.summary, about, err = s.Summarize()
	return s.summary, about, err
}

// Summary returns the summary of the run; nil of files of AIPerf.
func (s *Subject) Summary() (*measure.Summary, error) {
	if s.summary != nil || s.Files != nil {
		return s.summary, nil
	}
	summary, _, err := s.Rebuild()
	return summary, err
}

// figure returns a figure of the run.
func (s *Subject) figure(f slo.Figure) (measure.Number, error) {
	summary, err := s.Summary()
	switch {
	case err != nil:
		return measure.Missing, err
	case summary != nil:
		return summary.Figure(f), nil
	}
	run, err := s.Read()
	if err != nil {
		return measure.Missing, err
	}
	return run.Figures[f.String()].Value, nil
}

// Read returns the figures of the run with their intervals.
func (s *Subject) Read() (*compare.Run, error) {
	var err error
	if s.run == nil {
		s.run, err = compare.Read(compare.Source{Dir: s.Dir, Files: s.Opened, SLO: s.Levels})
	}
	return s.run, err
}

// Against compares the run with the base, which is the first of the comparison. It warns if they may not be compared.
func (s *Subject) Against(ctx context.Context) (*compare.Comparison, error) {
	if s.comparison != nil {
		return s.comparison, nil
	}
	c, err := compare.Make(ctx, []compare.Source{{Dir: s.Base, SLO: s.Levels, Partial: s.Partial}, {Dir: s.Dir, SLO: s.Levels, Files: s.Opened}}, compare.Options{})
	if err != nil {
		return nil, err
	}
	if !c.Comparable {
		s.Warn(fmt.Sprintf("--base %s and %s differ in what must be equal: %s", s.Base, s.Dir, c.MismatchNames()))
	}
	s.comparison, s.run = c, &c.Runs[1]
	return c, nil
}
