package replay

import (
	"time"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/wire"
)

// Backoff says how long a lane sends nothing after a request for which there was no connection, or which was not answered
// by a byte before its connection broke. The zero value is no pause.
type Backoff struct {
	First, Max time.Duration // of the pauses in a row: each is twice the one before
}

// backOff keeps the pauses of lanes.
type backOff struct {
	Backoff
	lanes map[int]pause // those whose last request failed so
}

// pause is the last of a lane.
type pause struct{ length, until time.Duration }

// after returns the pause of a lane after a request that ended at an instant; 0 is none. Requests that were on the wire
// when the pause began fail for the same reason, and do not make it longer.
func (b *backOff) after(lane int, e *measure.Error, status int, end time.Duration) time.Duration {
	last, paused := b.lanes[lane]
	switch {
	case e != nil && e.Category == wire.Cancelled:
		return 0
	case e == nil || e.Category != wire.Connection || status != 0:
		delete(b.lanes, lane)
		return 0
	case b.First <= 0 || paused && end < last.until:
		return 0
	}
	p := pause{length: b.First}
	if paused {
		p.length = 2 * last.length
	}
	p.length = min(p.length, max(b.Max, b.First))
	p.until = end + p.length
	b.lanes[lane] = p
	return p.length
}
