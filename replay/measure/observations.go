package measure

import (
	"math"
	"math/bits"
)

// observations are what an Aggregate keeps of the successful requests of one bucket.
type observations struct {
	n                            int       // requests
	ttft, itl, latency, lateness []float64 // seconds, of the requests that have them
	tpot, isl, osl               []float64

	first, last float64 // earliest Sent and latest LastToken

	prompt, output, asked, cached, recorded tokenSum

	times                                         clientTimes
	exchange                                      exchanges
	recordedBlocks, recordedHits, recordedCounted int64 // the last: recorded prompt tokens of requests whose prompt the server counted

	firstKnown, firstUnusable int // requests with an ITL, by their number of tokens in the first chunk
}

func newObservations() observations { return observations{first: math.Inf(1), last: math.Inf(-1)} }

func (o *observations) add(r *Record, rules Rules) {
	o.n++
	o.lateness = append(o.lateness, r.Lateness())
	o.times.add(r, rules)
	o.exchange.add(r)
	o.recordedBlocks += r.RecordedBlocks
	o.recordedHits += min(max(0, r.RecordedHits), r.RecordedBlocks)
	if r.PromptTokens != nil {
		o.recordedCounted += r.RecordedISL
	}
	if v, ok := r.TTFT(); ok {
		o.ttft = append(o.ttft, v)
	}
	if v, ok := rules.ITL(r); ok {
		o.itl = append(o.itl, v)
		if r.hasUsableFirstChunk() {
			o.firstKnown++
		} else if r.FirstChunkTokens != nil {
			o.firstUnusable++
		}
	}
	if v, ok := (Rules{AllButOne: true}).ITL(r); ok {
		o.tpot = append(o.tpot, v)
	}
	o.first = min(o.first, r.Sent)
	if v, ok := r.Latency(); ok {
		o.latency = append(o.latency, v)
		o.last = max(o.last, r.LastToken)
	}
	if r.PromptTokens != nil {
		o.isl = append(o.isl, float64(*r.PromptTokens))
	}
	o.prompt.add(r.PromptTokens)
	o.cached.add(r.CachedTokens)
	if n, ok := r.OSL(); ok {
		o.osl = append(o.osl, float64(n))
		o.output.add(&n)
		o.asked.add(&r.MaxTokens)
	}
	o.recorded.add(&r.RecordedISL)
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
		CachedTokens: o.cached.over(o.n), RecordedPromptTokens: o.recorded.over(o.n), UsageMissing: o.n - int(o.output.known),
		TTFT: NewStat(o.ttft), ITL: NewStat(o.itl), RequestLatency: NewStat(o.latency), Lateness: NewStat(o.lateness),
		TPOT: NewStat(o.tpot), ISL: NewStat(o.isl), OSL: NewStat(o.osl),
		Duration: Missing, TokenHitRate: Missing, RequestRate: window.Rate(window.Requests),
		PromptTokenRate: window.Rate(window.PromptTokens), OutputTokenRate: window.Rate(window.OutputTokens),
		RecordedBlocks: o.recordedBlocks, RecordedHits: o.recordedHits, TheoreticalHitRate: ratio(Number(o.recordedHits), Number(o.recordedBlocks)),
	}
	if m.PromptTokens > 0 {
		m.TokenHitRate = m.CachedTokens / m.PromptTokens
	}
	if span := o.last - o.first; span > 0 {
		m.Duration = Number(span)
	}
	return m
}

// tokenSum adds up counts, some of which may be unknown.
type tokenSum struct{ sum, known int64 }

func (s *tokenSum) add(n *int64) {
	if n != nil {
		s.sum += *n
		s.known++
	}
}

// over returns the sum over n requests, Missing when none of them had a count.
func (s *tokenSum) over(n int) Number {
	if n > 0 && s.known == 0 {
		return Missing
	}
	return Number(s.sum)
}

// ordinalSet is a set of small numbers that are not negative.
type ordinalSet struct {
	bits []uint64
	n    int // numbers in it
}

func (o *ordinalSet) add(k int) {
	for k/64 >= len(o.bits) {
		o.bits = append(o.bits, 0)
	}
	if bit := uint64(1) << (k % 64); o.bits[k/64]&bit == 0 {
		o.bits[k/64] |= bit
		o.n++
	}
}

// without returns how many of the numbers are in neither of two other sets.
func (o *ordinalSet) without(a, b *ordinalSet) (n int) {
	for k, w := range o.bits {
		n += bits.OnesCount64(w &^ (a.word(k) | b.word(k)))
	}
	return n
}

func (o *ordinalSet) word(k int) uint64 {
	if k < len(o.bits) {
		return o.bits[k]
	}
	return 0
}
