package weka

import (
	"math"
	"strconv"
	"strings"

	"github.com/agentx/agentx/hfsource/column"
)

// ColumnPaths lists the columns that ScanColumns reads, as paths: in this order they are to be in column.Row.Wanted.
func ColumnPaths() []string { return columnPaths }

// Members of a trace, in the order of their columns. Behind them come the keys of its requests, and then those of the
// requests of its markers, each in the order of keyNames.
const (
	traceID = iota
	traceModels
	traceBlockSize
	traceScope
	traceToolTokens
	traceSystemTokens
	traceTotals
	traceRequests
	traceColumns
)

// columnKeys is how many keys a request has.
const columnKeys = int(keySystemTokens)

var columnPaths = func() []string {
	paths := []string{"id", "models[]", "block_size", "hash_id_scope", "tool_tokens", "system_tokens", "totals", "requests[]"}
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

// ScanColumns reads one trace from columns. Nothing of the result refers to the row afterwards, but for strings.
//
// It gives the Trace that Scan gives for the same row as JSON; the rules are those of Scan, value for value, and settle
// in the same functions. What columns cannot say is decided so:
//
//   - A null is a key that is not given: in a file every key has a column, and null stands where a row is without. Strict
//     rules refuse null for most keys in JSON.
//   - Keys that the schema does not have count, or are refused in strict mode, where any value stands below them; a
//     record of nothing but nulls, or an empty list, is not given either. That holds for totals too.
//   - A number may come as whole numbers or as floating point ones whatever the key: 12 and 12.0 are the same, as in
//     JSON. NaN and infinities, which JSON does not have, are refused, and so are floating point numbers beyond 2^53 where
//     whole ones are wanted: they may stand for another.
//   - A column of another type is an error where it holds a value and the key counts.
//   - A column of JSON texts, as writers make it of objects whose keys differ, holds what Scan would read in its place.
//   - Columns have no order within a row, and a key stands once.
//
// The error is always an *Error.
func ScanColumns(row *column.Row, r Rules) (*Trace, error) { return ScanColumnsWithin(row, r, nil) }

// ScanColumnsWithin is to ScanColumns what ScanWithin is to Scan.
func ScanColumnsWithin(row *column.Row, r Rules, take func(bytes int64) error) (*Trace, error) {
	s := columnScanner{scanner: scanner{strict: r.strict(), tr: newTrace(take)}, row: row}
	s.trace()
	if s.err != nil {
		s.err.Trace = s.tr.ID
		return nil, s.err
	}
	return s.tr, nil
}

// columnScanner reads from columns what scanner reads from text. Where it is goes into path, for errors.
type columnScanner struct {
	scanner
	row           *column.Row
	others, inner []other // keys that the schema does not have, of requests and of those of markers
}

// other is a column of a key that the schema does not have.
type other struct {
	name string
	c    *column.Column
}

func (s *columnScanner) trace() {
	c := s.row.Wanted[:traceColumns]
	given := func(k int) bool { return s.err == nil && c[k].At(0) == column.Value }
	at := func(name string, k int, read func()) {
		s.path = append(s.path[:0], step{name: name})
		if isJSON(&c[k]) {
			s.json(c[k].Texts[0], func() { s.topLevel(name) })
		} else {
			read()
		}
		if s.err == nil {
			s.path = s.path[:0]
		}
	}
	var unknown []string
	for k := range s.row.Others {
		o := &s.row.Others[k]
		if name, ok := strings.CutPrefix(o.Path, "requests[].requests[]."); ok {
			s.inner = append(s.inner, other{name, o})
		} else if name, ok := strings.CutPrefix(o.Path, "requests[]."); ok {
			s.others = append(s.others, other{name, o})
		} else if o.At(0) == column.Value {
			unknown = append(unknown, o.Path)
		}
	}
	if given(traceID) {
		at("id", traceID, func() { s.tr.ID = s.text(&c[traceID], 0) })
	}
	if given(traceModels) {
		at("models", traceModels, func() { s.texts(&c[traceModels], 0, func(string) {}) })
	}
	if given(traceBlockSize) {
		at("block_size", traceBlockSize, func() { s.blockSize(s.whole(&c[traceBlockSize], 0)) })
	}
	if given(traceScope) {
		at("hash_id_scope", traceScope, func() { s.scopeOf(s.text(&c[traceScope], 0)) })
	}
	if given(traceToolTokens) {
		at("tool_tokens", traceToolTokens, func() { s.tr.ToolTokens = s.declared(s.whole(&c[traceToolTokens], 0)) })
	}
	if given(traceSystemTokens) {
		at("system_tokens", traceSystemTokens, func() { s.tr.SystemTokens = s.declared(s.whole(&c[traceSystemTokens], 0)) })
	}
	if given(traceTotals) {
		at("totals", traceTotals, func() {
			if s.tr.HasTotals = true; c[traceTotals].Kind != column.None {
				s.wrong("object", &c[traceTotals])
			}
		})
	}
	if given(traceRequests) {
		at("requests", traceRequests, func() { s.requests(&c[traceRequests], 0, false, &s.tr.Entries, nil) })
	}
	if c[traceRequests].At(0) != column.Value && c[traceBlockSize].At(0) != column.Value {
		s.refuseForm(unknown)
	}
	for _, name := range unknown {
		if s.err == nil {
			s.unknown(name)
		}
	}
	s.complete(c[traceID].At(0) == column.Value, c[traceModels].At(0) == column.Value, c[traceBlockSize].At(0) == column.Value,
		c[traceScope].At(0) == column.Value, c[traceRequests].At(0) == column.Value)
	if s.err != nil && s.err.Kind == MissingField && s.err.Where == "" && c[traceRequests].At(0) != column.Value {
		for _, name := range unknown {
			if name == "hash_ids" {
				s.err.Problem += ": these look like Mooncake rows, which are read from JSON lines only"
				s.err.Hint = "write the rows as JSON lines"
			}
		}
	}
}

// requests reads the list of requests that belongs to a slot.
func (s *columnScanner) requests(c *column.Column, slot int, inside bool, entries *[]Entry, requests *[]Request) {
	from, to := c.Span(slot)
	switch {
	case len(c.Lists) != strings.Count(c.Path, "[]"):
		s.wrong("array", c)
		return
	case c.Kind != column.None && c.Kind != column.JSON && from < to:
		s.path = append(s.path, step{index: 0})
		s.wrong("object", c)
		return
	}
	for k := from; k < to; k++ {
		s.path = append(s.path, step{index: k - from})
		e, ok := s.elementOf(c, k, inside)
		if !ok {
			return
		}
		s.path = s.path[:len(s.path)-1]
		if inside {
			*requests = append(*requests, e.Request)
		} else {
			*entries = append(*entries, e)
		}
	}
}

// elementOf reads a request or a marker of a list, from its columns or from the JSON text that it is.
func (s *columnScanner) elementOf(c *column.Column, k int, inside bool) (e Entry, ok bool) {
	switch {
	case c.Kind != column.JSON:
		return s.element(k, inside)
	case c.NullIn(k, k+1) >= 0:
		s.fail(WrongType, "want object, found null")
	default:
		s.json(c.Texts[k], func() { e, ok = s.scanner.element(inside) })
	}
	return e, ok && s.err == nil
}

// isJSON reports whether a column holds JSON texts in the place of its values, and not as elements of a list.
func isJSON(c *column.Column) bool {
	return c.Kind == column.JSON && (len(c.Lists) < strings.Count(c.Path, "[]") || !strings.HasSuffix(c.Path, "[]"))
}

// json reads one JSON text as Scan reads it where it stands; read passes over the value.
func (s *columnScanner) json(text string, read func()) {
	s.b, s.i = []byte(text), 0
	s.space()
	read()
	if s.err == nil && (s.space() != 0 || s.i < len(s.b)) {
		s.fail(NotJSON, "not JSON: byte %d: more after the value", s.i)
	}
}

// element reads a request or a marker, as scanner.element does.
func (s *columnScanner) element(slot int, inside bool) (Entry, bool) {
	var e element
	columns, others := s.row.Wanted[traceColumns:traceColumns+columnKeys], s.others
	if inside {
		columns, others = s.row.Wanted[traceColumns+columnKeys:], s.inner
	}
	for i := range columns {
		if c := &columns[i]; c.At(slot) == column.Value {
			s.member(&e, key(i+1), c, slot, inside)
		}
	}
	for _, o := range others {
		if o.c.At(slot) == column.Value {
			e.unknown = append(e.unknown, o.name)
		}
	}
	return s.finish(&e, inside)
}

// member reads the value of a key. What is wrong with it is kept until the type of the element is known to have the key.
func (s *columnScanner) member(e *element, k key, c *column.Column, slot int, inside bool) {
	depth := len(s.path)
	s.path = append(s.path, step{name: keyNames[k]})
	if isJSON(c) {
		s.json(c.Texts[slot], func() { s.scanner.member(e, keyNames[k], inside) })
		s.path = s.path[:depth]
		return
	}
	e.seen |= setOf(k)
	s.value(e, k, c, slot, inside)
	if s.tr.meter.over() {
		return
	}
	if s.err != nil {
		if e.bad == nil {
			e.bad = map[key]*Error{}
		}
		e.bad[k], s.err = s.err, nil
	}
	s.path = s.path[:depth]
}

func (s *columnScanner) value(e *element, k key, c *column.Column, slot int, inside bool) {
	m := &e.marker
	switch k {
	case keyT:
		e.T = s.time(c, slot)
	case keyType:
		e.kind = s.text(c, slot)
	case keyModel:
		e.model = s.text(c, slot)
	case keyIn:
		e.In = s.whole(c, slot)
	case keyInLong:
		e.inLong = s.whole(c, slot)
	case keyOut:
		e.Out = s.whole(c, slot)
	case keyOutLong:
		e.outLong = s.whole(c, slot)
	case keyIDs:
		e.IDs = s.ids(c, slot)
	case keyInputTypes:
		s.texts(c, slot, e.addInput)
	case keyOutputTypes, keyModels:
		s.texts(c, slot, func(string) {})
	case keyStop:
		e.Stop = stopOf(s.text(c, slot))
	case keyAPITime:
		e.APITime = Seconds{s.time(c, slot), true}
	case keyThinkTime:
		e.ThinkTime = Seconds{s.time(c, slot), true}
	case keyTTFT:
		s.time(c, slot)
	case keyAgentID:
		m.AgentID = s.text(c, slot)
	case keySubagentType:
		s.text(c, slot)
	case keyStatus:
		m.Completed = s.text(c, slot) == "completed"
	case keyDuration:
		m.DurationMS, m.HasDuration = s.whole(c, slot), true
	case keyTotalTokens, keyToolUseCount:
		s.whole(c, slot)
	case keyToolTokens:
		m.ToolTokens = s.declared(s.whole(c, slot))
	case keySystemTokens:
		m.SystemTokens = s.declared(s.whole(c, slot))
	case keyRequests:
		if inside { // the type will refuse it, or make it an unknown key
			return
		}
		e.before = notesOf(s.tr)
		s.requests(c, slot, true, nil, &m.Requests)
	}
}

func (s *columnScanner) wrong(want string, c *column.Column) {
	s.fail(WrongType, "want %s, found %s", want, c.Type)
	if s.err.Hint = "write the column " + c.Path + " again as " + columnKinds[want]; want == "number" {
		s.err.Hint += ", times in seconds"
	}
}

// columnKinds says for what a column is to hold what it has to be.
var columnKinds = map[string]string{"number": "plain numbers", "string": "strings", "array": "a list", "object": "a record, or a list of records"}

func (s *columnScanner) text(c *column.Column, slot int) string {
	if c.Kind != column.Text {
		s.wrong("string", c)
		return ""
	}
	return s.utf8(c.Texts[slot])
}

func (s *columnScanner) utf8(t string) string {
	if strings.ToValidUTF8(t, "") != t {
		s.fail(NotJSON, "a string that is not UTF-8: %q", clip([]byte(t)))
	}
	return t
}

// texts reads a list of strings and calls each for every one.
func (s *columnScanner) texts(c *column.Column, slot int, each func(string)) {
	from, to := s.span(c, slot, column.Text, "string")
	for k := from; k < to && s.err == nil; k++ {
		s.path = append(s.path, step{index: k - from})
		if t := s.utf8(c.Texts[k]); s.err == nil {
			each(t)
			s.path = s.path[:len(s.path)-1]
		}
	}
}

// span returns where the elements of a list lie, which are to be of some kind, or of Float or Uint in the place of Int.
func (s *columnScanner) span(c *column.Column, slot int, kind column.Kind, name string) (from, to int) {
	if len(c.Lists) != strings.Count(c.Path, "[]") {
		s.wrong("array", c)
		return 0, 0
	}
	from, to = c.Span(slot)
	fits := c.Kind == kind || kind == column.Int && (c.Kind == column.Uint || c.Kind == column.Float)
	at := -1
	if n := c.NullIn(from, to); n >= 0 {
		at = n - from
	}
	switch {
	case from == to:
	case !fits && (c.Kind != column.None || at < 0):
		s.path = append(s.path, step{index: 0})
		s.wrong(name, c)
	case at >= 0:
		s.path = append(s.path, step{index: at})
		s.fail(WrongType, "want %s, found null", name)
	default:
		return from, to
	}
	return 0, 0
}

// number returns a value as text, for messages.
func number(c *column.Column, k int) string {
	switch c.Kind {
	case column.Float:
		return strconv.FormatFloat(c.Floats[k], 'g', -1, 64)
	case column.Uint:
		return strconv.FormatUint(uint64(c.Ints[k]), 10)
	}
	return strconv.FormatInt(c.Ints[k], 10)
}

// time reads a number of seconds.
func (s *columnScanner) time(c *column.Column, slot int) (v float64) {
	switch c.Kind {
	case column.Float:
		v = c.Floats[slot]
	case column.Int:
		v = float64(c.Ints[slot])
	case column.Uint:
		v = float64(uint64(c.Ints[slot]))
	default:
		s.wrong("number", c)
		return 0
	}
	if math.IsNaN(v) || math.Abs(v) > MaxSeconds {
		s.checkTime(v, number(c, slot))
	}
	return v
}

// whole reads a number that is whole.
func (s *columnScanner) whole(c *column.Column, slot int) int64 {
	switch c.Kind {
	case column.Int:
		return c.Ints[slot]
	case column.Uint:
		if c.Ints[slot] >= 0 {
			return c.Ints[slot]
		}
		s.fail(IDRange, "%s is outside the signed 64-bit range", number(c, slot))
		return 0
	case column.Float:
		return s.wholeFloat(c, slot)
	}
	s.wrong("number", c)
	return 0
}

func (s *columnScanner) wholeFloat(c *column.Column, k int) int64 {
	switch v := c.Floats[k]; {
	case math.IsNaN(v) || math.IsInf(v, 0):
		s.fail(NotFinite, "%s is no finite number", number(c, k))
	case v != math.Trunc(v):
		s.fail(NotInteger, "want a whole number, found %s", number(c, k))
	case math.Abs(v) > 1<<53:
		s.fail(IDRange, "%s in a column of floating point numbers: beyond 2^53 they are not exact", number(c, k))
	default:
		return int64(v)
	}
	return 0
}

// ids reads the list of hash ids of a slot.
func (s *columnScanner) ids(c *column.Column, slot int) (ids IDs) {
	from, to := s.span(c, slot, column.Int, "number")
	if s.err != nil || from == to {
		return ids
	}
	s.room = 0
	if c.Kind == column.Int {
		return s.idsFrom(c.Ints[from:to])
	}
	for k := from; k < to; k++ {
		s.path = append(s.path, step{index: k - from})
		v := s.whole(c, k)
		if s.err != nil {
			return ids
		}
		s.path = s.path[:len(s.path)-1]
		if s.push(&ids, v); s.err != nil {
			return ids
		}
	}
	return ids
}

// idsFrom returns a list as runs.
func (s *scanner) idsFrom(list []int64) IDs {
	ids := IDs{Len: len(list)}
	for k := 0; k < len(list); {
		first, n := list[k], 1
		for rest := list[k:]; n < len(rest) && rest[n] == first+int64(n); {
			n++
		}
		if ids.Runs = append(ids.Runs, Run{first, n}); len(ids.Runs) > s.room {
			if s.reserve(&ids); s.err != nil {
				return ids
			}
		}
		k += n
	}
	return ids
}
