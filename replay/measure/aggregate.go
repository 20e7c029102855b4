package measure

import (
	"maps"
	"math"
	"slices"

	"github.com/agentx/agentx/replay/wire"
)

// Aggregate takes records as they come and keeps of each only the numbers that exact percentiles need: four of
// eight bytes for a request that ended well, counters for the others. One goroutine uses it at a time.
type Aggregate struct {
	requests  int
	completed int
	resent    int
	errors    map[wire.Category]int
	samples   ErrorSamples
	backOff   BackOff
	buckets   map[Bucket]int
	lanes     map[int]float64 // lane -> its first request
	trees     ordinals        // that sent a request

	bytesSent, bytesReceived int64

	deviations deviationCounts

	headline, cooldown samples
}

// samples are what is kept of the successful requests of one bucket.
type samples struct {
	n                            int
	ttft, itl, latency, lateness []float64

	first, last float64 // earliest start and latest content

	prompt, output, asked, cached, recorded tokenSum
}

// ordinals is a set of small numbers, and how many they are.
type ordinals struct {
	bits []uint64
	n    int
}

func (o *ordinals) add(k int) {
	for k/64 >= len(o.bits) {
		o.bits = append(o.bits, 0)
	}
	if bit := uint64(1) << (k % 64); o.bits[k/64]&bit == 0 {
		o.bits[k/64] |= bit
		o.n++
	}
}

// tokenSum adds up counts that may be unknown.
type tokenSum struct{ sum, known int64 }

func (s *tokenSum) add(n *int64) {
	if n != nil {
		s.sum += *n
		s.known++
	}
}

// of is the sum over n requests: missing when not one of them said anything.
func (s *tokenSum) of(n int) Number {
	if n > 0 && s.known == 0 {
		return Missing
	}
	return Number(s.sum)
}

// NewAggregate returns an empty aggregate.
func NewAggregate() *Aggregate {
	return &Aggregate{
		errors: map[wire.Category]int{}, samples: ErrorSamples{}, buckets: map[Bucket]int{}, lanes: map[int]float64{},
		deviations: newDeviations(), headline: newSamples(), cooldown: newSamples(),
	}
}

func newSamples() samples { return samples{first: math.Inf(1), last: math.Inf(-1)} }

// Add takes one record of the profiling phase. It keeps nothing of it. It returns the deviations that came up with it.
func (a *Aggregate) Add(r *Record) []DeviationNotice {
	a.requests++
	a.trees.add(r.Tree)
	a.buckets[r.Bucket]++
	a.bytesSent += r.BytesSent
	a.bytesReceived += r.BytesReceived
	if r.Resent {
		a.resent++
	}
	if first, ok := a.lanes[r.Lane]; !ok || r.Sent < first {
		a.lanes[r.Lane] = r.Sent
	}
	if r.BackOff > 0 {
		a.backOff.Pauses++
		a.backOff.Seconds += r.BackOff
	}
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
	a.completed++
	if r.Bucket == Profiling {
		a.headline.add(r)
	} else {
		a.cooldown.add(r)
	}
	return a.deviations.add(r)
}

func (s *samples) add(r *Record) {
	s.n++
	s.lateness = append(s.lateness, r.Lateness())
	if v, ok := r.TTFT(); ok {
		s.ttft = append(s.ttft, v)
	}
	if v, ok := r.ITL(); ok {
		s.itl = append(s.itl, v)
	}
	s.first = min(s.first, r.Sent)
	if v, ok := r.Latency(); ok {
		s.latency = append(s.latency, v)
		s.last = max(s.last, r.LastToken)
	}
	s.prompt.add(r.PromptTokens)
	s.cached.add(r.CachedTokens)
	if n, ok := r.OSL(); ok {
		s.output.add(&n)
		s.asked.add(&r.MaxTokens)
	}
	s.recorded.add(&r.RecordedISL)
}

// metrics are the published numbers over the samples.
func (s *samples) metrics() Metrics {
	m := Metrics{
		Measured: s.n, PromptTokens: s.prompt.of(s.n), OutputTokens: s.output.of(s.n), RequestedOutputTokens: s.asked.of(s.n), CachedTokens: s.cached.of(s.n),
		RecordedPromptTokens: s.recorded.of(s.n), UsageMissing: s.n - int(s.output.known),
		TTFT: NewStat(s.ttft), ITL: NewStat(s.itl), RequestLatency: NewStat(s.latency), Lateness: NewStat(s.lateness),
		Duration: Missing, RequestRate: Missing, PromptTokenRate: Missing, OutputTokenRate: Missing,
	}
	m.TokenHitRate = Missing
	if m.PromptTokens > 0 {
		m.TokenHitRate = m.CachedTokens / m.PromptTokens
	}
	if window := s.last - s.first; window > 0 {
		m.Duration = Number(window)
		m.RequestRate = Number(s.n) / m.Duration
		m.PromptTokenRate = m.PromptTokens / m.Duration
		m.OutputTokenRate = m.OutputTokens / m.Duration
	}
	return m
}

// Summary computes the numbers of the run so far. It may be called again after more records.
func (a *Aggregate) Summary(info RunInfo) Summary {
	s := Summary{
		Requests: a.requests, Completed: a.completed, Errors: maps.Clone(a.errors),
		Buckets: Buckets{
			a.buckets[Profiling], a.buckets[Cooldown], a.buckets[CancelledAtEnd], a.buckets[ContextOverflow],
		},
		ErrorSamples: a.samples.clone(), BackOff: a.backOff, Resent: a.resent, Deviations: a.deviations.clone(),
		Metrics: a.headline.metrics(), Cooldown: a.cooldown.metrics(),
		Concurrency: info.Lanes, Lanes: a.laneSummary(info.Lanes), Trees: a.trees.n,
		DeadlockedTrees: Missing, PhaseDuration: Missing,
		Out: info.Out, Records: info.Records, Preflight: info.Preflight, Run: info.Run,
	}
	s.Client = Client{
		CPU: Missing, PeakRSS: Missing, BytesSent: a.bytesSent, BytesReceived: a.bytesReceived, Bound: bound(s.Lateness, s.TTFT),
	}
	if f := info.Facts; f != nil {
		s.addFacts(f)
	}
	return s
}

// addFacts adds what is known at the end of a run.
func (s *Summary) addFacts(f *Facts) {
	branches := f.Branches
	s.PhaseDuration, s.Branches, s.Deadlocks, s.DeadlockedTrees = Number(f.PhaseDuration), &branches, f.Deadlocks, Number(branches.TreesDeadlocked)
	s.Client.CPU, s.Client.PeakRSS = Number(f.CPU), Number(f.PeakRSS)
	s.Valid, s.Reasons = f.Valid, slices.Clone(f.Reasons)
	if s.DeadlockedTrees > 0 && !slices.Contains(s.Reasons, wedgedTree) {
		s.Reasons = append(s.Reasons, wedgedTree)
	}
}

func (a *Aggregate) laneSummary(n int) Lanes {
	l := Lanes{N: n, Started: len(a.lanes), FirstRequest: FirstRequest{Missing, Missing}}
	if len(a.lanes) > 0 {
		firsts := slices.Collect(maps.Values(a.lanes))
		l.FirstRequest = FirstRequest{Number(slices.Min(firsts)), Number(slices.Max(firsts))}
	}
	return l
}

// bound says whether the client was part of the measurement: the 99th percentile of its lateness exceeds maxLateness.
func bound(lateness, ttft Stat) bool {
	return lateness.P99 > maxLateness(ttft) // false when missing
}

// maxLateness is 10 ms, or 1 % of the median time to the first token where that is more.
func maxLateness(ttft Stat) Number {
	if ttft.P50.IsMissing() {
		return 0.010
	}
	return max(0.010, ttft.P50/100)
}
