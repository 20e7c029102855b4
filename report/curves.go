package report

import (
	"math"

	"github.com/agentx/agentx/replay/measure"
)

// curve is one of the curves of a sweep with its blocks: over the whole time, and over the time in which another curve is above 0.
type curve struct {
	of        int // which curve
	tag, name string
	unit      string
	needs     needs
	second    string // tag of the second block; "": there is none
	while     int    // which curve is above 0; while it is not, this one is 0
}

// needs says which numbers of tokens a curve is made of.
type needs struct{ prompt, output bool }

// curveBlocks are the curves that have blocks (doc/spec/replay.md 8.5).
var curveBlocks = []curve{
	{concurrency, "effective_concurrency", "Concurrency", "requests", needs{}, "", 0},
	{prefillConcurrency, "effective_prefill_concurrency", "Prefill Concurrency", "requests", needs{}, "", 0},
	{decodeConcurrency, "effective_decode_concurrency", "Decode Concurrency", "requests", needs{}, "", 0},
	{prefillRate, "effective_prefill_throughput", "Prefill Throughput", "tokens/sec", needs{prompt: true}, "active_prefill_throughput", prefillConcurrency},
	{decodeRate, "effective_decode_throughput", "Decode Throughput", "tokens/sec", needs{output: true}, "active_decode_throughput", decodeConcurrency},
	{totalRate, "effective_total_throughput", "Total Throughput", "tokens/sec", needs{true, true}, "active_total_throughput", concurrency},
	{prefillRatePerUser, "effective_prefill_throughput_per_user", "Prefill Throughput Per User", perUser, needs{prompt: true}, "active_prefill_throughput_per_user", prefillConcurrency},
	{decodeRatePerUser, "effective_decode_throughput_per_user", "Decode Throughput Per User", perUser, needs{output: true}, "active_decode_throughput_per_user", decodeConcurrency},
	{tokensInFlight, tokensInFlightTag, "Tokens In Flight", "tokens", needs{true, true}, "", 0},
}

const tokensInFlightTag = "tokens_in_flight"

// curveStats are the statistics of a curve over time.
type curveStats struct {
	curve
	whole, active moments
	idle          measure.Time // time that is not active
	ranking       ranking
	more          bool // another pass is needed
}

// newCurveStats returns the statistics of those curves whose numbers of tokens are known. Many stretches are ranked in several passes.
func (t *tableBuilder) newCurveStats(room int) (list []*curveStats) {
	for _, c := range curveBlocks {
		switch {
		case c.needs.prompt && t.sums.prompt.Known == 0, c.needs.output && t.sums.osl.Known == 0:
		case c.needs.output && !t.chunks.known():
		default:
			list = append(list, &curveStats{curve: c, ranking: newRanking(room), more: true})
		}
	}
	return list
}

// add adds a stretch of time.
func (c *curveStats) add(from, to measure.Time, at *levels) {
	if !c.more {
		return
	}
	v := at[c.of]
	if c.ranking.pass == 0 {
		c.whole.add(v, float64(to-from))
		switch {
		case c.second == "":
		case at[c.while] > 0:
			c.active.add(v, float64(to-from))
		default:
			c.idle += to - from
		}
	}
	c.ranking.add(math.Float64bits(v), int64(to-from)) // the order of numbers that are not negative is that of their bits
}

// curvePercentiles are the percentiles of a curve.
var curvePercentiles = [...]int64{50, 90, 95, 99}

// endPass ends a pass over all stretches. A percentile is the smallest value that the curve does not exceed for that share of the
// time. Those of the active time are found among the same values, of which the idle ones, all 0, are the first.
func (c *curveStats) endPass() {
	if !c.more {
		return
	}
	c.more = c.ranking.endPass(func(total int64) (ranks []int64) {
		for _, idle := range []int64{0, int64(c.idle)} {
			for _, q := range curvePercentiles {
				if total > idle {
					ranks = append(ranks, idle+share(total-idle, q))
				}
			}
		}
		return ranks
	})
}

// share returns q percent of a number, rounded up.
func share(total, q int64) int64 { return total/100*q + (total%100*q+99)/100 }

// blocks returns the blocks of the curve. There is none without a stretch of time.
func (c *curveStats) blocks() (list []Block) {
	if c.ranking.total == 0 {
		return nil
	}
	name := c.name
	if c.tag != tokensInFlightTag {
		name = "Effective " + name
	}
	list = append(list, Block{c.tag, name, c.unit, Curve, c.stats(&c.whole, 0)})
	if c.active.weight > 0 {
		list = append(list, Block{c.second, "Active " + c.name, c.unit, Curve, c.stats(&c.active, len(curvePercentiles))})
	}
	return list
}

// stats returns statistics with the percentiles that stand from a place on among those found.
func (c *curveStats) stats(m *moments, from int) []Stat {
	stats := []Stat{{"avg", Float(m.mean)}, {"min", Float(m.min)}, {"max", Float(m.max)}}
	for n, q := range curvePercentiles {
		stats = append(stats, Stat{percentileName(float64(q)), Float(math.Float64frombits(c.ranking.found[from+n]))})
	}
	return append(stats, Stat{"std", Float(m.std())})
}

// curves adds the blocks of the curves.
func (t *tableBuilder) curves() error {
	stats := t.newCurveStats(fewKeys)
	list := sortedBySent(t.present)
	for more := t.to > t.from; more; {
		err := sweep(list, &t.run.rules, t.chunks, t.from, t.to, func(from, to measure.Time, at *levels) {
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
		t.table = append(t.table, c.blocks()...)
	}
	return nil
}
