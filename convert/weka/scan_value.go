package weka

import (
	"errors"
	"slices"

	"github.com/agentx/agentx/internal/jsonlex"
	"github.com/agentx/agentx/trace"
)

// source reads the current value: scanner from JSON text, columnScanner from a column. A method that cannot read the value
// fails the scan and returns zero.
type source interface {
	null() bool // reads a null, and reports whether there was one
	text() string
	texts(word string) (n int, found bool) // a list of strings: how many there are, and whether word is one of them
	whole() int64                          // a number without a fraction
	time() float64                         // a number of seconds, or milliseconds
	ids() trace.IDs
	elements(nested bool, add func(trace.Entry)) // a list of requests; nested: those of a subagent
	skipObject()
	skip()
}

// want fails unless a value of the given kind begins here.
func (s *scanner) want(kind jsonlex.Kind) bool {
	if s.err != nil {
		return false
	}
	got := s.lex.Kind()
	if got == kind {
		return true
	}
	start := s.lex.Pos
	if s.skip(); s.err != nil { // invalid JSON has precedence
		return false
	}
	s.fail(trace.WrongType, "want %s, found %s", kind, trace.Clip(s.lex.Data[start:s.lex.Pos]))
	switch {
	case len(s.path) == 0 && got == jsonlex.Array:
		s.err.Hint = hintLines
	case len(s.path) == 0:
		s.err.Hint = hintForm
	case got == jsonlex.Null && s.strict && s.optional():
		s.err.Hint = hintNull
	}
	return false
}

// optional reports whether the default rules let a writer leave out the field whose value is read.
func (s *scanner) optional() bool {
	name := s.path[len(s.path)-1].name
	if len(s.path) == 1 {
		return !slices.Contains(traceRequires, name)
	}
	return name != "" && !neverLeftOut.has(keysByName[name])
}

func (s *scanner) skip() { s.checkSyntax(s.lex.Skip()) }

func (s *scanner) null() bool {
	null := s.lex.Null()
	if null {
		keep[any](s, nil)
	}
	return null
}

// leftOut reads a null that counts as a field left out, and reports whether there was one. Strict rules have no such nulls.
func (s *scanner) leftOut() bool { return !s.strict && s.null() }

func (s *scanner) text() string {
	if !s.want(jsonlex.String) {
		return ""
	}
	t, err := s.lex.Text()
	s.checkSyntax(err)
	keep(s, t)
	return t
}

func (s *scanner) texts(word string) (n int, found bool) {
	if s.want(jsonlex.Array) {
		s.array(func() {
			n++
			found = s.text() == word || found
		})
		keep(s, n)
	}
	return n, found
}

func (s *scanner) skipObject() {
	if from := s.lex.Pos; s.want(jsonlex.Object) {
		s.skip()
		keep(s, s.lex.Data[from:s.lex.Pos])
	}
}

// number reads the text of a number.
func (s *scanner) number() (text []byte, ok bool) {
	if !s.want(jsonlex.Number) {
		return nil, false
	}
	text, err := s.lex.Number()
	s.checkSyntax(err)
	return text, s.err == nil
}

func (s *scanner) whole() int64 {
	text, ok := s.number()
	if !ok {
		return 0
	}
	read := jsonlex.Whole
	if s.strict {
		read = jsonlex.Rounded // as AIPerf does
	}
	v, err := read(text)
	switch {
	case errors.Is(err, jsonlex.ErrNotWhole):
		s.fail(trace.NotInteger, "want a whole number, found %s", trace.Clip(text))
	case err != nil:
		s.fail(trace.IDRange, "%s is %v", trace.Clip(text), err)
	}
	keep(s, v)
	return v
}

func (s *scanner) elements(nested bool, add func(trace.Entry)) {
	if !s.want(jsonlex.Array) {
		return
	}
	s.array(func() {
		if e, ok := s.readElement(nested); ok {
			add(e)
		}
	})
}

// unknown counts, or under strict rules refuses, a key that the schema does not have. Its value has been read.
func (s *scanner) unknown(name string) {
	if s.strict {
		s.fail(trace.UnknownKey, "unknown key %q", name)
		return
	}
	s.countUnknown(name)
}

func (s *scanner) countUnknown(name string) {
	if s.tr.Unknown == nil {
		s.tr.Unknown = map[string]int{}
	}
	if s.tr.Unknown[name]++; s.tr.Unknown[name] == 1 {
		s.need(trace.NameBytes + len(name))
	}
}

func (s *scanner) missing(name string) {
	s.fail(trace.MissingField, "required field %q is missing", name)
}
