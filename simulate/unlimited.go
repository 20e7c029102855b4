package simulate

import (
	"math/bits"

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
		if !missed {
			n := u.leading(run)
			found += n
			missed = n < int(run.Count)
		}
		if missed {
			u.mark(run)
		}
	}
	most := r.Prompt
	if !u.whole {
		most = (r.Prompt - 1) / u.block * u.block
	}
	u.reused += int64(min(found*u.block, most))
}

// wordOf returns the word of chain number n, and the bits of it that a run has which ends before end.
func wordOf(n, end uint32) (word int, mask uint64) {
	mask = ^uint64(0) << (n % 64)
	if last := n/64*64 + 64; last > end {
		mask &= ^uint64(0) >> (last - end)
	}
	return int(n / 64), mask
}

// leading returns how many of the first blocks of a run were seen.
func (u *unlimited) leading(run engine.Run) int {
	end := run.First + run.Count
	for n := run.First; n < end; n = n/64*64 + 64 {
		word, mask := wordOf(n, end)
		if word >= len(u.seen) {
			return int(n - run.First)
		}
		if lacking := mask &^ u.seen[word]; lacking != 0 {
			return int(uint32(word*64+bits.TrailingZeros64(lacking)) - run.First)
		}
	}
	return int(run.Count)
}

func (u *unlimited) mark(run engine.Run) {
	end := run.First + run.Count
	for int((end-1)/64) >= len(u.seen) {
		u.seen = append(u.seen, make([]uint64, max(64, len(u.seen)))...)
	}
	for n := run.First; n < end; n = n/64*64 + 64 {
		word, mask := wordOf(n, end)
		u.seen[word] |= mask
	}
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
