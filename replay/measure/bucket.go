package measure

import (
	"time"

	"github.com/agentx/agentx/replay/wire"
)

// Bucket is a set of requests. Every request of a run is in exactly one (doc/spec/replay.md 8.2).
type Bucket string

// The buckets. The headline numbers are over Profiling alone.
const (
	Profiling       Bucket = "profiling"        // ended at or before the deadline, or with Cutoff.CountGrace within the grace
	Cooldown        Bucket = "cooldown"         // ended after the deadline, within the grace
	CancelledAtEnd  Bucket = "cancelled_at_end" // cancelled by the run
	ContextOverflow Bucket = "context_overflow" // did not fit the context, whenever it ended
	WarmupBucket    Bucket = "warmup"           // of the warmup, whatever became of it
)

// Cutoff decides the bucket of requests.
type Cutoff struct {
	Deadline   time.Duration // end of the phase, on the clock of the results; 0: none, hence no cooldown
	CountGrace bool          // requests that end within the grace belong to the headline: there is no cooldown
}

// Bucket returns the bucket of a request that ended at an instant. The category is that of its failure, empty when it ended
// well.
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
