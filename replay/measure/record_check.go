package measure

import (
	"fmt"
	"slices"

	"github.com/agentx/agentx/replay/wire"
)

// check returns an error that names the first field with a value that no run writes.
func (r *Record) check() error {
	if err := checkNumbers("", r, maxCount); err != nil {
		return err
	}
	if r.Phase != WarmupPhase && r.Phase != ProfilingPhase {
		return fmt.Errorf("phase: %q: want %s or %s", r.Phase, WarmupPhase, ProfilingPhase)
	}
	if want := r.buckets(); !slices.Contains(want, r.Bucket) {
		return fmt.Errorf("bucket: %q: want %q for this phase and error", r.Bucket, want)
	}
	return r.checkOrder()
}

// buckets returns the buckets that a request of this phase and with this failure may be in.
func (r *Record) buckets() []Bucket {
	switch {
	case r.Phase == WarmupPhase:
		return []Bucket{WarmupBucket}
	case r.Error != nil && r.Error.Category == wire.Cancelled:
		return []Bucket{CancelledAtEnd}
	case r.Error != nil && r.Error.Category == wire.ContextOverflow:
		return []Bucket{ContextOverflow}
	}
	return []Bucket{Profiling, Cooldown}
}

// checkOrder returns an error if the request ended before it was sent, or its content came at another time.
func (r *Record) checkOrder() error {
	if (r.FirstToken > 0) != (r.LastToken > 0) {
		return fmt.Errorf("first_token: %v, last_token: %v: want both or none", r.FirstToken.Seconds(), r.LastToken.Seconds())
	}
	keys, at := []string{"sent", "first_token", "last_token", "end"}, []float64{r.Sent.Seconds(), r.FirstToken.Seconds(), r.LastToken.Seconds(), r.End.Seconds()}
	if r.FirstToken == 0 {
		keys, at = []string{"sent", "end"}, []float64{r.Sent.Seconds(), r.End.Seconds()}
	}
	for k := range at[1:] {
		if at[k+1] < at[k] {
			return fmt.Errorf("%s: %v: want no instant before %s, %v", keys[k+1], at[k+1], keys[k], at[k])
		}
	}
	return nil
}
