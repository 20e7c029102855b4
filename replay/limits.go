package replay

import (
	"fmt"
	"time"

	"github.com/agentx/agentx/replay/preset"
)

// Limits bound what recorded times do to a run.
type Limits struct {
	LaneStart  time.Duration // longest time to the first request of a lane; 0: DefaultLaneStart; Off: none
	TraceIdle  time.Duration // longest idle time of a trace, which Switches.TraceCap applies; 0: none
	SystemIdle time.Duration // longest time in which no request is in flight; 0: none
	Prefill    int           // requests without a first token; 0: none
}

// Validate returns an error that names the first limit that cannot be used.
func (l Limits) Validate() error {
	switch {
	case l.LaneStart < 0 && l.LaneStart != Off:
		return fmt.Errorf("limits: lane start %v: want no negative value, or Off", l.LaneStart)
	case l.TraceIdle < 0:
		return fmt.Errorf("limits: trace idle %v: want no negative value", l.TraceIdle)
	case l.SystemIdle < 0:
		return fmt.Errorf("limits: system idle %v: want no negative value", l.SystemIdle)
	case l.Prefill < 0:
		return fmt.Errorf("limits: prefill %d: want no negative value", l.Prefill)
	}
	return nil
}

// treeIdle returns the longest time in which a tree has no request in flight; 0: no limit.
func (o *Options) treeIdle() time.Duration {
	if o.Switches.TraceCap == preset.TraceCapRun && o.Limits.TraceIdle > 0 {
		return o.Limits.TraceIdle
	}
	return o.Switches.TreeIdleCap.Duration()
}
