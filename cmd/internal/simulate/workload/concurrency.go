package workload

import (
	"fmt"

	"github.com/agentx/agentx/cmd/internal/simulate/preset"
	"github.com/agentx/agentx/internal/heap"
)

// concurrencyLoad is the closed loop: a place for each of n sessions, or of n requests.
type concurrencyLoad struct {
	sessions *Sessions
	places   int
	requests bool    // a place is for a request
	taken    int     // places
	freed    int64   // when the last one was freed
	next     int     // session
	follow   []ready // a heap
	left     int
}

// Concurrency returns the load in which n sessions are open, in file order, or n requests in flight, as the unit says. Recorded
// arrivals are ignored; delays are kept.
func (s *Sessions) Concurrency(n int, unit preset.Choice) (Load, error) {
	if n < 1 {
		return nil, fmt.Errorf("concurrency %d: want at least 1", n)
	}
	return &concurrencyLoad{sessions: s, places: n, requests: unit == preset.UnitRequests, left: len(s.turns)}, nil
}

func (l *concurrencyLoad) Next() (int64, bool) {
	free := l.taken < l.places
	follow := len(l.follow) > 0 && (free || !l.requests)
	begin := free && l.next < len(l.sessions.list)
	switch {
	case follow && l.requests:
		if at := max(l.follow[0].at, l.freed); !begin || at <= l.freed {
			return at, true
		}
		return l.freed, true
	case begin:
		return l.freed, true
	case follow:
		return l.follow[0].at, true
	default:
		return 0, false
	}
}

func (l *concurrencyLoad) Release(now int64) (t Turn, ok bool) {
	free := l.taken < l.places
	switch {
	case len(l.follow) > 0 && l.follow[0].at <= now && (free || !l.requests):
		t = l.sessions.Turn(heap.Pop(&l.follow, ready.before).id)
		if l.requests {
			l.taken++
		}
	case free && l.next < len(l.sessions.list):
		t = l.sessions.Turn(l.sessions.list[l.next].first)
		l.next++
		l.taken++
	default:
		return t, false
	}
	l.left--
	return t, true
}

func (l *concurrencyLoad) Completed(id int, now int64) {
	last := l.sessions.last(id)
	if !last {
		heap.Push(&l.follow, ready{now + nanoseconds(l.sessions.turns[id+1].delay, 1), id + 1}, ready.before)
	}
	if last || l.requests {
		l.taken--
		l.freed = now
	}
}

func (l *concurrencyLoad) Left() int { return l.left }
