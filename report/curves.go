package report

import (
	"cmp"
	"math"
	"slices"

	"github.com/agentx/agentx/internal/heap"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/wire"
)

// curve says which blocks a table has of a curve: one over the whole time, and maybe one over the time in which another curve is above 0.
type curve struct {
	of        int // the curve, such as prefillRate
	tag, name string
	unit      string
	needs     needs
	second    string // tag of the second block; "": there is none
	while     int    // the other curve of the second block; while it is 0, this one is 0
}

// needs says which counts of tokens the requests must have for a curve.
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

// newCurveStats returns empty statistics for each curve whose counts of tokens are known. room is how many different values a curve may have
// until its percentiles take more than one pass.
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

// add adds a stretch of time, from one instant to another, in which the curves have the values at.
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

// share returns q percent of total, rounded up, without overflow.
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

// stats returns the statistics of a block. Its percentiles begin at place from of those that the ranking found.
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

// The curves that a sweep computes: step functions of time.
const (
	concurrency = iota
	prefillConcurrency
	decodeConcurrency
	prefillRate // tokens per second
	decodeRate
	totalRate
	prefillRatePerUser
	decodeRatePerUser
	tokensInFlight
	curveCount
)

// levels are the values of the curves at one time.
type levels [curveCount]float64

// sweep cuts the time from `from` to `to` into stretches in which no curve changes, and calls visit for each in order. list has the requests
// in the order in which they were sent; memory holds those in flight alone.
func sweep(list []*row, rules *measure.Rules, chunks *chunkFile, from, to measure.Time, visit func(from, to measure.Time, at *levels)) error {
	s := sweeper{rules: rules, chunks: chunks}
	now := from
	for next := 0; ; {
		at := to
		if next < len(list) {
			at = min(at, list[next].Sent)
		}
		if len(s.heap) > 0 {
			at = min(at, s.heap[0].at)
		}
		if at > now {
			v := s.levels()
			visit(now, at, &v)
			now = at
		}
		if at >= to {
			return nil
		}
		if next < len(list) && list[next].Sent <= at {
			if err := s.open(list[next]); err != nil {
				return err
			}
			next++
			continue
		}
		s.step()
	}
}

// sortedBySent returns the requests of several sets in the order in which they were sent.
func sortedBySent(sets []*rows) (list []*row) {
	each(sets, func(r *row) { list = append(list, r) })
	slices.SortStableFunc(list, func(x, y *row) int { return cmp.Compare(x.Sent, y.Sent) })
	return list
}

// sweeper is a sweep at one instant.
type sweeper struct {
	rules  *measure.Rules
	chunks *chunkFile

	heap []*openRequest // the request with the earliest next step first
	free []*openRequest

	inFlight, prefilling, decoding int
	prefill, decode, tokens        sum
	even                           sum // the rate of output with Rules.AIPerfCurves
}

// openRequest is a request in flight.
type openRequest struct {
	row    *row
	at     measure.Time // of its next step
	steps  []flowStep
	next   int     // of the steps
	stage  stage   // that it is in
	rate   float64 // of decoding, now
	input  float64 // rate of prefilling
	even   float64 // rate of decoding, if it were even
	tokens float64 // that it holds
}

// before orders the heap by the instant of the next step.
func (q *openRequest) before(other *openRequest) bool { return q.at < other.at }

// stage says what a request in flight waits for.
type stage uint8

const (
	prefilling stage = iota
	decoding
	ending // of a failed request, with Rules.AIPerfCurves
)

// open adds a request that is sent now to those in flight.
func (s *sweeper) open(r *row) error {
	q := &openRequest{}
	if n := len(s.free); n > 0 {
		q, s.free = s.free[n-1], s.free[:n-1]
	}
	*q = openRequest{row: r, steps: q.steps[:0]}
	contents, err := wire.Contents{}, error(nil)
	if !r.failed {
		contents, err = s.chunks.of(r)
	}
	if err != nil {
		return err
	}
	q.steps = flow(q.steps, r, contents)
	s.inFlight++
	if r.failed && s.rules.AIPerfCurves {
		q.stage = ending
	} else {
		s.prefilling++
	}
	if !r.failed && r.PromptTokens.N() != unknown {
		q.tokens = float64(r.PromptTokens.N())
		if rate, ok := prefillPerUser(r, s.rules); ok {
			q.input = rate.Float64()
		}
	}
	s.tokens.add(q.tokens)
	s.prefill.add(q.input)
	q.schedule()
	heap.Push(&s.heap, q, (*openRequest).before)
	return nil
}

// schedule sets at to the instant of the next step: the first token, a change of the rate, or the end.
func (q *openRequest) schedule() {
	q.at = q.row.End
	if q.stage == prefilling && q.row.FirstToken != never {
		q.at = min(q.at, q.row.FirstToken)
	}
	if q.next < len(q.steps) {
		q.at = min(q.at, q.steps[q.next].at)
	}
}

// step takes the next step of the request whose step is the earliest.
func (s *sweeper) step() {
	q := s.heap[0]
	at := q.at
	if q.stage == prefilling && q.row.FirstToken != never && q.row.FirstToken <= at {
		q.stage = decoding
		s.prefilling--
		s.decoding++
		s.prefill.add(-q.input)
		q.input = 0
		q.even = evenRate(q.row)
		s.even.add(q.even)
	}
	for ; q.next < len(q.steps) && q.steps[q.next].at <= at; q.next++ {
		step := q.steps[q.next]
		s.decode.add(step.rate*1e9 - q.rate)
		q.rate = step.rate * 1e9
		s.tokens.add(step.tokens)
		q.tokens += step.tokens
	}
	if at >= q.row.End {
		s.close(q)
		return
	}
	q.schedule()
	heap.Sink(s.heap, (*openRequest).before)
}

// close takes q, which is at the top of the heap, out of those in flight.
func (s *sweeper) close(q *openRequest) {
	s.inFlight--
	switch q.stage {
	case prefilling:
		s.prefilling--
	case decoding:
		s.decoding--
	}
	s.prefill.add(-q.input)
	s.decode.add(-q.rate)
	s.even.add(-q.even)
	s.tokens.add(-q.tokens)
	s.free = append(s.free, heap.Pop(&s.heap, (*openRequest).before))
}

// levels returns the values of all curves now.
func (s *sweeper) levels() levels {
	prefill, decode := s.prefill.value(s.prefilling), s.decode.value(s.decoding)
	total := prefill + decode
	if s.rules.AIPerfCurves {
		total = prefill + s.even.value(s.decoding)
	}
	return levels{
		concurrency: float64(s.inFlight), prefillConcurrency: float64(s.prefilling), decodeConcurrency: float64(s.decoding),
		prefillRate: prefill, decodeRate: decode, totalRate: total,
		prefillRatePerUser: perRequest(prefill, s.prefilling), decodeRatePerUser: perRequest(decode, s.decoding),
		tokensInFlight: s.tokens.value(s.inFlight),
	}
}

// evenRate returns the tokens per second after the first token, if they came evenly until the end.
func evenRate(r *row) float64 {
	if r.failed || r.OSL() == unknown || r.End <= r.FirstToken {
		return 0
	}
	return float64(max(0, r.OSL()-1)) * 1e9 / float64(r.End-r.FirstToken)
}

// perRequest divides a rate by n requests; 0 if there are none.
func perRequest(rate float64, n int) float64 {
	if n == 0 {
		return 0
	}
	return rate / float64(n)
}

// sum is a sum to which numbers are added and from which they are subtracted again. It keeps rounding errors apart (Neumaier).
type sum struct{ sum, lost, peak float64 }

// add adds a number, which may be negative.
func (s *sum) add(x float64) {
	t := s.sum + x
	if max(s.sum, -s.sum) >= max(x, -x) {
		s.lost += s.sum - t + x
	} else {
		s.lost += x - t + s.sum
	}
	s.sum = t
	s.peak = max(s.peak, t)
}

// rest is the share of its peak below which a sum counts as 0: that much is rounding error.
const rest = 1e-12

// value returns the sum. n counts the terms that have not been subtracted yet: without any the sum is exactly 0.
func (s *sum) value(n int) float64 {
	if n == 0 {
		return 0
	}
	if v := s.sum + s.lost; v > rest*s.peak {
		return v
	}
	return 0
}

// flowStep is an instant at which a request gets some tokens at once, and from which on it gets rate tokens per nanosecond.
type flowStep struct {
	at     measure.Time
	rate   float64
	tokens float64
}

// flow appends to steps how the output tokens of a request came, in the order of time. The tokens after the first chunk are spread over the
// gaps between content messages: a gap gets as many as the message that ends it brought, or all gaps the same number if that is not known of
// every message. Messages at one instant count as one. It appends nothing if the number of tokens is not known.
func flow(steps []flowStep, r *row, contents wire.Contents) []flowStep {
	osl := r.OSL()
	if r.failed || r.FirstToken == never || osl == unknown {
		return steps
	}
	from := len(steps)
	told := r.FirstChunk() != unknown
	sum := int64(0)
	for at, tokens := range contents.All() {
		told, sum = told && tokens >= 0, sum+tokens
		came := r.Sent + measure.Time(at)
		if n := len(steps); n > from && steps[n-1].at == came {
			steps[n-1].tokens += float64(tokens)
			continue
		}
		steps = append(steps, flowStep{at: came, tokens: float64(tokens)})
	}
	if len(steps) == from { // the instants are not known: a gap from the first to the last token
		steps = append(steps, flowStep{at: r.FirstToken})
		if r.LastToken > r.FirstToken {
			steps = append(steps, flowStep{at: r.LastToken})
		}
	}
	list := steps[from:]
	if !told || sum != osl {
		spread(list, r, osl)
	}
	for k := range list[1:] {
		list[k].rate = list[k+1].tokens / float64(list[k+1].at-list[k].at)
	}
	return steps
}

// spread gives the first message the tokens of the first chunk, and each other message the same share of the rest of osl.
func spread(list []flowStep, r *row, osl int64) {
	first := r.FirstChunk()
	switch {
	case len(list) == 1: // nothing came later
		first = osl
	case first == unknown:
		first = min(1, osl)
	}
	list[0].tokens = float64(first)
	for k := range list[1:] {
		list[k+1].tokens = float64(osl-first) / float64(len(list)-1)
	}
}
