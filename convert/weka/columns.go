package weka

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/hfsource/column"
	"github.com/agentx/agentx/trace"
)

// ColumnPaths lists the paths of the columns that ScanColumns reads, in the order that column.Row.Wanted needs.
func ColumnPaths() []string { return columnPaths }

// columnKeys is how many keys a request has.
const columnKeys = int(keySystemTokens)

// columnPaths has the keys of a trace, then those of its requests, then those of the requests of its subagents.
var columnPaths = func() []string {
	var paths []string
	for _, name := range traceKeys {
		switch name {
		case "models", "requests":
			name += "[]"
		}
		paths = append(paths, name)
	}
	for _, prefix := range []string{"requests[].", "requests[].requests[]."} {
		for _, name := range keyNames[1:] {
			switch name {
			case "hash_ids", "input_types", "output_types", "requests", "models":
				name += "[]"
			}
			paths = append(paths, prefix+name)
		}
	}
	return paths
}()

// ScanColumns reads one trace from columns. The result shares only strings with the row.
//
// It returns the Trace that Scan returns for the same row as JSON, by the same rules, except where columns differ from JSON:
//
//   - A null is a key that is not given: a column has all rows, and null for a row without the key. In JSON, strict rules
//     refuse null for most keys.
//   - An unknown key counts, or is refused by strict rules, where its column has a value. A record of nulls only, or an empty
//     list, is no value. The same holds for totals.
//   - Every number may be whole or floating point: 12 and 12.0 are equal, as in JSON. NaN and infinities are refused, and so
//     are floating point numbers beyond 2^53 where a whole number is wanted, for they are not exact.
//   - A column of another type is an error where it has a value and the key counts.
//   - A column of JSON texts, which writers make of objects with different keys, is read as Scan reads the text.
//   - A key cannot occur twice.
//
// The error is always an *Error.
func ScanColumns(row *column.Row, r rules.Rules) (*trace.Trace, error) {
	return ScanColumnsWithin(row, r, nil)
}

// ScanColumnsWithin is ScanColumns for a trace whose memory is limited, as ScanWithin is Scan.
func ScanColumnsWithin(row *column.Row, r rules.Rules, reserve trace.Reserve) (*trace.Trace, error) {
	s := columnScanner{scanner: newScanner(r, reserve), row: row}
	s.readTrace()
	return s.result()
}

// columnScanner reads columns as scanner reads text. As a source it reads the value in one slot of one column.
type columnScanner struct {
	scanner
	row           *column.Row
	others, inner []otherColumn // keys that the schema does not have, of requests and of those of subagents

	c  *column.Column // column of the current value
	at int            // slot of the current value
}

// otherColumn is a column of a key that the schema does not have.
type otherColumn struct {
	name string
	c    *column.Column
}

// readTrace reads the row as a trace.
func (s *columnScanner) readTrace() {
	unknown := s.sortOthers()
	given := map[string]bool{}
	for k, name := range traceKeys {
		c := &s.row.Wanted[k]
		if given[name] = c.At(0) == column.Value; given[name] && s.err == nil {
			s.readTraceValue(c, name)
		}
	}
	s.finishTrace(given, unknown)
	if s.err != nil && s.err.Kind == trace.MissingField && s.err.Where == "" && !given["requests"] {
		s.nameMooncake(unknown)
	}
}

// sortOthers sorts the columns that the schema does not have by the records that they belong to. It returns the names of
// those of the trace itself that have a value.
func (s *columnScanner) sortOthers() (unknown []member) {
	for k := range s.row.Others {
		o := &s.row.Others[k]
		if name, ok := strings.CutPrefix(o.Path, "requests[].requests[]."); ok {
			s.inner = append(s.inner, otherColumn{name, o})
		} else if name, ok := strings.CutPrefix(o.Path, "requests[]."); ok {
			s.others = append(s.others, otherColumn{name, o})
		} else if o.At(0) == column.Value {
			unknown = append(unknown, member{name: o.Path})
		}
	}
	return unknown
}

// nameMooncake adds to the error about a missing key that the rows look like Mooncake rows.
func (s *columnScanner) nameMooncake(unknown []member) {
	for _, m := range unknown {
		if m.name == "hash_ids" {
			s.err.Problem += ": these look like Mooncake rows, which are read from JSON lines only"
			s.err.Hint = "write the rows as JSON lines"
		}
	}
}

// readTraceValue reads the value of a key of the trace itself, from its column or from the JSON text in it.
func (s *columnScanner) readTraceValue(c *column.Column, name string) {
	_ = s.inside(step{name: name}, func() {
		if isJSON(c) {
			s.readJSON(c.Texts[0], func() { s.assignTrace(name, &s.scanner) })
			return
		}
		s.c, s.at = c, 0
		s.assignTrace(name, s)
	})
}

// isJSON reports whether a column holds JSON texts in the place of its values, and not as elements of a list.
func isJSON(c *column.Column) bool {
	return c.Kind == column.JSON && (len(c.Lists) < strings.Count(c.Path, "[]") || !strings.HasSuffix(c.Path, "[]"))
}

// readJSON reads one JSON text as Scan reads it in its place. read reads the value.
func (s *columnScanner) readJSON(text string, read func()) {
	s.read([]byte(text))
	s.lex.Peek()
	if read(); s.err == nil && !s.lex.AtEnd() {
		s.fail(trace.NotJSON, "not JSON: byte %d: data after the value", s.lex.Pos)
	}
}

// elements reads the list of requests in a slot.
func (s *columnScanner) elements(nested bool, add func(trace.Entry)) {
	c := s.c
	from, to := c.Span(s.at)
	switch {
	case len(c.Lists) != strings.Count(c.Path, "[]"):
		s.wrongType("array", c)
		return
	case c.Kind != column.None && c.Kind != column.JSON && from < to:
		s.path = append(s.path, step{index: 0})
		s.wrongType("object", c)
		return
	}
	for k := from; k < to; k++ {
		if s.inside(step{index: k - from}, func() { s.readEntry(c, k, nested, add) }) != nil {
			return
		}
	}
}

// readEntry reads a request or a subagent of a list, from its columns or from the JSON text that it is.
func (s *columnScanner) readEntry(c *column.Column, k int, nested bool, add func(trace.Entry)) {
	var e trace.Entry
	var ok bool
	switch {
	case c.Kind != column.JSON:
		e, ok = s.readElement(k, nested)
	case c.NullIn(k, k+1) >= 0:
		s.fail(trace.WrongType, "want object, found null")
	default:
		s.readJSON(c.Texts[k], func() { e, ok = s.scanner.readElement(nested) })
	}
	if ok && s.err == nil {
		add(e)
	}
}

// readElement reads a request or a subagent from its columns, as scanner.readElement does from text.
func (s *columnScanner) readElement(slot int, nested bool) (trace.Entry, bool) {
	e := s.newElement(nested)
	columns, others := s.row.Wanted[len(traceKeys):len(traceKeys)+columnKeys], s.others
	if nested {
		columns, others = s.row.Wanted[len(traceKeys)+columnKeys:], s.inner
	}
	for i := range columns {
		if c := &columns[i]; c.At(slot) == column.Value {
			s.readMember(e, key(i+1), c, slot, nested)
		}
	}
	for _, o := range others {
		if o.c.At(slot) == column.Value {
			e.unknown = append(e.unknown, o.name)
		}
	}
	return s.finish(e, nested)
}

// readMember reads the value of a key. A value that does not fit is an error only if the key belongs to the element.
func (s *columnScanner) readMember(e *element, k key, c *column.Column, slot int, nested bool) {
	depth := len(s.path)
	_ = s.inside(step{name: keyNames[k]}, func() {
		if isJSON(c) {
			s.readJSON(c.Texts[slot], func() { s.scanner.readMember(e, keyNames[k], nested) })
			return
		}
		e.seen |= setOf(k)
		s.c, s.at = c, slot
		s.assign(e, k, nested, s)
		if s.err != nil && !s.tr.Budget.Exceeded() {
			e.keepError(k, s.err)
			s.err = nil
		}
	})
	if !s.tr.Budget.Exceeded() {
		s.path = s.path[:depth]
	}
}

// null reports false: nulls of columns are not read, for they are keys that are not given.
func (s *columnScanner) null() bool { return false }

// skip does nothing: every value of a column has a slot of its own, and nothing stands before the next one.
func (s *columnScanner) skip() {}

func (s *columnScanner) skipObject() {
	if s.c.Kind != column.None {
		s.wrongType("object", s.c)
	}
}

// wrongType refuses the type of a column.
func (s *columnScanner) wrongType(want string, c *column.Column) {
	s.fail(trace.WrongType, "want %s, found %s", want, c.Type)
	if s.err.Hint = "write the column " + c.Path + " again as " + columnTypes[want]; want == "number" {
		s.err.Hint += ", times in seconds"
	}
}

// columnTypes says which type of column holds a kind of value.
var columnTypes = map[string]string{"number": "plain numbers", "string": "strings", "array": "a list", "object": "a record, or a list of records"}

func (s *columnScanner) text() string {
	if s.c.Kind != column.Text {
		s.wrongType("string", s.c)
		return ""
	}
	return s.checkUTF8(s.c.Texts[s.at])
}

// checkUTF8 returns a text, and fails where it is not UTF-8.
func (s *columnScanner) checkUTF8(t string) string {
	if !utf8.ValidString(t) {
		s.fail(trace.NotJSON, "a string that is not UTF-8: %q", trace.Clip([]byte(t)))
	}
	return t
}

// texts reads a list of strings: how many they are, and whether word is one of them.
func (s *columnScanner) texts(word string) (n int, found bool) {
	from, to := s.span(column.Text, "string")
	for k := from; k < to && s.err == nil; k++ {
		_ = s.inside(step{index: k - from}, func() { found = s.checkUTF8(s.c.Texts[k]) == word || found })
	}
	return to - from, found
}

// span returns where the elements of the current list begin and end. They must be of the kind; Float and Uint count as Int.
func (s *columnScanner) span(kind column.Kind, name string) (from, to int) {
	c := s.c
	if len(c.Lists) != strings.Count(c.Path, "[]") {
		s.wrongType("array", c)
		return 0, 0
	}
	from, to = c.Span(s.at)
	fits := c.Kind == kind || kind == column.Int && (c.Kind == column.Uint || c.Kind == column.Float)
	firstNull := trace.None
	if n := c.NullIn(from, to); n >= 0 {
		firstNull = n - from
	}
	switch {
	case from == to:
	case !fits && (c.Kind != column.None || firstNull == trace.None):
		s.path = append(s.path, step{index: 0})
		s.wrongType(name, c)
	case firstNull != trace.None:
		s.path = append(s.path, step{index: firstNull})
		s.fail(trace.WrongType, "want %s, found null", name)
	default:
		return from, to
	}
	return 0, 0
}

// showNumber returns value k of a column of numbers as text, for messages.
func showNumber(c *column.Column, k int) string {
	switch c.Kind {
	case column.Float:
		return strconv.FormatFloat(c.Floats[k], 'g', -1, 64)
	case column.Uint:
		return strconv.FormatUint(uint64(c.Ints[k]), 10)
	}
	return strconv.FormatInt(c.Ints[k], 10)
}

// time reads a time in the unit of its column, and refuses one beyond the limits.
func (s *columnScanner) time() (v float64) {
	c := s.c
	switch c.Kind {
	case column.Float:
		v = c.Floats[s.at]
	case column.Int:
		v = float64(c.Ints[s.at])
	case column.Uint:
		v = float64(uint64(c.Ints[s.at]))
	default:
		s.wrongType("number", c)
		return 0
	}
	s.refuse(trace.CheckTime(v, nil, "seconds"))
	return v
}

func (s *columnScanner) whole() int64 { return s.wholeAt(s.at) }

// wholeAt reads value k of the column, which is to be whole.
func (s *columnScanner) wholeAt(k int) int64 {
	c := s.c
	switch c.Kind {
	case column.Int:
		return c.Ints[k]
	case column.Uint:
		if c.Ints[k] >= 0 {
			return c.Ints[k]
		}
		s.fail(trace.IDRange, "%s is outside the signed 64-bit range", showNumber(c, k))
		return 0
	case column.Float:
		return s.wholeFloat(k)
	}
	s.wrongType("number", c)
	return 0
}

// wholeFloat reads value k of a column of floating point numbers, which must be whole and exact.
func (s *columnScanner) wholeFloat(k int) int64 {
	switch v := s.c.Floats[k]; {
	case math.IsNaN(v) || math.IsInf(v, 0):
		s.fail(trace.NotFinite, "%s is not a finite number", showNumber(s.c, k))
	case v != math.Trunc(v):
		s.fail(trace.NotInteger, "want a whole number, found %s", showNumber(s.c, k))
	case math.Abs(v) > 1<<53:
		s.fail(trace.IDRange, "%s in a column of floating point numbers: beyond 2^53 they are not exact", showNumber(s.c, k))
	default:
		return int64(v)
	}
	return 0
}

// ids reads a list of hash ids as runs.
func (s *columnScanner) ids() (ids trace.IDs) {
	from, to := s.span(column.Int, "number")
	if s.err != nil || from == to {
		return ids
	}
	s.reservedRuns = 0
	if s.c.Kind == column.Int {
		return s.idsFrom(s.c.Ints[from:to])
	}
	for k := from; k < to && s.err == nil; k++ {
		_ = s.inside(step{index: k - from}, func() {
			if v := s.wholeAt(k); s.err == nil {
				s.push(&ids, v)
			}
		})
	}
	return ids
}

// idsFrom returns a list as runs.
func (s *scanner) idsFrom(list []int64) trace.IDs {
	ids := trace.IDs{Len: len(list)}
	for k := 0; k < len(list); {
		first, n := list[k], 1
		for rest := list[k:]; n < len(rest) && rest[n] == first+int64(n); {
			n++
		}
		if ids.Runs = append(ids.Runs, trace.Run{First: first, N: n}); len(ids.Runs) > s.reservedRuns {
			if s.reserve(&ids); s.err != nil {
				return ids
			}
		}
		k += n
	}
	return ids
}
