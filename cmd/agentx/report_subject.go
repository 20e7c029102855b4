package main

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/merge"
	"github.com/agentx/agentx/replay/slo"
	"github.com/agentx/agentx/report"
	"github.com/agentx/agentx/report/aiperf"
	"github.com/agentx/agentx/report/compare"
	"github.com/agentx/agentx/report/inferencex"
)

// subject is a run that is judged and described. What is needed of it is computed once.
type subject struct {
	cmd    *cobra.Command
	dir    string
	levels []slo.Condition // in the place of those of the run; nil: those of the run

	partial bool

	files      *aiperf.Directory // nil: the directory has records of our own
	opened     *merge.Run        // nil: it has none
	results    *report.Results
	summary    *measure.Summary
	run        *compare.Run
	comparison *compare.Comparison
}

func (s *subject) ctx() context.Context { return s.cmd.Context() }

// errorGate judges the errors of the headline by the rule of InferenceX: the reason for which it accepts them, or refuses.
func (s *subject) errorGate(limit float64) (accepted string, no, err error) {
	if s.files != nil {
		accepted, no = inferencex.Gate(s.files.Path, limit)
		return accepted, no, nil
	}
	if s.results == nil {
		run, err := report.Of(s.opened)
		if err != nil {
			return "", nil, err
		}
		if s.results, err = run.Compute(); err != nil {
			return "", nil, err
		}
	}
	data, err := json.Marshal(aiperf.Blocks(s.results.Headline))
	if err != nil {
		return "", nil, err
	}
	accepted, no = inferencex.GateAggregate(data, limit)
	return accepted, no, nil
}

// summarize returns the summary of the run; nil of files of AIPerf.
func (s *subject) summarize() (*measure.Summary, error) {
	var err error
	if s.summary == nil && s.files == nil {
		s.summary, _, err = replay.Summarize(s.opened, s.levels)
	}
	return s.summary, err
}

// figure returns a figure of the run.
func (s *subject) figure(f slo.Figure) (measure.Number, error) {
	summary, err := s.summarize()
	switch {
	case err != nil:
		return measure.Missing, err
	case summary != nil:
		return summary.Figure(f), nil
	}
	run, err := s.read()
	if err != nil {
		return measure.Missing, err
	}
	return run.Figures[f.String()].Value, nil
}

// read returns the figures of the run with their intervals.
func (s *subject) read() (*compare.Run, error) {
	var err error
	if s.run == nil {
		s.run, err = compare.Read(compare.Source{Dir: s.dir, Files: s.opened, SLO: s.levels})
	}
	return s.run, err
}

// against compares the run with another one, which is the first of the comparison. It warns if they may not be compared.
func (s *subject) against(base string) (*compare.Comparison, error) {
	if s.comparison != nil {
		return s.comparison, nil
	}
	sources := []compare.Source{{Dir: base, SLO: s.levels}, {Dir: s.dir, SLO: s.levels}}
	if err := openSources(sources[:1], s.partial); err != nil {
		return nil, err
	}
	sources[1].Files = s.opened
	c, err := compare.Make(s.ctx(), sources, compare.Options{})
	if err != nil {
		return nil, err
	}
	if !c.Comparable {
		warn(s.cmd, []string{fmt.Sprintf("--base %s and %s differ in what must be equal: %s", base, s.dir, c.MismatchNames())})
	}
	s.comparison, s.run = c, &c.Runs[1]
	return c, nil
}
