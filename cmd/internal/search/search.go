// Package search plays the search for the most lanes with which a server keeps its service levels, as a list of runs. A run is a probe, which ends
// early if a level can no longer be kept. Package capacity chooses the next probe.
package search

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/capacity"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
)

// mostErrors is the share of failed requests above which a probe misses its conditions, whatever its figures are.
const mostErrors = 0.01

// Search plays the probes of a search, and judges them.
type Search struct {
	capacity.Search
	Drain  time.Duration        // pause before every probe but the first
	Tell   func(capacity.Probe) // is called with every probe that has ended
	Failed bool                 // a probe has no results, which ends the search

	probes []capacity.Probe
	lost   atomic.Int64 // nanoseconds into the current probe at which a condition could no longer be met; 0: all can still be met
}

// List returns the probes as a list of runs. The index of the list gets the answer of the search.
func (s *Search) List(ctx context.Context) replay.List {
	return replay.List{
		Concurrencies: []int{s.From},
		Next:          func([]measure.ListedRun) int { return s.next(ctx) },
		Begin:         func(o *replay.Options, _ measure.ListedRun) { s.begin(o) },
		End: func(r measure.ListedRun, summary *measure.Summary, err error) int {
			s.end(ctx, r, summary, err)
			return r.Exit
		},
		Index: func(list *measure.List) { list.Capacity = s.Answer(s.probes) },
	}
}

// next returns the lanes of the next probe; 0 ends the search. Before every probe but the first it waits.
func (s *Search) next(ctx context.Context) int {
	n := s.Next(s.probes)
	switch {
	case s.Failed:
		return 0
	case n == 0 || len(s.probes) == 0 || s.Drain == 0:
		return n
	}
	wait := time.NewTimer(s.Drain)
	defer wait.Stop()
	select {
	case <-wait.C:
		return n
	case <-ctx.Done():
		return 0
	}
}

// begin sets Options.Watch so that a probe ends when a condition can no longer be met.
func (s *Search) begin(o *replay.Options) {
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

// watch follows the records of a probe, and ends the probe when one of the conditions can no longer be met.
func (s *Search) watch(ctx context.Context, w replay.Watched, outlooks []*outlook, tick <-chan time.Time) {
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

// outlook tells whether a probe can still meet one condition.
type outlook struct {
	capacity.Outlook
	of    *measure.Metric
	rules measure.Rules
}

// outlooksOf returns outlooks of the conditions that bound a statistic of requests from above. Other conditions are judged at the end.
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

// add adds a record to the outlook.
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

// end judges a probe that has ended, and tells its result.
func (s *Search) end(ctx context.Context, r measure.ListedRun, summary *measure.Summary, err error) {
	if summary == nil || summary.Requests == 0 || ctx.Err() != nil {
		s.Failed = true
		return
	}
	p := probeOf(r, summary, err)
	if at := s.lost.Load(); at > 0 && p.Verdict == capacity.Missed {
		p.EndedEarly, p.Length = true, time.Duration(at).Seconds()
	}
	s.probes = append(s.probes, p)
	s.Tell(p)
}

// probeOf returns the result of a run as a probe. err is the error that the run ended with.
func probeOf(r measure.ListedRun, s *measure.Summary, err error) capacity.Probe {
	p := capacity.Probe{Lanes: r.Concurrency, Dir: r.Dir, Verdict: capacity.Met, Conditions: []capacity.Reading{}, Reasons: []string{}, Length: float64(s.PhaseDuration)}
	for _, l := range s.Goodput.Conditions {
		if l.Met == nil {
			continue
		}
		reading := capacity.Reading{Name: l.Name(), Limit: l.Unit.Format(l.Limit), Text: "not known", Met: *l.Met}
		if v := float64(l.Value); !l.Value.IsMissing() {
			reading.Value, reading.Text = &v, l.Unit.Format(v)
			if s.Few(l.Figure()) {
				reading.Text += " of " + measure.Plural(measure.MetricNamed(l.Metric).Stat(&s.Metrics).N, "request", "requests")
			}
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
