package replay

import (
	"fmt"

	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/payload"
)

// ledger hands out cache-bust markers: one for each tree, from its start to its end, and never the same twice. It lives as
// long as a run. doc/spec/replay.md 5, M-3 to M-7.
type ledger struct {
	benchmark string
	passes    map[string]int         // by trace: markers that were minted for it
	live      map[int]payload.Marker // by tree that is open
}

func newLedger(benchmark string) *ledger {
	return &ledger{benchmark: benchmark, passes: map[string]int{}, live: map[int]payload.Marker{}}
}

// mint returns the marker of a tree that plays a trace on a lane: the one that it has, or a new one. With off it has none.
func (l *ledger) mint(tree, lane int, trace string, off bool) payload.Marker {
	m, ok := l.live[tree]
	if !ok && !off {
		base := payload.BaseTrace(trace)
		m = payload.NewMarker(l.benchmark, l.passes[base], lane, base)
		l.passes[base]++
	}
	l.live[tree] = m
	return m
}

// drop forgets a tree that is over. Its pass stays counted.
func (l *ledger) drop(tree int) { delete(l.live, tree) }

// markerCost says what a marker costs where traces share blocks with one another; "" where none do.
func markerCost(c *mmapcache.Cache, t payload.MarkerTarget) (string, error) {
	n := c.SharedTraces()
	if t == payload.NoMarker || n == 0 {
		return "", nil
	}
	r, err := c.Reuse(t == payload.SystemPrefix)
	if err != nil || r.Hits == 0 {
		return "", err
	}
	return fmt.Sprintf("%d traces share blocks: the marker %s costs %.1f %% of the recorded prefix hits (of the blocks %.1f %% without it, %.1f %% with it): --marker off keeps them",
		n, t, 100*r.LostToMarker(), 100*r.Rate(r.Hits), 100*r.Rate(r.HitsWithMarker)), nil
}
