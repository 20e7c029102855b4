// Package until ends a run when its metrics are known well enough: when the interval of each is narrow at several looks in a row. It
// reads the records as the run writes them (doc/spec/report.md 5.4).
package until

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agentx/agentx/cmd/internal/report/interval"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
)

// Watcher follows the records of a run.
type Watcher struct {
	Dir     string // of the results
	Targets []Target
	Tick    <-chan time.Time // starts each look

	End  func()     // ends the run; called once at most
	Tell func(Look) // gets every look; nil: the watcher tells none
}

// Look is the result of one look at the intervals.
type Look struct {
	Number int // from 1
	InARow int // consecutive looks, this one included, at which all intervals were narrow enough
	Trees  int
	Found  []measure.UntilTarget // in the order of the targets
}

// Watch looks at the intervals until ctx ends, and ends the run when they are narrow enough. It returns the targets over all records of the
// headline, also beside an error about records that cannot be read.
func (w *Watcher) Watch(ctx context.Context) (*measure.Until, error) {
	s, err := w.samples()
	if err != nil {
		return w.found(s, interval.Seed{}, err), err
	}
	var rule rule
	looks, reached := 0, false
	for r, err := range measure.Follow(ctx, w.Dir, w.Tick) {
		switch {
		case err != nil:
			return w.found(s, interval.Seed{}, err), err
		case r != nil:
			s.Add(r)
		case !reached && ctx.Err() == nil && treesOf(s) >= interval.MinTrees:
			looks++
			if reached = w.look(&rule, s, looks); reached {
				w.End()
			}
		}
	}
	seed, err := interval.SeedOf(filepath.Join(w.Dir, measure.RecordsFile))
	until := w.found(s, seed, err)
	until.Reached, until.Looks = reached, looks
	return until, err
}

// samples returns empty samples with the rules of the run.
func (w *Watcher) samples() (*interval.Run, error) {
	info, err := measure.ReadInfo(w.Dir)
	if err != nil {
		return interval.NewRun(info, measure.Rules{}), err
	}
	rules, err := measure.RulesOfRun(info.Run)
	return interval.NewRun(info, rules), err
}

// look looks at the intervals, and reports whether the run may end.
func (w *Watcher) look(rule *rule, s *interval.Run, number int) bool {
	var seed interval.Seed // each look draws anew
	binary.LittleEndian.PutUint64(seed[:], uint64(number))
	found, narrow := find(s, w.Targets, seed), true
	for k := range found {
		narrow = narrow && found[k].Within()
	}
	may := rule.Look(narrow)
	if w.Tell != nil {
		w.Tell(Look{number, rule.narrow, treesOf(s), found})
	}
	return may
}

// found returns the targets with their intervals, or without if there is a problem.
func (w *Watcher) found(s *interval.Run, seed interval.Seed, problem error) *measure.Until {
	until := &measure.Until{Trees: treesOf(s), Targets: find(s, w.Targets, seed)}
	for k := range until.Targets {
		if t := &until.Targets[k]; problem != nil {
			t.Low, t.High, t.Margin, t.Why = measure.Missing, measure.Missing, measure.Missing, problem.Error()
		}
	}
	return until
}

// String says in a line what the look has found, such as
//
//	ttft.p95 1.84 s ± 4.10 % (5 %), 43 trees; narrow enough at 1 of 3 looks
func (l Look) String() string {
	var parts []string
	for k := range l.Found {
		t := &l.Found[k]
		parts = append(parts, fmt.Sprintf("%s (%s)", t, t.Wanted()))
	}
	text := fmt.Sprintf("%s, %d trees", strings.Join(parts, ", "), l.Trees)
	if l.InARow > 0 {
		text += fmt.Sprintf("; narrow enough at %d of %d looks", l.InARow, inARow)
	}
	return text
}

const (
	// Every is how often the intervals are looked at.
	Every = 30 * time.Second

	// inARow is at how many looks, one after another, all intervals must be narrow enough. One look stops too early by luck: an
	// interval is narrowest when the sample happens to have few large values.
	inARow = 3
)

// rule decides when a run may end. It counts the consecutive looks at which all intervals were narrow enough.
type rule struct{ narrow int }

// Look counts a look, and reports whether the run may end.
func (r *rule) Look(narrow bool) bool {
	r.narrow++
	if !narrow {
		r.narrow = 0
	}
	return r.narrow >= inARow
}

// treesOf returns how many trees have a request of the headline: each has a lateness.
func treesOf(s *interval.Run) int { return s.Sample("lateness").TreeCount() }

// find computes the values of the targets and their intervals.
func find(s *interval.Run, targets []Target, seed interval.Seed) []measure.UntilTarget {
	list := make([]measure.UntilTarget, len(targets))
	for k, t := range targets {
		found := measure.UntilTarget{
			Metric: t.String(), Unit: string(t.Unit), Share: measure.Number(t.Share),
			Value: measure.Missing, Low: measure.Missing, High: measure.Missing, Margin: measure.Missing,
		}
		sample := s.Sample(t.Name)
		stat := measure.NewStat(slices.DeleteFunc(slices.Clone(sample.Values), math.IsNaN))
		found.Value = stat.Figure(t.Statistic)
		between, err := interval.Of(sample, []interval.Statistic{interval.Named(t.Statistic)}, seed)
		switch {
		case err != nil:
			found.Why = err.Error()
		case !between[0].Known() || math.IsNaN(float64(found.Value)):
			found.Why = "its interval is not known"
		default:
			found.SetInterval(float64(found.Value), between[0].Low, between[0].High)
		}
		list[k] = found
	}
	return list
}

// Target is a figure that a run measures until its interval is narrow enough.
type Target struct {
	slo.Figure
	Share float64 // of the figure, within which its interval must lie; above 0, at most 1
}

// errShare is the error of a share that cannot be read.
var errShare = errors.New("want a share above 0, at most 1, such as 5% or 0.05")

// Parse reads a target such as ttft.p95=5%.
func Parse(text string) (Target, error) {
	name, share, ok := strings.Cut(text, "=")
	if !ok {
		return Target{}, errors.New("want METRIC=SHARE, such as ttft.p95=5%")
	}
	f, err := measure.ParseFigure(strings.TrimSpace(name))
	switch {
	case err != nil:
		return Target{}, err
	case !f.OfEach:
		return Target{}, fmt.Errorf("%s is a figure of the whole run, so trees give no interval for it: want a metric of each request, such as ttft.p95", f)
	case f.Statistic == "max":
		return Target{}, fmt.Errorf("%s: a largest value has no interval: want mean or a percentile", f)
	}
	number, percent := strings.CutSuffix(strings.TrimSpace(share), "%")
	v, err := strconv.ParseFloat(number, 64)
	if percent {
		v /= 100
	}
	if err != nil || math.IsNaN(v) || v <= 0 || v > 1 {
		return Target{}, fmt.Errorf("%.40q: %w", share, errShare)
	}
	return Target{f, v}, nil
}
