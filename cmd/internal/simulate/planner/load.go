package planner

// verdict is what load says of a pool, or of one side of an aggregated engine: a worker more, one less, or neither.
type verdict struct {
	step    int
	defined bool
	reason  Reason // one that tells more than no_change; "" without
}

// load decides by the last passes of the workers: doc/spec/simulate.md 11.8. It returns the workers of each pool, nil without a decision.
func (p *Planner) load(t *Tick) (want []int) {
	if r := p.unready(t); r != "" {
		t.LoadReason = r
		for i := range t.Pools {
			t.Pools[i].LoadReason = r
		}
		return nil
	}
	list := make([]verdict, len(t.Pools))
	for i := range t.Pools {
		list[i] = p.verdict(i, &t.Pools[i])
	}
	return p.settle(t, list)
}

// unready returns why load cannot decide; "" where it can.
func (p *Planner) unready(t *Tick) Reason {
	known, starting := 0, 0
	for _, one := range t.Pools {
		known, starting = known+len(one.Engines), starting+one.Starting
	}
	switch {
	case !p.config.LoadScaling:
		return disabled
	case known == 0:
		return noPassData
	case starting > 0 && (len(t.Pools) == 1 || !p.whileScaling):
		return scalingInProgress
	}
	for _, one := range t.Pools {
		if n := len(one.Engines); n > 0 && n != one.Active {
			return workerCountMismatch
		}
	}
	return ""
}

func (p *Planner) verdict(pool int, t *PoolTick) verdict {
	switch m := p.models[pool]; {
	case len(t.Engines) == 0:
		return verdict{reason: noPassData}
	case p.config.Target != TargetSLA:
		return p.byUse(m.kind, p.engines[pool], t)
	case !m.line().Fitted:
		return verdict{reason: insufficientData}
	case m.kind == prefillKind:
		return p.byTTFT(m, p.engines[pool], t)
	case m.kind == decodeKind:
		return p.byITL(m, p.engines[pool], t)
	default:
		return combine(p.byTTFT(m, p.engines[pool], t), p.byITL(m, p.engines[pool], t))
	}
}

// combine joins the sides of an aggregated engine: up if either says so, down if both do; a prefill side without a verdict agrees.
func combine(prefill, decode verdict) verdict {
	switch {
	case prefill.defined && prefill.step > 0, decode.defined && decode.step > 0:
		return verdict{step: 1, defined: true}
	case decode.defined && decode.step < 0 && (prefill.step < 0 || !prefill.defined):
		return verdict{step: -1, defined: true}
	case prefill.reason == scaleDownRefused && (decode.step < 0 || decode.reason == scaleDownRefused),
		decode.reason == scaleDownRefused && (prefill.step < 0 || !prefill.defined):
		return verdict{defined: true, reason: scaleDownRefused}
	}
	return verdict{defined: prefill.defined || decode.defined}
}

// judge compares the estimates of all engines with their limit: above it on all: up; below the share of it on all: down.
func judge(estimates []float64, limit, sensitivity float64, least int) int {
	above, below := true, true
	for _, v := range estimates {
		above, below = above && v > limit, below && v < limit*sensitivity
	}
	switch {
	case above:
		return 1
	case below && len(estimates) > least:
		return -1
	}
	return 0
}

// settle makes targets of verdicts. Floor, least and budget come before the question whether anything changes: a raised floor acts
// even where load is content.
func (p *Planner) settle(t *Tick, list []verdict) (want []int) {
	raw, lifted := make([]int, len(list)), make([]int, len(list))
	want = make([]int, len(list))
	for i, v := range list {
		raw[i] = t.Pools[i].Active + v.step
		lifted[i] = raw[i]
		if p.config.ThroughputScaling {
			lifted[i] = max(raw[i], p.floors[i])
		}
		want[i] = max(lifted[i], p.config.MinEndpoint)
		t.Pools[i].Recommended = want[i]
	}
	want = withinBudget(want, p.gpus, p.config.MaxGPUBudget, p.config.MinEndpoint)
	reasons := make([]Reason, len(list))
	changed := false
	for i, v := range list {
		active := t.Pools[i].Active
		capped := raw[i] < active && lifted[i] > raw[i] // by the throughput floor, not by what came after it
		reasons[i] = reasonOf(active, want[i], capped, v.reason)
		t.Pools[i].LoadReason = reasons[i]
		changed = changed || want[i] != active
	}
	t.LoadReason = aggregate(reasons)
	if !changed {
		return nil
	}
	return want
}

// reasonOf says what became of a pool.
func reasonOf(active, want int, capped bool, telling Reason) Reason {
	switch {
	case want > active:
		return scaleUp
	case capped:
		return scaleDownCapped
	case want < active:
		return scaleDown
	case telling != "":
		return telling
	}
	return noChange
}
