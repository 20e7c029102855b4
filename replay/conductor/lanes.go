package conductor

import (
	"errors"
	"slices"
	"time"
)

// What lanes do with trees: open them, take them up in the middle, recycle, give up, and let idle time go by.

// open takes the next tree for a lane, if there is one. A tree that is not taken up in the middle is due at once. So many
// before it sent nothing.
func (c *Conductor) open(lane int, at time.Duration, barren int) {
	if c.stopped {
		return
	}
	var o Assignment
	ok := c.limits.Trees == 0 || c.counts.TreesOpened < c.limits.Trees
	if ok {
		o, ok = c.source.Next(lane)
	}
	if !ok {
		c.tell(Event{Kind: LaneFinished, At: at, Lane: lane})
		return
	}
	t := &tree{Tree: o.Tree, lane: lane, ordinal: c.counts.TreesOpened, barren: barren, idle: at, end: at}
	t.table = table{sessions: make([]*session, len(t.Sessions)), branches: make([]branch, len(t.Branches)), work: &c.work}
	t.barrier = barrier{over: make([]int, len(t.Sessions)), ended: make([]ending, len(t.Sessions)), work: &c.work, edges: &c.edges}
	c.timers.attach(t)
	c.slots.attach(t)
	c.lanes[lane] = t
	c.counts.TreesOpened++
	c.touch(t)
	t.last = Event{Kind: TreeOpened, At: at, Lane: lane, Tree: t.ordinal}
	c.tell(t.last)
	if o.Start == nil {
		c.schedule(c.register(t, 0), at)
		return
	}
	c.resume(t, o.Start)
}

// resume takes up a tree in the middle: section 6.6. A branch that has a live session is spawned, and so is one of which
// nothing is ahead; what is over counts as done; so a gate sees the same whether its branches ended before or after this
// instant (bug 4, H1, H15).
func (c *Conductor) resume(t *tree, start *StartState) {
	for n, turns := range start.TurnsDone {
		if turns > 0 {
			if err := t.barrier.seed(n, turns); err != nil {
				panic(err)
			}
		}
	}
	for _, l := range start.Live {
		s := c.register(t, l.Session)
		s.turn = l.Turn
		if l.Session > 0 {
			t.branch(s.plan().Branch).left++
			c.counts.ChildrenResumed++
			c.counts.ChildrenLive++
		}
	}
	live := make([]bool, len(t.Sessions))
	for _, l := range start.Live {
		live[l.Session] = true
	}
	for n, b := range t.Branches {
		begun := slices.ContainsFunc(b.Sessions, func(k int) bool { return live[k] })
		if begun || !slices.ContainsFunc(b.Sessions, func(k int) bool { return !t.done(k, start.TurnsDone[k]) }) {
			t.branch(n).spawned = true
		}
	}
	for _, l := range start.Live {
		s := t.session(l.Session)
		if !l.Parked {
			c.schedule(s, l.Due)
			continue
		}
		s.move(fresh, deciding)
		s.due = l.Due
		c.park(s)
	}
}

// recycle lets the lanes of drained trees take the next. It reports whether there were any.
func (c *Conductor) recycle(now time.Duration) bool {
	list := c.drained
	c.drained = nil
	for _, t := range list {
		c.lanes[t.lane] = nil
		kind := TreeDrained
		if t.released {
			kind = TreeReleased
			c.counts.TreesReleased++
		} else {
			c.counts.TreesDrained++
		}
		c.tell(Event{Kind: kind, At: t.end, Lane: t.lane, Tree: t.ordinal})
		if t.refused != nil && t.sent == 0 { // the next might be as well, and the next, all at this instant
			c.tell(Event{Kind: LaneFinished, At: t.end, Lane: t.lane, Err: t.refused})
			continue
		}
		barren := 0
		if t.sent == 0 {
			barren = t.barren + 1
		}
		if barren == mostBarren {
			c.tell(Event{Kind: LaneFinished, At: t.end, Lane: t.lane, Err: errBarren})
			continue
		}
		c.open(t.lane, t.end, barren)
	}
	return len(list) > 0
}

// mostBarren is how many trees in a row a lane opens that end without a request, as recordings do whose first turn waits
// for itself. They end at the instant they are opened: with a source that never runs dry this would go on for ever.
const mostBarren = 1000

var errBarren = errors.New("too many trees in a row sent nothing")

// reportWedges finds the trees that are open and in which nothing can happen any more, reports and closes them: section
// 4.10.
func (c *Conductor) reportWedges(now time.Duration) {
	for k := 0; k < len(c.touched); k++ {
		t := c.touched[k]
		if len(t.alive) == 0 || t.flying > 0 || t.undecided > 0 || t.timers.len() > 0 || t.queue.len() > 0 {
			continue
		}
		c.counts.TreesDeadlocked++
		c.tell(Event{Kind: TreeDeadlocked, At: now, Lane: t.lane, Tree: t.ordinal, Deadlock: c.wedge(t)})
		t.end = now
		c.closeAll(t, now)
	}
}

// closeAll closes the sessions of a tree that are not in flight, as a whole: nobody is told and nothing let go.
func (c *Conductor) closeAll(t *tree, at time.Duration) {
	t.ending = true
	for _, s := range slices.Clone(t.alive) {
		if s.state != inFlight {
			c.close(s, at, Truncated)
		}
	}
}

// capIdle lets time that nobody uses go by faster: sections 4.4 and 4.5. It reports whether turns became due by that.
func (c *Conductor) capIdle(now time.Duration) (some bool) {
	if c.limits.TreeIdle > 0 {
		for _, t := range c.touched {
			some = c.capTree(t, now) || some
		}
	}
	next := c.timers.next()
	if c.limits.SystemIdle == 0 || c.counts.InFlight > 0 || c.slots.trees.len() > 0 || next == nil {
		return some
	}
	until := max(c.idle+c.limits.SystemIdle, c.lull)
	if d := c.timers.real(next) - max(now, until); d > 0 {
		c.timers.skip(d)
		c.counts.IdleJumps++
		c.counts.IdleSkipped += d
		c.tell(Event{Kind: IdleSkipped, At: now, Skipped: d})
		some = c.overdue(c.timers.next, now, until) || some
	}
	return some
}

// capTree is capIdle for a tree.
func (c *Conductor) capTree(t *tree, now time.Duration) bool {
	if t.flying > 0 || t.queue.len() > 0 || t.timers.len() == 0 {
		return false
	}
	until := max(t.idle+c.limits.TreeIdle, c.held[t.lane])
	d := c.timers.real(t.timers.items[0]) - max(now, until)
	if d <= 0 {
		return false
	}
	c.timers.skipTree(t, d)
	c.tell(Event{Kind: TreeIdleSkipped, At: now, Lane: t.lane, Tree: t.ordinal, Skipped: d})
	return c.overdue(t.next, now, until)
}

// overdue fires the timers that a cap has moved to this instant though it was reached before. They are due since then: the
// cap moves no timer into the past, and how late this was looked at must show. It reports whether there were any.
func (c *Conductor) overdue(next func() *session, now, since time.Duration) (some bool) {
	for s := next(); s != nil && c.timers.real(s) <= now; s = next() {
		c.fire(s, since)
		some = true
	}
	return some
}
