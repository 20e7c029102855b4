package conductor

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// barrier keeps the recorded order between the sessions of a tree: a turn that is due is retained until the turns of other
// sessions that had been over when it began are over again. How those ended does not matter.
type barrier struct {
	over  []int                   // by session: how many of its turns are over
	ended []ending                // by session: the last of them
	watch map[int]*heap[*session] // by a session: those that are retained for a turn of it, by that turn
	held  map[*session]struct{}   // retained
	pause bool                    // nothing is let go
	work  *int                    // entries read or written, for INV-17
	edges *int                    // predecessors that were found to be over
}

// ending is when turns of a session were over: one when it returned, and all that are left when the session ended.
type ending struct {
	at   time.Duration
	from int // the first of them
}

// pass reports whether a session's turn may go. If not, it is retained until release returns it.
func (b *barrier) pass(s *session) bool {
	after := s.next().After
	for s.after < len(after) && b.isOver(after[s.after]) {
		if r := after[s.after]; r.Turn >= b.ended[r.Session].from { // else it was over long since
			s.free = max(s.free, b.ended[r.Session].at)
		}
		s.after++
		*b.edges++
	}
	if s.after == len(after) && !b.pause {
		delete(b.held, s)
		return true
	}
	if b.held == nil {
		b.held = map[*session]struct{}{}
	}
	b.held[s] = struct{}{}
	if s.after < len(after) {
		b.wait(s, after[s.after])
	}
	return false
}

func (b *barrier) isOver(r TurnRef) bool {
	*b.work++
	return r.Turn < b.over[r.Session]
}

func (b *barrier) wait(s *session, r TurnRef) {
	if b.watch == nil {
		b.watch = map[int]*heap[*session]{}
	}
	h := b.watch[r.Session]
	if h == nil {
		h = &heap[*session]{
			less:  func(x, y *session) bool { return x.awaited().Turn < y.awaited().Turn },
			place: func(x *session, at int) { x.watch = at },
			work:  b.work,
		}
		b.watch[r.Session] = h
	}
	h.push(s)
}

// awaited is the turn that a retained session waits for.
func (s *session) awaited() TurnRef { return s.next().After[s.after] }

// complete books that so many turns of a session are over since an instant, and returns whom that lets go, in the order of
// names and turns.
func (b *barrier) complete(session, turns int, at time.Duration) (free []*session) {
	*b.work++
	if turns <= b.over[session] {
		return nil
	}
	b.ended[session] = ending{max(b.ended[session].at, at), b.over[session]}
	b.over[session] = turns
	h := b.watch[session]
	for h != nil && h.len() > 0 && h.items[0].awaited().Turn < turns {
		s := h.remove(0)
		if b.pass(s) {
			free = append(free, s)
		}
	}
	if h != nil && h.len() == 0 {
		delete(b.watch, session)
	}
	slices.SortFunc(free, byKey)
	return free
}

// byKey orders by name of the session, then by turn.
func byKey(x, y *session) int {
	return cmp.Or(cmp.Compare(x.plan().Rank, y.plan().Rank), cmp.Compare(x.turn, y.turn))
}

// seed books turns that were over before anything was sent.
func (b *barrier) seed(session, turns int) error {
	if len(b.held) > 0 {
		return fmt.Errorf("conductor: session %d has history after a turn was retained", session)
	}
	*b.work++
	b.over[session] = turns
	return nil
}

// drop forgets a retained session, if it is one.
func (b *barrier) drop(s *session) {
	if _, ok := b.held[s]; !ok {
		return
	}
	delete(b.held, s)
	if s.watch < 0 {
		return
	}
	r := s.awaited()
	h := b.watch[r.Session]
	h.remove(s.watch)
	if h.len() == 0 {
		delete(b.watch, r.Session)
	}
}

// retained lists whom it holds, in the order of names and turns.
func (b *barrier) retained() []*session {
	list := make([]*session, 0, len(b.held))
	for s := range b.held {
		list = append(list, s)
	}
	slices.SortFunc(list, byKey)
	return list
}
