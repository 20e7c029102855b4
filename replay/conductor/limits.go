package conductor

import (
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
