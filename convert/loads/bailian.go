package loads

import (
	"fmt"
	"iter"
	"math"
	"slices"

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
func IsBailian(first []byte) bool { return hasKeys(first, "chat_id", "parent_chat_id", "hash_ids") }

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

// missing is a whole number that a row does not have.
const missing = math.MinInt64

// read reads the members of a row.
func (b *Bailian) read(row []byte) (q request, c chat, _ error) {
	in, out, seconds, kind, hasIDs := int64(missing), int64(missing), math.NaN(), "", false
	c.id, c.parent = missing, missing
	m := members{
		counts: map[string]*int64{"chat_id": &c.id, "parent_chat_id": &c.parent, "input_length": &in, "output_length": &out},
		times:  map[string]*float64{"timestamp": &seconds},
		texts:  map[string]*string{"type": &kind},
		lists: map[string]func(*jsonlex.Lexer) error{"hash_ids": func(l *jsonlex.Lexer) error {
			if l == nil {
				c.ids, hasIDs = trace.IDs{}, true
				return nil
			}
			v, err := wholeOf(l)
			c.ids.Append(v)
			return err
		}},
	}
	if err := m.read(row); err != nil {
		return q, c, err
	}
	if err := lacking(needed{"chat_id", c.id != missing}, needed{"parent_chat_id", c.parent != missing}, needed{"timestamp", !math.IsNaN(seconds)},
		needed{"input_length", in != missing}, needed{"output_length", out != missing}, needed{"hash_ids", hasIDs}); err != nil {
		return q, c, err
	}
	if err := checkNumbers("timestamp", "input_length", "output_length", seconds, in, out); err != nil {
		return q, c, err
	}
	if kind == "" {
		kind = "unknown"
	}
	return request{at: millis(seconds), took: none, in: int32(in), out: int32(out), model: b.types.number([]byte(kind)), row: b.calls}, c, nil
}

// Traces returns the traces in the order of their starts, with the odd rows of the file at the first. The error is nil.
func (b *Bailian) Traces() (iter.Seq[*trace.Trace], error) {
	order := make([]int32, len(b.rows))
	place := make([]int, len(b.rows)) // of a row in the order
	for k := range b.rows {
		order[k] = int32(k)
	}
	byStart(order, b.rows)
	for at, k := range order {
		place[k] = at
	}
	above := func(at int) int {
		parent, known := b.at[b.chats[order[at]].parent]
		if !known || b.chats[order[at]].parent == none {
			return none
		}
		return place[parent]
	}
	cut := map[int]bool{}
	for _, at := range rings(len(order), above) {
		cut[at] = true
	}
	behind := map[int32][]int32{} // by row those that name it, in the order of their starts
	var traces []*trace.Trace
	var roots []int32
	for at, k := range order {
		switch parent := above(at); {
		case cut[at]:
			b.odd.Add(trace.OddityCycle, "chat_id %d", b.chats[k].id)
			roots = append(roots, k)
		case parent != none:
			behind[order[parent]] = append(behind[order[parent]], k)
		default:
			if b.chats[k].parent != none {
				b.odd.Add(trace.OddityOrphan, "chat_id %d", b.chats[k].id)
			}
			roots = append(roots, k)
		}
	}
	for _, root := range roots {
		traces = append(traces, b.trace(root, behind, b.rows[order[0]].at))
	}
	if len(traces) > 0 {
		traces[0].Oddities = append(traces[0].Oddities, b.odd...)
	}
	return slices.Values(traces), nil
}

// trace returns the trace of the conversation that a row begins, on a clock that begins at an instant. A row goes on in the session of the
// one that it names where it is the first to do so; else a branch begins with it.
func (b *Bailian) trace(root int32, behind map[int32][]int32, first int64) *trace.Trace {
	t := &trace.Trace{ID: fmt.Sprint(b.prefix, b.chats[root].id), BlockSize: bailianBlock, Scope: trace.ScopeGlobal, Models: b.types.list, TailIDs: true, Linked: true,
		Start: trace.Seconds{V: float64(b.rows[root].at), OK: true}, Namespace: b.namespace, Format: BailianName}
	main := &session{rows: []int32{root}}
	for queue := []*session{main}; len(queue) > 0; queue = queue[1:] { // more are found meanwhile
		s := queue[0]
		for at := 0; at < len(s.rows); at++ {
			for k, row := range behind[s.rows[at]] {
				if k == 0 {
					s.rows = append(s.rows, row)
					continue
				}
				branch := &session{id: fmt.Sprint(b.chats[row].id), rows: []int32{row}}
				branch.hang(s, trace.Links{Branch: true, After: at, Before: none})
				queue = append(queue, branch)
				t.Oddities.Add(trace.OddityBranch, "chat_id %s", branch.id)
			}
		}
	}
	main.build(t, func(s *session) (list []trace.Request) {
		for _, k := range s.rows {
			q := b.rows[k].traceRequest(first)
			q.IDs = b.chats[k].ids
			list = append(list, q)
		}
		return list
	}, func(k int32) int32 { return b.rows[k].row })
	return t
}

// Invalid returns nil: rows are checked one by one.
func (b *Bailian) Invalid() []*trace.Error { return nil }
