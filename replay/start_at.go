package replay

import (
	"context"
	"fmt"
	"time"

	"github.com/agentx/agentx/internal/durable"
)

// MaxStartIn is how far ahead Options.StartAt may be.
const MaxStartIn = 24 * time.Hour

// startStep is how long a run waits for its start before it looks at the clock again, which may be set meanwhile.
const startStep = time.Second

// awaitStart waits for the instant at which a run is to begin, by the clock of the machine, or until ctx ends; the zero value does
// not wait. The error says that the instant is over: a part that began late would not be compared with the others.
func awaitStart(ctx context.Context, at time.Time, notice func(string)) error {
	if at.IsZero() || ctx.Err() != nil {
		return nil
	}
	left := time.Until(at)
	if left < 0 {
		return fmt.Errorf("replay: the start at %s: the preparation ended %v later, so nothing was sent: want a later time",
			at.Format(time.RFC3339Nano), -left.Round(time.Millisecond))
	}
	notice(fmt.Sprintf("waiting for the start at %s, %v from now", at.Format(time.RFC3339Nano), left.Round(time.Millisecond)))
	for ; left > 0; left = time.Until(at) {
		if durable.Sleep(ctx, min(left, startStep)) != nil {
			return nil // the run sends nothing, and its results say so
		}
	}
	return nil
}
