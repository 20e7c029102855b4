package weka

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/agentx/agentx/hfsource/column"
	"github.com/agentx/agentx/trace"
)

// null reports false: nulls of columns are not read, for they are keys that are not given.
func (s *columnScanner) null() bool { return false }

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

func (s *columnScanner) checkUTF8(t string) string {
	if !utf8.ValidString(t) {
		s.fail(trace.NotJSON, "a string that is not UTF-8: %q", trace.Clip([]byte(t)))
	}
	return t
}

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
