package resume

import (
	"fmt"

	"github.com/agentx/agentx/internal/pyrand"
)

// Ratios bound the part of a trace in which lanes begin, as shares of its duration, or of its turns if it has no times.
type Ratios struct{ Min, Max float64 }

// Validate returns an error for ratios that name no part of a trace: doc/spec/replay.md 2.1.
func (r Ratios) Validate() error {
	if r.Min >= 0 && r.Min <= r.Max && r.Max <= 1 { // NaN fails
		return nil
	}
	return fmt.Errorf("start ratios %g to %g: they must lie between 0 and 1, the smaller one first", r.Min, r.Max)
}

// Between returns the first and last instant at which a lane may begin in a trace that lasts from first to last, all in
// milliseconds: doc/spec/replay.md 2.4, step 2. The conversions keep the compiler from fusing product and sum, which
// would change the last bit.
func (r Ratios) Between(first, last float64) (lo, hi float64) {
	return first + float64(r.Min*(last-first)), first + float64(r.Max*(last-first))
}

// Instant draws t* for a trace that lasts from first to last, all in milliseconds: doc/spec/replay.md 2.4, step 2.
func (r Ratios) Instant(first, last float64, seed uint64) float64 {
	lo, hi := r.Between(first, last)
	if lo == hi {
		return lo
	}
	return pyrand.NewPCG64(seed).Uniform(lo, hi)
}
