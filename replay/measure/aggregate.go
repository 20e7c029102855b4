package measure

import (
	"maps"
	"slices"

	"github.com/agentx/agentx/replay/slo"
	"github.com/agentx/agentx/replay/wire"
)

// Aggregate computes a Summary from records, one at a time. It keeps 21 numbers of a request that ended well, for exact
// percentiles, and counts the others. It is not safe for concurrent use.
type Aggregate struct {
	rules     Rules
	requests  int
	resent    int
	errors    map[wire.Category]int
	samples   ErrorSamples
	backOff   BackOff
	throttled Throttled
	buckets   map[Bucket]int
	lanes     map[int]laneStart
	addresses addresses
	trees     ordinalSet // with a request
	queued    []float64  // of trees that arrived, by their first requests: how long they waited to be opened, seconds

	bytesSent, bytesReceived int64

	deviations deviationCounts
	finished   FinishReasons
	ending     Ending
	verdict    Verdict
	cachedAt   ordinalSet // servers that have reported cached tokens, by their position

	headline, cooldown observations
	delivered          DeliveredTotal
	last, late         float64 // end of the last request; deadline of those that ended after it

	warmup  warmupCounts
	goodput goodput
}

// NewAggregate returns an empty aggregate of a run with service levels, maybe none.
func NewAggregate(rules Rules, levels ...slo.Condition) *Aggregate {
	return &Aggregate{
		rules: rules, goodput: goodput{Judge: NewJudge(rules, levels), met: make([]int, len(levels))},
		errors: map[wire.Category]int{}, samples: ErrorSamples{}, buckets: map[Bucket]int{}, lanes: map[int]laneStart{},
		deviations: newDeviations(), finished: FinishReasons{}, headline: newObservations(), cooldown: newObservations(),
		warmup: warmupCounts{errors: map[wire.Category]int{}},
	}
}

// Add adds one record, which it does not keep. It returns a notice for each kind of deviation that this record is the first
// to show. A record of the warmup is counted as such, and nothing else.
func (a *Aggregate) Add(r *Record) []DeviationNotice {
	if r.CachedTokens.N() > 0 {
		a.cachedAt.add(r.server())
	}
	if r.Phase == WarmupPhase {
		a.warmup.add(r)
		return nil
	}
	a.count(r)
	good := a.goodput.add(r)
	if r.Error != nil && r.Bucket != CancelledAtEnd {
		a.samples.add(r.Error)
	}
	if r.Bucket != Profiling && r.Bucket != Cooldown {
		return nil
	}
	if r.Error != nil {
		a.errors[r.Error.Category]++
		return nil
	}
	a.delivered.Add(&r.Numbers, good)
	a.finished.add(r.FinishReason)
	if r.Bucket == Profiling {
		a.headline.add(r, a.rules)
	} else {
		a.cooldown.add(r, a.rules)
	}
	return a.deviations.add(r)
}

// count counts what every record has, however its request ended.
func (a *Aggregate) count(r *Record) {
	a.requests++
	a.last, a.late = max(a.last, r.End.Seconds()), max(a.late, r.Deadline.Seconds())
	a.addresses.add(r)
	a.trees.add(r.Tree)
	if r.begins() {
		a.queued = append(a.queued, r.Queued.Seconds())
	}
	a.buckets[r.Bucket]++
	a.verdict.Add(r, a.rules)
	a.ending.Add(r)
	a.bytesSent += r.BytesSent
	a.bytesReceived += r.BytesReceived
	if r.Resent {
		a.resent++
	}
	if first, ok := a.lanes[r.Lane]; !ok || r.Sent.Seconds() < first.sent {
		a.lanes[r.Lane] = startOf(r)
	}
	a.throttled.Answers += r.Throttled
	a.throttled.Seconds += r.Waited.Seconds()
	if r.BackOff > 0 {
		a.backOff.Pauses++
		a.backOff.Seconds += r.BackOff.Seconds()
	}
}

// Summary computes the summary of the records added so far. More records may be added afterwards.
func (a *Aggregate) Summary(info RunInfo) Summary {
	span := a.headline.span(info.Facts.WholePhase())
	span.Deadline, span.Delivered = DeliveredEnd(info.Facts, a.last, a.late), a.delivered
	window, afterwards := a.rules.Window(span), a.rules.Window(a.cooldown.span(info.Facts.WholePhase()))
	s := Summary{
		Requests: a.requests, Completed: a.verdict.ended, Errors: maps.Clone(a.errors),
		Buckets: Buckets{
			a.buckets[Profiling], a.buckets[Cooldown], a.buckets[CancelledAtEnd], a.buckets[ContextOverflow],
		},
		ErrorSamples: a.samples.clone(), BackOff: a.backOff, Throttled: a.throttled, Resent: a.resent, Deviations: maps.Clone(a.deviations), FinishReasons: maps.Clone(a.finished),
		Metrics: a.headline.metrics(&window), Cooldown: a.cooldown.metrics(&afterwards), Headline: a.rules.Headline(),
		ThroughputWindow: window, Delivered: span.deliveredWindow(), ITLDivisor: ITLDivisor{a.rules.DivisorRule(), a.headline.divisor.Known, a.headline.divisor.Unusable},
		Concurrency: info.Lanes, Lanes: a.laneSummary(info.Lanes), Trees: a.trees.n,
		DeadlockedTrees: Missing, PhaseDuration: Missing,
		Out: info.Out, Records: info.Records, Preflight: info.Preflight, Context: info.Context, ServerMetrics: info.ServerMetrics, Part: info.Part, Parts: info.Parts, Run: info.Run,
	}
	if info.Counting == 0 { // its records do not tell which requests ended after the deadline
		s.Delivered = Span{Deadline: Missing}.deliveredWindow()
	}
	s.Run.Servers = withAnswers(s.Run.Servers, &a.cachedAt)
	s.Unseen = s.unseen()
	s.Addresses, s.Connection = a.addresses.list(), a.headline.exchange.summary(info.Facts)
	s.Client = newClient(&a.headline.times, s.Errors[wire.Internal], a.bytesSent, a.bytesReceived, info.Facts)
	s.Fidelity = newFidelity(&s, &a.headline, info.Facts)
	s.Calibration = info.Calibration.compare(&s)
	s.Arrivals = info.Arrivals.outcome(a.queued, info.Facts)
	s.AddRates()
	s.Client.bind(info.Parts)
	s.Goodput = a.goodput.summary(&s, a.delivered.Good)
	s.Parts = info.Parts.withFigures(&s)
	s.Warmup = a.warmup.summary(nil)
	if f := info.Facts; f != nil {
		s.addFacts(f)
		s.Valid, s.Reasons, s.Coverage = a.verdict.Judge(&info, a.rules)
		s.Warmup = a.warmup.summary(f.Warmup)
	}
	s.burst = a.burst()
	s.AddRemarks(&a.ending, &info)
	return s
}

// addFacts adds what is known only at the end of a run.
func (s *Summary) addFacts(f *Facts) {
	branches := f.Branches
	s.PhaseDuration, s.Branches, s.Deadlocks = Number(f.PhaseDuration), &branches, f.Deadlocks
	s.DeadlockedTrees, s.Until = Number(branches.TreesDeadlocked), f.Until
}

// laneSummary returns how many of n lanes have sent, and when the first and the last of them began.
func (a *Aggregate) laneSummary(n int) Lanes {
	l := Lanes{N: n, Started: len(a.lanes), FirstRequest: FirstRequest{Missing, Missing}}
	if len(a.lanes) > 0 {
		var firsts []float64
		for _, first := range a.lanes {
			firsts = append(firsts, first.sent)
		}
		l.FirstRequest = FirstRequest{Number(slices.Min(firsts)), Number(slices.Max(firsts))}
	}
	return l
}

// Rebuild adds the records of a run, in their order.
func (a *Aggregate) Rebuild(records Records) error {
	for r, err := range All(records) {
		if err != nil {
			return err
		}
		a.Add(r)
	}
	return nil
}
