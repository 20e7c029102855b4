package loads

import (
	"fmt"
	"slices"

	"github.com/agentx/agentx/trace"
)

// session is a conversation of a recording, and where it hangs.
type session struct {
	id    string
	rows  []int32     // of the table of its reader, in the order in which they are sent
	links trace.Links // of one that hangs on another; build fills in Parent
	above *session
	below []*session
	entry int // of its trace
}

// hang puts a session below another.
func (s *session) hang(above *session, links trace.Links) {
	s.above, s.links = above, links
	above.below = append(above.below, s)
}

// build appends to a trace the requests of a session and of all below it, parents first. number returns the number of a row in its file.
func (s *session) build(t *trace.Trace, requests func(*session) []trace.Request, number func(row int32) int32) {
	for k, q := range requests(s) {
		t.Entries = append(t.Entries, trace.Entry{Request: q})
		t.Rows = append(t.Rows, int(number(s.rows[k])))
	}
	s.entry = trace.None
	for queue := slices.Clone(s.below); len(queue) > 0; queue = queue[1:] {
		s := queue[0]
		s.entry, s.links.Parent = len(t.Entries), s.above.entry
		list := requests(s)
		t.Entries = append(t.Entries, trace.Entry{Subagent: &trace.Subagent{Links: &s.links, AgentID: s.id, T: list[0].T, Requests: list}})
		t.Rows = append(t.Rows, int(number(s.rows[0])))
		queue = append(queue, s.below...)
	}
}

// rings returns, of n nodes each of which names at most one above it, the first of each ring: of nodes that name one another in a circle.
// above returns none for a node that names none.
func rings(n int, above func(int) int) (first []int) {
	met := make([]int, n) // by node the walk that met it, from 1
	for k := range n {
		at := k
		for at != none && met[at] == 0 {
			met[at] = k + 1
			at = above(at)
		}
		if at == none || met[at] != k+1 {
			continue // it leads to a node without one above, or to where an earlier walk went
		}
		lowest := at
		for x := above(at); x != at; x = above(x) {
			lowest = min(lowest, x)
		}
		first = append(first, lowest)
	}
	return first
}

// rowName returns the name of a trace that the recording does not name: that of its row, unless the recording calls another one so.
func rowName(row int32, taken func(string) bool) string {
	name := fmt.Sprintf("row-%06d", row)
	for n := 2; taken(name); n++ {
		name = fmt.Sprintf("row-%06d#%d", row, n)
	}
	return name
}
