package capture

import "sync"

// line is where exchanges wait that join a session by their bodies: they join in the order in which their bodies were there,
// whichever is parsed first.
type line struct {
	join func(*exchange)

	mu    sync.Mutex
	turns []*turn
}

// turn is the place of an exchange in a line.
type turn struct {
	x     *exchange
	ready bool
}

// take takes the last place.
func (l *line) take(x *exchange) *turn {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := &turn{x: x}
	l.turns = append(l.turns, t)
	return t
}

// ready says that a body is parsed. Those at the head of the line that are ready join.
func (l *line) ready(t *turn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t.ready = true
	for len(l.turns) > 0 && l.turns[0].ready {
		l.join(l.turns[0].x)
		l.turns[0] = nil
		l.turns = l.turns[1:]
	}
}

// giveUp empties the line, and returns who waited.
func (l *line) giveUp() (list []*exchange) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.turns {
		list = append(list, t.x)
	}
	l.turns = nil
	return list
}
