package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/agentx/agentx/internal/settings"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/report/gate"
)

// gateFlags are the gates of a report.
type gateFlags struct {
	texts []string
	base  string // directory of the run that relative gates compare with

	unseen float64 // largest share of requests that no figure is over

	list []reportGate
}

// reportGate is one gate: InferenceX's on the errors, or a bound on a figure.
type reportGate struct {
	errors bool // errors over completed requests are at most Limit
	gate.Gate
}

func (f *gateFlags) register(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.texts, "gate", nil, "status 3 unless it holds: 'ttft.p95<2s', 'goodput>3', 'error-rate<1%'; against --base 'ttft.p95<+5%'; error-rate=X, by the rule of InferenceX (repeatable; the shell wants quotes)")
	flags.Float64Var(&f.unseen, "gate-unseen", measure.MaxUnseen, "share of requests in no figure (cut off at the end, over the context; of a latency also those that failed) above which a --gate fails")
	flags.StringVar(&f.base, "base", "", "directory of the run that gates such as 'ttft.p95<+5%', and the differences of --format markdown, compare with")
}

// check reads the gates. It returns what is wrong with them; differences says that something else compares with the base.
func (f *gateFlags) check(differences bool) (errs []error) {
	for _, text := range f.texts {
		g, err := parseGate(text)
		if err == nil && g.Relative && f.base == "" {
			err = errors.New("compared with which run? Add --base DIR")
		}
		if err != nil {
			errs = append(errs, usageError{fmt.Errorf("%s: %w", settings.FlagText("gate", text), err)})
			continue
		}
		f.list = append(f.list, g)
	}
	if !(f.unseen >= 0 && f.unseen <= 1) {
		errs = append(errs, usageError{fmt.Errorf("--gate-unseen %v: want a share from 0 to 1", f.unseen)})
	}
	if f.base == "" {
		return errs
	}
	if !differences && !slices.ContainsFunc(f.list, func(g reportGate) bool { return g.Relative }) && len(errs) == 0 {
		errs = append(errs, usageError{fmt.Errorf("--base %s: nothing is compared with it: add --gate 'ttft.p95<+5%%' or --format markdown, or leave it out", f.base)})
	}
	if info, err := os.Stat(f.base); err != nil {
		errs = append(errs, usageError{fmt.Errorf("--base: %w: want the directory of a run", err)})
	} else if !info.IsDir() {
		errs = append(errs, usageError{fmt.Errorf("--base %s: no directory: want that of a run", f.base)})
	}
	return errs
}

// parseGate reads a value of --gate.
func parseGate(text string) (reportGate, error) {
	value, isErrors := strings.CutPrefix(text, gate.ErrorRate+"=")
	if !isErrors {
		g, err := gate.Parse(text)
		return reportGate{Gate: g}, err
	}
	limit, err := strconv.ParseFloat(value, 64)
	if err != nil || !(limit >= 0 && limit <= 1) {
		return reportGate{}, fmt.Errorf("want %s=X, X from 0 to 1", gate.ErrorRate)
	}
	return reportGate{errors: true, Gate: gate.Gate{Text: gate.ErrorRate, Limit: limit}}, nil
}

// judge returns what every gate says of a run.
func (f *gateFlags) judge(s *subject) (verdicts []gate.Verdict, err error) {
	for _, g := range f.list {
		v := gate.Verdict{Gate: g.Text, Limit: g.Limit, Passed: true}
		switch {
		case g.errors:
			accepted, no, err := s.errorGate(g.Limit)
			if err != nil {
				return nil, err
			}
			v.Reason = accepted
			if no != nil {
				v.Passed, v.Reason = false, no.Error()
			}
		case g.Relative:
			c, err := s.against(f.base)
			if err != nil {
				return nil, err
			}
			v = g.JudgeAgainst(c)
		default:
			value, err := s.figure(g.Figure)
			if err != nil {
				return nil, err
			}
			v = g.Judge(value)
		}
		if err := f.look(s, g.Relative, &v); err != nil {
			return nil, err
		}
		verdicts = append(verdicts, v)
	}
	return verdicts, nil
}

// look adds to a verdict which requests its figures are not over: those of the run, and of the base that a relative gate compares with.
func (f *gateFlags) look(s *subject, relative bool, v *gate.Verdict) error {
	summary, err := s.summarize()
	if err != nil {
		return err
	}
	if relative {
		v.Look(f.base, s.comparison.Summary(0), f.unseen)
	}
	v.Look("", summary, f.unseen)
	return nil
}

// writePassed writes a line for each gate that holds. Those that do not are errors.
func writePassed(w io.Writer, verdicts []gate.Verdict) {
	for _, v := range verdicts {
		if v.Passed {
			fmt.Fprintf(w, "gate        %s passed: %s\n", &v, v.Reason)
		}
	}
}

// gateErrors returns the verdicts that are no, as errors.
func gateErrors(dir string, verdicts []gate.Verdict) (errs []error) {
	for _, v := range verdicts {
		if v.Passed {
			continue
		}
		errs = append(errs, verdictError{fmt.Errorf("%s: --gate %s: %s", dir, &v, v.Reason)})
	}
	return errs
}
