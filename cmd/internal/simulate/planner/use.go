package planner

import "slices"

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
}

// byUse judges a pool by how full its engines are: up if any is too full, down if all are nearly empty.
func (p *Planner) byUse(k kind, e Engine, t *PoolTick) verdict {
	b := useBounds[p.config.Target][1]
	if k == prefillKind {
		b = useBounds[p.config.Target][0]
	}
	use := func(now EngineNow) float64 {
		if k == prefillKind {
			return float64(now.QueuedPrefill) / float64(e.ContextLength)
		}
		return float64(held(k, now)) / float64(e.MaxKV)
	}
	full := func(now EngineNow) bool { u := use(now); return u > b.up || b.atUp && u == b.up }
	busy := func(now EngineNow) bool { u := use(now); return u > b.down || !b.atDown && u == b.down }
	switch {
	case slices.ContainsFunc(t.Engines, full):
		return verdict{step: 1, defined: true}
	case t.Active > p.config.MinEndpoint && !slices.ContainsFunc(t.Engines, busy):
		return verdict{step: -1, defined: true}
	}
	return verdict{defined: true}
}
