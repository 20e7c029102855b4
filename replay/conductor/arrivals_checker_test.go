package conductor

import "time"

// checkedArrivals is what the checker knows of the arrivals, by the instants that their source gave and by events: INV-21.
type checkedArrivals struct {
	Arrivals
	instants  []time.Duration // of arrivals that no event has reported
	waiting   []time.Duration // of those reported that are neither opened nor skipped
	freeSince map[int]time.Duration
	dues      map[int]time.Duration // by tree: its arrival
	opened    map[int]time.Duration // by tree
}

func (k *checker) watchArrivals(a Arrivals) Arrivals {
	k.arrivals = &checkedArrivals{Arrivals: a, freeSince: map[int]time.Duration{}, dues: map[int]time.Duration{}, opened: map[int]time.Duration{}}
	return k.arrivals
}

func (a *checkedArrivals) Next() (at time.Duration, ok bool) {
	if at, ok = a.Arrivals.Next(); ok {
		a.instants = append(a.instants, at)
	}
	return at, ok
}

// event checks an arrival, and a tree that is opened: in the order of the arrivals, on the lowest free lane, when both are there.
func (a *checkedArrivals) event(k *checker, e Event) {
	if e.Kind == TreeArrived {
		if len(a.instants) == 0 || a.instants[0] != e.At || k.c.stopped || k.c.paused {
			k.fail("INV-21: a tree arrives at %v, after the end: %v; the instants are %v", e.At, k.c.stopped || k.c.paused, a.instants)
			return
		}
		a.instants, a.waiting = a.instants[1:], append(a.waiting, e.At)
		return
	}
	if len(a.waiting) == 0 {
		k.fail("INV-21: tree %d is opened or skipped at %v, and none has arrived", e.Tree, e.At)
		return
	}
	arrived := a.waiting[0]
	a.waiting = a.waiting[1:]
	if e.Kind == TreeSkipped {
		return
	}
	a.dues[e.Tree], a.opened[e.Tree] = arrived, e.At
	if want := max(arrived, a.freeSince[e.Lane]); e.At != want {
		k.fail("INV-21: tree %d, which arrived at %v, is opened at %v, not at %v", e.Tree, arrived, e.At, want)
	}
	for lane := range e.Lane {
		if len(k.byLane) > sweepBelow {
			break
		}
		if _, busy := k.byLane[lane]; !busy {
			k.fail("INV-21: tree %d takes lane %d, lane %d is free", e.Tree, e.Lane, lane)
		}
	}
}

// dispatched checks when a turn is due, and how long it waited for a lane: turns of a start state may, and else only the first.
func (k *checker) dispatched(d Dispatch) {
	queued := time.Duration(0)
	if a := k.arrivals; a != nil {
		arrived, opened := a.dues[d.Tree], a.opened[d.Tree]
		queued = max(0, opened-d.Due)
		switch first := d.Session == 0 && d.Turn == 0; {
		case k.trees[d.Tree].start != nil || k.trees[d.Tree].sessions[d.Session].again:
		case first && d.Due != arrived:
			k.fail("INV-21: the first turn of tree %d is due at %v, the tree arrived at %v", d.Tree, d.Due, arrived)
		case !first && queued > 0:
			k.fail("INV-21: turn %d of session %d of tree %d is due at %v, the tree was opened at %v", d.Turn, d.Session, d.Tree, d.Due, opened)
		}
	}
	if d.Queued != queued || d.Issued < d.Due+d.Queued {
		k.fail("INV-21: turn %d of session %d of tree %d waited %v for a lane, not %v: %+v", d.Turn, d.Session, d.Tree, d.Queued, queued, d)
	}
}

// end checks what holds after every call: a tree waits only while no lane is free, and the counters add up.
func (a *checkedArrivals) end(k *checker, n Counts) {
	if n.TreesArrived != n.TreesOpened+n.TreesSkipped+n.TreesWaiting+n.TreesAbandoned {
		k.fail("INV-18: %+v", n)
	}
	if n.TreesWaiting > 0 && n.TreesOpen < k.c.maxLanes || n.TreesWaiting+n.TreesAbandoned != len(a.waiting) {
		k.fail("INV-21: %d trees wait, %d by the events, and %d of %d lanes are in use", n.TreesWaiting, len(a.waiting), n.TreesOpen, k.c.maxLanes)
	}
	if free := k.c.openings.free.len(); free+n.TreesOpen != len(k.c.lanes) {
		k.fail("INV-16: %d lanes are free, %d in use, of %d", free, n.TreesOpen, len(k.c.lanes))
	}
}
