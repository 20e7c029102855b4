package report

import "math"

// curve is a block over one of the curves of a sweep.
type curve struct {
	tag, name, unit string
	of              int // which curve
	while           int // only while this one is above 0; always: the whole time
	needs           needs
}

const always = -1

// needs says which numbers of tokens a curve is made of.
type needs struct{ prompt, output bool }

// curveBlocks are the blocks of curves (doc/spec/replay.md 8.5).
var curveBlocks = []curve{
	{"effective_concurrency", "Effective Concurrency", "requests", concurrency, always, needs{}},
	{"effective_prefill_concurrency", "Effective Prefill Concurrency", "requests", prefillConcurrency, always, needs{}},
	{"effective_decode_concurrency", "Effective Decode Concurrency", "requests", decodeConcurrency, always, needs{}},
	{"effective_prefill_throughput", "Effective Prefill Throughput", "tokens/sec", prefillRate, always, needs{prompt: true}},
	{"effective_decode_throughput", "Effective Decode Throughput", "tokens/sec", decodeRate, always, needs{output: true}},
	{"effective_total_throughput", "Effective Total Throughput", "tokens/sec", totalRate, always, needs{true, true}},
	{"effective_prefill_throughput_per_user", "Effective Prefill Throughput Per User", perUser, prefillRatePerUser, always, needs{prompt: true}},
	{"effective_decode_throughput_per_user", "Effective Decode Throughput Per User", perUser, decodeRatePerUser, always, needs{output: true}},
	{"tokens_in_flight", "Tokens In Flight", "tokens", tokensInFlight, always, needs{true, true}},
	{"active_prefill_throughput", "Active Prefill Throughput", "tokens/sec", prefillRate, prefillConcurrency, needs{prompt: true}},
	{"active_decode_throughput", "Active Decode Throughput", "tokens/sec", decodeRate, decodeConcurrency, needs{output: true}},
	{"active_total_throughput", "Active Total Throughput", "tokens/sec", totalRate, concurrency, needs{true, true}},
	{"active_prefill_throughput_per_user", "Active Prefill Throughput Per User", perUser, prefillRatePerUser, prefillConcurrency, needs{prompt: true}},
	{"active_decode_throughput_per_user", "Active Decode Throughput Per User", perUser, decodeRatePerUser, decodeConcurrency, needs{output: true}},
}

// curveStats are the statistics of a curve over time.
type curveStats struct {
	curve
	moments moments
	ranking ranking
	more    bool // another pass is needed
}

// newCurveStats returns the statistics of those curves whose numbers of tokens are known. Many stretches are ranked in several passes.
func (t *tableBuilder) newCurveStats(room int) (list []*curveStats) {
	for _, c := range curveBlocks {
		switch {
		case c.needs.prompt && t.sums.prompt.known == 0, c.needs.output && t.sums.osl.known == 0:
		case c.needs.output && !t.run.rules.EvenFlow && !t.chunks.known():
		default:
			list = append(list, &curveStats{curve: c, ranking: ranking{room: room}, more: true})
		}
	}
	return list
}

// add adds a stretch of time.
func (c *curveStats) add(from, to int64, at *levels) {
	if !c.more || c.while != always && at[c.while] <= 0 {
		return
	}
	v := at[c.of]
	if c.ranking.pass == 0 {
		c.moments.add(v, float64(to-from))
	}
	c.ranking.add(math.Float64bits(v), to-from) // the order of numbers that are not negative is that of their bits
}

// curvePercentiles are the percentiles of a curve.
var curvePercentiles = [...]int64{50, 90, 95, 99}

// endPass ends a pass over all stretches. A percentile is the smallest value that the curve does not exceed for that share of the time.
func (c *curveStats) endPass() {
	if !c.more {
		return
	}
	c.more = c.ranking.endPass(func(total int64) (ranks []int64) {
		for _, q := range curvePercentiles {
			if total > 0 {
				ranks = append(ranks, share(total, q))
			}
		}
		return ranks
	})
}

// share returns q percent of a number, rounded up.
func share(total, q int64) int64 { return total/100*q + (total%100*q+99)/100 }

// block returns the statistics; false without a stretch of time.
func (c *curveStats) block() (Block, bool) {
	if c.ranking.total == 0 {
		return Block{}, false
	}
	stats := []Stat{{"avg", Float(c.moments.mean)}, {"min", Float(c.moments.min)}, {"max", Float(c.moments.max)}}
	for n, q := range curvePercentiles {
		stats = append(stats, Stat{percentileName(float64(q)), Float(math.Float64frombits(c.ranking.found[n]))})
	}
	return Block{c.tag, c.name, c.unit, Curve, append(stats, Stat{"std", Float(c.moments.std())})}, true
}

// curves adds the blocks of the curves.
func (t *tableBuilder) curves() error {
	stats := t.newCurveStats(fewKeys)
	list := sortedBySent(t.present)
	for more := t.to > t.from; more; {
		err := sweep(list, &t.run.rules, t.chunks, t.from, t.to, func(from, to int64, at *levels) {
			for _, c := range stats {
				c.add(from, to, at)
			}
		})
		if err != nil {
			return err
		}
		more = false
		for _, c := range stats {
			c.endPass()
			more = more || c.more
		}
	}
	for _, c := range stats {
		if b, ok := c.block(); ok {
			t.add(b)
		}
	}
	return nil
}
