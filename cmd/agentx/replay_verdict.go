package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/wire"
)

// judge returns what a run and its error mean for the command.
func judge(cmd *cobra.Command, s *measure.Summary, err error) error {
	allowed, _ := cmd.Flags().GetBool(allowFailures)
	switch {
	case err != nil:
		return hintReplay(err)
	case cmd.Context().Err() != nil:
		return cancelledRun{cmd.Context().Err(), s.Completed > 0}
	}
	return judgeRun(s, allowed)
}

// allowFailures is the flag with which a run that broke is done.
const allowFailures = "allow-failures"

// brokenRun says how a run broke.
type brokenRun struct {
	how     []string
	verdict error // what else is to be said of it; nil: nothing
}

func (b brokenRun) Error() string {
	text := "replay: the run broke: " + strings.Join(b.how, "; ")
	if b.verdict != nil {
		text += "; " + b.verdict.Error()
	}
	return text + " (--" + allowFailures + " makes that no failure)"
}

// cancelledRun says that a run was interrupted, and that its results are written.
type cancelledRun struct {
	error
	measured bool // a request of the measured phase completed
}

func (c cancelledRun) Unwrap() error { return c.error }

// invalidRun says that a run is not valid, and why.
type invalidRun struct {
	scenario string // "": none
	reasons  []string
}

func (i invalidRun) Error() string {
	if i.scenario == "" {
		return "replay: not valid: " + strings.Join(i.reasons, ", ")
	}
	return fmt.Sprintf("replay: not valid under the scenario %s: %s", i.scenario, strings.Join(i.reasons, ", "))
}

// judgeRun returns the error of a run that came to its end: nil, a failure, or a verdict.
func judgeRun(s *measure.Summary, allowed bool) error {
	err := verdictOf(s)
	if how := s.RemarksOf(measure.Broken); len(how) > 0 && !allowed && s.Completed > 0 {
		return failedError{brokenRun{how, err}}
	}
	return err
}

// verdictOf judges a run, whether it broke or not.
func verdictOf(s *measure.Summary) error {
	if n := s.Deadlocked(); n > 0 {
		return verdictError{fmt.Errorf("replay: %d trees could not be played to their end", n)}
	}
	if s.Completed == 0 {
		return fmt.Errorf("replay: none of %d requests completed%s", s.Requests, mostFrequentError(s))
	}
	if s.Valid != nil && !*s.Valid {
		return advise(s, verdictError{invalidRun{scenarioName(s.Run.Scenario), s.Reasons}})
	}
	return nil
}

func scenarioName(s *measure.Scenario) string {
	if s == nil {
		return ""
	}
	return s.Name
}

// advise adds what to try to the verdict of a run.
func advise(s *measure.Summary, verdict error) error {
	if advice := s.Advice(); advice != "" {
		return hintError{verdict, advice}
	}
	return verdict
}

// mostFrequentError returns the most frequent message of the failed requests, as ": CATEGORY: MESSAGE", or "".
func mostFrequentError(s *measure.Summary) string {
	best, of := measure.ErrorSample{}, wire.Category("")
	for _, category := range slices.Sorted(maps.Keys(s.ErrorSamples)) {
		for _, m := range s.ErrorSamples[category] {
			if m.N > best.N {
				best, of = m, category
			}
		}
	}
	if best.N == 0 {
		return ""
	}
	return fmt.Sprintf(": %s: %s", of, best.Message)
}
