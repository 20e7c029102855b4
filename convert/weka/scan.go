package weka

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/internal/foreign"
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
	hintNull    = "the profile default, which takes null for a field left out; or leave such keys out: jq -c 'walk(if type == \"object\" then with_entries(select(.value != null)) else . end)', from jq 1.7 on, which leaves large numbers as they are"
	hintDefault = "the profile default, which reads ids that traces share"
)

// Keys of a trace, and those of them that no rules let a writer leave out: doc/spec/reconstruction.md 1.1.
var (
	traceKeys     = []string{"id", "models", "block_size", "hash_id_scope", "tool_tokens", "system_tokens", "totals", "requests"}
	traceRequires = []string{"id", "models", "block_size", "requests"}
)

// readTrace reads the whole text as a trace.
func (s *scanner) readTrace() {
	if s.lex.AtEnd() {
		s.fail(trace.NotJSON, "not JSON: it is empty")
		s.err.Hint = "fetch or copy the file again"
		return
	}
	if s.lex.Kind() == jsonlex.Array {
		s.refuseForeign(foreign.OfText(s.lex.Data[s.lex.Pos:]))
	}
	if !s.want(jsonlex.Object) {
		return
	}
	given := map[string]bool{}
	var unknown []member
	s.object(func(name string) {
		if slices.Contains(traceKeys, name) {
			given[name] = true
			s.assignTrace(name, s)
			return
		}
		from := s.lex.Pos
		s.skip()
		s.need(trace.NameBytes + len(name))
		unknown = append(unknown, member{name, shortText(s.lex.Data[from:s.lex.Pos])})
	})
	s.end()
	s.finishTrace(given, unknown)
}

// member is a key of a row that the schema of traces does not have, with its value where that is a short string.
type member struct{ name, text string }

// maxText bounds the bytes of a value by which a row is recognized.
const maxText = 64

// shortText returns the string that a JSON text is, its escapes as they stand; "" for a longer text and for any other value.
func shortText(text []byte) string {
	text = bytes.TrimSpace(text)
	if n := len(text); n >= 2 && n <= maxText && text[0] == '"' {
		return string(text[1 : n-1])
	}
	return ""
}

// finishTrace checks the keys of a trace: those that are given, and those that the schema does not have.
func (s *scanner) finishTrace(given map[string]bool, unknown []member) {
	if !given["requests"] {
		s.refuseForeign(foreignOf(unknown))
	}
	for _, m := range unknown {
		s.unknown(m.name)
	}
	s.requireTraceKeys(given)
}

// assignTrace reads the value of a key of the trace itself from a source.
func (s *scanner) assignTrace(name string, from source) {
	switch name {
	case "id":
		s.tr.ID = from.text()
	case "models":
		from.texts("")
	case "block_size":
		s.tr.BlockSize = from.whole()
	case "hash_id_scope":
		s.assignScope(from)
	case "tool_tokens":
		s.tr.ToolTokens = s.declared(from)
	case "system_tokens":
		s.tr.SystemTokens = s.declared(from)
	case "requests":
		s.tr.Entries, s.tr.Models, s.tr.Unknown = s.tr.Entries[:0], nil, nil
		from.elements(false, func(e trace.Entry) { s.tr.Entries = append(s.tr.Entries, e) })
	case "totals":
		if s.tr.HasTotals = !from.null(); s.tr.HasTotals {
			from.skipObject()
		}
	}
}

// refuseForeign refuses a row of a format that is known; nil is none.
func (s *scanner) refuseForeign(f *foreign.Format) {
	if f != nil && s.err == nil {
		s.fail(trace.MissingField, "this is %s", f.Name())
		s.err.Hint = f.Hint()
	}
}

// foreignOf recognizes what another program wrote by the members of a row that has no requests.
func foreignOf(row []member) *foreign.Format {
	find := func(name string) (string, bool) {
		k := slices.IndexFunc(row, func(m member) bool { return m.name == name })
		if k < 0 {
			return "", false
		}
		return row[k].text, true
	}
	if _, has := find("hash_ids"); has {
		return nil
	}
	return foreign.OfRow(find)
}

// requireTraceKeys refuses a trace that lacks a required key.
func (s *scanner) requireTraceKeys(given map[string]bool) {
	if s.err != nil {
		return
	}
	switch {
	case !given["id"]:
		s.missing("id")
	case !given["models"]:
		s.missing("models")
	case !given["block_size"]:
		s.missing("block_size")
	case !given["hash_id_scope"] && s.strict:
		s.missing("hash_id_scope")
	case !given["requests"]:
		s.missing("requests")
	}
	if (!given["id"] || !given["models"]) && !given["block_size"] && !given["requests"] {
		s.err.Hint = hintForm
	}
}

// end fails unless the text ends here.
func (s *scanner) end() {
	if s.err == nil && !s.lex.AtEnd() {
		s.fail(trace.NotJSON, "not JSON: byte %d: data after the value: a file has one, or one on each line", s.lex.Pos)
		s.err.Hint = hintLines
	}
}

// declared reads a declared count of tokens, 0 where it is left out.
func (s *scanner) declared(from source) int64 {
	if !s.strict && from.null() {
		return 0
	}
	return from.whole()
}

// assignScope reads hash_id_scope.
func (s *scanner) assignScope(from source) {
	s.tr.Scope = trace.ScopeAbsent
	if !from.null() {
		s.setScope(from.text())
	} else if s.strict {
		s.fail(trace.BadScope, "hash_id_scope null: want \"local\"")
		s.err.Hint = hintNull
	}
}

// setScope sets the scope of the trace, and refuses a word that the rules do not have.
func (s *scanner) setScope(name string) {
	switch {
	case s.err != nil:
	case name == "local":
		s.tr.Scope = trace.ScopeLocal
	case name == "global" && (!s.strict || s.values != nil): // Check takes what imports write
		s.tr.Scope = trace.ScopeGlobal
	case name == "global":
		s.fail(trace.BadScope, "hash_id_scope \"global\": strict rules (profile aiperf, unknown_keys=reject) take \"local\" only")
		s.err.Hint = hintDefault
	case s.strict:
		s.fail(trace.BadScope, "hash_id_scope %q: want \"local\"", trace.Clip([]byte(name)))
	default:
		s.fail(trace.BadScope, "hash_id_scope %q: want \"local\" or \"global\"", trace.Clip([]byte(name)))
	}
}

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
	return name != "" && !neverLeftOut.has(keyOf(name))
}

func (s *scanner) skip() { s.checkSyntax(s.lex.Skip()) }

// null reads a null, and reports whether there was one.
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

// texts reads a list of strings: how many they are, and whether word is one of them.
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

// skipObject passes over an object, and fails on any other value.
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

// whole reads a number without a fraction. Strict rules read it as a double first, as AIPerf does.
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

// elements reads a list of requests and subagents, and passes each to add.
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

// countUnknown counts a key or type that the schema does not have.
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

// Formats of public corpora: the generations of kv-cache-tester's. That of Mooncake is mmapcache.FormatMooncake. A format only names what a trace looks like.
// What the trace means follows from its fields one by one.
const (
	FormatV1     = "v1"     // no hash_id_scope: ids name blocks of one context
	FormatV6     = "v6"     // global ids, lists of floor(in / block size)
	FormatV8     = "v8"     // ids of the trace from 1 on, with totals
	FormatAgentX = "agentx" // ids of the trace from 0 on, without totals
	FormatNeon   = "neon"   // global ids, lists whose lengths do not follow from in
	FormatLocal  = "local"  // ids of the trace, otherwise like none of the above
)

// formatOf names the generation that a trace looks like.
func formatOf(t *trace.Trace) string {
	switch t.Scope {
	case trace.ScopeAbsent:
		return FormatV1
	case trace.ScopeGlobal:
		if hasOddLengths(t) {
			return FormatNeon
		}
		return FormatV6
	}
	switch smallest, any := smallestID(t); {
	case any && smallest == 1 && t.HasTotals:
		return FormatV8
	case any && smallest == 0 && !t.HasTotals:
		return FormatAgentX
	}
	return FormatLocal
}

// hasOddLengths reports whether a list is neither as long as its prompt has whole blocks nor one longer.
func hasOddLengths(t *trace.Trace) bool {
	for _, r := range t.Requests() {
		full := r.In / t.BlockSize
		if n := int64(r.IDs.Len); n != full && n != full+1 {
			return true
		}
	}
	return false
}

// smallestID returns the smallest id of the trace; any is false where it has none.
func smallestID(t *trace.Trace) (id int64, any bool) {
	for _, r := range t.Requests() {
		for _, run := range r.IDs.Runs {
			if !any || run.First < id {
				id, any = run.First, true
			}
		}
	}
	return id, any
}
