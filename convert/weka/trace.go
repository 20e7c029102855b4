package weka

import "fmt"

// Trace is one recorded session as it stands in the file.
type Trace struct {
	ID           string
	BlockSize    int64 // tokens, as declared
	Scope        Scope
	ToolTokens   int64  // declared size of the tools prefix
	SystemTokens int64  // declared size of the system prefix
	HasTotals    bool   // the file sums up its own requests
	TailIDs      bool   // the last id of a list may cover less than a block
	format       string // generation, where it is known from elsewhere
	Entries      []Entry
	Models       []string       // names that requests use, in order of first use; Request.Model indexes it
	Unknown      map[string]int // unknown keys and request types that were tolerated, counted by name

	budget   *memoryBudget // of the memory that it and its plan take; may be nil
	Oddities oddities      // found while it was read
}

// Scope says what a hash id names: section 2.4 of the specification.
type Scope uint8

const (
	ScopeAbsent Scope = iota // the key is missing: ids name blocks of one context only
	ScopeLocal               // ids name blocks of the trace, its subagents included
	ScopeGlobal              // ids name blocks shared by all global traces of equal block size
)

func (s Scope) String() string { return [...]string{"absent", "local", "global"}[s] }

// Namespace returns the string that salts the hash ids of a context: agent is that of the marker, "" for top-level requests.
func (s Scope) Namespace(trace, agent string, blockSize int) string {
	switch {
	case s == ScopeGlobal:
		return fmt.Sprintf("__global__:%d", blockSize)
	case s == ScopeAbsent && agent != "":
		return trace + "::sa:" + agent
	}
	return trace
}

// Entry is one element of a trace's requests: a request, or a marker with requests of its own.
type Entry struct {
	Request
	Marker *Marker // nil for a request
}

// Request is one recorded request to the model.
type Request struct {
	T         float64 // start, seconds
	Type      byte    // 'n' not streamed, 's' streamed, '?' any other word
	Model     int     // index into Trace.Models
	In, Out   int64   // tokens
	IDs       IDs
	Input     InputTypes
	Stop      StopReason
	APITime   Seconds
	ThinkTime Seconds
}

// InputTypes is what the list input_types says of a request's new input.
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

// Marker is a subagent: an entry of type "subagent".
type Marker struct {
	T            float64 // seconds; start or completion, see Clock
	AgentID      string
	Completed    bool // status is "completed"
	HasDuration  bool // duration_ms is present
	DurationMS   int64
	ToolTokens   int64
	SystemTokens int64
	Requests     []Request
}

// ErrorKind is a kind of invalid input.
type ErrorKind string

const (
	NotJSON       ErrorKind = "not-json"
	UnknownKey    ErrorKind = "unknown-key"
	MissingField  ErrorKind = "missing-field"
	WrongType     ErrorKind = "wrong-type"
	NotFinite     ErrorKind = "not-finite"
	NotInteger    ErrorKind = "not-integer"
	NegativeIn    ErrorKind = "negative-in"
	BadBlockSize  ErrorKind = "block-size"
	BadScope      ErrorKind = "scope"
	BadType       ErrorKind = "request-type"
	NestedMarker  ErrorKind = "nested-marker"
	IDRange       ErrorKind = "id-range"
	Conflict      ErrorKind = "conflict"
	TooLarge      ErrorKind = "too-large"
	DuplicateID   ErrorKind = "duplicate-agent"
	PrefixTooLong ErrorKind = "prefix"

	JoinBeforeSpawn  ErrorKind = "join_before_spawn"
	NegativeBranch   ErrorKind = "negative_branch_start"
	DuplicateSession ErrorKind = "duplicate_session"
)

// Error says what is wrong with a trace and where in it.
type Error struct {
	Kind    ErrorKind
	Trace   string // its id, "" where it is not known yet
	Where   string // path of the field, such as requests[12].in
	Problem string
	Hint    string // what to do, where other traces of the file are likely to be like this one; may be empty
}

// What to do about input that is of another form than traces are, as a whole.
const (
	hintForm    = "another file: a trace has id, models, block_size and requests"
	hintTraces  = "a file of traces, each with id, models, block_size and requests with hash_ids: agentx fetch --list names public ones"
	hintLines   = "write each trace on a line of a .jsonl file; jq -c '.[]' does that with an array, from jq 1.7 on, which leaves large numbers as they are"
	hintNull    = "--profile default, which takes null for a field left out; or leave such keys out: jq -c 'walk(if type == \"object\" then with_entries(select(.value != null)) else . end)', from jq 1.7 on, which leaves large numbers as they are"
	hintDefault = "--profile default, which reads ids that traces share"
	hintSplit   = "split the trace into several of fewer requests, or --skip-invalid, which leaves it out"
	hintPlain   = "a file of traces, or of Mooncake rows without additions"
)

func (e *Error) Error() string {
	s := e.Problem
	if e.Where != "" {
		s = e.Where + ": " + s
	}
	if e.Trace != "" {
		s = fmt.Sprintf("trace %q: %s", e.Trace, s)
	}
	return s
}
