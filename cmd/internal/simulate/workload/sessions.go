package workload

import (
	"math"
	"slices"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
)

// Sessions are the turns of an input, as a table: those of a session stand together, sessions in file order.
type Sessions struct {
	list  []session
	turns []turn
}

type session struct {
	start       float64 // first arrival, milliseconds from the earliest
	first, next int     // its turns: first to next-1
}

type turn struct {
	session        int
	delay          float64 // milliseconds after the completion of the turn before
	prompt, output int
	chain          []engine.Run
}

// First returns the first n sessions, the earliest of which arrives at 0.
func (s *Sessions) First(n int) *Sessions {
	if n >= len(s.list) {
		return s
	}
	first := &Sessions{list: slices.Clone(s.list[:n])}
	if n > 0 {
		first.turns = s.turns[:s.list[n-1].next]
	}
	first.align()
	return first
}

// Turn returns turn i of the table.
func (s *Sessions) Turn(i int) Turn {
	t := &s.turns[i]
	return Turn{ID: i, Session: t.session, Number: i - s.list[t.session].first, Prompt: t.prompt, Output: t.output, Chain: t.chain}
}

// begin starts a session, and add adds a turn to the last one.
func (s *Sessions) begin(start float64) {
	n := len(s.turns)
	s.list = append(s.list, session{start: start, first: n, next: n})
}

func (s *Sessions) add(t turn) {
	t.session = len(s.list) - 1
	t.output = max(t.output, 1)
	s.turns = append(s.turns, t)
	s.list[t.session].next++
}

// last reports whether a turn is the last of its session.
func (s *Sessions) last(id int) bool { return id+1 == s.list[s.turns[id].session].next }

// align moves the earliest first arrival to 0.
func (s *Sessions) align() {
	earliest := math.Inf(1)
	for _, one := range s.list {
		earliest = min(earliest, one.start)
	}
	for k := range s.list {
		s.list[k].start -= earliest
	}
}

// nanoseconds returns milliseconds as nanoseconds, divided by a speed-up. An instant that no run reaches is as good as a later one.
func nanoseconds(ms, speedup float64) int64 {
	return int64(min(math.RoundToEven(float64(ms/speedup)*1e6), unreached))
}

// unreached is a time that no run reaches; two of them fit an int64.
const unreached = 1<<61 + 1<<60
