package conductor

import (
	"fmt"
	"time"
)

// Limits are the numbers that bound a phase. 0 is no bound, so the zero value bounds nothing.
type Limits struct {
	Requests     int           // sent in all
	LaneRequests int           // sent by each lane: its other turns are deferred, and the phase is paused when all lanes are done
	Trees        int           // opened in all
	Prefill      int           // requests in flight without a first token
	InOrder      bool          // of a tree the turn that could be sent first goes first; else that of the shallowest session
	SystemIdle   time.Duration // longest time without a request in flight, as long as one is to come
	TreeIdle     time.Duration // the same for each tree
}

// Validate returns an error that names the first negative limit.
func (l Limits) Validate() error {
	for _, n := range []struct {
		name  string
		value int
	}{{"requests", l.Requests}, {"requests of a lane", l.LaneRequests}, {"trees", l.Trees}, {"prefill", l.Prefill}} {
		if n.value < 0 {
			return fmt.Errorf("conductor: limit of %s %d: want 0 (no limit) or more", n.name, n.value)
		}
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"system idle", l.SystemIdle}, {"tree idle", l.TreeIdle}} {
		if d.value < 0 {
			return fmt.Errorf("conductor: limit of %s time %v: want 0 (no limit) or more", d.name, d.value)
		}
	}
	return nil
}
