// Package trace is what every reader of recordings makes, and what everything behind it takes: a session of an agent as numbers.
// It has no text and no tokens, and imports nothing.
//
//	t := &trace.Trace{ID: "s1", BlockSize: 64, Scope: trace.ScopeLocal, Models: []string{"m"}, Entries: []trace.Entry{
//		{Request: trace.Request{T: 0.5, In: 128, Out: 20, IDs: trace.IDs{Runs: []trace.Run{{First: 1, N: 2}}, Len: 2}}},
//	}}
//	if err := t.Check(); err != nil {
//		return err
//	}
//	plan, notes, err := reconstruct.MakePlan(t, rules.Default()) // packages convert/reconstruct and convert/rules
//
// Check is the one door: MakePlan calls it first, and its limits are stated nowhere else. A reader of another format is a package
// that imports this one and a lexer; the folder examples has one. Readers report an *Error, too.
package trace

import (
	"fmt"
	"iter"
)

// Trace is one recorded session, as its file has it.
type Trace struct {
	ID           string
	BlockSize    int64 // tokens, as declared
	Scope        Scope
	ToolTokens   int64 // declared size of the tools prefix
	SystemTokens int64 // declared size of the system prefix
	HasTotals    bool  // the file sums up its own requests
	TailIDs      bool  // the last id of a list may cover less than a block
	Live         bool  // each prompt is one message, which a replay puts behind those before and the answers to them
	LengthsAlone bool  // the recording does not say what prompts share: no request has ids
	Linked       bool  // the recording says which requests are one conversation: none is taken for another agent's
	Entries      []Entry
	Models       []string       // names that requests use, in order of first use; Request.Model indexes it
	Unknown      map[string]int // unknown keys and request types that were tolerated, counted by name

	Format    string  // name of the format
	Start     Seconds // recorded, in milliseconds unlike all other Seconds, on the clock of the recording
	Namespace int     // ids of global scope name blocks that traces of the same number share
	Rows      []int   // of formats whose rows are requests: by entry the number of its row in the file, from 1
	Budget    *Budget // of the memory that it and its plan take; may be nil
	Oddities  Oddities
}

// Scope says what a hash id names: doc/spec/reconstruction.md 2.4.
type Scope uint8

const (
	ScopeAbsent Scope = iota // the key is missing: ids name blocks of one context only
	ScopeLocal               // ids name blocks of the trace, its subagents included
	ScopeGlobal              // ids name blocks shared by all global traces of equal block size
)

func (s Scope) String() string { return [...]string{"absent", "local", "global"}[s] }

// Context returns the string that is hashed with the ids of a context, so that equal ids of other contexts mean other
// blocks. agent is the id of the subagent, "" for top-level requests.
func (s Scope) Context(trace, agent string, blockSize int) string {
	switch {
	case s == ScopeGlobal:
		return fmt.Sprintf("__global__:%d", blockSize)
	case s == ScopeAbsent && agent != "":
		return trace + "::sa:" + agent
	}
	return trace
}

// Entry is one element of a trace's list: a request, or a subagent with requests of its own.
type Entry struct {
	Request
	Subagent *Subagent // nil for a request
}

// Request is one recorded request to the model.
type Request struct {
	T         float64 // start, seconds
	Model     int     // index into Trace.Models
	In, Out   int64   // tokens
	IDs       IDs
	Input     InputTypes
	Stop      StopReason
	APITime   Seconds
	ThinkTime Seconds
	Recorded  *Recorded // what a recording says besides, and no replay needs; nil: nothing
}

// Recorded is what a recording says of a request besides. None: it does not.
type Recorded struct {
	First  int64  // time to the first token, milliseconds
	Cached int64  // tokens of the prompt that a cache had
	Tool   int64  // milliseconds that tools ran before it, since the answer before
	Stop   string // why the completion ended
}

// Seconds is a time that may be missing.
type Seconds struct {
	V  float64
	OK bool
}

// InputTypes is what a request's list input_types says of its new input.
type InputTypes uint8

const (
	InputUnknown InputTypes = iota // the list is empty or missing
	InputUser                      // non-empty, without "tool_result"
	InputTool                      // contains "tool_result"
)

// StopReason is why the recorded completion ended.
type StopReason uint8

const (
	StopUnknown StopReason = iota // "" or missing
	StopTool                      // "tool_use"
	StopOther                     // any other word
)

// Links say where a subagent hangs, in formats that record it.
type Links struct {
	Branch bool // it goes on from the turn behind which it begins, as another answer to that
	Parent int  // entry of the subagent that it hangs on, which stands above it; None: the main conversation
	After  int  // request of the parent behind whose answer it begins: an entry, or an index of Subagent.Requests
	Before int  // request of the parent that waits for it, likewise; None: none does
}

// Subagent is a subagent: an entry of type "subagent".
type Subagent struct {
	Links        *Links  // nil: its times decide
	T            float64 // seconds; start or completion, as rules.Rules.MarkerTime decides
	AgentID      string
	Completed    bool // status is "completed"
	HasDuration  bool // duration_ms is present
	DurationMS   int64
	ToolTokens   int64
	SystemTokens int64
	Requests     []Request
}

// None is the index that does not exist.
const None = -1

// Place is the place of a request: its index in the trace's list, and in the list of a subagent, None where it is in no subagent.
type Place struct{ Outer, Inner int }

func (p Place) String() string {
	if p.Inner == None {
		return fmt.Sprintf("requests[%d]", p.Outer)
	}
	return fmt.Sprintf("requests[%d].requests[%d]", p.Outer, p.Inner)
}

// Requests yields every request with its place, those of subagents included.
func (t *Trace) Requests() iter.Seq2[Place, *Request] {
	return func(yield func(Place, *Request) bool) {
		for k := range t.Entries {
			e := &t.Entries[k]
			if e.Subagent == nil {
				if !yield(Place{k, None}, &e.Request) {
					return
				}
				continue
			}
			for j := range e.Subagent.Requests {
				if !yield(Place{k, j}, &e.Subagent.Requests[j]) {
					return
				}
			}
		}
	}
}

// Run is a stretch of a hash_ids list: First, First+1, ... of length N. Runs of a list are as long as possible.
type Run struct {
	First int64
	N     int
}

// IDs is a hash_ids list as runs. Recorded lists have thousands of ids in three or four runs.
type IDs struct {
	Runs []Run
	Len  int // ids in all
}

// Append appends an id to the list.
func (l *IDs) Append(id int64) {
	l.Len++
	if k := len(l.Runs) - 1; k >= 0 {
		if r := &l.Runs[k]; id == r.First+int64(r.N) {
			r.N++
			return
		}
	}
	l.Runs = append(l.Runs, Run{id, 1})
}

// Head returns the first n ids of the list.
func (l IDs) Head(n int) (h IDs) {
	for _, r := range l.Runs {
		if r.N = min(r.N, n-h.Len); r.N == 0 {
			break
		}
		h.Runs, h.Len = append(h.Runs, r), h.Len+r.N
	}
	return h
}

// CommonPrefix returns the length of the longest common prefix of two lists, in ids. Equal lists have equal runs, so the first
// run that differs decides.
func CommonPrefix(a, b IDs) int {
	n := 0
	for i := range min(len(a.Runs), len(b.Runs)) {
		x, y := a.Runs[i], b.Runs[i]
		if x.First != y.First {
			return n
		}
		n += min(x.N, y.N)
		if x.N != y.N {
			return n
		}
	}
	return n
}

// Reserve requests memory, in bytes, before it is allocated. An error refuses it: the current trace needs too much.
type Reserve func(bytes int64) error

// Budget reserves memory, a MiB at a time, before it is allocated: a few bytes of JSON can need far more memory. A nil Budget
// has no limit.
type Budget struct {
	reserve Reserve
	pending int64 // bytes to reserve with the next call of reserve
	err     error // of reserve; nothing is granted after it
}

// reserveStep is how many pending bytes make a budget call reserve.
const reserveStep = 1 << 20

// Bytes that the parts of a trace take, with room to grow.
const (
	RequestBytes  = 512 // a request, and its turn
	SubagentBytes = 1024
	NameBytes     = 64 // besides the bytes of the name
	RunBytes      = 16
)

// NewBudget returns a budget that asks reserve; nil where that is nil.
func NewBudget(reserve Reserve) *Budget {
	if reserve == nil {
		return nil
	}
	return &Budget{reserve: reserve}
}

// Need requests n bytes and reports whether they are granted.
func (b *Budget) Need(n int) bool {
	if b == nil {
		return true
	}
	if b.pending += int64(n); b.pending < reserveStep {
		return b.err == nil
	}
	return b.Flush()
}

// Flush reserves the pending bytes and reports whether they are granted.
func (b *Budget) Flush() bool {
	if b == nil {
		return true
	}
	if b.err == nil {
		b.err = b.reserve(b.pending)
	}
	b.pending = 0
	return b.err == nil
}

// Exceeded reports whether memory was refused.
func (b *Budget) Exceeded() bool { return b != nil && b.err != nil }

// Refused returns the error about a trace whose memory was refused, nil where none was.
func (b *Budget) Refused() *Error {
	if !b.Exceeded() {
		return nil
	}
	return &Error{Kind: TooLarge, Problem: b.err.Error(), Hint: "split the trace into several of fewer requests, or skip invalid traces"}
}
