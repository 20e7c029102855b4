package live

import (
	"context"
	"runtime"
	"time"

	"github.com/agentx/agentx/replay/measure"
)

// Follow adds the records in the directory of a run while they are written, to pages too, if they are not nil. At each tick it looks
// for new ones, and then calls looked. It returns when ctx ends, after all records that are written by then, and then the run is over
// for the state.
func (s *State) Follow(ctx context.Context, dir string, pages *Pages, tick <-chan time.Time, now func() time.Time, looked func()) {
	n := 0
	for r, err := range measure.Follow(ctx, dir, tick) {
		switch {
		case err != nil:
			s.End(err)
			return
		case r == nil:
			s.Look(now())
			if pages != nil {
				pages.Look()
			}
			looked()
		default:
			s.Add(r)
			if pages != nil {
				pages.Add(r)
			}
			if n++; n%turn == 0 {
				runtime.Gosched()
			}
		}
	}
	s.End(nil)
}

// turn is after how many records a follower lets others run: a third of a millisecond.
const turn = 32
