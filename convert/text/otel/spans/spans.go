// Package spans finds spans of OpenTelemetry in rows of JSON: in what its collector writes, in lists of spans, and bare. It carries out
// the first rule of doc/spec/text.md 6.
//
//	s := spans.Scanner{Wanted: map[string]int{"gen_ai.operation.name": 0}}
//	counted, err := s.Scan([]byte(`{"span_id":"01","attributes":{"gen_ai.operation.name":"chat"}}`))
//	name := s.Spans[0].Attribute(0) // "chat", as JSON
package spans

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/agentx/agentx/convert/text/content"
	"github.com/agentx/agentx/internal/jsonlex"
)

// place is where a value stands in a row.
type place struct{ from, to uint32 }

// Span is a span of a row: the places of what is asked for.
type Span struct {
	Attributes int // how many it has

	trace, id, parent, start, end, status place

	wanted  [Most]place
	wrapped uint32 // a bit for each attribute that is a list or a map of OTLP
	row     content.Raw
}

// Most is how many attributes can be asked for.
const Most = 24

// Scanner finds the spans of a row in one pass. None is there before the row has ended as JSON does.
type Scanner struct {
	Wanted  map[string]int // attributes by their names, numbered from 0
	Spans   []Span         // of the row; valid until the next one
	Session content.Raw    // the id of a row that is a session

	unwrapped, decoded []byte
}

// Is reports whether a row has spans, or logs or metrics of the same exporter.
func Is(row content.Raw) (found bool) {
	span, id := false, false
	l := jsonlex.Lexer{Data: row, MaxDepth: content.MaxDepth}
	_ = l.Object(func(key []byte) error { // a row that is cut off shows what it is, too
		switch string(key) {
		case "resourceSpans", "resourceLogs", "resourceMetrics", "spans":
			found = found || l.Kind() == jsonlex.Array
		case "attributes":
			span = true
		case "span_id", "spanId":
			id = true
		}
		return l.Skip()
	})
	return found || span && id
}

// Scan reads a row. It returns the name under which one is counted that has no span.
func (s *Scanner) Scan(row []byte) (counted string, err error) {
	w := walk{Lexer: jsonlex.Lexer{Data: row, MaxDepth: content.MaxDepth}, wanted: s.Wanted, spans: s.Spans[:0]}
	if counted, err = w.row(); err == nil {
		err = w.End()
	}
	if s.Spans, s.Session = w.spans, row[w.session.from:w.session.to]; err != nil {
		s.Spans = s.Spans[:0]
		return "", content.Malformed(err)
	}
	return counted, nil
}

// walk is one pass over a row.
type walk struct {
	jsonlex.Lexer
	wanted  map[string]int
	spans   []Span
	session place
}

func (w *walk) row() (counted string, err error) {
	if w.Kind() != jsonlex.Object {
		return "not_object", w.Skip()
	}
	spans, span, id := false, false, false
	f := Span{row: w.Data}
	err = w.Object(func(key []byte) (err error) {
		switch string(key) {
		case "resourceSpans":
			spans = true
			return w.list(0, func() error { return w.inside("scopeSpans", func() error { return w.inside("spans", w.span) }) })
		case "spans":
			spans = true
			return w.list(0, w.span)
		case "session_id":
			w.session, err = w.value()
			return err
		case "resourceLogs":
			counted = "ignored:logs"
		case "resourceMetrics":
			counted = "ignored:metrics"
		case "attributes":
			span = true
		case "span_id", "spanId":
			id = true
		}
		return w.member(&f, key)
	})
	switch {
	case err != nil || spans:
		return "", err
	case span && id:
		w.spans = append(w.spans, f)
		return "", nil
	case counted == "":
		return "unknown_type:line", nil
	}
	return counted, nil
}

// list reads a list whose elements add to the first n spans that were found; another value has none. Of a key that is given twice the last
// list counts.
func (w *walk) list(n int, element func() error) error {
	if w.spans = w.spans[:n]; w.Kind() != jsonlex.Array {
		return w.Skip()
	}
	return w.Array(element)
}

// inside reads the list that is a member of an object.
func (w *walk) inside(list string, element func() error) error {
	n := len(w.spans)
	return w.members(func(key []byte) error {
		if string(key) == list {
			return w.list(n, element)
		}
		return w.Skip()
	})
}

// members reads an object; another value has no members.
func (w *walk) members(member func(key []byte) error) error {
	if w.Kind() != jsonlex.Object {
		return w.Skip()
	}
	return w.Object(member)
}

// value reads a value, and returns where it stands; null stands nowhere.
func (w *walk) value() (p place, err error) {
	if w.Kind() != jsonlex.Null {
		p.from = uint32(w.Pos)
	}
	if err = w.Skip(); p.from > 0 {
		p.to = uint32(w.Pos)
	}
	return p, err
}

// span reads a span; another value is none.
func (w *walk) span() error {
	if w.Kind() != jsonlex.Object {
		return w.Skip()
	}
	f := Span{row: w.Data}
	err := w.Object(func(key []byte) error { return w.member(&f, key) })
	w.spans = append(w.spans, f)
	return err
}

// member reads a member of a span.
func (w *walk) member(f *Span, key []byte) (err error) {
	var at *place
	switch string(key) {
	case "traceId", "trace_id":
		at = &f.trace
	case "spanId", "span_id":
		at = &f.id
	case "parentSpanId", "parent_span_id":
		at = &f.parent
	case "startTimeUnixNano", "start_time":
		at = &f.start
	case "endTimeUnixNano", "end_time":
		at = &f.end
	case "status":
		at = &f.status
	case "attributes":
		return w.attributes(f)
	default:
		return w.Skip()
	}
	*at, err = w.value()
	return err
}

// attributes reads the attributes of a span: a map, or a list of keys and values.
func (w *walk) attributes(f *Span) error {
	clear(f.wanted[:]) // of a key that is given twice the last value counts
	f.wrapped, f.Attributes = 0, 0
	if w.Kind() != jsonlex.Array {
		return w.members(func(key []byte) (err error) {
			f.Attributes++
			if k, ok := w.wanted[string(key)]; ok {
				f.wanted[k], err = w.value()
				return err
			}
			return w.Skip()
		})
	}
	return w.Array(func() error {
		f.Attributes++
		k, known, v, wrapped := 0, false, place{}, false
		err := w.members(func(key []byte) (err error) {
			switch {
			case string(key) == "value":
				v, wrapped, err = w.any()
			case string(key) == "key" && w.Kind() == jsonlex.String:
				var name []byte
				name, err = w.ShortString()
				k, known = w.wanted[string(name)]
			default:
				err = w.Skip()
			}
			return err
		})
		if known {
			f.wanted[k] = v
			if f.wrapped &^= 1 << k; wrapped {
				f.wrapped |= 1 << k
			}
		}
		return err
	})
}

// any reads a value of OTLP, an object whose key is its type. A list or a map is wrapped: its values are such objects, too.
func (w *walk) any() (v place, wrapped bool, err error) {
	if w.Kind() != jsonlex.Object {
		v, err = w.value()
		return v, false, err
	}
	from := w.Pos
	err = w.Object(func(key []byte) (err error) {
		switch string(key) {
		case "stringValue", "intValue", "doubleValue", "boolValue":
			v, err = w.value()
			wrapped = false
			return err
		case "arrayValue", "kvlistValue":
			wrapped = true
		}
		return w.Skip()
	})
	if wrapped {
		v = place{uint32(from), uint32(w.Pos)}
	}
	return v, wrapped, err
}

// raw returns what stands at a place.
func (f *Span) raw(p place) content.Raw { return f.row[p.from:p.to:p.to] }

// Trace, ID and Parent return the ids of a span and of the one around it, as they stand; of none nothing.
func (f *Span) Trace() content.Raw  { return f.raw(f.trace) }
func (f *Span) ID() content.Raw     { return f.raw(f.id) }
func (f *Span) Parent() content.Raw { return f.raw(f.parent) }

// Start and End return its instants in milliseconds since 1970, and false where they are not there.
func (f *Span) Start() (int64, bool) { return instant(f.raw(f.start)) }
func (f *Span) End() (int64, bool)   { return instant(f.raw(f.end)) }

// Failed reports whether its status is an error.
func (f *Span) Failed() bool { return failed(f.raw(f.status)) }

// Attribute returns an attribute as it stands; of none, and of null, nothing.
func (f *Span) Attribute(k int) content.Raw { return f.raw(f.wanted[k]) }

// Count returns an attribute that is a whole number, and false where it is none.
func (f *Span) Count(k int) (int64, bool) { return number(f.Attribute(k)) }

// Plain returns an attribute as JSON that is not wrapped. The result is valid until the next call.
func (s *Scanner) Plain(f *Span, k int) content.Raw {
	v := f.Attribute(k)
	if f.wrapped&(1<<k) == 0 {
		return v
	}
	l := jsonlex.Lexer{Data: v, MaxDepth: content.MaxDepth}
	s.unwrapped, _ = appendPlain(s.unwrapped[:0], &l) // it was read before
	return s.unwrapped
}

// Said returns a list that an attribute is, or that its string says. Of another string it is false and returns the text. The result is valid
// until the next call.
func (s *Scanner) Said(f *Span, k int) (v content.Raw, list bool) {
	if v = s.Plain(f, k); !v.IsString() {
		return v, v.IsArray()
	}
	s.decoded = v.AppendString(s.decoded[:0])
	if v, err := content.Value(s.decoded); err == nil && v.IsArray() {
		return v, true
	}
	return s.decoded, false
}

// appendPlain appends the JSON that a value of OTLP stands for.
func appendPlain(dst []byte, l *jsonlex.Lexer) ([]byte, error) {
	if l.Kind() != jsonlex.Object {
		return append(dst, "null"...), l.Skip()
	}
	before := len(dst)
	err := l.Object(func(key []byte) (err error) {
		switch string(key) {
		case "arrayValue":
			dst, err = appendValues(append(dst[:before], '['), l, appendPlain)
			dst = append(dst, ']')
			return err
		case "kvlistValue":
			dst, err = appendValues(append(dst[:before], '{'), l, appendPair)
			dst = append(dst, '}')
			return err
		}
		from := l.Pos
		if err = l.Skip(); !bytes.HasSuffix(key, []byte("Value")) {
			return err
		}
		raw := content.Raw(l.Data[from:l.Pos])
		if _, whole := number(raw); whole && string(key) == "intValue" {
			raw = bytes.Trim(raw, `"`)
		}
		dst = append(dst[:before], raw...)
		return err
	})
	if len(dst) == before {
		dst = append(dst, "null"...)
	}
	return dst, err
}

// appendValues appends the values of a list or a map of OTLP.
func appendValues(dst []byte, l *jsonlex.Lexer, element func([]byte, *jsonlex.Lexer) ([]byte, error)) ([]byte, error) {
	if l.Kind() != jsonlex.Object {
		return dst, l.Skip()
	}
	before := len(dst)
	err := l.Object(func(key []byte) error {
		if string(key) != "values" || l.Kind() != jsonlex.Array {
			return l.Skip()
		}
		dst = dst[:before]
		return l.Array(func() (err error) {
			if len(dst) > before {
				dst = append(dst, ',')
			}
			dst, err = element(dst, l)
			return err
		})
	})
	return dst, err
}

// appendPair appends a member of a map of OTLP: an object with its key and its value, in any order.
func appendPair(dst []byte, l *jsonlex.Lexer) ([]byte, error) {
	before, name := len(dst), []byte(`"":`)
	value := append(dst, "null"...)
	if l.Kind() != jsonlex.Object {
		return slices.Insert(value, before, name...), l.Skip()
	}
	err := l.Object(func(key []byte) (err error) {
		if string(key) == "value" {
			value, err = appendPlain(value[:before], l)
			return err
		}
		from := l.Pos
		if err = l.Skip(); string(key) == "key" && l.Data[from] == '"' {
			name = append(bytes.Clone(l.Data[from:l.Pos]), ':')
		}
		return err
	})
	return slices.Insert(value, before, name...), err
}

// number returns a whole number, which OTLP writes as a string.
func number(v content.Raw) (int64, bool) {
	if v.IsString() {
		n, err := strconv.ParseInt(v.String(), 10, 64)
		return n, err == nil
	}
	return v.Int()
}

// instant reads an instant in milliseconds since 1970: an ISO time, or nanoseconds, microseconds, milliseconds or seconds by their size.
func instant(v content.Raw) (int64, bool) {
	if n, ok := number(v); ok {
		for _, unit := range [...]struct{ above, perMS int64 }{{1e17, 1e6}, {1e14, 1e3}, {1e11, 1}} {
			if n > unit.above {
				return n / unit.perMS, true
			}
		}
		return n * 1000, n > 0
	}
	if f, err := strconv.ParseFloat(string(v), 64); err == nil && f > 0 && f < 1e11 { // seconds
		return int64(f * 1000), true
	}
	return content.Instant(v)
}

// failed reports whether the status of a span says that it failed.
func failed(status content.Raw) (bad bool) {
	n, whole := number(status)
	bad = whole && n == 2 || strings.HasSuffix(strings.ToUpper(status.String()), "ERROR")
	_ = status.Object(func(key []byte, v content.Raw) error {
		if string(key) == "code" || string(key) == "status_code" {
			bad = failed(v)
		}
		return nil
	})
	return bad
}
