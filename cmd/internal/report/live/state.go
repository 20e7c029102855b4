// Package live shows a run while it is played: as a block on a terminal, as lines of a log, and by a server with the page, metrics for Prometheus
// and a status (doc/spec/report.md 7).
//
// A State gathers it from the records, which it gets from measure.Follow, and from the progress that the run reports. A run never waits
// for a State, nor for who reads it.
package live

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/agentx/agentx/cmd/internal/report/page"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
	"github.com/agentx/agentx/replay/wire"
)

// State is the state of a run now. Many goroutines may call its methods at once.
type State struct {
	rules  measure.Rules
	levels []slo.Condition
	judge  *measure.Judge
	lanes  int

	mu       sync.Mutex
	progress measure.Progress
	totals   map[string]*totals // by phase
	load     load
	recent   *recent // of the phase of the record added last
	phase    string

	gain   *Gain                    // since the last TakeGain; nil: none is kept
	others map[int]measure.Progress // of a load, by part; nil: there are none
	parts  int                      // of the load
	left   int                      // parts that are over or lost

	ended bool
	err   error // why records are not followed any more
}

// NewState returns the state of a run with some number of lanes and its service levels before its first request; 0 lanes: trees arrive, without a cap.
func NewState(rules measure.Rules, lanes int, levels ...slo.Condition) *State {
	return &State{
		rules: rules, lanes: lanes, levels: levels, judge: measure.NewJudge(rules, levels), recent: newRecent(), progress: measure.Progress{Remaining: -1},
		totals: map[string]*totals{measure.WarmupPhase: newTotals(), measure.ProfilingPhase: newTotals()},
	}
}

// Add adds a request that is over. It does not keep the record.
func (s *State) Add(r *measure.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	good := s.judge.Good(r)
	s.totals[r.Phase].add(r, s.rules, good)
	s.gain.add(r, s.rules, good)
	if s.enter(r.Phase) && r.Error == nil {
		s.recent.sections[s.recent.last].add(r, s.rules)
	}
}

// Look ends a section of the recent rates and latencies. It is called with the instant of a look at the file, after the records of that look.
func (s *State) Look(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recent.look(now)
}

// Report replaces the progress.
func (s *State) Report(p measure.Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.progress = p
	s.load.add(s.whole())
}

// progressTable returns the progress of the measured phase as a table of the page.
func (s *State) progressTable() page.Table {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.load.table()
}

// end marks the run as over. A non-nil error says why its records could not be followed to the end.
func (s *State) end(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended, s.err = true, err
}

// Status returns the status of the run now.
func (s *State) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	progress := s.whole()
	phase := progress.Phase
	t := s.totals[phase]
	if t == nil { // nothing has been reported yet
		phase, t = s.phase, newTotals()
	}
	st := Status{
		State: phase, Elapsed: progress.Elapsed.Seconds(), Remaining: measure.Missing, Lanes: s.lanes,
		OpenTrees: progress.TreesOpen, InFlight: progress.InFlight, Silent: progress.Silent.Seconds(), Sent: max(progress.Requests, t.Requests),
		Completed: t.Completed, Errors: maps.Clone(t.Errors), Overflows: t.Buckets[measure.ContextOverflow], Cancelled: t.Buckets[measure.CancelledAtEnd],
		Recent: s.recent.now, Standstills: progress.Standstills,
	}
	switch {
	case s.ended:
		st.State, st.InFlight, st.Silent = ended, 0, 0
	case phase == "":
		st.State = preparing
	}
	if progress.Remaining >= 0 && !s.ended {
		st.Remaining = measure.Number(progress.Remaining.Seconds())
	}
	if progress.Arrivals {
		waiting := progress.TreesWaiting
		st.WaitingTrees = &waiting
	}
	if s.parts > 0 {
		st.Parts = &Parts{Of: s.parts, Playing: s.parts - s.left}
	}
	if s.err != nil {
		st.Error = s.err.Error()
	}
	st.judge()
	return st
}

// totals count the requests of a phase that are over, as its summary does.
type totals struct {
	Requests      int                    `json:"requests"`
	Completed     int                    `json:"completed"`
	Measured      int                    `json:"measured"` // that ended well, and are no cooldown
	Good          int                    `json:"good"`     // of the measured ones
	Errors        map[wire.Category]int  `json:"errors,omitempty"`
	Buckets       map[measure.Bucket]int `json:"buckets"`
	Tokens        tokens                 `json:"tokens"`        // of the measured requests
	Blocks        int64                  `json:"blocks"`        // of their recording
	Hits          int64                  `json:"hits"`          // of these
	First         float64                `json:"first"`         // when the first was sent, if there is a measured one
	Last          float64                `json:"last"`          // when the last token came
	Distributions []distribution         `json:"distributions"` // of the measured requests, by the place of the metric in eachRequest
}

// tokens are counts of the server, 0 where there is none.
type tokens struct{ Prompt, Cached, Output int64 }

// tokensOf returns the token counts of a record.
func tokensOf(r *measure.Record) tokens {
	return tokens{max(0, r.PromptTokens.N()), max(0, r.CachedTokens.N()), max(0, r.OSL())}
}

// add adds other counts, multiplied by a factor.
func (t *tokens) add(o tokens, by int64) {
	t.Prompt, t.Cached, t.Output = t.Prompt+by*o.Prompt, t.Cached+by*o.Cached, t.Output+by*o.Output
}

// eachRequest are the metrics of a request.
var eachRequest = slices.DeleteFunc(slices.Clone(measure.MetricList), func(m measure.Metric) bool { return !m.OfEach })

// newTotals returns totals without requests.
func newTotals() *totals {
	t := &totals{Errors: map[wire.Category]int{}, Buckets: map[measure.Bucket]int{}}
	for _, m := range eachRequest {
		t.Distributions = append(t.Distributions, distribution{unit: stepOf(&m)})
	}
	return t
}

// named returns the distribution of a metric.
func (t *totals) named(metric string) *distribution {
	return &t.Distributions[slices.IndexFunc(eachRequest, func(m measure.Metric) bool { return m.Name == metric })]
}

// add adds a request that is over; a good one meets the service levels.
func (t *totals) add(r *measure.Record, rules measure.Rules, good bool) {
	t.Requests++
	t.Buckets[r.Bucket]++
	if r.Bucket == measure.CancelledAtEnd || r.Bucket == measure.ContextOverflow || r.Error != nil && overflowed(r.Error) {
		return
	}
	if r.Error != nil {
		t.Errors[r.Error.Category]++
		return
	}
	t.Completed++
	if r.Bucket == measure.Cooldown {
		return
	}
	t.span(r.Sent.Seconds(), max(r.Sent, r.LastToken).Seconds())
	t.Measured++
	if good {
		t.Good++
	}
	t.Blocks, t.Hits = t.Blocks+r.RecordedBlocks, t.Hits+r.HitBlocks()
	t.Tokens.add(tokensOf(r), 1)
	for k := range eachRequest {
		if v, ok := eachRequest[k].Of(&r.Numbers, rules); ok {
			t.Distributions[k].add(v)
		}
	}
}

// span extends the time of the measured requests to that from first to last.
func (t *totals) span(first, last float64) {
	if t.Measured == 0 {
		t.First, t.Last = first, last
	}
	t.First, t.Last = min(t.First, first), max(t.Last, last)
}

// join adds the totals of other requests.
func (t *totals) join(o *totals) {
	if o.Measured > 0 {
		t.span(o.First, o.Last)
	}
	t.Requests, t.Completed, t.Measured, t.Good = t.Requests+o.Requests, t.Completed+o.Completed, t.Measured+o.Measured, t.Good+o.Good
	for category, n := range o.Errors {
		t.Errors[category] += n
	}
	for bucket, n := range o.Buckets {
		t.Buckets[bucket] += n
	}
	t.Tokens.add(o.Tokens, 1)
	t.Blocks, t.Hits = t.Blocks+o.Blocks, t.Hits+o.Hits
	for k := range t.Distributions {
		t.Distributions[k].join(&o.Distributions[k])
	}
}

// overflowed reports whether a failure is an overflow or a cancellation, which the bucket of a warmup's record does not tell.
func overflowed(e *measure.Error) bool {
	return e.Category == wire.Cancelled || e.Category == wire.ContextOverflow
}

// Follow adds the records in the directory of a run while they are written, to pages too if they are not nil, and calls also, which may be nil,
// with each. At each tick it looks for new records and then calls looked. When ctx ends it adds what is written by then, marks the run as over,
// and returns.
func (s *State) Follow(ctx context.Context, dir string, pages *Pages, tick <-chan time.Time, now func() time.Time, looked func(), also func(*measure.Record)) {
	n := 0
	for r, err := range measure.Follow(ctx, dir, tick) {
		switch {
		case err != nil:
			s.end(err)
			return
		case r == nil:
			s.Look(now())
			if pages != nil {
				pages.look()
			}
			looked()
		default:
			s.Add(r)
			if pages != nil {
				pages.Add(r)
			}
			if also != nil {
				also(r)
			}
			if n++; n%turn == 0 {
				runtime.Gosched()
			}
		}
	}
	s.end(nil)
}

// turn is the number of records, a third of a millisecond of work, after which a follower lets other goroutines run.
const turn = 32

// load keeps the reports of the measured phase: requests in flight and open trees, which records tell only at their end.
type load struct {
	at, inFlight, openTrees []int64       // ns of the phase; numbers
	every                   time.Duration // least time between two reports that are kept
}

// maxLoad bounds the reports that are kept: at that number every second one is dropped, and every doubles.
const maxLoad = 2048

// add adds a report, unless the last one is younger than every.
func (l *load) add(p measure.Progress) {
	n := len(l.at)
	if p.Phase != measure.ProfilingPhase || n > 0 && p.Elapsed-time.Duration(l.at[n-1]) < l.every {
		return
	}
	l.at, l.inFlight, l.openTrees = append(l.at, int64(p.Elapsed)), append(l.inFlight, int64(p.InFlight)), append(l.openTrees, int64(p.TreesOpen))
	if len(l.at) < maxLoad {
		return
	}
	for k := range maxLoad / 2 {
		l.at[k], l.inFlight[k], l.openTrees[k] = l.at[2*k], l.inFlight[2*k], l.openTrees[2*k]
	}
	l.at, l.inFlight, l.openTrees = l.at[:maxLoad/2], l.inFlight[:maxLoad/2], l.openTrees[:maxLoad/2]
	l.every = time.Duration(l.at[maxLoad/2-1]-l.at[0]) / (maxLoad / 2)
}

// table returns the reports as a table of the page.
func (l *load) table() page.Table {
	return page.Table{Name: "progress", Columns: []page.Column{
		page.Ints("at", "ns", l.at), page.Ints("in_flight", "", l.inFlight), page.Ints("open_trees", "", l.openTrees),
	}}
}

// summary returns a summary of the run so far. Its counts are exact, its percentiles good to 1 %; figures that are known only at the end are
// missing.
func (s *State) summary(info *measure.RunInfo) *measure.Summary {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, missing := s.totals[measure.ProfilingPhase], measure.Missing
	m := &measure.Summary{
		Requests: t.Requests, Completed: t.Completed, Errors: maps.Clone(t.Errors),
		Buckets: measure.Buckets{
			Profiling: t.Buckets[measure.Profiling], Cooldown: t.Buckets[measure.Cooldown],
			CancelledAtEnd: t.Buckets[measure.CancelledAtEnd], ContextOverflow: t.Buckets[measure.ContextOverflow],
		},
		Metrics: t.metrics(), Concurrency: s.lanes, Run: info.Run, Out: info.Out, DeadlockedTrees: missing, PhaseDuration: missing,
		Client: measure.Client{CPU: missing, CPUShare: missing, Cores: missing, PeakRSS: missing},
	}
	seconds := 0.0
	if p := s.whole(); p.Phase == measure.ProfilingPhase {
		m.Client.Standstills = p.Standstills
		seconds = p.Elapsed.Seconds()
		m.RequestRate, m.PromptTokenRate, m.OutputTokenRate = ratio(float64(t.Measured), seconds), ratio(float64(t.Tokens.Prompt), seconds), ratio(float64(t.Tokens.Output), seconds)
	}
	m.AddRates()
	m.JudgeSoFar(s.levels, t.Good, seconds)
	if m.Client.Bound = measure.ClientBound(m.Lateness.N, [2]measure.Number{m.Lateness.P50, m.Lateness.P95}, [2]measure.Number{m.RequestLatency.P50, m.RequestLatency.P95}); m.Client.Bound {
		m.Client.BoundBy = []string{"lateness p95 " + measure.FormatSeconds(m.Lateness.P95)}
	}
	if failed := t.Errors[wire.Internal]; failed > 0 {
		m.Client.Bound, m.Client.BoundBy = true, append(m.Client.BoundBy, fmt.Sprintf("limits of this machine: %d requests", failed))
	}
	if info.Arrivals != nil {
		m.Arrivals = new(measure.Arrivals)
	}
	m.AddRemarks(new(measure.Ending), nil)
	return m
}

// metrics returns the metrics of the measured requests, without rates.
func (t *totals) metrics() measure.Metrics {
	missing := measure.Missing
	m := measure.Metrics{
		Measured: t.Measured, PromptTokens: measure.Number(t.Tokens.Prompt), CachedTokens: measure.Number(t.Tokens.Cached), OutputTokens: measure.Number(t.Tokens.Output),
		Duration: missing, RequestRate: missing, PromptTokenRate: missing, OutputTokenRate: missing, RequestedOutputTokens: missing, RecordedPromptTokens: missing,
		TokenHitRate: ratio(float64(t.Tokens.Cached), float64(t.Tokens.Prompt)), TheoreticalHitRate: ratio(float64(t.Hits), float64(t.Blocks)),
	}
	for k := range eachRequest {
		*eachRequest[k].Stat(&m) = t.Distributions[k].stat()
	}
	return m
}

// distribution has all values of a metric since the start of a phase.
type distribution struct {
	Cells  cells      `json:"cells"`  // of its steps
	Bounds [28]uint64 `json:"bounds"` // values by the first of Bounds that is not less; the last: more than all
	Sum    float64    `json:"sum"`
	unit   float64    // a step
}

// add adds a value, in the unit of its metric.
func (d *distribution) add(value float64) {
	d.Cells.add(cellOf(steps(value, d.unit)), 1)
	bound, _ := slices.BinarySearch(Bounds, value)
	d.Bounds[bound]++
	d.Sum += value
}

// join adds the values of another distribution.
func (d *distribution) join(o *distribution) {
	d.Cells.join(&o.Cells, 1)
	for k, n := range o.Bounds {
		d.Bounds[k] += n
	}
	d.Sum += o.Sum
}

// at returns a percentile, of 100; Missing without a value.
func (d *distribution) at(p float64) measure.Number { return d.Cells.percentiles(d.unit, p)[0] }

// stat returns the statistics of all values, good to 1 %.
func (d *distribution) stat() measure.Stat {
	v, n := d.Cells.percentiles(d.unit, 50, 75, 90, 95, 99, 100), d.Cells.n
	return measure.Stat{Mean: ratio(d.Sum, float64(n)), P50: v[0], P75: v[1], P90: v[2], P95: v[3], P99: v[4], Max: v[5], Std: measure.Missing, N: int(n)}
}

// States of a run that are not the name of a phase.
const (
	preparing = "preparing"
	ended     = "ended"
)

// Status is the status of a run: the object of /status. Counts are of the phase that is played. Keys of the summary of a run mean the same here.
type Status struct {
	State        string                `json:"state"`         // Preparing, a phase, or Ended
	Elapsed      float64               `json:"elapsed"`       // seconds since the start of the phase
	Remaining    measure.Number        `json:"remaining"`     // seconds until the nearest bound, at the pace so far
	Lanes        int                   `json:"lanes"`         // 0: trees arrive, without a cap
	OpenTrees    int                   `json:"open_trees"`    // that are played: one on each busy lane
	WaitingTrees *int                  `json:"waiting_trees"` // nil: trees do not arrive on their own
	InFlight     int                   `json:"in_flight"`
	Silent       float64               `json:"silent"`          // seconds for which nothing was received although requests are in flight; 0: none is
	Parts        *Parts                `json:"parts,omitempty"` // nil: the load has one part, or this is another than part 0
	Sent         int                   `json:"sent"`
	Completed    int                   `json:"completed"`
	Errors       map[wire.Category]int `json:"errors"` // without overflows and cancellations
	ErrorRate    measure.Number        `json:"error_rate"`
	Overflows    int                   `json:"overflows"`
	Cancelled    int                   `json:"cancelled"`
	Recent       Recent                `json:"recent"`
	ClientBound  bool                  `json:"client_bound"`    // the lateness of Recent says that the client, or a limit set on it, holds up requests
	Standstills  *measure.Standstills  `json:"standstills"`     // of the client in the measured phase; nil: none
	Error        string                `json:"error,omitempty"` // why the records were not followed to the end
}

// Parts says how many parts a load has, and how many of them play.
type Parts struct {
	Of      int `json:"of"`
	Playing int `json:"playing"` // not over, and not lost
}

// Recent are the requests of the last 30 seconds that ended well. Latencies are good to 1 %.
type Recent struct {
	Seconds         float64        `json:"seconds"`
	RequestRate     measure.Number `json:"request_rate"` // 1/s
	PromptTokenRate measure.Number `json:"prompt_token_rate"`
	OutputTokenRate measure.Number `json:"output_token_rate"`
	TokenHitRate    measure.Number `json:"token_hit_rate"`
	TTFT            Stat           `json:"ttft"`
	ITL             Stat           `json:"itl"`
	RequestLatency  Stat           `json:"request_latency"`
	Lateness        Stat           `json:"lateness"`

	Others map[string]Stat `json:"other_metrics,omitempty"` // those of measure.MetricList that have no key of their own, by name
}

// Stat are percentiles, in the unit of their metric. Without samples they are Missing.
type Stat struct {
	N   int64          `json:"n"`
	P50 measure.Number `json:"p50"`
	P75 measure.Number `json:"p75"`
	P90 measure.Number `json:"p90"`
	P95 measure.Number `json:"p95"`
	P99 measure.Number `json:"p99"`
}

// failed returns how many requests failed.
func (s *Status) failed() int { return measure.ErrorCounts(s.Errors).Failed() }

// judge sets ErrorRate and ClientBound from the other fields.
func (s *Status) judge() {
	s.ErrorRate = 0
	if failed := s.failed(); failed > 0 {
		s.ErrorRate = ratio(float64(failed), float64(s.Completed+failed))
	}
	late, latency := s.Recent.Lateness, s.Recent.RequestLatency
	s.ClientBound = measure.ClientBound(int(late.N), [2]measure.Number{late.P50, late.P95}, [2]measure.Number{latency.P50, latency.P95}) || s.Errors[wire.Internal] > 0
}
