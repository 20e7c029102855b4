package replay

import (
	"fmt"

	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/preset"
)

// ledger gives every tree of a run a cache-bust marker of its own, which it keeps until it is over: doc/spec/replay.md 5,
// M-3 to M-7.
type ledger struct {
	benchmark string                 // id of the run, which every marker depends on
	passes    map[string]int         // by trace: markers minted for it
	live      map[int]payload.Marker // by open tree
}

func newLedger(benchmark string) *ledger {
	return &ledger{benchmark: benchmark, passes: map[string]int{}, live: map[int]payload.Marker{}}
}

// mint returns the marker of a tree that plays a trace on a lane: the one that it has, or a new one. An unmarked tree has
// none.
func (l *ledger) mint(tree, lane int, trace string, unmarked bool) payload.Marker {
	m, ok := l.live[tree]
	if !ok && !unmarked {
		base := payload.BaseTrace(trace)
		m = payload.NewMarker(l.benchmark, l.passes[base], lane, base)
		l.passes[base]++
	}
	l.live[tree] = m
	return m
}

// drop forgets a tree that is over. The passes of its trace stay counted.
func (l *ledger) drop(tree int) { delete(l.live, tree) }

// markerCost returns a warning of the prefix hits that markers cost, "" if they cost none.
func markerCost(c *mmapcache.Cache, t payload.MarkerTarget) (string, error) {
	n := c.SharedTraces()
	if t == payload.NoMarker || n == 0 {
		return "", nil
	}
	r, err := c.Reuse(t.Place())
	if err != nil || r.Hits == r.HitsWithMarker {
		return "", err
	}
	return preset.Text(fmt.Sprintf("%d traces share blocks: the marker %s costs %.1f %% of the recorded prefix hits (of the blocks %.1f %% without it, %.1f %% with it): {marker} off keeps them",
		n, t, 100*r.LostToMarker(), 100*r.Rate(r.Hits), 100*r.Rate(r.HitsWithMarker))).String(), nil
}
