// Package text is the model of recorded sessions of agents that have their text: what readers of logs make, and what text caches and
// anonymised traces are made from. It is doc/spec/text.md 2; its rules T1 to T7 stand there.
//
//	d := text.NewDataset(text.NewStore(dir))
//	reader := messages.New(d)
//	...               // reader.Row for each row of the input
//	err := d.Finish() // gaps, order and sizes that follow from the rest
//
// Everything is a value: no bytes of a format, no tokens. Each distinct text stands once, in a Store; each distinct message once, in the
// Dataset. A prompt is a path in a tree of messages, so what two hundred prompts share stands once, too.
package text

import "math"

// None is the value of an index that points to nothing, and of a count that was not recorded.
const None = -1

// NoTime is an instant that was not recorded.
const NoTime = math.MinInt64

// Text is a text in a Store, by its number. 0 is the empty text.
type Text uint32

// PartKind is what a part of a message is.
type PartKind uint8

// The kinds of a part.
const (
	Plain    PartKind = iota // text
	Thinking                 // reasoning in words
	Redacted                 // reasoning that is there encrypted alone
	Call                     // of a tool
	Result                   // of a call
	Image
	Document
	Audio
	Other // a block that no rule knows: compact JSON
)

var partNames = [...]string{"text", "thinking", "redacted", "call", "result", "image", "document", "audio", "other"}

func (k PartKind) String() string { return partNames[k] }

// Part is a part of a message.
type Part struct {
	Kind   PartKind
	Failed bool  // a result that says so
	Tokens int32 // of media: doc/spec/capture.md 5.2
	ID     Text  // of a call, and of the call that a result answers
	Name   Text  // of the tool of a call
	Text   Text  // of Plain and Thinking; what is encrypted; arguments of a call as they were written; JSON of Other; what Media refer to
	Parts  []Part
}

// Role is the role of a message.
type Role uint8

// The roles.
const (
	System Role = iota
	Developer
	User
	Assistant
	Tool
	OtherRole // named by Message.Name
)

var roleNames = [...]string{"system", "developer", "user", "assistant", "tool"}

// RoleOf returns the role of a name, OtherRole for one that no API has.
func RoleOf(name []byte) Role {
	for r, known := range roleNames {
		if string(name) == known {
			return Role(r)
		}
	}
	return OtherRole
}

func (r Role) String() string {
	if r == OtherRole {
		return "other"
	}
	return roleNames[r]
}

// Message is one message. Continues says that it has no role of its own behind the message of the assistant before it: an item of
// Responses.
type Message struct {
	Role      Role
	Continues bool
	Name      Text // of OtherRole
	Raw       Text // JSON that is sent as it is to chat completions; 0: what follows from Parts
	Parts     []Part
}

// Node is a message in the tree of prompts of a session's root trace. A parent stands before its children.
type Node struct {
	Parent  int32 // None: the first of a prompt
	Message int32 // in Dataset.Messages
}

// SessionKind says where a session comes from.
type SessionKind uint8

// The kinds of a session.
const (
	Main     SessionKind = iota
	Subagent             // started by a call of another session
	Branch               // begins behind a turn of another session, which goes on
)

func (k SessionKind) String() string { return [...]string{"main", "subagent", "branch"}[k] }

// Trace is a root session with those that it started.
type Trace struct {
	Sessions []Session // the root first
	Nodes    []Node
	Start    int64 // the first instant, milliseconds since 1970; NoTime: none was recorded

	HiddenPrefix bool // the log lacks the beginning of prompts: system prompt, or tools
	GapAlone     bool // nothing says which part of a gap is of tools
	OwnIDs       bool // the id of a subagent stands for itself, without that of the root
	Verbatim     bool // requests are sent as they are: calls and results are not paired
	Live         bool // a prompt is what is new in its session: a replay puts those before and the server's answers in front of it
	Scheduled    bool // Start is when the session is to begin: Options of a replay can keep to it
	RecordedEnds bool // gaps count from an end as it was recorded, also where that is before the beginning: the clock has gone back

	last map[Node]int32
}

// Session is a conversation of one agent.
type Session struct {
	ID        string // of the input: a key in memory, which no cache and no trace has
	Kind      SessionKind
	Parent    int32   // in Trace.Sessions; None of a root
	SpawnTurn int32   // of the parent, whose reply starts it; None: it starts at its own time
	JoinTurn  int32   // of the parent, whose prompt first has its result; None: no turn waits for it
	Tools     []Text  // definitions, compact JSON each
	Front     []int32 // messages of the system that stand in front of all prompts, in Dataset.Messages: Give
	Turns     []Turn
	Lacks     int32 // tokens of the prefix that the log lacks: doc/spec/text.md 4.7; None where nothing says
	Filler    int32 // tokens that stand for them; None where nothing does
}

// Turn is a request with what was recorded of it. Instants are milliseconds since 1970.
type Turn struct {
	Last   int32   // node that ends the prompt; None: the prompt has no message
	Before int32   // turn of the session whose reply is the last on the path; None: no reply is on it
	Output []int32 // messages of the answer, in Dataset.Messages

	At, End, First int64 // beginning, end and first output; NoTime where they were not recorded
	LastResult     int64 // the latest result in the new input; NoTime: the new input has none

	Gap, ToolTime, ThinkTime int64 // milliseconds; None without predecessor, or times

	Tools   []Text // definitions, in place of those of the session; nil: those
	Members Text   // further members of the body, as JSON without the braces around them; with Tools instead of the session's

	Model           Text
	In, Cached, Out int32 // tokens as recorded; None
	Counted         Counting
	NoContent       bool // the log has sizes alone
	Stop            string
}

// Counting says whether Out is counted from Output where it is not recorded, or cannot be true.
type Counting uint8

// What is counted.
const (
	AsRecorded    Counting = iota
	Whole                  // the answer as the next prompt has it, where Out is missing
	WholeRequest           // that, and the prompt where In is missing
	WithStructure          // the answer as the next prompt has it: doc/spec/capture.md 5.2, without its role
	Texts                  // texts, names and arguments; where Out is missing, or so small that it is a placeholder
)

// Reader reads the rows of files of one format into a Dataset. Row gets the text of one row, which it may keep no part of; its error wraps
// content.ErrMalformed where the row is no JSON. End comes behind the last row.
type Reader interface {
	Row(row []byte, at Place) error
	End() error
}

// Place is where a row stands.
type Place struct {
	File   int    // of the input, from 0
	Path   string // of the file
	Line   int    // of the file, or element of its list, from 1; 0: the file is one value
	Number int    // among all rows of the input, from 1
}
