package weka

import (
	"fmt"
	"strings"

	"github.com/agentx/agentx/internal/jsonlex"
)

// MaxTokens bounds the tokens of one prompt or completion: far above any model's context. A larger number is damage.
const MaxTokens = 1 << 24

// maxDepth bounds how many objects and arrays of a row may be open at once.
const maxDepth = 512

// Reserve requests memory, in bytes, before it is allocated. An error refuses it: the current trace needs too much.
type Reserve func(bytes int64) error

// Scan reads one trace from the bytes of one JSON value. The result does not refer to data.
//
// hash_ids are 97.9 % of the bytes of trace files, and most lists repeat the list of the request before, digit for digit.
// Scan compares such a stretch as text and does not parse it. Tests compare it with encoding/json.
//
// The error is always an *Error.
func Scan(data []byte, r Rules) (*Trace, error) { return ScanWithin(data, r, nil) }

// ScanWithin is Scan with limited memory: it calls reserve for the memory of the trace, and MakePlan later for its plan.
func ScanWithin(data []byte, r Rules, reserve Reserve) (*Trace, error) {
	s := newScanner(r, reserve)
	s.read(data)
	s.readTrace()
	return s.result()
}

// scanner reads one trace or Mooncake row from one JSON text. It keeps the first error, which ends every loop.
type scanner struct {
	lex          jsonlex.Lexer
	strict       bool
	tr           *Trace
	err          *Error
	path         []step // names and indexes of the values that are open
	prev         idList // the last hash_ids list read
	reservedRuns int    // runs of the current list for which memory is reserved

	elementOf [2]element // the current element of the trace's list, and of a subagent's

	loose        looseIDs
	milliseconds bool // the unit of times, else seconds
	first        bool // no row of the Mooncake file before this one has a timestamp
}

func newScanner(r Rules, reserve Reserve) scanner {
	tr := &Trace{}
	tr.SetReserve(reserve)
	return scanner{strict: r.WithDefaults().strict(), tr: tr}
}

// read sets the text to be read.
func (s *scanner) read(text []byte) {
	s.lex = jsonlex.Lexer{Data: text, MaxDepth: maxDepth, Strict: true}
}

// result returns the trace, or the error that ended the scan.
func (s *scanner) result() (*Trace, error) {
	if s.err != nil {
		s.err.Trace = s.tr.ID
		return nil, s.err
	}
	return s.tr, nil
}

// step is one part of a path: a name, or an index where name is "".
type step struct {
	name  string
	index int
}

// maxShownPath bounds the steps of a path in an error: the schema is less deep.
const maxShownPath = 16

// fail records an error at the current path, unless there is one already.
func (s *scanner) fail(kind ErrorKind, format string, args ...any) {
	if s.err == nil {
		s.err = &Error{Kind: kind, Where: s.where(), Problem: fmt.Sprintf(format, args...)}
	}
}

// where writes the current path, such as requests[12].in.
func (s *scanner) where() string {
	var w strings.Builder
	for k, p := range s.path {
		switch {
		case k == maxShownPath:
			w.WriteString("[...]")
			return w.String()
		case p.name == "":
			fmt.Fprintf(&w, "[%d]", p.index)
			continue
		case w.Len() > 0:
			w.WriteByte('.')
		}
		w.WriteString(p.name)
	}
	return w.String()
}

// checkSyntax records an error of the lexer, unless the scanner itself returned the error to the lexer.
func (s *scanner) checkSyntax(err error) {
	if err != nil && s.err == nil {
		s.fail(NotJSON, "not JSON: %v", err)
	}
}

// object reads the object that begins here. member reads the value of each key.
func (s *scanner) object(member func(name string)) {
	s.checkSyntax(s.lex.Object(func(key []byte) error {
		name := nameOf(key)
		return s.inside(step{name: name}, func() { member(name) })
	}))
}

// array reads the array that begins here. element reads each of its elements.
func (s *scanner) array(element func()) {
	next := 0
	s.checkSyntax(s.lex.Array(func() error {
		next++
		return s.inside(step{index: next - 1}, element)
	}))
}

// inside calls read with a step added to the path, which stays there after an error.
func (s *scanner) inside(at step, read func()) error {
	s.path = append(s.path, at)
	if read(); s.err != nil {
		return s.err
	}
	s.path = s.path[:len(s.path)-1]
	return nil
}

// need reserves n bytes of memory for the trace, and fails where it is refused.
func (s *scanner) need(n int) {
	if s.err == nil && !s.tr.budget.need(n) {
		s.err = s.tr.budget.refused()
		s.err.Where = s.where()
	}
}
