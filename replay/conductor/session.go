package conductor

import (
	"fmt"
	"time"
)

// state is the state of a session. Every transition checks the state that it leaves.
type state uint8

const (
	fresh    state = iota // its spawning turn has not returned
	due                   // its time has not come
	retained              // waits for its recorded predecessors
	queued                // waits for a prefill slot
	deferred              // waits for the next phase
	inFlight              // its turn is on the wire
	deciding              // returned: the next state is open
	parked                // waits for the branches that its turn joins, or for its deadline
	closed
)

// String names the state, for panics.
func (s state) String() string {
	return [...]string{"fresh", "due", "retained", "queued", "deferred", "in flight", "deciding", "parked", "closed"}[s]
}

// session is a session that is being played.
type session struct {
	tree  *tree
	index int // in the tree
	state state
	turn  int           // to send next, or in flight
	due   time.Duration // when that turn can be sent first; of a parked session its deadline
	id    int           // of the request in flight

	returnedAt       time.Duration // when its last request ended; below 0: it sent none
	unblockedAt      time.Duration // when the last branch or predecessor known to be done was done
	joinsDone        int           // leading branches of nextTurn.Joins that are done
	predecessorsDone int           // leading turns of nextTurn.After that are done
	pendingChildren  []*session    // spawned at the issue of its turn, begin at its return

	suspended bool // has been parked, and its turn is not in flight yet
	undecided bool // deciding, until all that is due has been sent
	holdsSlot bool
	onHold    bool // due again because its lane is held; waits for nothing else
	again     bool // its turn was sent, and is sent again

	wakes time.Duration // when its timer fires, on the clock of its tree
	seq   int           // order of timers with the same time

	queueOrder int // in which sessions began to wait for a slot

	aliveIndex int // in tree.alive

	timerIndex, queueIndex, ageIndex, watchIndex int // in heaps; -1: not in one
}

func (s *session) plan() *Session  { return &s.tree.Sessions[s.index] }
func (s *session) nextTurn() *Turn { return &s.plan().Turns[s.turn] }

// move changes the state of a session. It panics when the session is in another state than from.
func (s *session) move(from, to state) {
	if s.state != from {
		panic(fmt.Sprintf("conductor: lane %d, tree %d, session %d, turn %d is %s, not %s, and cannot become %s",
			s.tree.lane, s.tree.ordinal, s.index, s.turn, s.state, from, to))
	}
	s.state = to
}

// tree is a tree that is being played.
type tree struct {
	*Tree
	lane    int
	ordinal int
	barrier barrier
	sessionTable

	inFlight     int   // sessions in flight
	deferred     int32 // sessions that are deferred
	undecided    int32 // sessions that are undecided
	opened       time.Duration
	from         time.Duration // from where its recorded instants count, on the clock of the system
	idleSince    time.Duration // when its last request in flight ended
	end          time.Duration // latest end of a session
	emptyTrees   int           // trees in a row on its lane before it that sent nothing
	firstRefusal error
	sent         bool  // a request
	until        []int // by session: its first turn that is left to the next phase; nil: none is
	closing      bool  // all its sessions are being closed: none is unparked or released
	openAtEnd    bool  // it was open when the phase ended
	touched      bool  // by the present call
	lastEvent    Event

	timers       heap[*session]
	clockOffset  time.Duration  // of its clock from the system's
	timersIndex  int            // in timers.trees
	waiting      heap[*session] // queued, by the order of grants
	waitingByDue heap[*session] // the same, by due time
	prefillIndex int            // in prefillLimiter.trees
}

// isUnspawned reports whether a session is still to be spawned.
func (t *tree) isUnspawned(n int) bool {
	return t.session(n) == nil && !t.isDone(n, t.barrier.turnsDone[n])
}

// sessionTable holds the live sessions of a tree and the state of its branches.
type sessionTable struct {
	sessions []*session // by session of the tree; nil: not live
	alive    []*session // those that are live, in no order
	branches []branchState
	work     *workCounts
}

// branchState is the state of a branch.
type branchState struct {
	spawned bool          // or will never be
	left    int           // live sessions
	end     time.Duration // latest end of one
}

// session returns a live session by its index; nil: it is not live.
func (t *sessionTable) session(n int) *session {
	t.work.entries++
	return t.sessions[n]
}

// branch returns the state of a branch.
func (t *sessionTable) branch(n int) *branchState {
	t.work.entries++
	return &t.branches[n]
}

// add adds a session to the live ones.
func (t *sessionTable) add(s *session) {
	t.work.entries += 2
	t.sessions[s.index] = s
	s.aliveIndex = len(t.alive)
	t.alive = append(t.alive, s)
}

// remove removes a closed session from the live ones.
func (t *sessionTable) remove(s *session) {
	t.work.entries += 3
	t.sessions[s.index] = nil
	last := t.alive[len(t.alive)-1]
	t.alive[s.aliveIndex], last.aliveIndex = last, s.aliveIndex
	t.alive[len(t.alive)-1] = nil
	t.alive = t.alive[:len(t.alive)-1]
}
