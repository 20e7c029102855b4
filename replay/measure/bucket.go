package measure

import (
	"time"

	"github.com/agentx/agentx/replay/wire"
)

// Bucket is the set of requests that a record belongs to; every one is in exactly one.
type Bucket string

// The buckets. Only Profiling is in the headline numbers.
const (
	Profiling       Bucket = "profiling"        // ended at or before the deadline
	Cooldown        Bucket = "cooldown"         // ended after the deadline, inside the grace
	CancelledAtEnd  Bucket = "cancelled_at_end" // cancelled by us
	ContextOverflow Bucket = "context_overflow" // failed with an overflow text, whenever it ended
)

// Cutoff decides buckets.
type Cutoff struct {
	Deadline   time.Duration // end of the phase, on the clock of the results; 0: none, hence no cooldown
	CountGrace bool          // what ends inside the grace is profiling: the reading of AIPerf
}

// Bucket returns the bucket of a request that ended at the given instant; category is that of its error, empty
// when it ended well.
func (c Cutoff) Bucket(end time.Duration, category wire.Category) Bucket {
	switch {
	case category == wire.Cancelled:
		return CancelledAtEnd
	case category == wire.ContextOverflow:
		return ContextOverflow
	case c.Deadline > 0 && end > c.Deadline && !c.CountGrace:
		return Cooldown
	}
	return Profiling
}
