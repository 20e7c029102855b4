package conductor

import "time"

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
