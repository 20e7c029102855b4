package replay

import (
	"fmt"
	"time"

	"github.com/agentx/agentx/replay/wire"
)

// Backoff bounds the pauses of a lane after requests that got no connection, for a limit of this machine too, or whose connection broke before any byte of
// an answer. The first pause is First; each further one in a row is twice as long, up to Max.
type Backoff struct {
	First time.Duration // 0: DefaultBackoffFirst; negative: no pauses
	Max   time.Duration // 0: DefaultBackoffMax
}

// Validate returns an error for a negative Max.
func (b Backoff) Validate() error {
	if b.Max < 0 {
		return fmt.Errorf("backoff: max %v: want no negative value", b.Max)
	}
	return nil
}

// backoff keeps the pauses of lanes.
type backoff struct {
	Backoff
	lanes map[int]pause // by lane: the latest of its pauses in a row
}

type pause struct{ length, until time.Duration }

// after returns the pause of a lane after a request; 0 is none. Requests that were in flight when the lane's pause began
// fail for the same reason and do not lengthen it.
func (b *backoff) after(lane int, a *answer) time.Duration {
	last, paused := b.lanes[lane]
	switch category := a.category(); {
	case category == wire.Cancelled:
		return 0
	case category != wire.Connection && !a.Limited || a.Status != 0:
		delete(b.lanes, lane)
		return 0
	case b.First <= 0 || paused && a.End < last.until:
		return 0
	}
	p := pause{length: b.First}
	if paused {
		p.length = 2 * last.length
	}
	p.length = min(p.length, max(b.Max, b.First))
	p.until = a.End + p.length
	b.lanes[lane] = p
	return p.length
}
