package loads

import (
	"iter"
	"math"
	"slices"

	"github.com/agentx/agentx/trace"
)

// Traces returns a trace for each session that waits for no other, in the order of their starts, with the odd rows of the file at the first.
// The error, a *trace.Error, is about the whole file.
func (a *Agentic) Traces() (iter.Seq[*trace.Trace], error) {
	if err := a.settleBlocks(); err != nil {
		return nil, err
	}
	order, err := a.order()
	if err != nil {
		return nil, err
	}
	roots := a.sessions(order)
	var traces []*trace.Trace
	plays := map[string]bool{}
	timed := slices.ContainsFunc(roots, func(s *session) bool { return a.rows[s.rows[0]].at > 0 })
	for _, s := range roots {
		first := &a.rows[s.rows[0]]
		t := &trace.Trace{ID: a.prefix + s.id, BlockSize: a.block, Scope: trace.ScopeGlobal, Models: a.models.list, TailIDs: true, Linked: true, Namespace: a.namespace,
			Format: AgenticName, Start: trace.Seconds{V: float64(first.at), OK: timed}}
		if a.header {
			if t.ID = a.prefix + first.play; plays[first.play] {
				t.ID += "/" + s.id
			}
			plays[first.play] = true
		}
		s.build(t, func(s *session) []trace.Request { return a.requests(s, first.at) }, func(k int32) int32 { return a.rows[k].row })
		traces = append(traces, t)
	}
	if len(traces) > 0 {
		traces[0].Oddities = a.odd
	}
	return slices.Values(traces), nil
}

// order finds what each request waits for, and when it starts, and returns the rows in the order of their starts, each behind those that it
// waits for.
func (a *Agentic) order() (order []int32, _ *trace.Error) {
	waiting := make([]int, len(a.rows)) // for how many
	behind := make([][]int32, len(a.rows))
	for k := range a.rows {
		q := &a.rows[k]
		for n := range q.edges {
			e := &q.edges[n]
			to, known := a.at[e.on]
			if !known || to == k || a.rows[to].play != q.play {
				return nil, &trace.Error{Kind: trace.Unclear, Row: int(q.row), Problem: "it waits for a request that its play does not have, or for itself", Hint: "the whole file"}
			}
			e.to = to
			waiting[k]++
			behind[to] = append(behind[to], int32(k))
		}
		if waiting[k] == 0 {
			order = append(order, int32(k))
		}
	}
	for n := 0; n < len(order); n++ { // more are found meanwhile
		k := order[n]
		a.rows[k].at = a.start(&a.rows[k])
		for _, next := range behind[k] {
			if waiting[next]--; waiting[next] == 0 {
				order = append(order, next)
			}
		}
	}
	if len(order) < len(a.rows) {
		k := slices.IndexFunc(waiting, func(n int) bool { return n > 0 })
		return nil, &trace.Error{Kind: trace.Unclear, Row: int(a.rows[k].row), Problem: "requests wait for one another in a circle", Hint: "a file that Dynamo wrote"}
	}
	byAt := func(x, y int32) int { return int(min(1, max(-1, a.rows[x].at-a.rows[y].at))) }
	slices.SortStableFunc(order, byAt)
	return order, nil
}

// start returns when a request starts, milliseconds: not before what its row says, and its delay behind each that it waits for. In version 1
// the row says so only where it waits for none.
func (a *Agentic) start(q *agenticRow) int64 {
	at := float64(q.at)
	if len(q.edges) > 0 && !a.header {
		at = 0
	}
	for _, e := range q.edges {
		from := &a.rows[e.to]
		if at = max(at, float64(from.at)+e.delay); !e.dispatch {
			at = max(at, float64(from.end())+e.delay)
		}
	}
	return int64(math.Floor(at))
}

// end returns when a request is over. One without a duration takes no time.
func (q *request) end() int64 { return q.at + max(0, q.took) }

// sessions links the sessions of rows in their order, and returns those that wait for no other.
func (a *Agentic) sessions(order []int32) (roots []*session) {
	type name struct{ play, session string }
	known := map[name]*session{}
	of, place := make([]*session, len(a.rows)), make([]int, len(a.rows)) // session of a row, and its place there
	for _, k := range order {
		q := &a.rows[k]
		s := known[name{q.play, q.session}]
		if s == nil {
			s = &session{id: q.session}
			known[name{q.play, q.session}] = s
			if parent := a.parent(q); parent == none {
				roots = append(roots, s)
			} else {
				s.hang(of[parent], trace.Links{After: place[parent], Before: none})
			}
		}
		of[k], place[k], s.rows = s, len(s.rows), append(s.rows, k)
	}
	for _, k := range order {
		a.join(k, of, place)
	}
	return roots
}

// parent returns the row behind which the first request of a session begins: of those that it waits for the one that lets it begin last.
func (a *Agentic) parent(q *agenticRow) int {
	parent, last := none, math.Inf(-1)
	for _, e := range q.edges {
		from := float64(a.rows[e.to].end())
		if e.dispatch {
			from = float64(a.rows[e.to].at)
		}
		if from+e.delay > last {
			parent, last = e.to, from+e.delay
		}
	}
	return parent
}

// join makes a request wait for the sessions below its own that it names, and counts what it waits for and sessions cannot say.
func (a *Agentic) join(k int32, of []*session, place []int) {
	s, at := of[k], place[k]
	said := at == 0
	unlinked := 0
	for _, e := range a.rows[k].edges {
		other, n := of[e.to], place[e.to]
		switch {
		case other == s && n < at && !e.dispatch: // what is before the last one is before that, too
			said = said || n == at-1
		case other == s.above && n <= s.links.After && !e.dispatch:
		case other == s.above && n == s.links.After && at == 0 && a.rows[e.to].took > 0: // it begins while that runs
		case other.above == s && n == len(other.rows)-1 && at > other.links.After && !e.dispatch:
			if other.links.Before == none { // rows come in the order of their starts
				other.links.Before = at
			}
		default:
			unlinked++
		}
	}
	if unlinked > 0 || !said {
		a.odd.Add(trace.OddityUnlinked, "row %d", a.rows[k].row)
	}
}

// requests returns the requests of a session on a clock that begins at an instant.
func (a *Agentic) requests(s *session, first int64) (list []trace.Request) {
	for k, at := range s.rows {
		row := &a.rows[at]
		q := row.traceRequest(first)
		q.IDs = row.ids
		q.Recorded = &trace.Recorded{First: none, Cached: none, Tool: none}
		if row.tool > 0 && k > 0 {
			q.Recorded.Tool, q.Input = row.tool, trace.InputTool
		}
		list = append(list, q)
	}
	return list
}

// Invalid returns nil: rows are checked one by one.
func (a *Agentic) Invalid() []*trace.Error { return nil }
