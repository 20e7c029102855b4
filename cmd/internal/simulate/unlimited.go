package simulate

import (
	"slices"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/fleet"
	"github.com/agentx/agentx/cmd/internal/simulate/preset"
	"github.com/agentx/agentx/cmd/internal/simulate/router"
)

// hits returns the prompt tokens that one cache without a limit, of the whole fleet, gives to the requests that were not rejected: each
// finds the full blocks of all that were released before it.
func hits(c *Config, list []*fleet.Request) (reused int64) {
	if !slices.ContainsFunc(c.Engines(), func(e Engine) bool { return e.Config.PrefixCaching }) {
		return 0
	}
	var seen router.Index
	size := c.BlockSize()
	for _, r := range list {
		if r.Status == engine.Rejected {
			continue
		}
		most := r.Prompt
		if c.Switches.FullHit != preset.FullHitFree {
			most = (r.Prompt - 1) / size * size
		}
		reused += int64(min(seen.Leading(r.Chain)*size, most))
		for _, run := range r.Chain {
			seen.Apply(engine.KVEvent{Run: run})
		}
	}
	return reused
}
