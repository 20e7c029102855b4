package planner

import (
	"errors"
	"fmt"
	"math"
)

// model learns from the passes of a pool how long its passes take, and what its requests are like.
type model struct {
	kind    kind
	least   int // samples for a fit
	samples samples
	fitted  Line
	at      int // changes of the samples that fitted knows

	prompt  average // tokens of a prefill in a pass
	length  average // KV tokens of a decoding request
	prefill average // tokens of a pass
	decodes average // requests of a decode step
	seenKV  int     // the most KV tokens of a step
}

// newModel returns a model that has seen no pass.
func newModel(k kind, c Config) *model {
	m := &model{kind: k, least: c.MinObservations, samples: newSamples(c.MaxSamples, c.BucketCount, k.features())}
	for _, a := range []*average{&m.prompt, &m.length, &m.prefill, &m.decodes} {
		*a = newAverage(c.MaxSamples)
	}
	return m
}

// line returns the line through the samples as they are.
func (m *model) line() Line {
	if m.at != m.samples.changes {
		m.fitted, m.at = fit(m.kind, m.samples.list, m.least), m.samples.changes
	}
	return m.fitted
}

// observe learns from a pass.
func (m *model) observe(r *record) {
	if r.prompts > 0 {
		m.prompt.add(float64(r.prefill) / float64(r.prompts))
	}
	if r.requests > 0 {
		m.length.add(float64(r.kv) / float64(r.requests))
	}
	m.prefill.add(float64(r.prefill))
	m.decodes.add(float64(r.requests))
	m.seenKV = max(m.seenKV, r.kv)
	m.point(r.prefill, int(r.requests), r.kv, r.wall)
}

// point keeps a pass of wall nanoseconds as a sample, unless it took no time.
func (m *model) point(prefill, requests, kv int, wall int64) {
	if wall <= 0 {
		return
	}
	s := sample{wall: float64(wall) / 1e9}
	switch m.kind {
	case prefillKind:
		s.x[0] = float64(prefill)
	case decodeKind:
		s.x = [2]float64{float64(requests), float64(kv)}
	default:
		s.x = [2]float64{float64(prefill), float64(kv)}
	}
	m.samples.add(s)
}

// average is the mean of the last values, without the zeros before the first other value.
type average struct {
	ring    []float64
	next    int
	full    bool
	some    bool
	running bool    // the mean is that of sum
	sum     float64 // what came less what went, of which rounding leaves something: Dynamo's mean of zeros behind other values is not 0
}

func newAverage(window int) average { return average{ring: make([]float64, window)} }

// add takes the next value, which replaces the oldest of a full window.
func (a *average) add(v float64) {
	if v == 0 && !a.some {
		return
	}
	a.some = true
	if a.sum += v; a.full {
		a.sum -= a.ring[a.next]
	}
	a.ring[a.next] = v
	if a.next++; a.next == len(a.ring) {
		a.next, a.full = 0, true
	}
}

// value returns the mean; 0 without values.
func (a *average) value() float64 {
	list := a.ring[:a.next]
	if a.full {
		list = a.ring
	}
	switch {
	case len(list) == 0:
		return 0
	case a.running:
		return a.sum / float64(len(list))
	}
	sum := 0.0
	for _, v := range list {
		sum += v
	}
	return sum / float64(len(list))
}

// sample is a pass: what it did, and its seconds. A kind with one feature leaves the second 0.
type sample struct {
	x    [2]float64
	wall float64
	raw  [2]float64 // of a forward model, whose x are logarithms
}

// samples keeps passes of all sizes: when it is full, the oldest of the fullest bucket goes. Buckets have equal widths over the range
// seen so far, and are drawn anew when it grows.
type samples struct {
	most    int
	axis    int // buckets along a feature
	list    []sample
	bucket  []int // of each of list
	counts  []int // of buckets
	low     [2]float64
	high    [2]float64
	changes int
}

// newSamples returns an empty store of most samples in so many buckets.
func newSamples(most, buckets, features int) samples {
	axis, all := buckets, buckets
	if features == 2 {
		axis = int(math.Sqrt(float64(buckets)))
		all = axis * axis
	}
	inf := math.Inf(1)
	return samples{most: most, axis: axis, counts: make([]int, all), low: [2]float64{inf, inf}, high: [2]float64{-inf, -inf}}
}

// add keeps a sample, and drops an old one if there are too many.
func (s *samples) add(v sample) {
	s.changes++
	if s.widen(v.x) {
		clear(s.counts)
		for i, old := range s.list {
			s.bucket[i] = s.place(old.x)
			s.counts[s.bucket[i]]++
		}
	}
	b := s.place(v.x)
	s.counts[b]++
	s.list, s.bucket = append(s.list, v), append(s.bucket, b)
	if len(s.list) > s.most {
		s.retire()
	}
}

// widen takes a value into the range, and reports whether it lay outside.
func (s *samples) widen(x [2]float64) (grown bool) {
	for k, v := range x {
		if v < s.low[k] {
			s.low[k], grown = v, true
		}
		if v > s.high[k] {
			s.high[k], grown = v, true
		}
	}
	return grown
}

// place returns the bucket in which a sample with these features lies.
func (s *samples) place(x [2]float64) (bucket int) {
	for k, v := range x {
		if s.high[k] > s.low[k] {
			i := int((v - s.low[k]) / (s.high[k] - s.low[k]) * float64(s.axis))
			i = max(0, min(i, s.axis-1))
			if k == 0 {
				bucket = i
			} else {
				bucket += i * s.axis
			}
		}
	}
	return bucket
}

// retire drops the oldest sample of the fullest bucket, the first of those that are as full.
func (s *samples) retire() {
	fullest := 0
	for b, n := range s.counts {
		if n > s.counts[fullest] {
			fullest = b
		}
	}
	for i, b := range s.bucket {
		if b == fullest {
			copy(s.list[i:], s.list[i+1:])
			copy(s.bucket[i:], s.bucket[i+1:])
			s.list, s.bucket = s.list[:len(s.list)-1], s.bucket[:len(s.bucket)-1]
			s.counts[b]--
			return
		}
	}
}

// kind says which features of a pass explain its time.
type kind uint8

// The kinds of models.
const (
	prefillKind kind = iota // prefill tokens
	decodeKind              // requests, KV tokens
	aggKind                 // prefill tokens, KV tokens
)

// features returns how many features the line has.
func (k kind) features() int {
	if k == prefillKind {
		return 1
	}
	return 2
}

// Line says how long a pass takes: an intercept, and seconds for each unit of a feature. The zero value has no fit.
type Line struct {
	Intercept float64    `json:"intercept_s"`
	Coef      [2]float64 `json:"coef"`
	Fitted    bool       `json:"fitted"`
}

// leastSeconds is the shortest time that a model foretells.
const leastSeconds = 1e-6

// predict returns the seconds of a pass with features a and b, at least leastSeconds.
func (l Line) predict(a, b float64) float64 {
	return max(l.Intercept+float64(l.Coef[0]*a)+float64(l.Coef[1]*b), leastSeconds)
}

// batchTolerance is how far below 0 the coefficient of decode's requests may lie: batch size and KV tokens move together.
const batchTolerance = -1e-6

// fit returns the least-squares line through the samples, not fitted where they say too little or the time would fall with more work.
func fit(k kind, list []sample, least int) Line {
	if len(list) < least {
		return Line{}
	}
	l := solve(k, list)
	if !l.Fitted {
		return Line{}
	}
	if k == decodeKind && l.Coef[0] < batchTolerance {
		l.Coef[0] = 0
	}
	tolerated := k == decodeKind
	if l.Coef[0] < 0 && !tolerated || l.Coef[1] < 0 {
		return Line{}
	}
	return l
}

// singular is the share of the product of two variances at which two features count as one.
const singular = 1e-12

// solve returns the least-squares line, from centred sums. Products are rounded: no fused multiply-add.
func solve(k kind, list []sample) (l Line) {
	n := float64(len(list))
	var mx [2]float64
	var my float64
	for _, s := range list {
		mx[0], mx[1], my = mx[0]+s.x[0], mx[1]+s.x[1], my+s.wall
	}
	mx[0], mx[1], my = mx[0]/n, mx[1]/n, my/n
	var xx, yy, xy, xw, yw float64
	for _, s := range list {
		x, y, w := s.x[0]-mx[0], s.x[1]-mx[1], s.wall-my
		xx, yy, xy = xx+float64(x*x), yy+float64(y*y), xy+float64(x*y)
		xw, yw = xw+float64(x*w), yw+float64(y*w)
	}
	if k.features() == 1 {
		if xx == 0 {
			return Line{}
		}
		l.Coef[0] = xw / xx
	} else {
		det := float64(xx*yy) - float64(xy*xy)
		if !(det > singular*float64(xx*yy)) {
			return Line{}
		}
		l.Coef[0] = (float64(xw*yy) - float64(yw*xy)) / det
		l.Coef[1] = (float64(yw*xx) - float64(xw*xy)) / det
	}
	l.Intercept = my - float64(l.Coef[0]*mx[0]) - float64(l.Coef[1]*mx[1])
	l.Fitted = !math.IsNaN(l.Intercept) && !math.IsInf(l.Intercept, 0)
	return l
}

// Bootstrap says what the models of a planner knew before the first tick: doc/spec/simulate.md 11.4.
type Bootstrap struct {
	Samples []int  `json:"samples"`          // of each pool
	Failed  string `json:"failed,omitempty"` // why there are none
}

// errBootstrap is why models begin with nothing. A planner goes on without.
var errBootstrap = errors.New("no bootstrap")

// The points of a sweep.
const firstPrefill = 100

var contexts = []int{500, 2000, 4000, 8000}

// batch is a point of a decode sweep.
type batch struct{ requests, kv int }

// prefillPoints returns the prompt lengths that a bootstrap times: about granularity of them, from firstPrefill to mbt, the budget of a
// pass.
func prefillPoints(mbt, granularity int) (list []int) {
	for n := firstPrefill; n <= mbt; n += max(1, (mbt-firstPrefill)/granularity) {
		list = append(list, n)
	}
	return list
}

// decodePoints returns the decode batches that a bootstrap times: of up to seqs requests, without those that a pool of kv tokens cannot
// hold.
func decodePoints(seqs, kv, granularity int) (list []batch) {
	for _, context := range contexts {
		for n := 1; n <= seqs; n += max(1, seqs/granularity) {
			if n*context <= kv {
				list = append(list, batch{n, n * context})
			}
		}
	}
	return list
}

// bootstrap feeds the models of the pools from the timing of their own engines. All stay empty when one cannot be fed.
func (p *Planner) bootstrap() error {
	for i, m := range p.models {
		if err := p.sweep(m, p.engines[i]); err != nil {
			for k := range p.models {
				p.models[k] = newModel(p.models[k].kind, p.config)
			}
			if errors.Is(err, errBootstrap) {
				p.boot.Failed, p.boot.Samples = fmt.Sprintf("%s: %v", p.config.pools()[i], err), nil
				return nil
			}
			return err
		}
		p.boot.Samples = append(p.boot.Samples, len(m.samples.list))
	}
	return nil
}

// sweep feeds a model from an engine: an aggregated one with prefills and decodes, as either alone leaves a feature without variance.
func (p *Planner) sweep(m *model, e Engine) error {
	var prefills []int
	var decodes []batch
	if m.kind != decodeKind {
		if prefills = prefillPoints(e.MaxBatchedTokens, p.config.BenchmarkGranularity); len(prefills) == 0 {
			return fmt.Errorf("%w: max_num_batched_tokens %d is below %d, the shortest prompt that it times", errBootstrap, e.MaxBatchedTokens, firstPrefill)
		}
	}
	if m.kind != prefillKind {
		if decodes = decodePoints(e.MaxSeqs, e.MaxKV, p.config.BenchmarkGranularity); len(decodes) == 0 {
			return fmt.Errorf("%w: the pool of %d tokens is smaller than %d, the shortest request that it times", errBootstrap, e.MaxKV, contexts[0])
		}
	}
	for _, tokens := range prefills {
		wall := e.Timing.Prefill(tokens)
		if wall <= 0 {
			return fmt.Errorf("%w: the timing gives %d ns for a prefill of %d tokens: want more than 0", errBootstrap, wall, tokens)
		}
		m.point(tokens, 0, 0, wall)
	}
	for _, b := range decodes {
		wall := e.Timing.Decode(b.kv, b.kv, b.requests)
		if wall <= 0 {
			return fmt.Errorf("%w: the timing gives %d ns for a decode step of %d requests with %d tokens: want more than 0", errBootstrap, wall, b.requests, b.kv)
		}
		m.point(0, b.requests, b.kv, wall)
	}
	return nil
}
