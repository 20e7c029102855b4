package resume

import (
	"fmt"

	"github.com/agentx/agentx/internal/pyrand"
)

// Ratios say in which part of a trace lanes begin, as shares of its length: of its time, or of its turns where it has no
// times.
type Ratios struct{ Min, Max float64 }

// Validate reports ratios that name no part of a trace: section 2.1 of the specification of the replay.
func (r Ratios) Validate() error {
	if r.Min >= 0 && r.Min <= r.Max && r.Max <= 1 { // NaN is refused
		return nil
	}
	return fmt.Errorf("start ratios %g to %g: they must lie between 0 and 1, the smaller one first", r.Min, r.Max)
}

// Between returns the first and last instant at which a lane may begin in a trace that lasts from first to last, all in
// milliseconds: section 2.4 of the specification of the replay, step 2. The conversions keep product and sum from being
// fused, as in Uniform.
func (r Ratios) Between(first, last float64) (lo, hi float64) {
	return first + float64(r.Min*(last-first)), first + float64(r.Max*(last-first))
}

// Instant draws t*, in milliseconds, for a trace that lasts from first to last: section 2.4 of the specification of the
// replay, step 2. Where there is no choice it draws nothing.
func (r Ratios) Instant(first, last float64, g *pyrand.PCG64) float64 {
	lo, hi := r.Between(first, last)
	if lo == hi {
		return lo
	}
	return g.Uniform(lo, hi)
}
