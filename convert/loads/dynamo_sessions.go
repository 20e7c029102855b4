package loads

import (
	"cmp"
	"iter"
	"math"
	"slices"

	"github.com/agentx/agentx/trace"
)

// Traces returns a trace for each session without a parent, in the order of their starts, with the odd rows of the file at the first.
func (d *Dynamo) Traces() (iter.Seq[*trace.Trace], error) {
	slices.SortStableFunc(d.rows, func(a, b dynamoRow) int { return int(min(1, max(-1, a.at-b.at))) })
	numbers := map[uint64]int64{}
	known := map[string]int{} // place in order
	var order []*session
	for k := range d.rows {
		q := &d.rows[k]
		for _, h := range q.hashes {
			if _, seen := numbers[h]; !seen {
				numbers[h] = int64(len(numbers))
			}
		}
		at, seen := known[q.session]
		if !seen || q.session == "" {
			at = len(order)
			known[q.session], order = at, append(order, &session{id: q.session})
		}
		order[at].rows = append(order[at].rows, int32(k))
	}
	delete(known, "")
	for session, spans := range d.tools {
		d.tools[session] = union(spans)
	}
	for _, s := range order {
		if s.id == "" {
			s.id = rowName(d.rows[s.rows[0]].row, func(name string) bool { _, taken := known[name]; return taken })
		}
	}
	traces := d.traces(order, known, numbers)
	if len(traces) > 0 {
		traces[0].Oddities = d.odd
	}
	return slices.Values(traces), nil
}

// traces links sessions, which are in the order of their starts, and returns the traces of those without a parent.
func (d *Dynamo) traces(order []*session, known map[string]int, numbers map[uint64]int64) (traces []*trace.Trace) {
	parentOf := func(at int) string { return d.rows[order[at].rows[0]].parent }
	above := func(at int) int {
		if parent, found := known[parentOf(at)]; found {
			return parent
		}
		return none
	}
	cut := map[int]bool{}
	for _, at := range rings(len(order), above) {
		cut[at] = true
	}
	var roots []*session
	ends := make([][]int64, len(order)) // of those with others below them
	for at, s := range order {
		row := d.rows[s.rows[0]].row
		switch parent := above(at); {
		case cut[at]:
			d.odd.Add(trace.OddityCycle, "row %d", row)
			roots = append(roots, s)
		case parent != none:
			if ends[parent] == nil {
				ends[parent] = d.ends(order[parent])
			}
			s.hang(order[parent], d.links(order[parent], s, ends[parent]))
		default:
			if parentOf(at) != "" {
				d.odd.Add(trace.OddityOrphan, "row %d", row)
			}
			roots = append(roots, s)
		}
	}
	for _, root := range roots {
		traces = append(traces, d.trace(root, numbers))
	}
	return traces
}

// links returns where a session hangs: behind the last turn of its parent that ended before it began; the first that began after its end
// waits for it. ends has, of each turn of the parent, the earliest end of it and those behind it.
func (d *Dynamo) links(parent, s *session, ends []int64) trace.Links {
	begin, end := d.rows[s.rows[0]].at, int64(math.MinInt64)
	for _, k := range s.rows {
		end = max(end, d.rows[k].end())
	}
	after, _ := slices.BinarySearch(ends, begin+1)
	before, _ := slices.BinarySearchFunc(parent.rows, end, func(k int32, end int64) int { return cmp.Compare(d.rows[k].at, end) })
	links := trace.Links{After: max(0, after-1), Before: none}
	if before = max(before, links.After+1); before < len(parent.rows) {
		links.Before = before
	}
	return links
}

// ends returns, of each turn of a session, the earliest end of it and those behind it, so that ends grow.
func (d *Dynamo) ends(s *session) []int64 {
	ends := make([]int64, len(s.rows))
	least := int64(math.MaxInt64)
	for k, row := range slices.Backward(s.rows) {
		least = min(least, d.rows[row].end())
		ends[k] = least
	}
	return ends
}

// trace returns the trace of a session with those below it.
func (d *Dynamo) trace(root *session, numbers map[uint64]int64) *trace.Trace {
	t := &trace.Trace{ID: d.prefix + root.id, BlockSize: d.block, Scope: trace.ScopeGlobal, Models: d.models.list, TailIDs: true, Linked: true, Namespace: d.namespace, Format: DynamoName}
	if t.LengthsAlone = d.block == 0; t.LengthsAlone {
		t.BlockSize = 64
	}
	first := d.rows[root.rows[0]].at
	root.build(t, func(s *session) []trace.Request { return d.requests(s, first, numbers) }, func(k int32) int32 { return d.rows[k].row })
	return t
}

// requests returns the requests of a session on a clock that begins at an instant.
func (d *Dynamo) requests(s *session, first int64, numbers map[uint64]int64) (list []trace.Request) {
	tools := d.tools[d.rows[s.rows[0]].session]
	for k, at := range s.rows {
		row := &d.rows[at]
		q := row.traceRequest(first)
		for _, h := range row.hashes {
			q.IDs.Append(numbers[h])
		}
		recorded := row.recorded
		if k > 0 {
			recorded.Tool = covered(tools, d.rows[s.rows[k-1]].end(), row.at)
			for len(tools) > 0 && tools[0].to <= row.at { // it ran before all gaps that are left
				tools = tools[1:]
			}
		}
		if q.Recorded = &recorded; recorded.Stop == "tool_calls" {
			q.Stop = trace.StopTool
		} else if recorded.Stop != "" {
			q.Stop = trace.StopOther
		}
		list = append(list, q)
	}
	return list
}

// union returns spans that cover the same time, apart from one another and in the order of time.
func union(spans []span) (apart []span) {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	for _, s := range spans {
		if n := len(apart); n > 0 && s.from <= apart[n-1].to {
			apart[n-1].to = max(apart[n-1].to, s.to)
		} else {
			apart = append(apart, s)
		}
	}
	return apart
}

// covered returns how many milliseconds of a gap some tool ran. Spans are as union returns them.
func covered(spans []span, from, to int64) (sum int64) {
	for _, s := range spans {
		if s.from >= to {
			break
		}
		sum += max(0, min(s.to, to)-max(s.from, from))
	}
	return sum
}

// Invalid returns nil: rows are checked one by one.
func (d *Dynamo) Invalid() []*trace.Error { return nil }
