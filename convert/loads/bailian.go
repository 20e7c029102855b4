package loads

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"

	"github.com/agentx/agentx/internal/jsonlex"
	"github.com/agentx/agentx/trace"
)

// BailianName is the name of the format.
const BailianName = "bailian"

// bailianBlock is the block size of Bailian's traces, in tokens.
const bailianBlock = 16

// Bailian reads the rows of a trace of Bailian: requests that name the one before them by chat_id. A request with several behind it goes on
// in the first of them, and each other one begins a session of its own.
type Bailian struct {
	ask       trace.Reserve
	prefix    string
	namespace int
	rows      []request
	chats     []chat
	at        map[int64]int32 // row of a chat_id
	types     names
	calls     int32
	odd       trace.Oddities
}

// chat is what a row has besides its request.
type chat struct {
	id, parent int64
	ids        trace.IDs
}

// IsBailian reports whether a row is one of Bailian's.
func IsBailian(first []byte) bool {
	l := jsonlex.New(first)
	found := 0
	err := l.Object(func(key []byte) error {
		switch string(key) {
		case "chat_id", "parent_chat_id", "hash_ids":
			found++
		}
		return l.Skip()
	})
	return err == nil && found == 3
}

// NewBailian begins a file. Its number, from 0, goes into the names of its traces from the second file on; its ids name blocks of a
// namespace. reserve may be nil.
func NewBailian(file, namespace int, reserve trace.Reserve) *Bailian {
	return &Bailian{ask: reserve, prefix: prefixOf(file), namespace: namespace, at: map[int64]int32{}}
}

// Add reads the next row. The error is always a *trace.Error.
func (b *Bailian) Add(row []byte) error {
	b.calls++
	q, c, err := b.read(row)
	if err != nil {
		return err
	}
	if _, twice := b.at[c.id]; twice {
		return &trace.Error{Kind: trace.DuplicateID, Problem: fmt.Sprintf("chat_id %d twice", c.id), Hint: "a file in which each chat_id is of one request"}
	}
	if need := (q.in + bailianBlock - 1) / bailianBlock; int(need) > c.ids.Len {
		return &trace.Error{Kind: trace.Conflict, Problem: fmt.Sprintf("%d hash_ids for %d tokens, which have %d blocks of %d", c.ids.Len, q.in, need, bailianBlock)}
	}
	if err := reserve(b.ask, int64(160+trace.RunBytes*len(c.ids.Runs))); err != nil {
		return err
	}
	if q.in == 0 {
		b.odd.Add(trace.OddityEmpty, "chat_id %d", c.id)
	}
	b.at[c.id] = int32(len(b.rows))
	b.rows, b.chats = append(b.rows, q), append(b.chats, c)
	return nil
}

// read reads the members of a row.
func (b *Bailian) read(row []byte) (q request, c chat, err error) {
	l := jsonlex.New(row)
	q = request{took: none, row: b.calls}
	missing := map[string]bool{"chat_id": true, "parent_chat_id": true, "timestamp": true, "input_length": true, "output_length": true, "hash_ids": true}
	numbers := map[string]int64{}
	seconds := 0.0
	wrong := l.Object(func(key []byte) error {
		name := string(key)
		delete(missing, name)
		switch name {
		case "chat_id", "parent_chat_id", "input_length", "output_length":
			v, err := wholeOf(l)
			numbers[name] = v
			return in(err, name)
		case "timestamp":
			text, err := l.Number()
			if err == nil {
				seconds, err = strconv.ParseFloat(string(text), 64)
			}
			return in(err, name)
		case "type":
			if l.Kind() != jsonlex.String {
				return l.Skip()
			}
			text, err := l.Text()
			q.model = b.types.number([]byte(text))
			return err
		case "hash_ids":
			c.ids = trace.IDs{}
			return in(l.Array(func() error {
				v, err := wholeOf(l)
				c.ids.Append(v)
				return err
			}), name)
		}
		return l.Skip()
	})
	if wrong == nil {
		wrong = l.End()
	}
	if wrong != nil {
		return q, c, asError(wrong)
	}
	for _, name := range []string{"chat_id", "parent_chat_id", "timestamp", "input_length", "output_length", "hash_ids"} {
		if missing[name] {
			return q, c, &trace.Error{Kind: trace.MissingField, Where: name, Problem: "it is missing"}
		}
	}
	if err := checkNumbers("timestamp", "input_length", "output_length", seconds, numbers["input_length"], numbers["output_length"]); err != nil {
		return q, c, err
	}
	c.id, c.parent = numbers["chat_id"], numbers["parent_chat_id"]
	q.at, q.in, q.out = millis(seconds), int32(numbers["input_length"]), int32(numbers["output_length"])
	return q, c, nil
}

func wholeOf(l *jsonlex.Lexer) (int64, error) {
	text, err := l.Number()
	if err != nil {
		return 0, err
	}
	return jsonlex.Whole(text)
}

// in says in which member an error is.
func in(err error, name string) error {
	if err == nil {
		return nil
	}
	kind := trace.WrongType
	if _, malformed := err.(*jsonlex.SyntaxError); malformed {
		kind = trace.NotJSON
	}
	return &trace.Error{Kind: kind, Where: name, Problem: err.Error()}
}

// asError returns an error of a row as a *trace.Error.
func asError(err error) error {
	if e, ok := err.(*trace.Error); ok {
		return e
	}
	return &trace.Error{Kind: trace.NotJSON, Problem: err.Error()}
}

// Traces returns the traces in the order of their starts, with the odd rows of the file at the first. The error is nil.
func (b *Bailian) Traces() (iter.Seq[*trace.Trace], error) {
	order := make([]int32, len(b.rows))
	first := int64(math.MaxInt64)
	for k := range b.rows {
		order[k] = int32(k)
		first = min(first, b.rows[k].at)
	}
	byStart(order, b.rows)
	behind := map[int32][]int32{} // by row those that name it, in the order of their starts
	var roots []int32
	for _, k := range order {
		parent, known := b.at[b.chats[k].parent]
		switch {
		case b.chats[k].parent == none:
			roots = append(roots, k)
		case !known:
			b.odd.Add(trace.OddityOrphan, "chat_id %d", b.chats[k].id)
			roots = append(roots, k)
		default:
			behind[parent] = append(behind[parent], k)
		}
	}
	roots = append(roots, b.cycles(order, roots, behind)...)
	byStart(roots, b.rows)
	traces := make([]*trace.Trace, 0, len(roots))
	for _, root := range roots {
		traces = append(traces, b.trace(root, behind, first))
	}
	if len(traces) > 0 {
		traces[0].Oddities = append(traces[0].Oddities, b.odd...)
	}
	return slices.Values(traces), nil
}

// cycles returns rows that no root leads to, because rows name one another in a ring: the earliest that no row returned before leads to, and
// so on. It takes each from behind the row that it names.
func (b *Bailian) cycles(order, roots []int32, behind map[int32][]int32) (more []int32) {
	seen := make([]bool, len(b.rows))
	visit := func(from int32) {
		for stack := []int32{from}; len(stack) > 0; {
			k := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			if !seen[k] {
				seen[k] = true
				stack = append(stack, behind[k]...)
			}
		}
	}
	for _, k := range roots {
		visit(k)
	}
	for _, k := range order {
		if !seen[k] {
			b.odd.Add(trace.OddityCycle, "chat_id %d", b.chats[k].id)
			parent := b.at[b.chats[k].parent]
			behind[parent] = slices.DeleteFunc(behind[parent], func(x int32) bool { return x == k })
			more = append(more, k)
			visit(k)
		}
	}
	return more
}

// session is a run of rows: each names the one before it.
type session struct {
	rows   []int32
	parent int // among the sessions of its trace
	after  int // row of the parent that its first row names
}

// trace returns the trace of the conversation that a row begins.
func (b *Bailian) trace(root int32, behind map[int32][]int32, first int64) *trace.Trace {
	sessions := []session{{rows: []int32{root}, parent: none}}
	for n := 0; n < len(sessions); n++ { // more are found meanwhile
		for at := 0; at < len(sessions[n].rows); at++ {
			next := behind[sessions[n].rows[at]]
			for k, row := range next {
				if k > 0 {
					sessions = append(sessions, session{rows: []int32{row}, parent: n, after: at})
				}
			}
			if len(next) > 0 {
				sessions[n].rows = append(sessions[n].rows, next[0])
			}
		}
	}
	types := b.types.list
	if len(types) == 0 {
		types = []string{"unknown"}
	}
	t := &trace.Trace{ID: fmt.Sprint(b.prefix, b.chats[root].id), BlockSize: bailianBlock, Scope: trace.ScopeGlobal, Models: types, TailIDs: true, Linked: true,
		Start: trace.Seconds{V: float64(b.rows[root].at), OK: true}, Namespace: b.namespace, Format: BailianName}
	for _, k := range sessions[0].rows {
		t.Entries = append(t.Entries, trace.Entry{Request: b.request(k, first)})
		t.Rows = append(t.Rows, int(b.rows[k].row))
	}
	main := len(t.Entries)
	for _, s := range sessions[1:] {
		links := &trace.Links{Branch: true, Parent: none, After: s.after, Before: none}
		if s.parent > 0 {
			links.Parent = main + s.parent - 1
		}
		sub := &trace.Subagent{Links: links, AgentID: fmt.Sprint(b.chats[s.rows[0]].id)}
		for _, k := range s.rows {
			sub.Requests = append(sub.Requests, b.request(k, first))
		}
		sub.T = sub.Requests[0].T
		t.Entries = append(t.Entries, trace.Entry{Subagent: sub})
		t.Rows = append(t.Rows, int(b.rows[s.rows[0]].row))
		t.Oddities.Add(trace.OddityBranch, "chat_id %d", b.chats[s.rows[0]].id)
	}
	return t
}

func (b *Bailian) request(k int32, first int64) trace.Request {
	q := b.rows[k].traceRequest(first)
	q.IDs = b.chats[k].ids
	return q
}

// Invalid returns nil: rows are checked one by one.
func (b *Bailian) Invalid() []*trace.Error { return nil }
