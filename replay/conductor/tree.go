package conductor

import (
	"fmt"
	"time"
)

// Tree is what is played of a trace: offsets, deadlines and predecessors with every option applied. It is not changed
// while it is played, so lanes may share it.
type Tree struct {
	Sessions []Session // the root first, parents before their children
	Branches []Branch
}

// Session is one conversation.
type Session struct {
	Turns      []Turn
	Branch     int           // that it belongs to; not used for the root
	Depth      int           // 0 for the root
	Rank       int           // place in the order of names
	OnIssue    bool          // Offset counts from the issue of the turn that spawns it, else from its return
	Offset     time.Duration // when its first turn is due
	Unplayable bool          // it cannot be played: when its branch is spawned it counts as failed at once
}

// Turn is one request.
type Turn struct {
	Delay    time.Duration // after the return of the turn before
	Deadline time.Duration // the same for a turn that has to wait for its branches: it leaves no earlier
	Spawns   []int         // branches
	Joins    []int         // branches of the same session that must be done first
	After    []TurnRef     // turns of other sessions that must be over first
}

// Branch is a group of sessions that one turn spawns.
type Branch struct {
	Parent, Spawn int // session and turn that spawn it
	Sessions      []int
	OnIssue       bool // one of them counts from the issue of that turn: all are registered then
}

// TurnRef names a turn.
type TurnRef struct{ Session, Turn int }

// Validate reports what keeps a tree from being played: what is out of range, and gates that can never open.
func (t *Tree) Validate() error {
	if len(t.Sessions) == 0 || len(t.Sessions[0].Turns) == 0 {
		return fmt.Errorf("its root session has no request")
	}
	seen := make([]bool, len(t.Sessions))
	for b, br := range t.Branches {
		if br.Parent < 0 || br.Parent >= len(t.Sessions) || br.Spawn < 0 || br.Spawn >= len(t.Sessions[br.Parent].Turns) {
			return fmt.Errorf("branch %d hangs on turn %d of session %d, which there is not", b, br.Spawn, br.Parent)
		}
		for _, n := range br.Sessions {
			if n <= br.Parent || n >= len(t.Sessions) || seen[n] || t.Sessions[n].Branch != b || t.Sessions[n].OnIssue && !br.OnIssue {
				return fmt.Errorf("branch %d: session %d does not belong there", b, n)
			}
			seen[n] = true
		}
	}
	spawned := make([]int, len(t.Branches))
	for n, s := range t.Sessions {
		if n > 0 && !seen[n] {
			return fmt.Errorf("no branch has session %d", n)
		}
		if len(s.Turns) == 0 && !s.Unplayable {
			return fmt.Errorf("session %d has no request", n)
		}
		for k, u := range s.Turns {
			for _, b := range u.Spawns {
				if b < 0 || b >= len(t.Branches) || t.Branches[b].Parent != n || t.Branches[b].Spawn != k {
					return fmt.Errorf("session %d, turn %d spawns branch %d, which does not hang there", n, k, b)
				}
				spawned[b]++
			}
			for _, b := range u.Joins {
				if b < 0 || b >= len(t.Branches) || t.Branches[b].Parent != n || t.Branches[b].Spawn >= k {
					return fmt.Errorf("session %d, turn %d waits for branch %d, which no turn before it spawns: it could never be sent", n, k, b)
				}
			}
			for _, r := range u.After {
				if r.Session < 0 || r.Session >= len(t.Sessions) || r.Turn < 0 || r.Turn >= len(t.Sessions[r.Session].Turns) || r.Session == n {
					return fmt.Errorf("session %d, turn %d comes after turn %d of session %d, which is none", n, k, r.Turn, r.Session)
				}
			}
		}
	}
	for b, times := range spawned {
		if times != 1 {
			return fmt.Errorf("branch %d is spawned by %d turns", b, times)
		}
	}
	return nil
}

// StartState is the state in which a tree is taken up in the middle: section 2.4 of the specification of the replay.
type StartState struct {
	Live      []LiveSession // sessions that are being played
	TurnsDone []int         // by session: how many turns are over; all of one that is not live means that it will not be spawned
}

// LiveSession is a session of a start state.
type LiveSession struct {
	Session, Turn int           // the next turn
	Due           time.Duration // from the start of the phase; of one that waits, its deadline
	Parked        bool          // for the branches that its turn joins
}

// state is where a session stands. Each arrow between them checks where it begins.
type state uint8

const (
	fresh    state = iota // registered, not yet due: its spawning turn has not returned
	due                   // waits for its time
	retained              // waits for recorded predecessors
	queued                // waits for a slot
	inFlight              // on the wire
	deciding              // returned: what comes next is open
	parked                // waits for the branches that its turn joins, or for its deadline
	closed
)

func (s state) String() string {
	return [...]string{"fresh", "due", "retained", "queued", "in flight", "deciding", "parked", "closed"}[s]
}

// session is a session being played.
type session struct {
	tree  *tree
	index int
	state state
	turn  int           // next to send, or in flight
	due   time.Duration // of that turn: the later of its timer and its release; of a parked one its deadline
	free  time.Duration // when the last of what that turn waited for was over, as far as it is known
	id    int           // of the request in flight

	later []*session // registered at the issue of its turn, begin at the return
	place int        // among those that are alive

	suspended bool // has parked, and the turn it parked for has not been handed over
	undecided bool // deciding, until all that is due has been sent
	joins     int  // parked: branches that its turn joins and that are done, counted from the first
	after     int  // predecessors of its turn that are over, counted from the first
	slot      bool // holds a prefill slot
	putOff    bool // due again because its lane is held, and waits for nothing else

	wakes                     time.Duration // on the clock of its tree, while it has a timer
	seq                       int           // among equal times, in the order of setting
	timer, queued, age, watch int           // places in heaps, -1: in none
}

func (s *session) plan() *Session { return &s.tree.Sessions[s.index] }
func (s *session) next() *Turn    { return &s.plan().Turns[s.turn] }

// move changes the state of a session.
func (s *session) move(from, to state) {
	if s.state != from {
		panic(fmt.Sprintf("conductor: lane %d, tree %d, session %d, turn %d is %s, not %s, and cannot become %s",
			s.tree.lane, s.tree.ordinal, s.index, s.turn, s.state, from, to))
	}
	s.state = to
}

// tree is a tree being played.
type tree struct {
	*Tree
	lane    int
	ordinal int
	barrier barrier
	table

	flying    int           // sessions in flight
	undecided int           // sessions of which is open what comes next
	idle      time.Duration // since when nothing of it has been in flight
	end       time.Duration // latest end of a session
	sent      int
	barren    int   // trees on its lane that sent nothing, in a row until this one
	refused   error // the first refusal
	ending    bool  // is being closed as a whole: nobody is told, nothing is let go
	released  bool  // it was open when the phase ended
	touched   bool  // by the present event
	last      Event // its opening, a send or a return: for the report of a wedge

	timers heap[*session]
	fast   time.Duration // by how much its clock is ahead of the domain's
	place  int           // in the queue of timers
	queue  heap[*session]
	oldest heap[*session]
	turn   int // in the queue for slots
}

// ahead reports whether a session is still to be spawned, for all that is known of it.
func (t *tree) ahead(n int) bool { return t.session(n) == nil && !t.done(n, t.barrier.over[n]) }

// done reports whether a session of which so many turns are over sends nothing more.
func (t *Tree) done(n, over int) bool { return over > 0 && over >= len(t.Sessions[n].Turns) }

// table holds the sessions of a tree, and how far its branches are.
type table struct {
	sessions []*session // nil: not spawned yet, or closed
	alive    []*session // the others
	branches []branch
	work     *int // entries read or written, for INV-17
}

// branch is how far a branch is.
type branch struct {
	spawned bool          // or will never be
	left    int           // sessions that are not done
	end     time.Duration // latest end of one
}

func (t *table) session(n int) *session {
	*t.work++
	return t.sessions[n]
}

func (t *table) add(s *session) {
	*t.work += 2
	t.sessions[s.index] = s
	s.place = len(t.alive)
	t.alive = append(t.alive, s)
}

func (t *table) remove(s *session) {
	*t.work += 3
	t.sessions[s.index] = nil
	last := t.alive[len(t.alive)-1]
	t.alive[s.place], last.place = last, s.place
	t.alive[len(t.alive)-1] = nil
	t.alive = t.alive[:len(t.alive)-1]
}

func (t *table) branch(n int) *branch {
	*t.work++
	return &t.branches[n]
}
