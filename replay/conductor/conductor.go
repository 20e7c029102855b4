// Package conductor decides which turn of which session goes out when. It owns all state of a replay and no clock: every
// method is told the time, as a duration since the start of the phase, and returns at once. Nothing in it runs
// concurrently, so no two decisions can race; tests play whole replays on a virtual clock.
//
// A lane holds one tree at a time: a root session and the sessions it spawns, which may spawn others. A turn is due after
// the return of the turn before it plus the recorded gap, and not before the sessions it joins are done. When the last
// session of a tree is done, its lane takes the next tree. What is due goes out in the order of due times, and in that of
// scheduling among equal ones.
package conductor

import (
	"container/heap"
	"time"
)

// Tree is what is played: the gaps of one trace, with speed and limits applied already.
type Tree struct {
	Sessions []Session // the root first; every other is spawned by a turn of one before it
}

// Session is one conversation.
type Session struct {
	Turns     []Turn
	Parent    int           // session that spawns it; not used for the root
	SpawnTurn int           // turn of the parent that does
	OnIssue   bool          // Offset counts from the issue of that turn, else from its return
	Offset    time.Duration // when its first turn is due
}

// Turn is one request.
type Turn struct {
	Delay time.Duration // after the return of the turn before
	Joins []int         // sessions, children of this one, that must be done first
}

// Source hands out trees. It is asked for the next tree of a lane, and says no when there is none left.
type Source interface {
	Next(lane int) (t *Tree, ok bool)
}

// Send is an order to put one turn on the wire.
type Send struct {
	ID      int // of the request, dense from 0
	Lane    int
	Tree    int // ordinal of the tree in the run
	Session int // in the tree
	Turn    int // in the session
	Due     time.Duration
}

// Limits bound a phase; 0 means no bound.
type Limits struct {
	Requests int // sent in all
	Trees    int // opened in all
}

// Conductor plays trees on lanes.
type Conductor struct {
	source Source
	limits Limits
	send   func(Send)

	lanes   int
	trees   int // opened
	drained int
	sent    int
	flying  map[int]*stream // by request
	timers  timers
	seq     int
	stopped bool
}

// stream is a session being played.
type stream struct {
	tree    *play
	session int
	turn    int           // next to send, or in flight
	due     time.Duration // of that turn
	parked  bool          // waits for the sessions that its turn joins
	done    bool
	end     time.Duration // when it was done
}

// play is a tree being played.
type play struct {
	*Tree
	lane    int
	ordinal int
	streams []*stream     // by session, nil until spawned
	live    int           // spawned and not done
	end     time.Duration // latest end of a session
}

// New returns a conductor. send is called from inside Start, Returned and Wake.
func New(lanes int, source Source, limits Limits, send func(Send)) *Conductor {
	return &Conductor{source: source, limits: limits, send: send, lanes: lanes, flying: map[int]*stream{}}
}

// Start opens a tree on every lane. All first turns are due now.
func (c *Conductor) Start(now time.Duration) {
	for lane := range c.lanes {
		c.open(lane, now)
		c.Wake(now)
	}
}

// open takes the next tree for a lane, if there is one.
func (c *Conductor) open(lane int, due time.Duration) {
	if c.stopped || c.limits.Trees > 0 && c.trees >= c.limits.Trees {
		return
	}
	t, ok := c.source.Next(lane)
	if !ok {
		return
	}
	p := &play{Tree: t, lane: lane, ordinal: c.trees, streams: make([]*stream, len(t.Sessions)), end: due}
	c.trees++
	c.spawn(p, 0, due)
}

// spawn starts a session whose first turn is due at the given time. One without turns is done at once.
func (c *Conductor) spawn(p *play, session int, due time.Duration) {
	s := &stream{tree: p, session: session, due: due}
	p.streams[session] = s
	p.live++
	if len(p.Sessions[session].Turns) == 0 {
		c.finish(s, 0)
		return
	}
	c.schedule(s)
}

// schedule lets the stream's turn wait for its time.
func (c *Conductor) schedule(s *stream) {
	c.seq++
	heap.Push(&c.timers, timer{s.due, c.seq, s})
}

// issue sends the stream's turn. What the turn spawns at its issue is registered before it is handed over.
func (c *Conductor) issue(s *stream, now time.Duration) {
	order := Send{ID: c.sent, Lane: s.tree.lane, Tree: s.tree.ordinal, Session: s.session, Turn: s.turn, Due: s.due}
	c.sent++
	c.flying[order.ID] = s
	c.spawnFrom(s, true, now)
	c.send(order)
	if c.limits.Requests > 0 && c.sent >= c.limits.Requests {
		c.Stop(now)
	}
}

// spawnFrom starts the sessions that hang on the stream's turn.
func (c *Conductor) spawnFrom(s *stream, onIssue bool, base time.Duration) {
	p := s.tree
	for k := 1; k < len(p.Sessions); k++ {
		child := &p.Sessions[k]
		if child.Parent == s.session && child.SpawnTurn == s.turn && child.OnIssue == onIssue && p.streams[k] == nil {
			c.spawn(p, k, base+child.Offset)
		}
	}
}

// Returned says that a request is over since the instant at, whatever came of it. ended means that its session cannot
// go on; what it would have spawned never starts.
func (c *Conductor) Returned(id int, at, now time.Duration, ended bool) {
	s, ok := c.flying[id]
	if !ok {
		return
	}
	delete(c.flying, id)
	turns := s.tree.Sessions[s.session].Turns
	last := s.turn+1 >= len(turns)
	if c.stopped || ended && !last {
		c.finish(s, at)
	} else {
		c.spawnFrom(s, false, at)
		if last {
			c.finish(s, at)
		} else {
			s.turn++
			s.due = at + turns[s.turn].Delay
			s.parked = true
			c.resume(s)
		}
	}
	c.Wake(now)
}

// resume lets a parked stream go on if the sessions that its turn joins are done. One that was never spawned holds up
// nobody.
func (c *Conductor) resume(s *stream) {
	due := s.due
	for _, k := range s.tree.Sessions[s.session].Turns[s.turn].Joins {
		child := s.tree.streams[k]
		if child == nil {
			continue
		}
		if !child.done {
			return
		}
		due = max(due, child.end)
	}
	s.due, s.parked = due, false
	if c.stopped {
		c.finish(s, due)
	} else {
		c.schedule(s)
	}
}

// finish ends a session, releases its parent if that waited for it, and ends the tree with its last session.
func (c *Conductor) finish(s *stream, at time.Duration) {
	p := s.tree
	s.done, s.end = true, at
	p.end = max(p.end, at)
	if s.session > 0 {
		if parent := p.streams[p.Sessions[s.session].Parent]; parent.parked {
			c.resume(parent)
		}
	}
	p.live--
	if p.live == 0 {
		c.drained++
		c.open(p.lane, p.end)
	}
}

// Wake sends what has become due.
func (c *Conductor) Wake(now time.Duration) {
	for len(c.timers) > 0 && c.timers[0].due <= now {
		t := heap.Pop(&c.timers).(timer)
		c.issue(t.stream, now)
	}
}

// Next returns when Wake has something to do; ok is false when nothing is due but returns are awaited.
func (c *Conductor) Next() (at time.Duration, ok bool) {
	if len(c.timers) == 0 {
		return 0, false
	}
	return c.timers[0].due, true
}

// Stop ends the sending: what waits for its time or for others is closed, what is in flight may return.
func (c *Conductor) Stop(now time.Duration) {
	c.stopped = true
	waiting := c.timers
	c.timers = nil
	for _, t := range waiting {
		c.finish(t.stream, now)
	}
}

// Done reports whether nothing is in flight and nothing will be. Then every tree that was opened has drained, unless it
// is wedged: its sessions wait for each other.
func (c *Conductor) Done() bool { return len(c.flying) == 0 && len(c.timers) == 0 }

// Counts are what a conductor has done so far.
type Counts struct {
	Sent         int
	InFlight     int
	TreesOpened  int
	TreesDrained int
}

// Counts returns them.
func (c *Conductor) Counts() Counts {
	return Counts{c.sent, len(c.flying), c.trees, c.drained}
}

// timer is a turn that waits for its time.
type timer struct {
	due    time.Duration
	seq    int // among equal times, in the order of scheduling
	stream *stream
}

type timers []timer

func (t timers) Len() int { return len(t) }
func (t timers) Less(i, j int) bool {
	if t[i].due != t[j].due {
		return t[i].due < t[j].due
	}
	return t[i].seq < t[j].seq
}
func (t timers) Swap(i, j int) { t[i], t[j] = t[j], t[i] }
func (t *timers) Push(x any)   { *t = append(*t, x.(timer)) }
func (t *timers) Pop() any {
	old := *t
	x := old[len(old)-1]
	old[len(old)-1] = timer{} // no reference to a tree that is over
	*t = old[:len(old)-1]
	return x
}
