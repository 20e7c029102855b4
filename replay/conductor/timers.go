package conductor

import "time"

// timers is the one queue of everything that will lead to a request: turns that wait for their time, children that sleep
// until theirs, deadlines of parked parents. It is a heap of trees over one heap per tree.
//
// Each tree has a clock of its own, and so has the whole domain. To let time that nobody uses go by faster, a clock is
// put forward: that costs one entry for a tree and none for the domain, and never changes the order of two timers of a
// tree.
type timers struct {
	trees heap[*tree]
	fast  time.Duration // by how much the domain's clock is ahead of real time
	seq   int
	work  int // entries read or written, for INV-17
}

func newTimers() *timers {
	q := &timers{}
	q.trees = heap[*tree]{
		less: func(a, b *tree) bool {
			x, y := a.nextOnDomain(), b.nextOnDomain()
			if x != y {
				return x < y
			}
			return a.ordinal < b.ordinal
		},
		place: func(t *tree, at int) { t.place = at },
		work:  &q.work,
	}
	return q
}

// attach gives a tree its heap.
func (q *timers) attach(t *tree) {
	t.place = -1
	t.timers = heap[*session]{
		less: func(a, b *session) bool {
			if a.wakes != b.wakes {
				return a.wakes < b.wakes
			}
			return a.seq < b.seq
		},
		place: func(s *session, at int) { s.timer = at },
		work:  &q.work,
	}
}

// nextOnDomain is when the tree's earliest timer fires, on the clock of the domain.
func (t *tree) nextOnDomain() time.Duration { return t.timers.items[0].wakes - t.fast }

// real is when a timer of a tree fires in real time.
func (q *timers) real(s *session) time.Duration { return s.wakes - s.tree.fast - q.fast }

// set lets a session wait for an instant in real time.
func (q *timers) set(s *session, at time.Duration) {
	t := s.tree
	s.wakes, s.seq = at+q.fast+t.fast, q.seq
	q.seq++
	t.timers.push(s)
	q.placed(t)
}

// stop takes a session's timer away, if it has one.
func (q *timers) stop(s *session) {
	if s.timer < 0 {
		return
	}
	s.tree.timers.remove(s.timer)
	q.placed(s.tree)
}

// placed puts a tree where its earliest timer belongs.
func (q *timers) placed(t *tree) { q.trees.keep(t, t.place, t.timers.len() > 0) }

// next returns the session whose timer fires first, nil when there is none.
func (q *timers) next() *session {
	if q.trees.len() == 0 {
		return nil
	}
	return q.trees.items[0].timers.items[0]
}

// next returns the session of the tree whose timer fires first, nil when there is none.
func (t *tree) next() *session {
	if t.timers.len() == 0 {
		return nil
	}
	return t.timers.items[0]
}

// skip puts the clock of the domain forward.
func (q *timers) skip(d time.Duration) { q.fast += d }

// skipTree puts the clock of one tree forward.
func (q *timers) skipTree(t *tree, d time.Duration) {
	t.fast += d
	q.placed(t)
}
