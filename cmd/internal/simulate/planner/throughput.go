package planner

import (
	"fmt"
	"math"
	"sort"

	"github.com/agentx/agentx/cmd/internal/simulate/preset"
)

// Prediction is the next traffic window as the planner foretells it.
type Prediction struct {
	Requests float64  `json:"num_req"`
	ISL      float64  `json:"isl"`
	OSL      float64  `json:"osl"`
	Hit      *float64 `json:"hit_rate,omitempty"`
}

// forecast are the predictors of a planner.
type forecast struct {
	requests, isl, osl, hit predictor
	lastISL, lastOSL        float64 // of a window with requests
	seen                    bool    // there was one
}

// observe gives the predictors the averages of a window, which has requests.
func (f *forecast) observe(w *Window) {
	f.requests.add(float64(w.Requests))
	f.isl.add(*w.isl())
	f.osl.add(*w.osl())
	if hit := w.hitRate(); hit != nil {
		f.hit.add(*hit)
	}
}

// next returns the prediction; ok is false where it is no workload.
func (f *forecast) next() (p Prediction, ok bool) {
	p.Requests, ok = f.requests.next()
	p.ISL, _ = f.isl.next()
	p.OSL, _ = f.osl.next()
	if hit, known := f.hit.next(); known {
		p.Hit = &hit
	}
	return p, ok && p.ISL > 0 && p.OSL > 0 && !math.IsInf(p.Requests+p.ISL+p.OSL, 0)
}

// replicas returns how many engines of a rate serve a window.
func replicas(requests, seconds, rps float64, least int) int {
	return max(int(min(math.Ceil(requests/seconds/rps), maxCount)), least)
}

// throughput decides by the window that has ended: doc/spec/simulate.md 11.7. It returns the workers of each pool, nil without a decision.
func (p *Planner) throughput(t *Tick) (want []int) {
	if p.pipeline {
		return p.demandOf(t)
	}
	w := t.Window
	if w.Requests == 0 || w.Seconds() <= 0 {
		t.because(noTrafficData)
		return nil
	}
	p.forecast.observe(w)
	next, ok := p.forecast.next()
	if !ok {
		t.because(predictFailed)
		return nil
	}
	t.Predicted = &next
	if next.Hit != nil && p.discount {
		p.hit = clampHit(*next.Hit)
	}
	want = p.demand(t, next, w.Seconds())
	if want == nil {
		return nil
	}
	if p.config.LoadScaling {
		t.because(setLowerBound)
		copy(p.floors, want)
		return nil
	}
	t.because(scale)
	return p.afford(t, want)
}

// demand returns the workers that each pool needs; nil where a model is not fitted.
func (p *Planner) demand(t *Tick, next Prediction, seconds float64) []int {
	want, ready := make([]int, len(p.models)), true
	for i := range p.models {
		c, ok := p.capacity(i, next)
		if ready = ready && ok; !ok {
			t.Pools[i].ThroughputReason = modelNotReady
			continue
		}
		t.Pools[i].Capacity = &c
		t.Pools[i].ThroughputReason = partnerNotReady
		want[i] = replicas(next.Requests, seconds, c.RPS, p.budget.least[i])
		if !c.Meets {
			p.missed[i]++
		}
	}
	if !ready {
		t.ThroughputReason = modelNotReady
		return nil
	}
	return want
}

// limits names the limits that the capacity of an engine keeps.
func (p *Planner) limits(k kind) string {
	ttft, itl := fmt.Sprintf("ttft_ms %g", p.config.TTFT), fmt.Sprintf("itl_ms %g", p.config.ITL)
	switch k {
	case prefillKind:
		return ttft
	case decodeKind:
		return itl
	}
	return ttft + " or " + itl
}

// capacity returns what one engine of a pool serves; ok is false where its model says nothing.
func (p *Planner) capacity(pool int, next Prediction) (c Capacity, ok bool) {
	m, e := p.models[pool], p.engines[pool]
	l := m.line()
	if !l.Fitted {
		return c, false
	}
	fresh, ttft, itl := next.ISL*(1-p.hit), p.config.TTFT/1e3, p.config.ITL/1e3
	switch m.kind {
	case prefillKind:
		c = prefillCapacity(l, fresh, e, ttft)
	case decodeKind:
		c = decodeCapacity(l, next.ISL, next.OSL, e, m.seenKV, itl)
	default:
		c = aggCapacity(l, aggInput{isl: next.ISL, osl: next.OSL, fresh: fresh, ttft: ttft, itl: itl, engine: e, balance: p.balance})
	}
	return c, c.RPS > 0
}

// Capacity is how many requests a second one engine serves: doc/spec/simulate.md 11.5.
type Capacity struct {
	RPS      float64 `json:"rps"`
	Batch    int     `json:"batch,omitempty"`     // requests of a step
	MaxBatch int     `json:"max_batch,omitempty"` // that the engine can hold, and feed
	Seconds  float64 `json:"step_s,omitempty"`
	Meets    bool    `json:"meets_sla"` // false: even one request misses
}

// chunksOf splits a prompt into passes: a number of full ones with mbt tokens, and the tokens of the last, above 0 and at most mbt.
func chunksOf(tokens, mbt float64) (full, rest float64) {
	if !(tokens > 0) {
		return 0, 0
	}
	full = math.Ceil(tokens/mbt) - 1
	return full, tokens - float64(full*mbt)
}

// prefillSeconds returns how long a model says that a prompt takes in passes of at most mbt tokens, beside kv tokens that decode reads.
func prefillSeconds(l Line, tokens, mbt, kv float64) float64 {
	full, rest := chunksOf(tokens, mbt)
	if rest == 0 {
		return 0
	}
	return float64(full*l.predict(mbt, kv)) + l.predict(rest, kv)
}

// prefillCapacity returns how many prompts of isl tokens a second a prefill engine computes, one after another, and whether each keeps ttft
// seconds.
func prefillCapacity(l Line, isl float64, e Engine, ttft float64) Capacity {
	s := prefillSeconds(l, isl, float64(e.MaxBatchedTokens), 0)
	if !(s > 0) {
		return Capacity{}
	}
	return Capacity{RPS: 1 / s, Seconds: s, Meets: s <= ttft}
}

// fallbackBatch is a batch of which neither engine nor passes say anything.
const fallbackBatch = 256

// heldBatch returns how many requests of a length a decode engine holds, at least 1.
func heldBatch(e Engine, seenKV int, context float64) int {
	kv, most := e.MaxKV, e.MaxSeqs
	if kv <= 0 {
		kv = seenKV
	}
	held := fallbackBatch
	if kv > 0 {
		held = int(float64(kv) / context)
	}
	if most > 0 {
		held = min(held, most)
	}
	return max(held, 1)
}

// decodeCapacity returns how many answers of osl tokens a second a decode engine gives with the largest batch whose steps keep itl seconds.
func decodeCapacity(l Line, isl, osl float64, e Engine, seenKV int, itl float64) Capacity {
	context := isl + osl/2
	c := Capacity{MaxBatch: heldBatch(e, seenKV, context)}
	step := func(n int) float64 { return l.predict(float64(n), float64(float64(n)*context)) }
	c.Batch, c.Meets = largest(c.MaxBatch, func(n int) bool { return step(n) <= itl })
	c.Seconds = step(c.Batch)
	c.RPS = float64(c.Batch) / float64(osl*c.Seconds)
	return c
}

// largest returns the largest of 1 to most that holds, of a condition that falls once; 1 and false where none does.
func largest(most int, holds func(n int) bool) (n int, ok bool) {
	n = sort.Search(most, func(i int) bool { return !holds(i + 1) })
	return max(n, 1), n > 0
}

// balanced reports whether an engine that decodes x requests computes new prompts of isl tokens as fast as it finishes answers of osl.
func balanced(rule preset.Choice, x int, isl, osl float64, mbt int) bool {
	if rule == preset.BalancePR8280 {
		return x < mbt && isl/float64(mbt-x) <= osl
	}
	return math.Ceil(float64(float64(x)*isl)/osl) <= float64(mbt-x)
}

// aggInput is a workload and the engine that takes it. fresh is isl without what is cached.
type aggInput struct {
	isl, osl, fresh, ttft, itl float64
	engine                     Engine
	balance                    preset.Choice
}

// aggCapacity returns how many requests a second an engine serves that computes prompts beside decoding, with the largest batch that keeps
// both limits.
func aggCapacity(l Line, in aggInput) (c Capacity) {
	e, context := in.engine, in.isl+in.osl/2
	most := min(max(1, int(float64(e.MaxKV)/context)), e.MaxSeqs, e.MaxBatchedTokens-1)
	c.MaxBatch, _ = largest(max(most, 1), func(x int) bool { return balanced(in.balance, x, in.fresh, in.osl, e.MaxBatchedTokens) })
	c.Batch, c.Meets = largest(c.MaxBatch, func(n int) bool {
		return aggStep(l, in, context, n) <= in.itl && aggTTFT(l, in, context, n) <= in.ttft
	})
	c.Seconds = aggStep(l, in, context, c.Batch)
	c.RPS = float64(c.Batch) / float64(in.osl*c.Seconds)
	return c
}

// aggPrefill returns the prompt tokens of a step of n requests.
func aggPrefill(in aggInput, n int) float64 {
	return min(float64(float64(n)*in.fresh)/in.osl, float64(in.engine.MaxBatchedTokens))
}

// aggStep returns the seconds of a step of n requests of context tokens, the prompt tokens that it computes included.
func aggStep(l Line, in aggInput, context float64, n int) float64 {
	return l.predict(aggPrefill(in, n), float64(float64(n)*context))
}

// aggTTFT returns the seconds to the first token of a prompt that arrives at an engine with n requests of context tokens.
func aggTTFT(l Line, in aggInput, context float64, n int) float64 {
	queued, kv := math.Floor(aggPrefill(in, n)), math.Floor(float64(float64(n)*context))
	return prefillSeconds(l, queued+in.fresh, float64(in.engine.MaxBatchedTokens), kv)
}

// predictor foretells the next value of a series: doc/spec/simulate.md 11.7.
type predictor struct {
	config *Config
	kalman bool
	start  float64 // covariance
	points int
	last   float64
	level  float64
	trend  float64
	p      [3]float64 // covariance: of the level, of both, of the trend
}

// The covariance that the Kalman filter begins with: that of a pipeline is Dynamo's.
const (
	firstCovariance    = 10
	pipelineCovariance = 1000
)

// add takes the next value.
func (k *predictor) add(v float64) {
	k.points++
	if k.last = v; k.config.Log {
		v = math.Log1p(max(v, 0))
	}
	if k.points == 1 {
		k.level, k.trend, k.p = v, 0, [3]float64{k.start, 0, k.start}
		return
	}
	level := k.level + k.trend
	a, b, d := k.p[0]+k.p[1]+k.p[1]+k.p[2]+k.config.KalmanLevel, k.p[1]+k.p[2], k.p[2]+k.config.KalmanTrend
	gain, trendGain := a/(a+k.config.KalmanValue), b/(a+k.config.KalmanValue)
	k.level = level + float64(gain*(v-level))
	k.trend += float64(trendGain * (v - level))
	k.p = [3]float64{a - float64(gain*a), b - float64(gain*b), d - float64(trendGain*b)}
}

// next returns the prediction; ok is false before the first value.
func (k *predictor) next() (v float64, ok bool) {
	switch v = k.level + k.trend; {
	case !k.kalman || k.points < max(k.config.KalmanPoints, 1):
		return k.last, k.points > 0
	case k.config.Log:
		v = math.Expm1(v)
	}
	return max(v, 0), true
}
