package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/capacity"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
)

// mostErrors is the share of failed requests from which on a probe does not meet its conditions, whatever the others show.
const mostErrors = 0.01

// capacitySearch plays the probes of a search, and judges them.
type capacitySearch struct {
	*autoRange
	drain time.Duration

	probes []capacity.Probe
	failed bool         // a probe has no results: there is no other
	lost   atomic.Int64 // nanoseconds of the probe that is played at which a condition could no longer be met; 0: it has not come to that
}

// runSearch plays a search: its probes, the page over them, and the answer in one line.
func runSearch(cmd *cobra.Command, o replay.Options, f *autoFlags, export *exportFlags, asJSON bool) error {
	s := &capacitySearch{autoRange: f.auto, drain: f.drain}
	l := replay.List{
		Concurrencies: []int{s.From},
		Next:          func([]measure.ListedRun) int { return s.next(cmd.Context()) },
		Begin:         func(o *replay.Options, _ measure.ListedRun) { s.begin(o) },
		End: func(r measure.ListedRun, summary *measure.Summary, err error) int {
			return s.end(cmd, r, summary, err)
		},
		Index: func(list *measure.List) { list.Capacity = s.Answer(s.probes) },
	}
	list, err := playList(cmd, o, l, export)
	if list != nil {
		err = errors.Join(err, s.print(cmd, list, o, asJSON))
	}
	return s.judge(cmd.Context(), list, err)
}

// next returns the lanes of the next probe; 0 ends the search. Before every probe but the first it waits.
func (s *capacitySearch) next(ctx context.Context) int {
	n := s.Next(s.probes)
	if s.failed || n == 0 || len(s.probes) == 0 || s.drain == 0 {
		if s.failed {
			return 0
		}
		return n
	}
	wait := time.NewTimer(s.drain)
	defer wait.Stop()
	select {
	case <-wait.C:
		return n
	case <-ctx.Done():
		return 0
	}
}

// begin makes a probe end when a condition can no longer be met.
func (s *capacitySearch) begin(o *replay.Options) {
	s.lost.Store(0)
	before, levels, rules := o.Watch, o.SLO, measure.RulesOf(o.Switches)
	bounds := capacity.Bounds{Duration: o.Duration, Requests: o.Requests}
	o.Watch = func(ctx context.Context, w replay.Watched) (u *measure.Until) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			ticker := time.NewTicker(time.Second)
			defer ticker.Stop()
			s.watch(ctx, w, outlooksOf(levels, rules, bounds), ticker.C)
		}()
		if before != nil {
			u = before(ctx, w)
		}
		<-done
		return u
	}
}

// watch follows a probe until it is over, and ends it when one of the conditions is lost.
func (s *capacitySearch) watch(ctx context.Context, w replay.Watched, outlooks []*outlook, tick <-chan time.Time) {
	begun := time.Now()
	for r, err := range measure.Follow(ctx, w.Dir, tick) {
		if err != nil || len(outlooks) == 0 {
			return // the run says what is wrong with its files
		}
		for _, o := range outlooks {
			if r != nil {
				o.add(r)
			} else if at := time.Since(begun); ctx.Err() == nil && o.Lost(at) {
				s.lost.Store(int64(at))
				w.End()
				return
			}
		}
	}
}

// outlook is that of one condition.
type outlook struct {
	capacity.Outlook
	of    *measure.Metric
	rules measure.Rules
}

// outlooksOf returns those of the conditions that bound a statistic of all requests from above. The others wait for the end.
func outlooksOf(levels []slo.Condition, rules measure.Rules, bounds capacity.Bounds) (list []*outlook) {
	for _, c := range levels {
		m := measure.MetricNamed(c.Metric)
		if c.OfEach || m.Of == nil || !c.Sign.Upper() {
			continue
		}
		target := capacity.Target{Quantile: capacity.Mean, Holds: c.Holds}
		if q, ok := slo.Quantile(c.Statistic); ok {
			target.Quantile = q
		}
		list = append(list, &outlook{capacity.Outlook{Target: target, Bounds: bounds}, m, rules})
	}
	return list
}

// add tells the outlook of a record.
func (o *outlook) add(r *measure.Record) {
	if r.Phase == measure.WarmupPhase || r.Bucket != measure.Profiling {
		return
	}
	value, known := 0.0, false
	if r.Error == nil {
		value, known = o.of.Of(&r.Numbers, o.rules)
	}
	o.Add(time.Duration(int64(r.End)), value, known)
}

// end judges a probe, says what it has shown, and returns its exit status as a run of a list.
func (s *capacitySearch) end(cmd *cobra.Command, r measure.ListedRun, summary *measure.Summary, err error) int {
	if summary == nil || summary.Requests == 0 || cmd.Context().Err() != nil {
		s.failed = true
		return r.Exit
	}
	p := probeOf(r, summary, err)
	if at := s.lost.Load(); at > 0 && p.Verdict == capacity.Missed {
		p.EndedEarly, p.Length = true, time.Duration(at).Seconds()
	}
	s.probes = append(s.probes, p)
	if quiet, _ := cmd.Flags().GetBool("quiet"); !quiet {
		printError(cmd.ErrOrStderr(), "agentx: "+p.String())
	}
	return r.Exit
}

// probeOf judges a run. Err is what judge says of it.
func probeOf(r measure.ListedRun, s *measure.Summary, err error) capacity.Probe {
	p := capacity.Probe{Lanes: r.Concurrency, Dir: r.Dir, Verdict: capacity.Met, Conditions: []capacity.Reading{}, Reasons: []string{}, Length: float64(s.PhaseDuration)}
	for _, l := range s.Goodput.Conditions {
		if l.Met == nil {
			continue
		}
		reading := capacity.Reading{Name: l.Name(), Limit: l.Unit.Format(l.Limit), Text: "not known", Met: *l.Met}
		if v := float64(l.Value); !l.Value.IsMissing() {
			reading.Value, reading.Text = &v, l.Unit.Format(v)
		}
		if !reading.Met {
			p.Verdict = capacity.Missed
		}
		p.Conditions = append(p.Conditions, reading)
	}
	if s.ErrorRate > mostErrors {
		p.Verdict = capacity.Missed
		p.Reasons = append(p.Reasons, fmt.Sprintf("errors %.3g %% (%g %%)", 100*float64(s.ErrorRate), 100*mostErrors))
	}
	if err != nil && len(p.Reasons) == 0 {
		p.Verdict = capacity.Missed
		p.Reasons = append(p.Reasons, strings.TrimPrefix(err.Error(), "replay: "))
	}
	if s.Client.Bound {
		p.Verdict, p.Reasons = capacity.ClientBound, s.Client.BoundBy
	}
	return p
}

// print makes the page over the probes, and prints their table and the answer.
func (s *capacitySearch) print(cmd *cobra.Command, list *measure.List, o replay.Options, asJSON bool) error {
	list.Capacity = s.Answer(s.probes)
	lead, notes := []string{list.Capacity.String()}, map[string]string{}
	if !o.CacheReset.Enabled && len(s.probes) > 1 {
		lead = append(lead, warmCache)
	}
	for k := range s.probes {
		notes[s.probes[k].Dir] = s.probes[k].String()
	}
	if err := errors.Join(printList(cmd, list, asJSON), pageOfList(cmd, list, asJSON, notes, lead...)); err != nil || asJSON {
		return err
	}
	slices.Reverse(lead) // the answer comes last
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "\n%s\n", strings.Join(lead, "\n"))
	return err
}

// warmCache says what the probes of a search share.
const warmCache = "Later probes found a warm KV cache: --reset-cache empties it before each"

// judge returns the error of a search that came to its end: nil where it has found a capacity.
func (s *capacitySearch) judge(ctx context.Context, list *measure.List, err error) error {
	switch {
	case err != nil:
		return hintReplay(err)
	case ctx.Err() != nil:
		return ctx.Err()
	case s.failed:
		return errors.New("replay: --concurrency auto: a probe has no results, so there is no answer")
	}
	switch list.Capacity.Outcome {
	case capacity.None:
		return verdictError{errors.New("replay: --concurrency auto: the fewest lanes miss a service level")}
	case capacity.Unknown:
		return verdictError{errors.New("replay: --concurrency auto: client-bound: this machine could not drive the servers, so their capacity is not known")}
	}
	return nil
}
