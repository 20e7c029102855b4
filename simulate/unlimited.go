package simulate

import (
	"github.com/agentx/agentx/simulate/engine"
	"github.com/agentx/agentx/simulate/fleet"
	"github.com/agentx/agentx/simulate/preset"
)

// unlimited counts what one cache without a limit, of the whole fleet, would give: each request finds the full blocks of all
// that were released before it.
type unlimited struct {
	seen   []uint64 // a bit of each chain number
	block  int
	whole  bool // a prompt may be found whole
	reused int64
}

func newUnlimited(c *Config) *unlimited {
	return &unlimited{block: c.BlockSize(), whole: c.Switches.FullHit == preset.FullHitFree}
}

// add adds the next request.
func (u *unlimited) add(r *fleet.Request) {
	found, missed := 0, false
	for _, run := range r.Chain {
		for n := run.First; n < run.First+run.Count; n++ {
			if missed = missed || !u.has(n); !missed {
				found++
			}
			u.mark(n)
		}
	}
	most := r.Prompt
	if !u.whole {
		most = (r.Prompt - 1) / u.block * u.block
	}
	u.reused += int64(min(found*u.block, most))
}

func (u *unlimited) has(n uint32) bool {
	return int(n/64) < len(u.seen) && u.seen[n/64]&(1<<(n%64)) != 0
}

func (u *unlimited) mark(n uint32) {
	for int(n/64) >= len(u.seen) {
		u.seen = append(u.seen, make([]uint64, max(64, len(u.seen)))...)
	}
	u.seen[n/64] |= 1 << (n % 64)
}

// hits returns the prompt tokens that a cache without a limit gives to the requests that were not rejected.
func hits(c *Config, list []*fleet.Request) int64 {
	u := newUnlimited(c)
	if !c.cached() {
		return 0
	}
	for _, r := range list {
		if r.Status != engine.Rejected {
			u.add(r)
		}
	}
	return u.reused
}

// cached reports whether some engine of the fleet caches prefixes.
func (c *Config) cached() bool {
	for _, e := range c.Engines() {
		if e.Config.PrefixCaching {
			return true
		}
	}
	return false
}
