package report

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/agentx/agentx/replay/measure"
)

// percentiles are those of every distribution.
var percentiles = [...]float64{1, 5, 10, 25, 50, 75, 90, 95, 99}

// percentileName returns the name of a percentile: p99.
func percentileName(q float64) string { return "p" + strconv.FormatFloat(q, 'f', -1, 64) }

// samples are the values of one metric.
type samples struct {
	values []float64
	sum    int64 // of integers
	floats bool  // not all are integers
}

// reset removes all values and keeps the memory.
func (s *samples) reset() { *s = samples{values: s.values[:0]} }

// add adds a value.
func (s *samples) add(n Number) {
	s.values = append(s.values, n.Float64())
	if n.IsInt() {
		s.sum += n.Int64()
	} else {
		s.floats = true
	}
}

// number returns a sample, or a sum of samples, as an integer if all samples are integers.
func (s *samples) number(v float64) Number {
	if s.floats {
		return Float(v)
	}
	return Int(int64(v))
}

// distribution sorts the samples and returns their statistics. There must be one sample or more.
func (s *samples) distribution() []Stat {
	slices.Sort(s.values)
	mean, std := measure.MeanAndStd(s.values)
	n := len(s.values)
	stats := []Stat{{"avg", Float(mean)}, {"min", s.number(s.values[0])}, {"max", s.number(s.values[n-1])}}
	for _, q := range percentiles {
		stats = append(stats, Stat{percentileName(q), Float(measure.Percentile(s.values, q))})
	}
	sum := Int(s.sum)
	if s.floats {
		sum = Float(mean * float64(n))
	}
	return append(stats, Stat{"std", Float(std)}, Stat{"count", Int(int64(n))}, Stat{"sum", sum})
}

// adjusted returns the statistics of sorted samples with a further, infinite sample for each failure. Statistics that would be infinite are
// left out. A percentile is the sample nearest to its position.
func (s *samples) adjusted(failures int) []Stat {
	n := len(s.values) + failures
	stats := []Stat{{"min", s.number(s.values[0])}}
	for _, q := range percentiles {
		if at, _ := measure.Nearest(int64(n), q); at < int64(len(s.values)) {
			stats = append(stats, Stat{percentileName(q), s.number(s.values[at])})
		}
	}
	return append(stats, Stat{"count", Int(int64(n))})
}

// adjustedTags are the metrics that have an adjusted form.
var adjustedTags = map[string]bool{
	"request_latency": true, "time_to_first_token": true, "inter_token_latency": true, "decode_duration": true, "effective_latency": true,
}

// isAdjusted reports whether a metric has an adjusted form.
func (run *Run) isAdjusted(tag string) bool {
	return adjustedTags[tag] || run.Harness() && (tag == "full_decode_duration" || tag == "full_response_inter_token_latency")
}

// distributions adds a block for each metric of a request that some request has.
func (t *tableBuilder) distributions() {
	for _, m := range t.run.metrics() {
		if m.of == nil {
			continue
		}
		t.scratch.reset()
		t.each(func(r *row) {
			if r.failed {
				return
			}
			if v, ok := m.of(r, &t.run.rules); ok {
				t.scratch.add(v)
			}
		})
		if len(t.scratch.values) == 0 {
			continue
		}
		t.add(Block{m.tag, m.name, m.unit, Distribution, t.scratch.distribution()})
		if t.failures > 0 && t.run.isAdjusted(m.tag) {
			t.add(Block{"adj_" + m.tag, m.name + " (error-adjusted)", m.unit, Adjusted, t.scratch.adjusted(t.failures)})
		}
	}
}

// gaps adds the block inter_chunk_latency: the times between content messages, of all requests that ended well together.
func (t *tableBuilder) gaps() error {
	if !t.chunks.known() {
		return nil
	}
	moments, k := moments{}, newRanking(fewKeys)
	for more := true; more; {
		err := t.eachGap(func(gap int64) {
			if k.pass == 0 {
				moments.add(float64(gap)/1e6, 1)
			}
			k.add(uint64(gap), 1)
		})
		if err != nil {
			return err
		}
		more = k.endPass(neighbours)
	}
	if k.total == 0 {
		return nil
	}
	stats := []Stat{{"avg", Float(moments.mean)}, {"min", Float(moments.min)}, {"max", Float(moments.max)}}
	for n, q := range percentiles {
		first, _ := measure.Linear(k.total, q)
		sample := func(at int64) float64 { return float64(k.found[2*n+int(at-first)]) / 1e6 }
		stats = append(stats, Stat{percentileName(q), Float(measure.Method(measure.Linear).Of(k.total, q, sample))})
	}
	stats = append(stats, Stat{"std", Float(moments.std())}, Stat{"count", Int(k.total)}, Stat{"sum", Float(moments.mean * float64(k.total))})
	t.add(Block{interChunkLatency, "Inter Chunk Latency", "ms", Distribution, stats})
	return nil
}

// eachGap calls visit with the time between each two content messages of a request, in nanoseconds.
func (t *tableBuilder) eachGap(visit func(gap int64)) (err error) {
	t.each(func(r *row) {
		if r.failed || r.packed == 0 || err != nil {
			return
		}
		contents, e := t.chunks.of(r)
		if err = e; err != nil {
			return
		}
		last := int64(-1)
		for at := range contents.All() {
			if last >= 0 {
				visit(int64(at) - last)
			}
			last = int64(at)
		}
	})
	return err
}

// neighbours returns the ranks of the two samples between which each percentile lies.
func neighbours(n int64) (ranks []int64) {
	if n == 0 {
		return nil
	}
	for _, q := range percentiles {
		at, _ := measure.Linear(n, q)
		ranks = append(ranks, at+1, min(at+2, n))
	}
	return ranks
}

// ranking finds the keys at given ranks among many keys with weights: the smallest key up to which the weights add up to a rank. It is exact,
// and its size is bounded. A few different keys are sorted. With many, each pass over all keys finds 16 more bits of each answer, until only
// few keys share the bits found.
//
//	for more := true; more; more = k.endPass(ranks) {
//		for every key and its weight { k.add(key, weight) }
//	}
//	k.found[n] // at the n-th rank
type ranking struct {
	total int64 // of the weights

	groups []*group // each has the keys among which some answers are
	pass   int      // number of the pass, from 0

	room int // different keys that a group may have after the first pass

	ranks []int64  // of the answers, from 1, among the keys of their group; 0: found
	found []uint64 // the answers, or the bits of them that are found
}

// group has the keys that share their first bits.
type group struct {
	prefix  uint64
	few     []weighted // the keys, while there are at most room different ones
	room    int
	weights []int64 // of more keys: by their next digit
}

// weighted is a key and its weight.
type weighted struct {
	key    uint64
	weight int64
}

const (
	digitBits = 16
	digits    = 64 / digitBits

	fewKeys    = 1 << 16 // different keys that are sorted, in the first pass
	fewOfGroup = 1 << 12 // different keys of a group that are sorted, in later passes
)

// newRanking returns a ranking that sorts up to a number of different keys.
func newRanking(room int) ranking {
	return ranking{groups: []*group{{room: room}}, room: min(room, fewOfGroup)}
}

// add adds a key with a weight. Every pass must add the same keys.
func (k *ranking) add(key uint64, weight int64) {
	if k.pass == 0 {
		k.total += weight
	}
	shift := 64 - digitBits*(k.pass+1)
	for _, g := range k.groups {
		if key>>shift>>digitBits == g.prefix {
			g.add(key, weight, shift)
			return
		}
	}
}

// add adds a key whose next digit begins at bit shift.
func (g *group) add(key uint64, weight int64, shift int) {
	if g.weights != nil {
		g.weights[key>>shift&(1<<digitBits-1)] += weight
		return
	}
	if n := len(g.few); n > 0 && g.few[n-1].key == key {
		g.few[n-1].weight += weight
		return
	}
	if g.few = append(g.few, weighted{key, weight}); len(g.few) <= g.room {
		return
	}
	if g.merge(); len(g.few) > g.room/2 { // most are different: there are many
		g.weights = make([]int64, 1<<digitBits)
		for _, w := range g.few {
			g.weights[w.key>>shift&(1<<digitBits-1)] += w.weight
		}
		g.few = nil
	}
}

// merge sorts the keys in few and adds up the weights of equal ones.
func (g *group) merge() {
	slices.SortFunc(g.few, func(x, y weighted) int { return cmp.Compare(x.key, y.key) })
	n := 0
	for _, w := range g.few {
		if n > 0 && g.few[n-1].key == w.key {
			g.few[n-1].weight += w.weight
			continue
		}
		g.few[n] = w
		n++
	}
	g.few = g.few[:n]
}

// endPass ends a pass over all keys and reports whether another one is needed. After the first pass it calls ranks with the sum of all
// weights: ranks returns the ranks that are wanted.
func (k *ranking) endPass(ranks func(total int64) []int64) (more bool) {
	if k.pass == 0 {
		k.ranks = ranks(k.total)
		k.found = make([]uint64, len(k.ranks))
	}
	for _, g := range k.groups {
		g.merge()
	}
	for n := range k.ranks {
		if k.ranks[n] > 0 {
			k.narrow(n)
		}
	}
	k.pass++
	k.groups = nil
	for n, prefix := range k.found {
		if k.ranks[n] > 0 && !slices.ContainsFunc(k.groups, func(g *group) bool { return g.prefix == prefix }) {
			k.groups = append(k.groups, &group{prefix: prefix, room: k.room})
		}
	}
	return len(k.groups) > 0 && k.pass < digits
}

// narrow finds answer n if its group has few keys, else the next digit of it.
func (k *ranking) narrow(n int) {
	g := k.groups[slices.IndexFunc(k.groups, func(g *group) bool { return g.prefix == k.found[n] })]
	if g.weights == nil {
		for _, w := range g.few {
			k.found[n] = w.key
			if k.ranks[n] -= w.weight; k.ranks[n] <= 0 {
				break
			}
		}
		k.ranks[n] = 0
		return
	}
	digit := uint64(0)
	for ; digit < 1<<digitBits-1 && k.ranks[n] > g.weights[digit]; digit++ {
		k.ranks[n] -= g.weights[digit]
	}
	k.found[n] = k.found[n]<<digitBits | digit
}

// moments are the mean, the extremes and the standard deviation of weighted values.
type moments struct {
	weight, mean, squares float64 // squares: weighted sum of the squared distances from the mean
	min, max              float64
}

// add adds a value with a weight.
func (m *moments) add(v, weight float64) {
	if m.weight == 0 {
		m.min, m.max = v, v
	}
	m.min, m.max = min(m.min, v), max(m.max, v)
	m.weight += weight
	off := v - m.mean
	m.mean += off * weight / m.weight
	m.squares += weight * off * (v - m.mean)
}

// std returns the standard deviation of the population.
func (m *moments) std() float64 { return math.Sqrt(max(0, m.squares/m.weight)) }
