package loads

import (
	"fmt"
	"math"
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
