package live

import (
	"context"
	"maps"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
	"github.com/agentx/agentx/replay/wire"
	"github.com/agentx/agentx/report/page"
)

// Progress is what the records of a run do not tell.
type Progress struct {
	Phase     string        // measure.WarmupPhase or measure.ProfilingPhase
	Elapsed   time.Duration // since its start
	Remaining time.Duration // until the bound that is nearest is reached; negative: not known
	Sent      int           // requests, in the phase
	InFlight  int
	Silent    time.Duration // for how long nothing was received although requests are in flight; 0: none is
	OpenTrees int           // that are played

	Standstills *measure.Standstills // of the client in the measured phase, without a list; nil: none

	Arrivals     bool // trees arrive on their own
	WaitingTrees int  // that have arrived, and wait to be opened
}

// State is what a run is like now. Its methods may be called by many goroutines at once; none waits for anything but the others.
type State struct {
	rules measure.Rules
	lanes int

	mu       sync.Mutex
	progress Progress
	totals   map[string]*totals // by phase
	load     load
	recent   *recent // of the phase of the record added last
	phase    string

	gains  *gains           // nil: none are kept
	others map[int]Progress // of a load, by part; nil: there are none
	parts  int              // of the load
	left   int              // parts that are over or lost

	ended bool
	err   error // why records are not followed any more
}

// NewState returns the state of a run before its first request. Lanes is how many it has; 0: trees arrive, without a cap.
func NewState(rules measure.Rules, lanes int) *State {
	return &State{
		rules: rules, lanes: lanes, recent: newRecent(), progress: Progress{Remaining: -1},
		totals: map[string]*totals{measure.WarmupPhase: newTotals(), measure.ProfilingPhase: newTotals()},
	}
}

// Add adds a request that is over. It does not keep the record.
func (s *State) Add(r *measure.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.totals[r.Phase].add(r, s.rules)
	s.gains.add(r, s.rules)
	if s.enter(r.Phase) {
		s.recent.add(r, s.rules)
	}
}

// Look ends a section of the time over which the latest rates and latencies are. It is called after the records of a look at the
// file, with the instant of that look.
func (s *State) Look(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recent.look(now)
}

// Report replaces the progress.
func (s *State) Report(p Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.progress = p
	s.load.add(s.whole())
}

// progressTable returns what Report has said of the measured phase.
func (s *State) progressTable() page.Table {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.load.table()
}

// End says that the run is over. The error, if there is one, says why its records were not followed to the end.
func (s *State) End(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended, s.err = true, err
}

// Status returns what the run is like now.
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
		OpenTrees: progress.OpenTrees, InFlight: progress.InFlight, Silent: progress.Silent.Seconds(), Sent: max(progress.Sent, t.requests),
		Completed: t.completed, Errors: maps.Clone(t.errors), Overflows: t.buckets[measure.ContextOverflow], Cancelled: t.buckets[measure.CancelledAtEnd],
		Recent: s.recent.now, Standstills: progress.Standstills,
	}
	switch {
	case s.ended:
		st.State, st.InFlight, st.Silent = Ended, 0, 0
	case phase == "":
		st.State = Preparing
	}
	if progress.Remaining >= 0 && !s.ended {
		st.Remaining = measure.Number(progress.Remaining.Seconds())
	}
	if progress.Arrivals {
		waiting := progress.WaitingTrees
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
	requests, completed, measured int // measured: that ended well, and are no cooldown
	errors                        map[wire.Category]int
	buckets                       map[measure.Bucket]int

	prompt, cached, output int64          // tokens of the measured requests
	blocks, hits           int64          // of their recording
	first, last            float64        // when the first was sent and the last token came, if there is a measured one
	of                     []distribution // of the measured requests, by the place of the metric in eachRequest
}

// eachRequest are the metrics of a request.
var eachRequest = slices.DeleteFunc(slices.Clone(measure.MetricList), func(m measure.Metric) bool { return !m.OfEach })

func newTotals() *totals {
	t := &totals{errors: map[wire.Category]int{}, buckets: map[measure.Bucket]int{}}
	for _, m := range eachRequest {
		unit := float64(nanosecond)
		if m.Unit != slo.Seconds {
			unit = 1
		}
		t.of = append(t.of, distribution{unit: unit})
	}
	return t
}

// named returns the distribution of a metric.
func (t *totals) named(metric string) *distribution {
	return &t.of[slices.IndexFunc(eachRequest, func(m measure.Metric) bool { return m.Name == metric })]
}

func (t *totals) add(r *measure.Record, rules measure.Rules) {
	t.requests++
	t.buckets[r.Bucket]++
	if r.Bucket == measure.CancelledAtEnd || r.Bucket == measure.ContextOverflow || r.Error != nil && overflowed(r.Error) {
		return
	}
	if r.Error != nil {
		t.errors[r.Error.Category]++
		return
	}
	t.completed++
	if r.Bucket == measure.Cooldown {
		return
	}
	t.measured++
	t.span(r.Sent.Seconds(), max(r.Sent, r.LastToken).Seconds(), t.measured == 1)
	t.blocks, t.hits = t.blocks+r.RecordedBlocks, t.hits+min(max(0, r.RecordedHits), r.RecordedBlocks)
	for k := range eachRequest {
		if v, ok := eachRequest[k].Of(&r.Numbers, rules); ok {
			t.of[k].add(v)
		}
	}
	prompt, cached, output := tokens(r)
	t.prompt, t.cached, t.output = t.prompt+prompt, t.cached+cached, t.output+output
}

// span makes the time of the measured requests at least that from first to last; alone says that it is no more.
func (t *totals) span(first, last float64, alone bool) {
	if alone {
		t.first, t.last = first, last
	}
	t.first, t.last = min(t.first, first), max(t.last, last)
}

// overflowed reports whether a failure of the warmup, whose records are in one bucket, is none of the server.
func overflowed(e *measure.Error) bool {
	return e.Category == wire.Cancelled || e.Category == wire.ContextOverflow
}

// tokens returns the counts of the server, 0 where there is none.
func tokens(r *measure.Record) (prompt, cached, output int64) {
	return max(0, r.PromptTokens.N()), max(0, r.CachedTokens.N()), max(0, r.OSL())
}

// Follow adds the records in the directory of a run while they are written, to pages too, if they are not nil. At each tick it looks
// for new ones, and then calls looked. It returns when ctx ends, after all records that are written by then, and then the run is over
// for the state.
func (s *State) Follow(ctx context.Context, dir string, pages *Pages, tick <-chan time.Time, now func() time.Time, looked func()) {
	n := 0
	for r, err := range measure.Follow(ctx, dir, tick) {
		switch {
		case err != nil:
			s.End(err)
			return
		case r == nil:
			s.Look(now())
			if pages != nil {
				pages.Look()
			}
			looked()
		default:
			s.Add(r)
			if pages != nil {
				pages.Add(r)
			}
			if n++; n%turn == 0 {
				runtime.Gosched()
			}
		}
	}
	s.End(nil)
}

// turn is after how many records a follower lets others run: a third of a millisecond.
const turn = 32

// load is what the run reported of the measured phase: requests in flight and open trees, which records tell only when they end.
type load struct {
	at, inFlight, openTrees []int64 // ns of the phase; numbers
	every                   time.Duration
}

// maxLoad is the most reports that are kept: then every second one is dropped, and no more are taken than that.
const maxLoad = 2048

func (l *load) add(p Progress) {
	n := len(l.at)
	if p.Phase != measure.ProfilingPhase || n > 0 && p.Elapsed-time.Duration(l.at[n-1]) < l.every {
		return
	}
	l.at, l.inFlight, l.openTrees = append(l.at, int64(p.Elapsed)), append(l.inFlight, int64(p.InFlight)), append(l.openTrees, int64(p.OpenTrees))
	if len(l.at) < maxLoad {
		return
	}
	for k := range maxLoad / 2 {
		l.at[k], l.inFlight[k], l.openTrees[k] = l.at[2*k], l.inFlight[2*k], l.openTrees[2*k]
	}
	l.at, l.inFlight, l.openTrees = l.at[:maxLoad/2], l.inFlight[:maxLoad/2], l.openTrees[:maxLoad/2]
	l.every = time.Duration(l.at[maxLoad/2-1]-l.at[0]) / (maxLoad / 2)
}

func (l *load) table() page.Table {
	return page.Table{Name: "progress", Columns: []page.Column{
		page.Ints("at", "ns", l.at), page.Ints("in_flight", "", l.inFlight), page.Ints("open_trees", "", l.openTrees),
	}}
}
