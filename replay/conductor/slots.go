package conductor

// slots bounds the requests that have no first token yet. What waits for one is ordered by trees: first comes the tree
// whose oldest waiting request was due first, and of that tree the shallowest session, then the earliest due, then the
// first by name. So a parent does not queue behind its own children.
type slots struct {
	limit int // 0: none
	taken int
	trees heap[*tree]
}

func newSlots(limit int) *slots {
	return &slots{limit: limit, trees: heap[*tree]{
		less: func(a, b *tree) bool {
			x, y := a.oldest.items[0].due, b.oldest.items[0].due
			if x != y {
				return x < y
			}
			return a.ordinal < b.ordinal
		},
		place: func(t *tree, at int) { t.turn = at },
	}}
}

// attach gives a tree its queue.
func (q *slots) attach(t *tree) {
	t.turn = -1
	t.oldest = heap[*session]{
		less:  func(a, b *session) bool { return a.due < b.due },
		place: func(s *session, at int) { s.age = at },
	}
	t.queue = heap[*session]{
		less: func(a, b *session) bool {
			switch x, y := a.plan(), b.plan(); {
			case x.Depth != y.Depth:
				return x.Depth < y.Depth
			case a.due != b.due:
				return a.due < b.due
			default:
				return x.Rank < y.Rank
			}
		},
		place: func(s *session, at int) { s.queued = at },
	}
}

// wait puts a session into the queue.
func (q *slots) wait(s *session) {
	s.tree.queue.push(s)
	s.tree.oldest.push(s)
	q.placed(s.tree)
}

// leave takes a session out of the queue, if it is there.
func (q *slots) leave(s *session) {
	if s.queued < 0 {
		return
	}
	s.tree.queue.remove(s.queued)
	s.tree.oldest.remove(s.age)
	q.placed(s.tree)
}

func (q *slots) placed(t *tree) { q.trees.keep(t, t.turn, t.queue.len() > 0) }

// grant takes the next session out of the queue and gives it a slot; nil when there is none, of either.
func (q *slots) grant() *session {
	if q.trees.len() == 0 || q.limit > 0 && q.taken >= q.limit {
		return nil
	}
	s := q.trees.items[0].queue.items[0]
	q.leave(s)
	s.slot = true
	q.taken++
	return s
}

// release gives a session's slot back, if it has one.
func (q *slots) release(s *session) {
	if s.slot {
		s.slot = false
		q.taken--
	}
}
