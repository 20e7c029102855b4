package planner

import (
	"cmp"
	"slices"
)

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
	if v := list[0]; p.pipeline && len(list) == 1 && !v.defined && (p.config.Target != TargetSLA || v.reason == insufficientData) {
		t.LoadReason = cmp.Or(v.reason, noChange) // not even the budget acts
		t.Pools[0].LoadReason = t.LoadReason
		return nil
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

// verdict judges a pool by the target: by latencies under sla, else by how full its engines are.
func (p *Planner) verdict(pool int, t *PoolTick) verdict {
	switch m := p.models[pool]; {
	case len(t.Engines) == 0 && p.pipeline:
		return verdict{}
	case len(t.Engines) == 0:
		return verdict{reason: noPassData}
	case p.config.Target != TargetSLA:
		return p.byUse(m.kind, p.engines[pool], t, p.budget.least[pool])
	case p.pipeline:
		return p.foresee(pool, t)
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
	raw, lifted, now := make([]int, len(list)), make([]int, len(list)), active(t)
	raised := false
	for i, v := range list {
		raw[i] = now[i] + v.step
		lifted[i] = raw[i]
		if p.config.ThroughputScaling {
			lifted[i] = max(raw[i], p.floors[i])
		}
		raised = raised || lifted[i] > raw[i]
	}
	want = p.budget.lifted(lifted)
	for i := range want {
		t.Pools[i].Recommended = want[i]
	}
	if raised && len(want) == 2 {
		want, _ = p.budget.ceiling(now, want)
	}
	want, budgeted := p.budget.guard(now, want)
	reasons := make([]Reason, len(list))
	for i, v := range list {
		capped := raw[i] < now[i] && lifted[i] > raw[i] // by the throughput floor, not by what came after it
		reasons[i] = reasonOf(now[i], want[i], capped, v.reason)
		t.Pools[i].LoadReason = reasons[i]
	}
	t.LoadReason = cmp.Or(budgeted, aggregate(reasons))
	if len(list) == 1 {
		t.Pools[0].LoadReason = t.LoadReason
	}
	if !slices.Equal(want, now) {
		return want
	}
	if p.pipeline && len(list) == 2 {
		t.telling(list, budgeted)
	}
	return nil
}

// telling gives pools that do not change the reasons that tell more than no_change.
func (t *Tick) telling(list []verdict, budgeted Reason) {
	for i := len(list) - 1; i >= 0; i-- {
		if r := list[i].reason; r != "" && r != noChange {
			t.Pools[i].LoadReason = r
			t.LoadReason = cmp.Or(budgeted, r)
		}
	}
}

// reasonOf says why a pool of so many active workers gets as many as want. capped: the throughput floor kept it from shrinking further.
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

// byTTFT judges a pool by the first tokens of its next requests.
func (p *Planner) byTTFT(m *model, e Engine, t *PoolTick) verdict {
	list := make([]float64, len(t.Engines))
	for i, now := range t.Engines {
		list[i] = p.ttftMS(m, e, now.QueuedPrefill, now.KV)
	}
	worst := slices.Max(list)
	t.TTFTMS = &worst
	v := verdict{step: judge(list, p.config.TTFT, p.config.Sensitivity, p.config.MinEndpoint), defined: true}
	if v.step < 0 && p.consolidation && slices.ContainsFunc(t.Engines, func(now EngineNow) bool { return p.queueTooLong(m, e, now, t.Active) }) {
		return verdict{defined: true, reason: scaleDownRefused}
	}
	return v
}

// ttftMS estimates a first token behind a queue; the KV tokens count where an engine decodes beside it.
func (p *Planner) ttftMS(m *model, e Engine, queued, kv int) float64 {
	if m.kind == prefillKind {
		kv = 0
	}
	return m.ttft(float64(queued), p.hit, e.MaxBatchedTokens, kv) * 1e3
}

// survivor returns what one engine of n has of a load when it has to share that of another.
func survivor(load, n int) int { return load * n / (n - 1) }

// queueTooLong reports whether the queue of an engine that remains would take more than the share of the limit that its own prefill leaves.
func (p *Planner) queueTooLong(m *model, e Engine, now EngineNow, n int) bool {
	kv := survivor(now.KV, n)
	own := p.ttftMS(m, e, 0, kv)
	caused := p.ttftMS(m, e, survivor(now.QueuedPrefill, n), kv) - own
	return caused >= (p.config.TTFT-own)*p.config.Sensitivity
}

// byITL judges a pool by the estimated gaps between tokens of its engines.
func (p *Planner) byITL(m *model, e Engine, t *PoolTick) verdict {
	list := make([]float64, len(t.Engines))
	for i, now := range t.Engines {
		list[i] = m.itl(float64(now.KV+now.QueuedKV)) * 1e3
	}
	worst := slices.Max(list)
	t.ITLMS = &worst
	v := verdict{step: judge(list, p.config.ITL, p.config.Sensitivity, p.config.MinEndpoint), defined: true}
	if v.step < 0 && p.consolidation && slices.ContainsFunc(t.Engines, func(now EngineNow) bool { return p.cacheTooFull(m, e, now, t.Active) }) {
		return verdict{defined: true, reason: scaleDownRefused}
	}
	return v
}

// cacheTooFull reports whether an engine that remains could not hold its KV tokens, or would decode too slowly.
func (p *Planner) cacheTooFull(m *model, e Engine, now EngineNow, n int) bool {
	kv := survivor(held(m.kind, now), n)
	return e.MaxKV > 0 && kv >= e.MaxKV || m.itl(float64(kv))*1e3 >= p.config.ITL*p.config.Sensitivity
}

// held returns the KV tokens that an engine has to hold. The prompts that wait for an aggregated one become some.
func held(k kind, now EngineNow) int {
	if k == aggKind {
		return now.KV + now.QueuedKV + now.QueuedPrefill
	}
	return now.KV + now.QueuedKV
}

// bounds are the shares of what an engine can hold at which a pool grows and shrinks, of targets other than sla.
type bounds struct {
	up, down float64
	atUp     bool // up includes its bound
	atDown   bool // down does
}

// useBounds has the bounds of a target, of prefill queues and of KV use.
var useBounds = map[string][2]bounds{
	targetThroughput: {{up: 1, down: 0.1, atUp: true}, {up: 1, down: 0.6}},
	TargetLatency:    {{up: 0.1, down: 0, atUp: true, atDown: true}, {up: 0.4, down: 0.1}},
	targetLoad:       {{atUp: true, atDown: true}, {atUp: true, atDown: true}},
}

// byUse judges a pool by how full its engines are: up if any is too full, down if all are nearly empty.
func (p *Planner) byUse(k kind, e Engine, t *PoolTick, least int) verdict {
	c, b := p.config, useBounds[p.config.Target][1]
	if k == prefillKind {
		b = useBounds[c.Target][0]
	}
	use := func(now EngineNow) float64 {
		switch {
		case k != prefillKind:
			return float64(held(k, now)) / float64(e.MaxKV)
		case c.Target == targetLoad:
			return float64(now.QueuedPrefill)
		}
		return float64(now.QueuedPrefill) / float64(e.ContextLength)
	}
	switch {
	case c.Target == targetLoad && k == prefillKind:
		b.up, b.down = float64(c.PrefillUp), float64(c.PrefillDown)
	case c.Target == targetLoad:
		b.up, b.down = c.DecodeUp/100, c.DecodeDown/100
	}
	full := func(now EngineNow) bool { u := use(now); return u > b.up || b.atUp && u == b.up }
	busy := func(now EngineNow) bool { u := use(now); return u > b.down || !b.atDown && u == b.down }
	fewer := max(t.Active-1, least)
	tooMuch := func(now EngineNow) bool { // for a survivor
		return p.consolidation && fewer < t.Active && use(now)*float64(t.Active)/float64(fewer) >= b.up
	}
	switch {
	case k == prefillKind && c.Target != targetLoad && e.ContextLength == 0:
		return verdict{reason: insufficientData}
	case slices.ContainsFunc(t.Engines, full):
		return verdict{step: 1, defined: true}
	case t.Active < 2 || slices.ContainsFunc(t.Engines, busy):
		return verdict{}
	case slices.ContainsFunc(t.Engines, tooMuch):
		return verdict{defined: true}
	}
	return verdict{step: fewer - t.Active, defined: true}
}

// maxHit is the largest hit rate that discounts work.
const maxHit = 0.95

// clampHit returns a hit rate that work may be discounted by.
func clampHit(hit float64) float64 { return max(0, min(hit, maxHit)) }

// ttft estimates the seconds to the first token of the next request of an engine: doc/spec/simulate.md 11.6.
func (m *model) ttft(queued, hit float64, mbt, kv int) float64 {
	return prefillSeconds(m.line(), (queued+m.prompt.value())*(1-clampHit(hit)), float64(mbt), float64(kv))
}

// itl estimates the seconds of a decode step with the next request.
func (m *model) itl(kv float64) float64 {
	kv += m.length.value()
	if m.kind == decodeKind {
		return m.line().predict(m.decodes.value()+1, kv)
	}
	return m.line().predict(m.prefill.value(), kv)
}
