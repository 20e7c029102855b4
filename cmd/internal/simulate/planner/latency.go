package planner

import "slices"

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

// byITL judges a pool by the gaps between tokens.
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
