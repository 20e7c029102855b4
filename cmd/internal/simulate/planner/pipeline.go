package planner

import (
	"cmp"
	"slices"
	"strconv"
)

// hear learns from passes where that is due, and, where only load decides, which share of prompts was known.
func (p *Planner) hear(t *Tick) {
	sla := p.config.Target == TargetSLA
	if t.Load && sla {
		p.learn(t)
	}
	if t.Load && sla && !p.config.ThroughputScaling {
		p.drain(t)
		p.hit = 0
		if rate := t.Window.hitRate(); rate != nil {
			p.hit = clampHit(*rate)
		}
	}
	if t.Load && !p.config.LoadScaling {
		t.Load, t.LoadReason = false, disabled
	}
}

// learn feeds the models from the last pass of each engine, be it new or not: doc/spec/simulate.md 11.12.
func (p *Planner) learn(t *Tick) {
	for i := range t.Pools {
		list := slices.Clone(t.Pools[i].Engines)
		for k := range list {
			p.forward[i].notice(&list[k].last)
		}
		slices.SortFunc(list, func(a, b EngineNow) int { // as texts
			return cmp.Compare(strconv.Itoa(a.Worker), strconv.Itoa(b.Worker))
		})
		for k := range list {
			p.forward[i].learn(&list[k].last)
		}
	}
}

// foresee judges a pool by what its engines would take for the next request, and those that remain for the load of one less.
func (p *Planner) foresee(i int, t *PoolTick) verdict {
	f := p.forward[i]
	switch {
	case !f.ready():
		return verdict{reason: insufficientData}
	case f.kind == prefillKind:
		return p.foreseeTTFT(f, t, p.budget.least[i])
	case f.kind == decodeKind:
		return p.foreseeITL(f, t, p.budget.least[i])
	}
	prompts, decodes := p.foreseeTTFT(f, t, p.budget.least[i]), p.foreseeITL(f, t, p.budget.least[i])
	v := combine(prompts, decodes)
	if v.step == 0 && (prompts.reason == scaleDownRefused || decodes.reason == scaleDownRefused) {
		v.reason = scaleDownRefused
	}
	return v
}

// share is what each of the engines that remain has of the load of n; all of it where one is all.
func share(n int) float64 {
	if n < 2 {
		return 1
	}
	return float64(n) / float64(n-1)
}

// foreseeTTFT judges a pool by first tokens.
func (p *Planner) foreseeTTFT(f *forward, t *PoolTick, least int) verdict {
	var list []float64
	down, refused, more := t.Active > 1, false, 1.0
	if f.kind == aggKind {
		more = share(t.Active)
	}
	for k := range t.Engines {
		r := &t.Engines[k].last
		if s, ok := f.ttft(r, p.hit, 1, 1, false); ok {
			list = append(list, s*1e3)
		}
		if !down {
			continue
		}
		agg := f.kind == aggKind // what waits to decode moves, too
		own, ok := f.ttft(r, p.hit, 0, more, agg)
		after, also := f.ttft(r, p.hit, share(t.Active), more, agg)
		left := (p.config.TTFT - own*1e3) * p.config.Sensitivity
		refuses := ok && (left <= 0 || also && after*1e3-own*1e3 >= left)
		if refuses || !ok || !also {
			down, refused = false, refused || refuses
		}
	}
	if len(list) > 0 {
		worst := slices.Max(list)
		t.TTFTMS = &worst
	}
	return p.decide(list, p.config.TTFT, t.Active, least, down, refused)
}

// foreseeITL judges a pool by the gaps between tokens.
func (p *Planner) foreseeITL(f *forward, t *PoolTick, least int) verdict {
	var list []float64
	down, refused := t.Active > 1, false
	for k := range t.Engines {
		r := &t.Engines[k].last
		if s, ok := f.itl(r, 1, false); ok {
			list = append(list, s*1e3)
		}
		if !down {
			continue
		}
		kv := int(float64(held(f.kind, t.Engines[k])) * share(t.Active))
		after, ok := f.itl(r, share(t.Active), f.kind == aggKind)
		refuses := f.engine.MaxKV > 0 && kv >= f.engine.MaxKV || ok && after*1e3 >= p.config.ITL*p.config.Sensitivity
		if refuses || !ok {
			down, refused = false, refused || refuses
		}
	}
	if len(list) > 0 {
		worst := slices.Max(list)
		t.ITLMS = &worst
	}
	return p.decide(list, p.config.ITL, t.Active, least, down, refused)
}

// decide makes a verdict of the estimates of the engines that have one: up where all are above the limit, down where the survivors can carry
// the load. A side without a verdict is not defined.
func (p *Planner) decide(list []float64, limit float64, n, least int, down, refused bool) verdict {
	switch {
	case len(list) == 0 && refused:
		return verdict{defined: true, reason: scaleDownRefused}
	case len(list) == 0:
		return verdict{reason: insufficientData}
	case slices.Min(list) > limit:
		return verdict{step: 1, defined: true}
	case down:
		return verdict{step: max(n-1, least) - n, defined: true}
	case refused:
		return verdict{defined: true, reason: scaleDownRefused}
	}
	return verdict{}
}

// demandOf decides by the window that has ended, as a pipeline does. It returns the workers of each pool, nil without a decision.
func (p *Planner) demandOf(t *Tick) (want []int) {
	w, now := t.Window, active(t)
	if w.Seconds() <= 0 {
		t.because(noTrafficData)
		return nil
	}
	next := p.forecast.carried(w)
	t.Predicted = &next
	p.hit = clampHit(*next.Hit)
	want, ready := p.sized(t, next, w.Seconds()), true
	if want == nil {
		want, ready = slices.Clone(now), false
	}
	for i := range want {
		want[i] = max(min(max(want[i], now[i]-p.config.MaxStep), now[i]+p.config.MaxStep), p.budget.least[i])
	}
	want, held := p.budget.ceiling(now, want)
	reason := setLowerBound
	if p.config.LoadScaling {
		copy(p.floors, want)
		if held == budgetHold {
			reason = held
		}
		want = nil
	} else {
		reason = scale
		for i := range want {
			t.Pools[i].Recommended = want[i]
		}
		var why Reason
		if want, why = p.budget.guard(now, want); slices.Equal(want, now) {
			want, reason = nil, cmp.Or(why, held, noChange)
		}
	}
	if !ready {
		t.ThroughputReason = modelNotReady // those of the pools say which
		return want
	}
	t.because(reason)
	return want
}

// sized returns the workers that each pool needs for a workload; nil where a model has no fit.
func (p *Planner) sized(t *Tick, next Prediction, seconds float64) []int {
	want, ready := make([]int, len(t.Pools)), true
	for i := range t.Pools {
		c, ok := p.forward[i].capacity(next.ISL, next.OSL, p.hit, p.config.TTFT/1e3, p.config.ITL/1e3)
		if !ok {
			t.Pools[i].ThroughputReason, ready = modelNotReady, false
			continue
		}
		t.Pools[i].Capacity, t.Pools[i].ThroughputReason = &c, partnerNotReady
		want[i] = replicas(next.Requests, seconds, c.RPS, p.budget.least[i])
		if !c.Meets {
			p.missed[i]++
		}
	}
	if !ready {
		return nil
	}
	return want
}

// because notes why throughput decided as it did, for all pools.
func (t *Tick) because(r Reason) {
	t.ThroughputReason = r
	for i := range t.Pools {
		t.Pools[i].ThroughputReason = r
	}
}

// active returns the active workers of each pool.
func active(t *Tick) (n []int) {
	for _, one := range t.Pools {
		n = append(n, one.Active)
	}
	return n
}

// carried gives the predictors the averages of a window, and returns their prediction. A window without a request carries the lengths of the
// last one on.
func (f *forecast) carried(w *Window) Prediction {
	value := func(v *float64) float64 {
		if v == nil {
			return 0
		}
		return *v
	}
	isl, osl, hit := value(w.isl()), value(w.osl()), value(w.hitRate())
	f.requests.addAfterZeros(float64(w.Requests))
	if w.Requests > 0 {
		f.lastISL, f.lastOSL, f.seen = isl, osl, true
	} else if f.seen {
		isl, osl = f.lastISL, f.lastOSL
	}
	f.isl.addAfterZeros(isl)
	f.osl.addAfterZeros(osl)
	p := Prediction{Hit: &hit}
	p.Requests, _ = f.requests.next()
	p.ISL, _ = f.isl.next()
	p.OSL, _ = f.osl.next()
	return p
}

// addAfterZeros takes the next value, but no zero before another value.
func (k *predictor) addAfterZeros(v float64) {
	if v != 0 || k.points > 0 {
		k.add(v)
	}
}

// project returns what a tick makes of its pools: where nothing starts, pools below the least and fleets outside of the budget are brought
// back, decided or not.
func (p *Planner) project(t *Tick, want []int) []int {
	now, starting := active(t), 0
	for _, one := range t.Pools {
		starting += one.Starting
	}
	if want == nil {
		want = slices.Clone(now)
	}
	if starting == 0 {
		for i, least := range p.budget.least {
			if now[i] < least {
				want[i] = max(want[i], least)
			}
		}
	}
	if slices.Equal(want, now) && (starting > 0 || p.budget.holds(now)) {
		return nil
	}
	if want = p.budget.clamp(p.budget.lifted(want)); slices.Equal(want, now) {
		return nil
	}
	return want
}
