package loads

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/agentx/agentx/internal/jsonlex"
	"github.com/agentx/agentx/trace"
)

// DynamoName is the name of the format.
const DynamoName = "dynamo"

// The schemas that are read.
const (
	requestTrace = "dynamo.request.trace.v1"
	agentTrace   = "dynamo.agent.trace.v1"
)

// Dynamo reads request traces of Dynamo: requests in the order of their ends, each with the session of its agent, and tools of harnesses.
type Dynamo struct {
	ask       trace.Reserve
	prefix    string
	namespace int
	block     int64
	rows      []dynamoRow
	seen      map[string]bool // request ids
	models    names
	tools     map[string][]span // by session
	calls     int32
	odd       trace.Oddities
}

// dynamoRow is a request that ended.
type dynamoRow struct {
	request
	session, parent string
	hashes          []uint64
	recorded        trace.Recorded
}

// span is from when to when a tool ran, in milliseconds.
type span struct{ from, to int64 }

// IsDynamo reports whether a row is of a request trace of Dynamo, of any version.
func IsDynamo(first []byte) bool {
	l := jsonlex.New(first)
	found := false
	var look func(key []byte) error
	look = func(key []byte) error {
		switch {
		case string(key) == "event" && l.Kind() == jsonlex.Object:
			return l.Object(look)
		case string(key) == "schema" && l.Kind() == jsonlex.String:
			schema, err := l.Text()
			found = found || strings.HasPrefix(schema, "dynamo.request.trace") || strings.HasPrefix(schema, "dynamo.agent.trace")
			return err
		}
		return l.Skip()
	}
	return l.Object(look) == nil && found
}

// NewDynamo begins a file, as NewBailian does.
func NewDynamo(file, namespace int, reserve trace.Reserve) *Dynamo {
	return &Dynamo{ask: reserve, prefix: prefixOf(file), namespace: namespace, seen: map[string]bool{}, tools: map[string][]span{}}
}

// event is the members of a row that are read.
type event struct {
	schema, kind            string
	session, parent         string
	trajectory, above       string // agent.trace.v1: session and parent
	id, model, stop         string
	unix, received          float64 // milliseconds
	total, first            float64
	started, ended          float64
	in, out, cached, length int64
	block                   int64
	hashes                  []uint64
	hasHashes               bool
}

// Add reads the next row. The error is always a *trace.Error.
func (d *Dynamo) Add(row []byte) error {
	d.calls++
	e, err := readEvent(row)
	switch {
	case err != nil:
		return err
	case e.schema != requestTrace && e.schema != agentTrace:
		return &trace.Error{Kind: trace.UnknownKey, Where: "schema", Problem: fmt.Sprintf("want %s or %s", requestTrace, agentTrace)}
	}
	switch e.kind {
	case "request_end":
		return d.request(e)
	case "tool_end", "tool_error":
		if latest := trace.MaxSeconds * 1000.0; e.started >= 0 && e.ended >= e.started && e.ended <= latest {
			d.tools[e.session] = append(d.tools[e.session], span{int64(e.started), int64(e.ended)})
		}
	case "tool_start", "request_payload":
		d.odd.Add(trace.OddityIgnored+e.kind, "row %d", d.calls)
	default:
		d.odd.Add(trace.OddityIgnored+"other", "row %d", d.calls)
	}
	return nil
}

// request keeps a request.
func (d *Dynamo) request(e *event) error {
	if e.id != "" && d.seen[e.id] {
		d.odd.Add(trace.OddityCopied, "row %d", d.calls)
		return nil
	}
	if e.in == missing {
		e.in = e.length
	}
	if math.IsNaN(e.received) {
		e.received = e.unix - e.total
	}
	if err := lacking(needed{"request.input_tokens or request.replay.input_length", e.in != missing}, needed{"request.output_tokens", e.out != missing},
		needed{"request.total_time_ms", !math.IsNaN(e.total)}, needed{"request.request_received_ms or event_time_unix_ms", !math.IsNaN(e.received)},
		needed{"request.replay.input_length", e.length != missing || !e.hasHashes}); err != nil {
		return err
	}
	if err := checkNumbers("the time", "input_tokens", "output_tokens", e.received/1000, e.in, e.out); err != nil {
		return err
	}
	if err := checkNumbers("total_time_ms", "", "", e.total/1000, 0, 0); err != nil {
		return err
	}
	if e.hasHashes {
		if err := d.checkHashes(e); err != nil {
			return err
		}
	}
	if err := reserve(d.ask, int64(256+len(e.id)+8*len(e.hashes))); err != nil {
		return err
	}
	d.seen[e.id] = true
	at := int64(math.Floor(e.received))
	q := dynamoRow{request: request{at: at, took: int64(math.Floor(e.received+e.total)) - at, in: int32(e.in), out: int32(e.out), model: d.models.number([]byte(e.model)), row: d.calls},
		session: e.session, parent: e.parent, hashes: e.hashes, recorded: trace.Recorded{First: none, Cached: e.cached, Stop: e.stop, Tool: none}}
	if e.first >= 0 && e.first <= e.total {
		q.recorded.First = int64(math.Floor(e.first))
	}
	d.rows = append(d.rows, q)
	return nil
}

// checkHashes refuses a list of another length than the prompt has blocks, and a second block size.
func (d *Dynamo) checkHashes(e *event) error {
	if err := trace.CheckBlockSize(e.block); err != nil {
		err.Where = "replay.trace_block_size"
		return err
	}
	if err := trace.CheckLengths("replay.input_length", "output_tokens", e.length, e.out); err != nil {
		return err
	}
	switch need := (e.length + e.block - 1) / e.block; {
	case d.block != 0 && d.block != e.block:
		return &trace.Error{Kind: trace.Contradiction, Where: "replay.trace_block_size", Problem: fmt.Sprintf("%d: rows before it have %d", e.block, d.block), Hint: "a file for each block size"}
	case int64(len(e.hashes)) != need:
		return &trace.Error{Kind: trace.Conflict, Where: "replay", Problem: fmt.Sprintf("%d hashes for %d tokens, which have %d blocks of %d", len(e.hashes), e.length, need, e.block)}
	case e.length > e.in:
		e.in = e.length
	}
	d.block = e.block
	return nil
}

// readEvent reads the members of a row, bare or below event.
func readEvent(row []byte) (*event, error) {
	e := &event{in: missing, out: missing, cached: none, length: missing, unix: math.NaN(), received: math.NaN(), total: math.NaN(), first: none, started: math.NaN(), ended: math.NaN()}
	m := members{
		objects: []string{"agent_context", "request", "tool", "request.replay", "request.finish_reason_metadata"},
		texts: map[string]*string{"schema": &e.schema, "event_type": &e.kind, "agent_context.session_id": &e.session, "agent_context.parent_session_id": &e.parent,
			"agent_context.trajectory_id": &e.trajectory, "agent_context.parent_trajectory_id": &e.above,
			"request.request_id": &e.id, "request.model": &e.model, "request.finish_reason_metadata.finish_reason": &e.stop},
		times: map[string]*float64{"event_time_unix_ms": &e.unix, "request.request_received_ms": &e.received, "request.total_time_ms": &e.total, "request.ttft_ms": &e.first,
			"tool.started_at_unix_ms": &e.started, "tool.ended_at_unix_ms": &e.ended},
		counts: map[string]*int64{"request.input_tokens": &e.in, "request.output_tokens": &e.out, "request.cached_tokens": &e.cached,
			"request.replay.input_length": &e.length, "request.replay.trace_block_size": &e.block},
		lists: map[string]func(*jsonlex.Lexer) error{"request.replay.input_sequence_hashes": func(l *jsonlex.Lexer) error {
			if l == nil {
				e.hasHashes, e.hashes = true, nil
				return nil
			}
			v, err := l.Natural(math.MaxUint64)
			e.hashes = append(e.hashes, v)
			return err
		}},
		inner: "event",
	}
	err := m.read(row)
	if e.schema == agentTrace {
		e.session, e.parent = e.trajectory, e.above
	}
	return e, err
}

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
