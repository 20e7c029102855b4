package weka

import (
	"fmt"
	"strings"

	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/internal/jsonlex"
	"github.com/agentx/agentx/trace"
)

// maxDepth bounds how many objects and arrays of a row may be open at once.
const maxDepth = 512

// Scan reads one trace from the bytes of one JSON value. The result does not refer to data.
//
// hash_ids are 97.9 % of the bytes of trace files, and most lists repeat the list of the request before, digit for digit.
// Scan compares such a stretch as text and does not parse it. Tests compare it with encoding/json.
//
// The error is always an *Error.
func Scan(data []byte, r rules.Rules) (*trace.Trace, error) { return ScanWithin(data, r, nil) }

// ScanWithin is Scan with limited memory: it calls reserve for the memory of the trace, and MakePlan later for its plan.
func ScanWithin(data []byte, r rules.Rules, reserve trace.Reserve) (*trace.Trace, error) {
	s := newScanner(r, reserve)
	s.read(data)
	s.readTrace()
	return s.result()
}

// scanner reads one trace or Mooncake row from one JSON text. It keeps the first error, which ends every loop.
type scanner struct {
	lex          jsonlex.Lexer
	strict       bool
	tr           *trace.Trace
	err          *trace.Error
	path         []step // names and indexes of the values that are open
	prev         idList // the last hash_ids list read
	reservedRuns int    // runs of the current list for which memory is reserved

	elementOf [2]element // the current element of the trace's list, and of a subagent's

	loose looseIDs
	first bool // no row of the Mooncake file before this one has a timestamp

	values map[string]any // for Check, by path: what was read as string, int64, float64, number of a list's strings, or text of an object; else nil
}

// keep notes a value for Check.
func keep[T any](s *scanner, v T) {
	if s.values != nil && s.err == nil {
		s.values[s.where()] = v
	}
}

func newScanner(r rules.Rules, reserve trace.Reserve) scanner {
	return scanner{strict: r.WithDefaults().Strict(), tr: &trace.Trace{Budget: trace.NewBudget(reserve)}}
}

// read sets the text to be read.
func (s *scanner) read(text []byte) {
	s.lex = jsonlex.Lexer{Data: text, MaxDepth: maxDepth, Strict: true}
}

// result returns the trace, or the error that ended the scan.
func (s *scanner) result() (*trace.Trace, error) {
	if s.err != nil {
		s.err.Trace = s.tr.ID
		return nil, s.err
	}
	if err := s.tr.Check(); err != nil {
		return nil, err
	}
	s.tr.Format = formatOf(s.tr)
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
func (s *scanner) fail(kind trace.ErrorKind, format string, args ...any) {
	if s.err == nil {
		s.err = &trace.Error{Kind: kind, Where: s.where(), Problem: fmt.Sprintf(format, args...)}
	}
}

// refuse records an error at the current path; nil is none.
func (s *scanner) refuse(err *trace.Error) {
	if s.err == nil && err != nil {
		err.Where = s.where()
		s.err = err
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
		s.fail(trace.NotJSON, "not JSON: %v", err)
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
	if s.err == nil && !s.tr.Budget.Need(n) {
		s.refuse(s.tr.Budget.Refused())
	}
}

// Hints: what to do about input that is wrong as a whole, rather than in one trace.
const (
	hintForm    = "another file: a trace has id, models, block_size and requests"
	hintLines   = "write each trace on a line of its own: jq -c . does that, and jq -c '.[]' with an array, from jq 1.7 on, which leaves large numbers as they are"
	hintNull    = "--profile default, which takes null for a field left out; or leave such keys out: jq -c 'walk(if type == \"object\" then with_entries(select(.value != null)) else . end)', from jq 1.7 on, which leaves large numbers as they are"
	hintDefault = "--profile default, which reads ids that traces share"
)
