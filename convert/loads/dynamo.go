package loads

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
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
		return asError(err)
	case e.schema != requestTrace && e.schema != agentTrace:
		return &trace.Error{Kind: trace.UnknownKey, Where: "schema", Problem: fmt.Sprintf("want %s or %s", requestTrace, agentTrace)}
	}
	switch e.kind {
	case "request_end":
		return d.request(e)
	case "tool_end", "tool_error":
		if !math.IsNaN(e.started) && e.ended >= e.started {
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
	if e.in < 0 {
		e.in = e.length
	}
	if e.received < 0 {
		e.received = e.unix - e.total
	}
	if e.in < 0 || e.out < 0 || math.IsNaN(e.received) || math.IsNaN(e.total) {
		return &trace.Error{Kind: trace.MissingField, Where: "request", Problem: "want input_tokens or replay.input_length, output_tokens, total_time_ms, and a time"}
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
	if e.session == "" {
		e.session = fmt.Sprintf("row-%06d", d.calls)
	}
	q := dynamoRow{request: request{at: at, took: int64(math.Floor(e.received+e.total)) - at, in: int32(e.in), out: int32(e.out), model: d.models.number([]byte(e.model)), row: d.calls},
		session: e.session, parent: e.parent, hashes: e.hashes, recorded: trace.Recorded{First: none, Cached: e.cached, Stop: e.stop, Tool: none}}
	if e.first >= 0 {
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
	e := &event{in: none, out: none, cached: none, length: none, unix: math.NaN(), received: none, total: math.NaN(), first: none, started: math.NaN(), ended: math.NaN()}
	l := jsonlex.New(row)
	texts := map[string]*string{"schema": &e.schema, "event_type": &e.kind, "agent_context.session_id": &e.session, "agent_context.parent_session_id": &e.parent,
		"request.request_id": &e.id, "request.model": &e.model, "request.finish_reason_metadata.finish_reason": &e.stop}
	times := map[string]*float64{"event_time_unix_ms": &e.unix, "request.request_received_ms": &e.received, "request.total_time_ms": &e.total, "request.ttft_ms": &e.first,
		"tool.started_at_unix_ms": &e.started, "tool.ended_at_unix_ms": &e.ended}
	counts := map[string]*int64{"request.input_tokens": &e.in, "request.output_tokens": &e.out, "request.cached_tokens": &e.cached,
		"request.replay.input_length": &e.length, "request.replay.trace_block_size": &e.block}
	trajectory, parent := "", ""
	texts["agent_context.trajectory_id"], texts["agent_context.parent_trajectory_id"] = &trajectory, &parent
	var member func(at string) func(key []byte) error
	member = func(at string) func(key []byte) error {
		return func(key []byte) error {
			path := at + string(key)
			kind := l.Kind()
			switch {
			case kind == jsonlex.Object && at == "" && path == "event":
				return l.Object(member(""))
			case kind == jsonlex.Object && slices.Contains([]string{"agent_context", "request", "tool", "request.replay", "request.finish_reason_metadata"}, path):
				return l.Object(member(path + "."))
			case kind == jsonlex.Null:
				return l.Skip()
			case texts[path] != nil:
				text, err := l.Text()
				*texts[path] = text
				return in(err, path)
			case times[path] != nil:
				text, err := l.Number()
				if err == nil {
					*times[path], err = strconv.ParseFloat(string(text), 64)
				}
				return in(err, path)
			case counts[path] != nil:
				v, err := wholeOf(l)
				*counts[path] = v
				return in(err, path)
			case path == "request.replay.input_sequence_hashes":
				e.hasHashes, e.hashes = true, nil
				return in(l.Array(func() error {
					v, err := l.Natural(math.MaxUint64)
					e.hashes = append(e.hashes, v)
					return err
				}), path)
			}
			return l.Skip()
		}
	}
	err := l.Object(member(""))
	if err == nil {
		err = l.End()
	}
	if e.schema == agentTrace {
		e.session, e.parent = trajectory, parent
	}
	return e, err
}

// dynamoSession is a session with its requests in the order of their starts.
type dynamoSession struct {
	id, parent string
	rows       []*dynamoRow
	above      *dynamoSession
	children   []*dynamoSession
	entry      int // of the trace
}

// Traces returns a trace for each session without a parent, in the order of their starts, with the odd rows of the file at the first.
func (d *Dynamo) Traces() (iter.Seq[*trace.Trace], error) {
	slices.SortStableFunc(d.rows, func(a, b dynamoRow) int { return int(min(1, max(-1, a.at-b.at))) })
	numbers := map[uint64]int64{}
	known := map[string]*dynamoSession{}
	var order, roots []*dynamoSession
	for k := range d.rows {
		q := &d.rows[k]
		for _, h := range q.hashes {
			if _, seen := numbers[h]; !seen {
				numbers[h] = int64(len(numbers))
			}
		}
		s := known[q.session]
		if s == nil {
			s = &dynamoSession{id: q.session, parent: q.parent}
			known[q.session], order = s, append(order, s)
		}
		s.rows = append(s.rows, q)
	}
	for _, s := range order {
		parent := known[s.parent]
		switch {
		case s.parent == "":
		case parent == nil:
			d.odd.Add(trace.OddityOrphan, "row %d", s.rows[0].row)
		case above(known, parent, s):
			d.odd.Add(trace.OddityCycle, "row %d", s.rows[0].row)
			s.parent = ""
		default:
			s.above, parent.children = parent, append(parent.children, s)
			continue
		}
		roots = append(roots, s)
	}
	var traces []*trace.Trace
	for _, root := range roots {
		traces = append(traces, d.trace(root, numbers))
	}
	if len(traces) > 0 {
		traces[0].Oddities = d.odd
	}
	return slices.Values(traces), nil
}

// above reports whether a session hangs, through others, on s.
func above(known map[string]*dynamoSession, from, s *dynamoSession) bool {
	for n := 0; from != nil && n <= len(known); n++ {
		if from == s {
			return true
		}
		from = known[from.parent]
	}
	return from != nil
}

// trace returns the trace of a session with those below it.
func (d *Dynamo) trace(root *dynamoSession, numbers map[uint64]int64) *trace.Trace {
	t := &trace.Trace{ID: d.prefix + root.id, BlockSize: d.block, Scope: trace.ScopeGlobal, Models: d.models.list, TailIDs: true, Linked: true, Namespace: d.namespace, Format: DynamoName}
	if t.LengthsAlone = d.block == 0; t.LengthsAlone {
		t.BlockSize = 64
	}
	first := root.rows[0].at
	for _, q := range d.requests(root, first, numbers) {
		t.Entries = append(t.Entries, trace.Entry{Request: q})
	}
	for _, q := range root.rows {
		t.Rows = append(t.Rows, int(q.row))
	}
	root.entry = trace.None
	for queue := slices.Clone(root.children); len(queue) > 0; queue = queue[1:] {
		s := queue[0]
		parent := s.above
		s.entry = len(t.Entries)
		links := &trace.Links{Parent: parent.entry, Before: trace.None}
		begin, end := s.rows[0].at, int64(math.MinInt64)
		for _, q := range s.rows {
			end = max(end, q.at+q.took)
		}
		for k, q := range parent.rows {
			if q.at+q.took <= begin {
				links.After = k
			}
			if q.at >= end && k > links.After && links.Before == trace.None {
				links.Before = k
			}
		}
		sub := &trace.Subagent{Links: links, AgentID: s.id, Requests: d.requests(s, first, numbers)}
		sub.T = sub.Requests[0].T
		t.Entries = append(t.Entries, trace.Entry{Subagent: sub})
		t.Rows = append(t.Rows, int(s.rows[0].row))
		queue = append(queue, s.children...)
	}
	return t
}

// requests returns the requests of a session on a clock that begins at an instant.
func (d *Dynamo) requests(s *dynamoSession, first int64, numbers map[uint64]int64) (list []trace.Request) {
	tools := d.tools[s.id]
	slices.SortFunc(tools, func(a, b span) int { return int(min(1, max(-1, a.from-b.from))) })
	for k, row := range s.rows {
		q := row.traceRequest(first)
		for _, h := range row.hashes {
			q.IDs.Append(numbers[h])
		}
		recorded := row.recorded
		if k > 0 {
			before := s.rows[k-1]
			from := before.at + before.took
			for len(tools) > 0 && tools[0].to <= from && tools[0].to <= row.at { // it ran before all gaps that are left
				tools = tools[1:]
			}
			recorded.Tool = covered(tools, from, row.at)
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

// covered returns how many milliseconds of a gap some tool ran. Spans are in the order of their beginnings.
func covered(spans []span, from, to int64) (sum int64) {
	for _, s := range spans {
		if s.from >= to {
			break
		}
		if begin, end := max(s.from, from), min(s.to, to); begin < end {
			sum += end - begin
			from = end
		}
	}
	return sum
}

// Invalid returns nil: rows are checked one by one.
func (d *Dynamo) Invalid() []*trace.Error { return nil }
