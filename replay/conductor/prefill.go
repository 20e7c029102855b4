package conductor

// prefillLimiter bounds the requests in flight without a first token. Each of them holds a slot. Sessions that wait for one
// are served by trees: first the tree whose earliest due session waits longest, and of that tree the shallowest session, then
// the earliest due, then the first by name. So a parent does not queue behind its own children. With inOrder it does: they come in
// the order in which they began to wait, and what a return spawns begins before the next turn of its session.
type prefillLimiter struct {
	limit   int // slots; 0: no limit
	inOrder bool
	inUse   int
	waited  int         // sessions that began to wait
	trees   heap[*tree] // with a session that waits
}

// newPrefillLimiter returns a limiter with so many slots, 0 for no limit.
func newPrefillLimiter(limit int, inOrder bool) *prefillLimiter {
	return &prefillLimiter{limit: limit, inOrder: inOrder, trees: heap[*tree]{
		less: func(a, b *tree) bool {
			x, y := a.waitingByDue.items[0].due, b.waitingByDue.items[0].due
			if x != y {
				return x < y
			}
			return a.ordinal < b.ordinal
		},
		setIndex: func(t *tree, at int) { t.prefillIndex = at },
	}}
}

// attach makes the queues of a tree.
func (q *prefillLimiter) attach(t *tree) {
	t.prefillIndex = -1
	t.waitingByDue = heap[*session]{
		less:     func(a, b *session) bool { return a.due < b.due },
		setIndex: func(s *session, at int) { s.ageIndex = at },
	}
	t.waiting = heap[*session]{
		less: func(a, b *session) bool {
			switch x, y := a.plan(), b.plan(); {
			case q.inOrder:
				return a.queueOrder < b.queueOrder
			case x.Depth != y.Depth:
				return x.Depth < y.Depth
			case a.due != b.due:
				return a.due < b.due
			default:
				return x.Rank < y.Rank
			}
		},
		setIndex: func(s *session, at int) { s.queueIndex = at },
	}
}

// enqueue lets a session wait for a slot.
func (q *prefillLimiter) enqueue(s *session) {
	s.queueOrder = q.waited
	q.waited++
	s.tree.waiting.push(s)
	s.tree.waitingByDue.push(s)
	q.reorder(s.tree)
}

// dequeue removes a session that waits; it ignores one that does not.
func (q *prefillLimiter) dequeue(s *session) {
	if s.queueIndex < 0 {
		return
	}
	s.tree.waiting.remove(s.queueIndex)
	s.tree.waitingByDue.remove(s.ageIndex)
	q.reorder(s.tree)
}

// reorder moves a tree to its place among trees after its queues have changed.
func (q *prefillLimiter) reorder(t *tree) { q.trees.update(t, t.prefillIndex, t.waiting.len() > 0) }

// grant gives a slot to the next session and returns it, nil when no session waits or no slot is free.
func (q *prefillLimiter) grant() *session {
	if q.trees.len() == 0 || q.limit > 0 && q.inUse >= q.limit {
		return nil
	}
	s := q.trees.items[0].waiting.items[0]
	q.dequeue(s)
	s.holdsSlot = true
	q.inUse++
	return s
}

// release gives the slot of a session back, if it holds one.
func (q *prefillLimiter) release(s *session) {
	if s.holdsSlot {
		s.holdsSlot = false
		q.inUse--
	}
}
