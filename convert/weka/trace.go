package weka

import "fmt"

// Trace is one recorded session, as its file has it.
type Trace struct {
	ID           string
	BlockSize    int64 // tokens, as declared
	Scope        Scope
	ToolTokens   int64 // declared size of the tools prefix
	SystemTokens int64 // declared size of the system prefix
	HasTotals    bool  // the file sums up its own requests
	TailIDs      bool  // the last id of a list may cover less than a block
	Entries      []Entry
	Models       []string       // names that requests use, in order of first use; Request.Model indexes it
	Unknown      map[string]int // unknown keys and request types that were tolerated, counted by name

	start       Seconds       // recorded, in milliseconds unlike all other Seconds, on the clock of the recording
	namespace   int           // see Mooncake
	rows        []int         // of Mooncake: by entry the number of its row in the file, from 1
	spoiled     bool          // of Mooncake: a row of it is invalid
	live        bool          // of Mooncake: each prompt is one message, which a replay puts behind those before and the answers to them
	format      string        // FormatMooncake, or "" where Format decides
	budget      *memoryBudget // of the memory that it and its plan take; may be nil
	rowOddities oddities      // noticed while it was read
}

// Scope says what a hash id names: doc/spec/reconstruction.md 2.4.
type Scope uint8

const (
	ScopeAbsent Scope = iota // the key is missing: ids name blocks of one context only
	ScopeLocal               // ids name blocks of the trace, its subagents included
	ScopeGlobal              // ids name blocks shared by all global traces of equal block size
)

func (s Scope) String() string { return [...]string{"absent", "local", "global"}[s] }

// Namespace returns the string that is hashed with the ids of a context, so that equal ids of other contexts mean other
// blocks. agent is the id of the subagent, "" for top-level requests.
func (s Scope) Namespace(trace, agent string, blockSize int) string {
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

// Subagent is a subagent: an entry of type "subagent".
type Subagent struct {
	T            float64 // seconds; start or completion, as Rules.MarkerTime decides
	AgentID      string
	Completed    bool // status is "completed"
	HasDuration  bool // duration_ms is present
	DurationMS   int64
	ToolTokens   int64
	SystemTokens int64
	Requests     []Request
}
