package conductor

import "time"

// timers is the one queue of all that will lead to a request: turns that are due later, children that begin later, deadlines
// of parked sessions. It is a heap of trees over one heap per tree.
//
// Each tree has its own clock, and so has the system of all trees. A cap on idle time advances a clock: that moves one entry
// for a tree and none for the system, and never changes the order of two timers of a tree.
type timers struct {
	trees       heap[*tree]   // with a timer
	clockOffset time.Duration // of the system's clock from real time
	seq         int           // of the next timer
	work        *int          // entries read or written
}

func newTimers(work *int) *timers {
	return &timers{work: work, trees: heap[*tree]{
		less: func(a, b *tree) bool {
			x, y := a.wakesOnSystemClock(), b.wakesOnSystemClock()
			if x != y {
				return x < y
			}
			return a.ordinal < b.ordinal
		},
		setIndex: func(t *tree, at int) { t.timersIndex = at },
		work:     work,
	}}
}

// attach makes the heap of a tree.
func (q *timers) attach(t *tree) {
	t.timersIndex = -1
	t.timers = heap[*session]{
		less: func(a, b *session) bool {
			if a.wakes != b.wakes {
				return a.wakes < b.wakes
			}
			return a.seq < b.seq
		},
		setIndex: func(s *session, at int) { s.timerIndex = at },
		work:     q.work,
	}
}

// wakesOnSystemClock returns when the tree's first timer fires, on the clock of the system.
func (t *tree) wakesOnSystemClock() time.Duration { return t.timers.items[0].wakes - t.clockOffset }

// realTime returns when the timer of a session fires, in real time.
func (q *timers) realTime(s *session) time.Duration {
	return s.wakes - s.tree.clockOffset - q.clockOffset
}

// systemTime returns an instant on the clock of the system.
func (q *timers) systemTime(at time.Duration) time.Duration { return at + q.clockOffset }

// recordedTime returns when a recorded instant of a tree is, in real time.
func (q *timers) recordedTime(t *tree, at time.Duration) time.Duration {
	return t.from + at - t.clockOffset - q.clockOffset
}

// set starts the timer of a session, which fires at an instant in real time.
func (q *timers) set(s *session, at time.Duration) {
	t := s.tree
	s.wakes, s.seq = at+q.clockOffset+t.clockOffset, q.seq
	q.seq++
	t.timers.push(s)
	q.reorder(t)
}

// stop removes the timer of a session, if it has one.
func (q *timers) stop(s *session) {
	if s.timerIndex < 0 {
		return
	}
	s.tree.timers.remove(s.timerIndex)
	q.reorder(s.tree)
}

// reorder moves a tree to its place among trees after its timers have changed.
func (q *timers) reorder(t *tree) { q.trees.update(t, t.timersIndex, t.timers.len() > 0) }

// first returns the session whose timer fires first, nil when there is none.
func (q *timers) first() *session {
	if q.trees.len() == 0 {
		return nil
	}
	return q.trees.items[0].firstTimer()
}

// firstTimer returns the session of the tree whose timer fires first, nil when there is none.
func (t *tree) firstTimer() *session {
	if t.timers.len() == 0 {
		return nil
	}
	return t.timers.items[0]
}

// advanceClock advances the clock of the system: all timers fire earlier by d.
func (q *timers) advanceClock(d time.Duration) { q.clockOffset += d }

// advanceTreeClock advances the clock of a tree: its timers fire earlier by d.
func (q *timers) advanceTreeClock(t *tree, d time.Duration) {
	t.clockOffset += d
	q.reorder(t)
}

// capIdle applies the caps on idle time: it advances the clocks of trees, and of the system, that have been idle for longer
// (doc/spec/replay.md 4.4 and 4.5). It reports whether turns became due by that.
func (c *Conductor) capIdle(now time.Duration) (fired bool) {
	if c.limits.TreeIdle > 0 {
		for _, t := range c.touched {
			fired = c.capTreeIdle(t, now) || fired
		}
	}
	first := c.timers.first()
	if c.limits.SystemIdle == 0 || c.counts.InFlight > 0 || c.prefill.trees.len() > 0 || first == nil {
		return fired
	}
	until := max(c.idleSince+c.limits.SystemIdle, c.latestHold)
	if d := c.timers.realTime(first) - max(now, until); d > 0 {
		c.timers.advanceClock(d)
		c.counts.IdleJumps++
		c.counts.IdleSkipped += d
		c.emit(Event{Kind: IdleSkipped, At: now, Skipped: d})
		fired = c.fireOverdue(c.timers.first, now, until) || fired
	}
	return fired
}

// capTreeIdle applies the cap on the idle time of one tree.
func (c *Conductor) capTreeIdle(t *tree, now time.Duration) bool {
	if t.inFlight > 0 || t.waiting.len() > 0 || t.timers.len() == 0 {
		return false
	}
	until := max(t.idleSince+c.limits.TreeIdle, c.heldUntil[t.lane])
	d := c.timers.realTime(t.timers.items[0]) - max(now, until)
	if d <= 0 {
		return false
	}
	c.timers.advanceTreeClock(t, d)
	c.emit(Event{Kind: TreeIdleSkipped, At: now, Lane: t.lane, Tree: t.ordinal, Skipped: d})
	return c.fireOverdue(t.firstTimer, now, until)
}

// fireOverdue fires the timers that a cap has moved to now although the cap was reached at since. Their turns are due since
// then: a cap moves no timer into the past, but lateness must show. It reports whether there were any.
func (c *Conductor) fireOverdue(first func() *session, now, since time.Duration) (fired bool) {
	for s := first(); s != nil && c.timers.realTime(s) <= now; s = first() {
		c.fire(s, since)
		fired = true
	}
	return fired
}
