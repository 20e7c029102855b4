package planner

import (
	"fmt"
	"math"
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
}

// observe takes a window that had requests.
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
	mirror := func(r Reason) {
		t.ThroughputReason = r
		for i := range t.Pools {
			t.Pools[i].ThroughputReason = r
		}
	}
	w := t.Window
	if w.Requests == 0 || w.Seconds() <= 0 {
		mirror(noTrafficData)
		return nil
	}
	p.forecast.observe(w)
	next, ok := p.forecast.next()
	if !ok {
		mirror(predictFailed)
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
		mirror(setLowerBound)
		copy(p.floors, want)
		return nil
	}
	mirror(scale)
	return want
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
		want[i] = replicas(next.Requests, seconds, c.RPS, p.config.MinEndpoint)
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
