package conductor

import (
	"fmt"
	"math/bits"
)

// checker holds what a conductor does against the invariants of section 1.6, as seen from outside where that is possible:
// it has a table of its own of what was sent, returned, spawned and closed. Each event checks what it touched; all tables
// are swept after every event as long as few sessions are live, otherwise every 4,096 events, and at the end.
type checker struct {
	c      *Conductor
	broken []string // invariants that do not hold, at most ten

	trees   map[int]*checked
	byLane  map[int]int // open tree by lane
	ids     int         // of sends, dense
	flying  map[int]turnOf
	calls   int
	sent    int
	back    int
	stopped bool

	// Within one call:
	work  int
	units int
	known int // sessions that were live when it began
}

type turnOf struct{ tree, session, turn int }

// checked is what is known of an open tree.
type checked struct {
	tree     *Tree
	lane     int
	sessions map[int]*checkedSession
	over     map[int]bool // sessions that have been closed or will never be
	spawned  map[int]bool
}

type checkedSession struct {
	next   int // turn
	flying bool
	start  bool // of a start state
	ended  bool
}

// sweepBelow is how many live sessions are swept after every event.
const sweepBelow = 1000

func newChecker(c *Conductor) *checker {
	return &checker{c: c, trees: map[int]*checked{}, byLane: map[int]int{}, flying: map[int]turnOf{}}
}

func (k *checker) fail(format string, args ...any) {
	if len(k.broken) < 10 {
		k.broken = append(k.broken, fmt.Sprintf(format, args...))
	}
}

func (k *checker) must(err error) {
	if err != nil {
		k.fail("%v", err)
	}
}

func (k *checker) live() int {
	n := 0
	for _, t := range k.c.lanes {
		if t != nil {
			n += len(t.alive)
		}
	}
	return n
}

// begin and end stand around one call of the conductor.
func (k *checker) begin() {
	k.work, k.units = k.c.work+k.c.timers.work, 0
	k.known = k.c.counts.ChildrenLive + k.c.Counts().TreesOpen
}

func (k *checker) end() {
	k.calls++
	n := max(k.known, k.c.counts.ChildrenLive+k.c.Counts().TreesOpen)
	work := k.c.work + k.c.timers.work - k.work
	if most := 8 * (1 + k.units) * bits.Len(uint(n+1)); work > most { // the length of n+1 is the logarithm of n+2, rounded up
		k.fail("INV-17: %d entries for %d units of work among %d sessions: at most %d", work, k.units, n, most)
	}
	c := k.c.Counts()
	if c.ChildrenResumed+c.ChildrenSpawned != c.ChildrenCompleted+c.ChildrenErrored+c.ChildrenTruncated+c.ChildrenLive ||
		c.ParentsSuspended != c.ParentsResumed+c.JoinsSuppressed+c.ParentsParked ||
		c.TreesOpened != c.TreesDrained+c.TreesReleased+c.TreesOpen {
		k.fail("INV-18: %+v", c)
	}
	if c.Sent != k.sent || c.InFlight != k.sent-k.back || len(k.c.flying) != c.InFlight {
		k.fail("INV-9: sent %d and %d, returned %d, in flight %d and %d", c.Sent, k.sent, k.back, c.InFlight, len(k.c.flying))
	}
	if c.TreesOpen > len(k.c.lanes) || c.TreesOpen < 0 {
		k.fail("INV-7: %d trees are open on %d lanes", c.TreesOpen, len(k.c.lanes))
	}
	if n <= sweepBelow || k.calls%4096 == 0 {
		k.sweep()
	}
}

// event checks what one event touched.
func (k *checker) event(e Event) {
	t := k.trees[e.Tree]
	switch e.Kind {
	case Opened:
		k.units++
		if old, ok := k.byLane[e.Lane]; ok {
			k.fail("INV-8: lane %d takes tree %d and still has tree %d", e.Lane, e.Tree, old)
		}
		k.byLane[e.Lane] = e.Tree
		k.trees[e.Tree] = &checked{
			tree: k.c.lanes[e.Lane].Tree, lane: e.Lane,
			sessions: map[int]*checkedSession{}, over: map[int]bool{}, spawned: map[int]bool{},
		}
	case Spawned:
		k.units++
		if t.sessions[e.Session] != nil || t.over[e.Session] {
			k.fail("INV-14: tree %d: session %d is spawned again", e.Tree, e.Session)
		}
		t.sessions[e.Session] = &checkedSession{}
	case Retained, Released, Parked:
		k.units++
	case Sent:
		k.units++
		k.sent++
		k.send(e, t)
	case Refused:
		k.units++
	case Returned:
		k.back++
		k.units++
		s := t.sessions[e.Session]
		if s == nil || !s.flying || s.next != e.Turn {
			k.fail("INV-9: tree %d, session %d: turn %d returns, but is not in flight", e.Tree, e.Session, e.Turn)
			return
		}
		s.flying = false
		s.next++
	case Closed:
		k.units++
		if t.over[e.Session] {
			k.fail("tree %d: session %d is closed twice", e.Tree, e.Session)
		}
		if s := t.sessions[e.Session]; s != nil && s.flying {
			k.fail("tree %d: session %d is closed in flight", e.Tree, e.Session)
		}
		t.over[e.Session] = true
	case Wedged:
		if k.c.stopped {
			k.fail("tree %d is wedged after the end", e.Tree)
		}
	case Drained, ReleasedTree:
		for n, s := range t.sessions {
			if !t.over[n] {
				k.fail("INV-8: tree %d is over, session %d is not (%+v)", e.Tree, n, *s)
			}
		}
		delete(k.trees, e.Tree)
		delete(k.byLane, e.Lane)
	}
}

// send checks a turn that is handed to the transport.
func (k *checker) send(e Event, t *checked) {
	s := t.sessions[e.Session]
	if s == nil { // a root, or of a start state
		s = &checkedSession{next: e.Turn, start: true}
		t.sessions[e.Session] = s
		if e.Session == 0 && e.Turn == 0 {
			s.start = false
		}
	}
	if k.c.stopped {
		k.fail("tree %d, session %d: turn %d is sent after the end", e.Tree, e.Session, e.Turn)
	}
	if s.flying {
		k.fail("INV-1: tree %d, session %d: turn %d is sent beside turn %d", e.Tree, e.Session, e.Turn, s.next)
	}
	if t.over[e.Session] || e.Turn != s.next {
		k.fail("INV-2: tree %d, session %d: turn %d is sent, next was %d (over: %v)", e.Tree, e.Session, e.Turn, s.next, t.over[e.Session])
	}
	s.flying, s.next = true, e.Turn
	u := t.tree.Sessions[e.Session].Turns[e.Turn]
	for _, b := range u.Joins {
		for _, n := range t.tree.Branches[b].Sessions {
			if t.sessions[n] != nil && !t.over[n] {
				k.fail("INV-3: tree %d, session %d: turn %d is sent before branch %d is done", e.Tree, e.Session, e.Turn, b)
			}
		}
	}
	for _, r := range u.After {
		if o := t.sessions[r.Session]; o != nil && !t.over[r.Session] && o.next <= r.Turn && e.Session != r.Session {
			k.fail("tree %d, session %d: turn %d is sent before its predecessor, turn %d of session %d", e.Tree, e.Session, e.Turn, r.Turn, r.Session)
		}
	}
}

// sweep looks at every table of the conductor.
func (k *checker) sweep() {
	flying, timers, waiting := 0, 0, 0
	for lane, t := range k.c.lanes {
		if t == nil {
			continue
		}
		counted := map[state]int{}
		for at, s := range t.alive {
			counted[s.state]++
			if s.place != at || t.sessions[s.index] != s {
				k.fail("INV-16: lane %d: session %d is not where the table says", lane, s.index)
			}
			wantTimer := s.state == due || s.state == parked && s.timer >= 0
			if (s.timer >= 0) != wantTimer || (s.queued >= 0) != (s.state == queued) {
				k.fail("INV-4: lane %d: session %d is %s, with timer %d and place %d in the queue", lane, s.index, s.state, s.timer, s.queued)
			}
		}
		entries := 0
		for _, s := range t.sessions {
			if s != nil {
				entries++
			}
		}
		watching := 0
		for _, h := range t.barrier.watch {
			watching += h.len()
		}
		if entries != len(t.alive) || len(t.barrier.held) != counted[retained] || watching != counted[retained] ||
			t.queue.len() != counted[queued] || t.oldest.len() != counted[queued] || t.flying != counted[inFlight] ||
			counted[deciding] > 0 || counted[closed] > 0 {
			k.fail("INV-16: lane %d: %d entries for %d sessions, %d retained and %d watched, %d queued: %v",
				lane, entries, len(t.alive), len(t.barrier.held), watching, t.queue.len(), counted)
		}
		if len(t.alive) == 0 || t.flying == 0 && t.timers.len() == 0 && t.queue.len() == 0 {
			k.fail("INV-11: lane %d is silently idle: %v", lane, counted)
		}
		left := make([]int, len(t.Branches))
		for _, s := range t.alive {
			if s.index > 0 {
				left[s.plan().Branch]++
			}
		}
		for n, b := range t.branches {
			if b.left != left[n] {
				k.fail("INV-3: lane %d: branch %d has %d sessions left, the table says %d", lane, n, left[n], b.left)
			}
		}
		flying += t.flying
		timers += min(1, t.timers.len())
		waiting += min(1, t.queue.len())
	}
	if flying != k.c.counts.InFlight || timers != k.c.timers.trees.len() || waiting != k.c.slots.trees.len() {
		k.fail("INV-16: %d in flight, %d trees with timers, %d in the queue: %d, %d, %d",
			flying, timers, waiting, k.c.counts.InFlight, k.c.timers.trees.len(), k.c.slots.trees.len())
	}
	if k.c.limits.Prefill > 0 && k.c.slots.taken > k.c.limits.Prefill {
		k.fail("%d requests without a first token, %d are allowed", k.c.slots.taken, k.c.limits.Prefill)
	}
}
