// Package journal writes and reads what a session of a capture leaves on disk while it runs: a text file that only grows.
//
// A line is the CRC-32C of its JSON in eight hexadecimal digits, a blank, the JSON, and LF. It holds integers and words of
// closed lists, besides the trace's id, the tokenizer and the names of models. doc/spec/capture.md 9.1 has every line.
//
// Files: session.go (the folder of a capture, and its lock), writer.go and append.go (a line each time something happens),
// reader.go, parse.go and apply.go (bytes to a Session, up to the first line that is not as the writer writes it), words.go
// (closed lists), lines.go (what the lines hold).
package journal

import (
	"slices"
	"time"
)

// Version is that of the lines.
const Version = 1

// Head is the first line: of which session the journal is, and how its trace is to be written.
type Head struct {
	Trace     string // cap- and 8 hexadecimal digits
	BlockSize int
	Canon     string // canon-1
	Tokenizer string
	By        By
	Export    Export
}

// Export says how the trace of a session is written. The zero value is the default of each flag.
type Export struct {
	Grid        time.Duration // times are multiples of it; 0: 10 ms
	MaxGap      time.Duration // longer idle gaps are cut to it; 0: none is
	Masks       Masks
	Holes       Holes
	MinRequests int // shorter traces are not written; 0: 1
}

// DefaultGrid is the grid of times.
const DefaultGrid = 10 * time.Millisecond

// Masks is a set of what a trace hides.
type Masks uint8

// What a trace can hide.
const (
	MaskModels       Masks = 1 << iota // models become model-1, model-2, ...
	MaskPrefixCounts                   // tool_tokens and system_tokens become 0
	MaskTails                          // in mod block size is drawn anew

	allMasks = 1<<iota - 1
)

// MaskNames has the word of each mask, in their order.
var MaskNames = []string{"models", "prefix-counts", "tails"}

// MaskOf returns the mask of a word, 0 where it is none.
func MaskOf(name string) Masks {
	if k := slices.Index(MaskNames, name); k >= 0 {
		return 1 << k
	}
	return 0
}

// Holes says what becomes of a trace with a hole.
type Holes string

// What becomes of a trace with a hole.
const (
	HolesCut  Holes = ""     // it ends before the first
	HolesDrop Holes = "drop" // it is not written
	HolesKeep Holes = "keep" // everything known is written
)

// Model names the model of an index, before the first line that uses it.
type Model struct {
	Index int
	Name  string
}

// Place is the agent of a request. The zero value is the agent without an id.
type Place struct {
	Agent  int
	Parent int  // the agent that made it; 0 for agent 0
	Via    Tier // the evidence; 0 for agent 0
}

// Begin says that a request arrived. Times are milliseconds since the first arrival of the session.
type Begin struct {
	Q int // number of the request, in the order of arrival
	T int64
	Place
}

// IDs says which blocks the prompt of a request has. Their ids are the first Keep of those of request Base, and New from the
// session's counter.
type IDs struct {
	Q      int
	Model  int
	Stream bool
	In     int // tokens
	Tools  int // of them, of tool definitions
	System int
	Base   int // the request with the longest common list; -1: none
	Keep   int
	New    int
	Input  Kinds  // of the blocks behind those that it shares with its predecessor
	Media  int    // tokens of images, documents and audio
	Moved  *Place // the request's agent, where Begin named another; nil where it did not
}

// Hole stands in place of IDs where a prompt was lost.
type Hole struct {
	Q      int
	Reason Reason
}

// End says how an exchange ended. First is the instant of the first output, -1 where there was none.
type End struct {
	Q        int
	T, First int64
	X        Outcome
	Status   int // of HTTP; 0 without one
	Out      int // tokens
	Output   Kinds
	Stop     Stop
	Marks    Mark
	Word     string // the API's own word for why it stopped, as StopWord returns it; "" where it is that of Stop
	Calls    int    // of tools
	API      int    // prompt tokens that the API counted; 0 where it did not say
	Lost     Reason // why nothing is known of the reply, where X is Aborted and the exchange itself went on; else ""
}

// Agent tells of a subagent what is learnt after its first request began.
type Agent struct {
	Agent  int
	Type   AgentType // "" where nothing is known of it
	Result int       // request with the result of the call that made it; 0: not seen
}

// Final says why the session was finished.
type Final struct{ Why Why }
