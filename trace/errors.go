package trace

import (
	"fmt"
	"strings"
)

// Error says what is wrong with a trace, and where in it. Readers and MakePlan return no other type.
type Error struct {
	Kind    ErrorKind
	Trace   string // its id, "" where that is not known yet
	Where   string // path of the field, such as requests[12].in, or the session
	Row     int    // of what only all rows of a file show: the number of a row, from 1; else 0
	Problem string
	Hint    string // what the user can do, if other traces of the file probably have the same problem; may be empty
}

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

// ErrorKind is a kind of invalid input.
type ErrorKind string

// Kinds that readers report.
const (
	NotJSON        ErrorKind = "not-json"      // the text is not JSON, or a string is not UTF-8
	UnknownKey     ErrorKind = "unknown-key"   // a key that strict rules do not allow, or that tells another format
	MissingField   ErrorKind = "missing-field" // a required key is missing or null
	WrongType      ErrorKind = "wrong-type"    // a string where a number belongs, and the like
	NotInteger     ErrorKind = "not-integer"   // a fraction where a whole number belongs
	IDRange        ErrorKind = "id-range"      // a whole number beyond 64 bits
	BadType        ErrorKind = "request-type"  // a type that strict rules do not have
	NestedSubagent ErrorKind = "nested-marker" // a subagent inside a subagent
	Unclear        ErrorKind = "unclear"       // a file whose rows have several readings: no row of it is read
	Contradiction  ErrorKind = "contradiction" // what a file of rows says, and a rule or a row says otherwise
)

// Kinds that Check reports, and readers too.
const (
	NotFinite    ErrorKind = "not-finite"  // a time beyond float64
	NegativeIn   ErrorKind = "negative-in" // a prompt of negative length
	BadBlockSize ErrorKind = "block-size"  // outside 1 to MaxBlockSize
	BadScope     ErrorKind = "scope"       // a hash_id_scope that does not exist, or that the rules do not have
	Conflict     ErrorKind = "conflict"    // two fields that contradict each other
	TooLarge     ErrorKind = "too-large"   // beyond MaxTokens, MaxSeconds or the memory
)

// Kinds that MakePlan reports, beside TooLarge and those of Check.
const (
	DuplicateID      ErrorKind = "duplicate-agent"       // two subagents with one agent_id
	PrefixTooLong    ErrorKind = "prefix"                // the declared prefix is longer than the first list
	JoinBeforeSpawn  ErrorKind = "join_before_spawn"     // a child would be joined before it is spawned (Refusals: "error")
	NegativeBranch   ErrorKind = "negative_branch_start" // a branch starts before time 0 (Refusals: "error")
	DuplicateSession ErrorKind = "duplicate_session"     // two sessions with one name
	BadTraceID       ErrorKind = "trace-id"              // an id with "::"
)

// maxShownValue bounds the bytes of a value that an error shows.
const maxShownValue = 40

// Clip shortens a value for an error.
func Clip(b []byte) string {
	if len(b) > maxShownValue {
		return strings.ToValidUTF8(string(b[:maxShownValue]), "") + "..."
	}
	return string(b)
}
