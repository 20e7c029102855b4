package measure

import (
	"cmp"
	"math"
	"math/bits"
)

// observations are what an Aggregate keeps of the successful requests of one bucket.
type observations struct {
	n       int         // requests
	inTime  int         // of these, that were sent within lateFrom of their time
	samples [][]float64 // by the place of the metric in MetricList, of the requests that have it

	first, last float64 // earliest Sent and latest LastToken

	prompt, output, asked, cached, recorded TokenSum

	times                                         clientTimes
	exchange                                      exchanges
	recordedBlocks, recordedHits, recordedCounted int64 // the last: recorded prompt tokens of requests whose prompt the server counted

	divisor ITLDivisor
}

// newObservations returns observations of no request.
func newObservations() observations {
	return observations{samples: make([][]float64, len(MetricList)), first: math.Inf(1), last: math.Inf(-1)}
}

// add adds a request that ended well.
func (o *observations) add(r *Record, rules Rules) {
	o.n++
	for k := range MetricList {
		if of := MetricList[k].Of; of != nil {
			if v, ok := of(&r.Numbers, rules); ok {
				o.samples[k] = append(o.samples[k], v)
			}
		}
	}
	if r.LatenessSeconds() <= lateFrom {
		o.inTime++
	}
	o.times.add(r, rules)
	o.exchange.add(r)
	o.recordedBlocks += r.RecordedBlocks
	o.recordedHits += r.HitBlocks()
	if r.PromptTokens != 0 {
		o.recordedCounted += r.RecordedISL
	}
	o.divisor.Add(&r.Numbers, rules)
	o.first = min(o.first, r.Sent.Seconds())
	if r.LastToken > 0 {
		o.last = max(o.last, r.LastToken.Seconds())
	}
	o.prompt.Add(r.PromptTokens.N())
	o.cached.Add(r.CachedTokens.N())
	if n := r.OSL(); n != Unknown {
		o.output.Add(n)
		o.asked.Add(cmp.Or(r.MaxTokens, n)) // one that asked for no length got what it asked for
	}
	o.recorded.Add(r.RecordedISL)
}

// span returns what the window of the rates is made of, without what was delivered. phase is Missing if it did not come to its end.
func (o *observations) span(phase Number) Span {
	return Span{
		Ended: o.n, First: o.first, Last: o.last, Phase: phase, Deadline: Missing,
		Amount: Amount{Number(o.n), o.prompt.over(o.n), o.output.over(o.n)},
	}
}

// metrics returns the published numbers, with the rates of a window.
func (o *observations) metrics(window *ThroughputWindow) Metrics {
	m := Metrics{
		Measured: o.n, PromptTokens: o.prompt.over(o.n), OutputTokens: o.output.over(o.n), RequestedOutputTokens: o.asked.over(o.n),
		CachedTokens: o.cached.over(o.n), RecordedPromptTokens: o.recorded.over(o.n), UsageMissing: o.n - int(o.output.Known),
		Duration: Missing, TokenHitRate: Missing, RequestRate: window.Rate(window.Requests),
		PromptTokenRate: window.Rate(window.PromptTokens), OutputTokenRate: window.Rate(window.OutputTokens),
		RecordedBlocks: o.recordedBlocks, RecordedHits: o.recordedHits, TheoreticalHitRate: ratio(Number(o.recordedHits), Number(o.recordedBlocks)),
	}
	for k := range MetricList {
		if of := &MetricList[k]; of.Of != nil {
			*of.Stat(&m) = NewStat(o.samples[k])
		}
	}
	if m.PromptTokens > 0 {
		m.TokenHitRate = m.CachedTokens / m.PromptTokens
	}
	if span := o.last - o.first; span > 0 {
		m.Duration = Number(span)
	}
	return m
}

// TokenSum adds up counts, some of which may be unknown.
type TokenSum struct{ Sum, Known int64 }

// Add adds a number of tokens, or Unknown.
func (s *TokenSum) Add(n int64) { s.add(n, true) }

// add notes whether a number is known, and adds it if it counts.
func (s *TokenSum) add(n int64, counts bool) {
	if n == Unknown {
		return
	}
	s.Known++
	if counts {
		s.Sum += n
	}
}

// over returns the sum over n requests, Missing when none of them had a count.
func (s *TokenSum) over(n int) Number {
	if n > 0 && s.Known == 0 {
		return Missing
	}
	return Number(s.Sum)
}

// ordinalSet is a set of small numbers that are not negative.
type ordinalSet struct {
	bits []uint64
	n    int // numbers in it
}

// add adds a number. It reports false if the set has it already.
func (o *ordinalSet) add(k int) bool {
	if n := k/64 + 1; n > len(o.bits) {
		o.bits = append(o.bits, make([]uint64, max(n, 2*len(o.bits))-len(o.bits))...)
	}
	bit := uint64(1) << (k % 64)
	if o.bits[k/64]&bit != 0 {
		return false
	}
	o.bits[k/64] |= bit
	o.n++
	return true
}

// has reports whether a number is in the set.
func (o *ordinalSet) has(k int) bool { return o.word(k/64)>>(k%64)&1 > 0 }

// without returns how many of the numbers are in neither of two other sets.
func (o *ordinalSet) without(a, b *ordinalSet) (n int) {
	for k, w := range o.bits {
		n += bits.OnesCount64(w &^ (a.word(k) | b.word(k)))
	}
	return n
}

// word returns the k-th 64 bits of the set.
func (o *ordinalSet) word(k int) uint64 {
	if k < len(o.bits) {
		return o.bits[k]
	}
	return 0
}
