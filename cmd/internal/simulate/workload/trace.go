package workload

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/agentx/agentx/internal/heap"
)

// ready is a turn and when it is ready.
type ready struct {
	at int64
	id int
}

// order is the order in which turns leave: by time, then session, then turn, which is that of the table.
func (a ready) order(b ready) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.id, b.id)) }

func (a ready) before(b ready) bool { return a.order(b) < 0 }

// traceLoad is the open loop: first turns at their recorded arrivals.
type traceLoad struct {
	sessions *Sessions
	speedup  float64
	firsts   []ready // sorted
	follow   []ready // a heap
	left     int
}

// Trace returns the load in which first turns arrive as recorded, and later ones after their delays; both times are divided by
// speedup, which is finite and positive.
func (s *Sessions) Trace(speedup float64) (Load, error) {
	if !(speedup > 0) || math.IsInf(speedup, 0) {
		return nil, fmt.Errorf("arrival speed-up %g: want a finite number above 0", speedup)
	}
	l := &traceLoad{sessions: s, speedup: speedup, left: len(s.turns)}
	for _, one := range s.list {
		if one.first < one.next {
			l.firsts = append(l.firsts, ready{nanoseconds(one.start, speedup), one.first})
		}
	}
	slices.SortFunc(l.firsts, ready.order)
	return l, nil
}

func (l *traceLoad) Next() (int64, bool) {
	switch {
	case len(l.firsts) == 0 && len(l.follow) == 0:
		return 0, false
	case l.followsFirst():
		return l.follow[0].at, true
	default:
		return l.firsts[0].at, true
	}
}

func (l *traceLoad) followsFirst() bool {
	return len(l.follow) > 0 && (len(l.firsts) == 0 || l.follow[0].order(l.firsts[0]) < 0)
}

func (l *traceLoad) Release(now int64) (t Turn, ok bool) {
	if at, ok := l.Next(); !ok || at > now {
		return t, false
	}
	l.left--
	if l.followsFirst() {
		return l.sessions.Turn(heap.Pop(&l.follow, ready.before).id), true
	}
	t = l.sessions.Turn(l.firsts[0].id)
	l.firsts = l.firsts[1:]
	return t, true
}

func (l *traceLoad) Completed(id int, now int64) {
	if !l.sessions.last(id) {
		heap.Push(&l.follow, ready{now + nanoseconds(l.sessions.turns[id+1].delay, l.speedup), id + 1}, ready.before)
	}
}

func (l *traceLoad) Left() int { return l.left }
