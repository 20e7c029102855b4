package arrivals

import "time"

// Schedule gives the instants of arrivals, one after another.
type Schedule interface {
	// Next returns the instant of the next arrival, never before the one before it. ok is false after the last.
	Next() (at time.Duration, ok bool)
}

// Recorded returns the schedule of instants that are known. They must not go back.
func Recorded(instants []time.Duration) Schedule { return &recorded{instants} }

type recorded struct{ rest []time.Duration }

func (r *recorded) Next() (at time.Duration, ok bool) {
	if len(r.rest) == 0 {
		return 0, false
	}
	at, r.rest = r.rest[0], r.rest[1:]
	return at, true
}
