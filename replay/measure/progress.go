package measure

import "time"

// Progress is how far a run has come: what its records do not tell, or tell later.
type Progress struct {
	Phase        string // WarmupPhase or ProfilingPhase, from whose start the other fields count
	Elapsed      time.Duration
	Remaining    time.Duration // until the bound that is nearest is reached; negative: not known. The run leaves it to its callers
	Requests     int           // sent
	InFlight     int
	Completed    int
	Errors       int
	Overflows    int // of the context
	Cancelled    int
	TreesOpened  int
	TreesDrained int // played to their end
	TreesOpen    int // that are played

	Standstills *Standstills  // of this process in the measured phase, without a list; nil: none
	Silent      time.Duration // for how long nothing was received although requests are in flight, to a second; 0: none is

	Arrivals     bool // trees arrive on their own
	TreesWaiting int  // that have arrived and wait to be opened
}
