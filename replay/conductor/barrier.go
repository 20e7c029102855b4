package conductor

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// barrier keeps the recorded order between the sessions of a tree (doc/spec/replay.md 4.7): a turn that is due is retained
// until its recorded predecessors, turns of other sessions, are done. How they ended does not matter.
type barrier struct {
	turnsDone []int                   // by session: how many of its turns are done
	lastDone  []completion            // by session: when the last of them became done
	waiters   map[int]*heap[*session] // by session: those retained for a turn of it, by that turn
	paused    bool                    // every turn is retained, and none is released
	work      *workCounts
}

// completion is when turns of a session became done: one turn when it returned, all the rest when the session ended.
type completion struct {
	at   time.Duration
	from int // the first of the turns
}

// pass reports whether the predecessors of a session's turn are done. If not, the session waits until complete returns it. A
// barrier that is paused lets none pass.
func (b *barrier) pass(s *session) bool {
	if b.paused {
		return false
	}
	after := s.nextTurn().After
	for s.predecessorsDone < len(after) && b.isDone(after[s.predecessorsDone]) {
		if r := after[s.predecessorsDone]; r.Turn >= b.lastDone[r.Session].from { // an earlier turn was done long before
			s.unblockedAt = max(s.unblockedAt, b.lastDone[r.Session].at)
		}
		s.predecessorsDone++
		b.work.edges++
	}
	if s.predecessorsDone == len(after) {
		return true
	}
	b.wait(s, after[s.predecessorsDone])
	return false
}

// isDone reports whether a turn is done, however it ended.
func (b *barrier) isDone(r TurnRef) bool {
	b.work.entries++
	return r.Turn < b.turnsDone[r.Session]
}

// wait adds a session to those that wait for a turn.
func (b *barrier) wait(s *session, r TurnRef) {
	if b.waiters == nil {
		b.waiters = map[int]*heap[*session]{}
	}
	h := b.waiters[r.Session]
	if h == nil {
		h = &heap[*session]{
			less:     func(x, y *session) bool { return x.awaited().Turn < y.awaited().Turn },
			setIndex: func(x *session, at int) { x.watchIndex = at },
			work:     &b.work.entries,
		}
		b.waiters[r.Session] = h
	}
	h.push(s)
}

// awaited returns the turn that a retained session waits for.
func (s *session) awaited() TurnRef { return s.nextTurn().After[s.predecessorsDone] }

// complete records that the first turns of a session are done since an instant. It returns the sessions that wait no longer,
// by name and turn: none while the barrier is paused.
func (b *barrier) complete(session, turns int, at time.Duration) (released []*session) {
	b.work.entries++
	if turns <= b.turnsDone[session] {
		return nil
	}
	b.lastDone[session] = completion{max(b.lastDone[session].at, at), b.turnsDone[session]}
	b.turnsDone[session] = turns
	if b.paused {
		return nil
	}
	h := b.waiters[session]
	for h != nil && h.len() > 0 && h.items[0].awaited().Turn < turns {
		s := h.remove(0)
		if b.pass(s) {
			released = append(released, s)
		}
	}
	if h != nil && h.len() == 0 {
		delete(b.waiters, session)
	}
	slices.SortFunc(released, byNameAndTurn)
	return released
}

// byNameAndTurn orders sessions by name, then by turn.
func byNameAndTurn(x, y *session) int {
	return cmp.Or(cmp.Compare(x.plan().Rank, y.plan().Rank), cmp.Compare(x.turn, y.turn))
}

// seed records turns of a session that were done before the tree was opened. It panics after a turn was retained, which
// might wait for one of them.
func (b *barrier) seed(session, turns int) {
	if len(b.waiters) > 0 {
		panic(fmt.Sprintf("conductor: session %d has history after a turn was retained", session))
	}
	b.work.entries++
	b.turnsDone[session] = turns
}

// drop removes a session that is retained. One that came to a paused barrier waits for no turn.
func (b *barrier) drop(s *session) {
	if s.watchIndex < 0 {
		return
	}
	r := s.awaited()
	h := b.waiters[r.Session]
	h.remove(s.watchIndex)
	if h.len() == 0 {
		delete(b.waiters, r.Session)
	}
}
