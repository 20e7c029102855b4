package replay

import "time"

// Limits bound what recorded times do to a run.
type Limits struct {
	LaneStart  time.Duration // longest time to the first request of a lane; Off: none
	TraceIdle  time.Duration // longest idle time of a trace, which Switches.TraceCapAtLoad applies; 0: none
	SystemIdle time.Duration // longest time in which no request is in flight; 0: none
	Prefill    int           // requests without a first token; 0: none
}

// treeIdle returns the longest time in which a tree has no request in flight; 0: no limit.
func (o *Options) treeIdle() time.Duration {
	if !o.Switches.TraceCapAtLoad && o.Limits.TraceIdle > 0 {
		return o.Limits.TraceIdle
	}
	return o.Switches.TreeIdleCap.Duration()
}
