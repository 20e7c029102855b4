package loads

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/agentx/agentx/internal/jsonlex"
	"github.com/agentx/agentx/trace"
)

// AgenticName is the name of the format.
const AgenticName = "agentic_mooncake"

// agenticSchema is the schema in the header of version 2.
const agenticSchema = "dynamo.agentic_mooncake"

// Agentic reads agentic_mooncake of Dynamo: requests that wait for others by their ids. Version 2 has a header.
type Agentic struct {
	ask       trace.Reserve
	prefix    string
	namespace int
	block     int64
	header    bool // version 2
	rows      []agenticRow
	at        map[string]int // row of a request_id
	numbers   map[agenticID]int64
	models    names
	calls     int32
	odd       trace.Oddities
}

// agenticID is an id of a play: each has its own.
type agenticID struct {
	play string
	id   uint64
}

// agenticRow is a request. Its start is known when all rows are read; until then at is the earliest that its row says.
type agenticRow struct {
	request
	play, session string
	ids           trace.IDs
	tool          int64 // milliseconds
	edges         []edge
}

// edge says what a request waits for: the end of another, or its start, and a time behind that.
type edge struct {
	on       string
	to       int // row
	dispatch bool
	delay    float64 // milliseconds
}

// IsAgentic reports whether a row is one of agentic_mooncake, or its header, of any version.
func IsAgentic(first []byte) bool {
	schema := ""
	m := members{texts: map[string]*string{"schema": &schema}}
	if m.read(first) == nil && schema == agenticSchema {
		return true
	}
	return hasKeys(first, "hash_ids") && slices.ContainsFunc([]string{"wait_for", "tool_wait_ms", "branches", "prefix_reset", "request_kind", "play_id", "not_before_ms", "dependencies"},
		func(name string) bool { return hasKeys(first, name) })
}

// NewAgentic begins a file, as NewBailian does. block is the tokens of a block of version 1, 0: as its rows say.
func NewAgentic(file, namespace int, block int64, reserve trace.Reserve) *Agentic {
	return &Agentic{ask: reserve, prefix: prefixOf(file), namespace: namespace, block: block, at: map[string]int{}, numbers: map[agenticID]int64{}}
}

// Add reads the next row. The error is always a *trace.Error.
func (a *Agentic) Add(row []byte) error {
	a.calls++
	v, err := readAgentic(row)
	switch {
	case err != nil:
		return err
	case v.schema != "":
		return a.begin(v)
	case !a.header && v.play != "":
		return &trace.Error{Kind: trace.Unclear, Problem: "rows of version 2 without their header", Hint: "the whole file: its first row has schema and block_size"}
	}
	return a.add(v)
}

// begin reads the header of version 2. A second one, of a file that was joined from several, must say the same.
func (a *Agentic) begin(v *agenticValues) error {
	switch err := trace.CheckBlockSize(v.block); {
	case v.schema != agenticSchema || v.version != 2:
		return &trace.Error{Kind: trace.UnknownKey, Where: "schema", Problem: fmt.Sprintf("want %s, version 2", agenticSchema)}
	case err != nil:
		err.Where = "block_size"
		return err
	case len(a.rows) > 0 && (!a.header || a.block != v.block):
		return &trace.Error{Kind: trace.Contradiction, Where: "block_size", Problem: "rows before this header have another", Hint: "a file for each block size"}
	}
	a.header, a.block = true, v.block
	return nil
}

// agenticValues are the members of a row that are read.
type agenticValues struct {
	schema                   string
	version, block           int64
	id, play, session, model string
	in, out                  int64
	ids                      []uint64
	hasIDs                   bool
	timestamp, notBefore     float64 // milliseconds
	delay, tool, took        float64
	edges                    []edge
}

// readAgentic reads the members of a row.
func readAgentic(row []byte) (*agenticValues, error) {
	v := &agenticValues{in: missing, out: missing, timestamp: math.NaN(), notBefore: math.NaN(), took: none}
	return v, (&members{
		texts: map[string]*string{"schema": &v.schema, "request_id": &v.id, "play_id": &v.play, "session_id": &v.session, "model": &v.model},
		counts: map[string]*int64{"version": &v.version, "block_size": &v.block, "input_length": &v.in, "input_tokens": &v.in,
			"output_length": &v.out, "output_tokens": &v.out},
		times: map[string]*float64{"timestamp": &v.timestamp, "created_time": &v.timestamp, "not_before_ms": &v.notBefore, "delay": &v.delay,
			"delay_ms": &v.delay, "tool_wait_ms": &v.tool, "recorded_api_time_ms": &v.took},
		lists: map[string]func(*jsonlex.Lexer) error{
			"hash_ids": func(l *jsonlex.Lexer) error {
				if l == nil {
					v.ids, v.hasIDs = nil, true
					return nil
				}
				id, err := l.Natural(math.MaxUint64)
				v.ids = append(v.ids, id)
				return err
			},
			"wait_for":     v.wait(func(l *jsonlex.Lexer, e *edge) (err error) { e.on, err = l.Text(); return err }),
			"dependencies": v.wait(readDependency),
		},
	}).read(row)
}

// wait returns the reader of a list of edges.
func (v *agenticValues) wait(read func(l *jsonlex.Lexer, e *edge) error) func(l *jsonlex.Lexer) error {
	return func(l *jsonlex.Lexer) error {
		if l == nil {
			v.edges = nil
			return nil
		}
		v.edges = append(v.edges, edge{})
		return read(l, &v.edges[len(v.edges)-1])
	}
}

// readDependency reads an element of dependencies.
func readDependency(l *jsonlex.Lexer, e *edge) error {
	trigger := ""
	m := members{texts: map[string]*string{"request_id": &e.on, "trigger": &trigger}, times: map[string]*float64{"delay_ms": &e.delay}}
	if err := l.Object(func(key []byte) error { return m.member(l, "", key) }); err != nil {
		return err
	}
	if e.dispatch = trigger == "dispatch"; !e.dispatch && trigger != "completion" {
		return &trace.Error{Kind: trace.WrongType, Where: "dependencies.trigger", Problem: "want completion or dispatch"}
	}
	return nil
}

// add keeps a request.
func (a *Agentic) add(v *agenticValues) error {
	begin := v.timestamp
	if a.header {
		begin = v.notBefore
	}
	if math.IsNaN(begin) {
		begin = 0
	}
	if err := a.check(v, begin); err != nil {
		return err
	}
	q := agenticRow{request: request{at: int64(math.Floor(begin)), took: none, in: int32(max(none, v.in)), out: int32(v.out), model: a.models.number([]byte(cmp.Or(v.model, "unknown"))), row: a.calls},
		play: v.play, session: cmp.Or(v.session, v.id), tool: int64(math.Floor(v.tool)), edges: v.edges}
	for _, id := range v.ids {
		key := agenticID{v.play, id}
		n, seen := a.numbers[key]
		if !seen {
			n = int64(len(a.numbers))
			a.numbers[key] = n
		}
		q.ids.Append(n)
	}
	if v.took >= 0 {
		q.took = int64(math.Floor(v.took))
	}
	a.at[v.id] = len(a.rows)
	a.rows = append(a.rows, q)
	return nil
}

// check refuses a request with values that no request has, and asks for its memory. begin is its earliest start.
func (a *Agentic) check(v *agenticValues, begin float64) error {
	if err := lacking(needed{"request_id", v.id != ""}, needed{"output_length", v.out != missing}, needed{"hash_ids", v.hasIDs}, needed{"play_id", v.play != "" || !a.header}); err != nil {
		return err
	}
	if at, twice := a.at[v.id]; twice {
		return &trace.Error{Kind: trace.DuplicateID, Where: "request_id", Problem: fmt.Sprintf("it is that of row %d, too", a.rows[at].row), Hint: "a file in which each request_id is of one request"}
	}
	in := v.in
	if in == missing {
		in = 0
	}
	if err := checkNumbers("timestamp, or not_before_ms,", "input_length", "output_length", begin/1000, in, v.out); err != nil {
		return err
	}
	times := []float64{v.delay, v.tool, max(0, v.took)}
	for k := range v.edges {
		if !a.header {
			v.edges[k].delay = v.delay + v.tool
		}
		times = append(times, v.edges[k].delay)
	}
	for _, ms := range times {
		if err := checkNumbers("a delay or duration", "", "", ms/1000, 0, 0); err != nil {
			return err
		}
	}
	return reserve(a.ask, int64(256+len(v.id)+len(v.play)+len(v.session)+24*len(v.ids)+64*len(v.edges)))
}

// usualAgenticBlock is the tokens of a block of Dynamo's Mooncake files that do not say so, and agenticBlocks are those that lengths may tell.
const usualAgenticBlock = 512

var agenticBlocks = []int64{16, 32, 64, 128, 256, 1024}

// settleBlocks decides the block size of version 1, and checks all rows with it.
func (a *Agentic) settleBlocks() *trace.Error {
	fits := func(block int64) bool {
		return !slices.ContainsFunc(a.rows, func(q agenticRow) bool { return q.in >= 0 && (int64(q.in)+block-1)/block != int64(q.ids.Len) })
	}
	if a.block == 0 {
		a.block = usualAgenticBlock
		if fit := slices.DeleteFunc(slices.Clone(agenticBlocks), func(b int64) bool { return !fits(b) }); !fits(a.block) && len(fit) == 1 {
			a.block = fit[0]
			a.odd.Add(trace.OddityGuessedBlock, "blocks of %d tokens", a.block)
		} else if !fits(a.block) {
			return &trace.Error{Kind: trace.Unclear, Row: 1, Problem: fmt.Sprintf("lengths and hash_ids of the file fit %d block sizes of %v and %d", len(fit), agenticBlocks, a.block), Hint: "the rule block_size=N, the tokens of a block"}
		}
	}
	for k := range a.rows {
		q := &a.rows[k]
		if q.in < 0 {
			q.in = int32(min(trace.MaxTokens+1, int64(q.ids.Len)*a.block))
		}
		if need := (int64(q.in) + a.block - 1) / a.block; need > int64(q.ids.Len) || q.in > trace.MaxTokens {
			return &trace.Error{Kind: trace.Unclear, Row: int(q.row), Problem: fmt.Sprintf("%d hash_ids for %d tokens, which have %d blocks of %d", q.ids.Len, q.in, need, a.block)}
		}
	}
	return nil
}
