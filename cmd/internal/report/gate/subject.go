package gate

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/agentx/agentx/cmd/internal/aiperf"
	"github.com/agentx/agentx/cmd/internal/aiperf/inferencex"
	"github.com/agentx/agentx/cmd/internal/report/compare"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/merge"
	"github.com/agentx/agentx/replay/slo"
	"github.com/agentx/agentx/report"
)

// Subject is a run that is judged and described. What is needed of it is computed once.
type Subject struct {
	Dir     string
	Levels  []slo.Condition   // they override the run's own service levels; nil: those of the run
	Base    string            // directory of the run that it is compared with; "": none
	Partial bool              // the parts of Base that are there are enough
	Warn    func(text string) // tells what a comparison is to be read with

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

// errors judges the errors of the headline by the rule of InferenceX: the reason for which it accepts them, or refuses.
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
