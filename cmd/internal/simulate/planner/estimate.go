package planner

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
