package loads

import (
	"bytes"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/agentx/agentx/internal/jsonlex"
	"github.com/agentx/agentx/trace"
)

// The names of the formats of tables.
const (
	Azure    = "azure"
	BurstGPT = "burstgpt"
)

// columns are the names of the columns of a table that are read. An empty one has no such column, and one with a question mark may be missing.
type columns struct {
	format                            string
	at, in, out, model, took, session string
}

var tables = []columns{
	{Azure, "TIMESTAMP", "ContextTokens", "GeneratedTokens", "", "", ""},
	{BurstGPT, "Timestamp", "Request tokens", "Response tokens", "Model", "Elapsed time?", "Session ID?"},
}

// IsTable reports whether the first line of a file is the header of a table that is read.
func IsTable(format string) func(first []byte) bool {
	return func(first []byte) bool {
		l := layoutOf(first)
		return l != nil && l.format == format
	}
}

// layout is where a table has its columns; none: nowhere.
type layout struct {
	*columns
	fields                            int
	at, in, out, model, took, session int
}

// layoutOf returns the layout of a table by its header, nil for another line.
func layoutOf(header []byte) *layout {
	fields := split(nil, bytes.TrimPrefix(header, []byte("\xef\xbb\xbf")))
	for k := range tables {
		t := &tables[k]
		l, complete := &layout{columns: t, fields: len(fields)}, true
		for _, c := range [...]struct {
			name string
			to   *int
		}{{t.at, &l.at}, {t.in, &l.in}, {t.out, &l.out}, {t.model, &l.model}, {t.took, &l.took}, {t.session, &l.session}} {
			name, optional := strings.CutSuffix(c.name, "?")
			*c.to = slices.IndexFunc(fields, func(f []byte) bool { return name != "" && string(f) == name })
			complete = complete && (*c.to != none || optional || name == "")
		}
		if complete {
			return l
		}
	}
	return nil
}

// split appends the fields of a line, without quotes and blanks around them.
func split(fields [][]byte, line []byte) [][]byte {
	for more := true; more; {
		var field []byte
		field, line, more = bytes.Cut(line, []byte(","))
		field = bytes.TrimSpace(field)
		if n := len(field); n > 1 && field[0] == '"' && field[n-1] == '"' {
			field = field[1 : n-1]
		}
		fields = append(fields, field)
	}
	return fields
}

// Table reads the lines of a table, the header first. A row is a trace of one request, unless a column says its session.
type Table struct {
	ask      trace.Reserve
	keep     bool // requests that failed
	prefix   string
	layout   *layout
	header   string
	fields   [][]byte
	rows     []request
	models   names
	sessions map[string]int32 // number of a session
	of       []int32          // by row its session, where the table has any; none
	calls    int32            // of Add
	data     int32            // rows behind the header
	odd      trace.Oddities
}

// NewTable begins a file. Its number, from 0, goes into the names of its traces from the second file on. keepFailed keeps requests that
// failed. reserve may be nil.
func NewTable(file int, keepFailed bool, reserve trace.Reserve) *Table {
	return &Table{ask: reserve, keep: keepFailed, prefix: prefixOf(file), sessions: map[string]int32{}}
}

// Add reads the next line. The error is always a *trace.Error.
func (t *Table) Add(line []byte) error {
	t.calls++
	if t.layout == nil {
		if t.layout = layoutOf(line); t.layout == nil {
			return &trace.Error{Kind: trace.Unclear, Problem: "no header of a table that is read", Hint: "a file with the header of Azure's or BurstGPT's tables"}
		}
		t.header = string(bytes.TrimSpace(bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))))
		return nil
	}
	if string(bytes.TrimSpace(line)) == t.header { // of another shard
		return nil
	}
	t.data++
	if t.fields = split(t.fields[:0], line); len(t.fields) != t.layout.fields {
		return &trace.Error{Kind: trace.WrongType, Problem: fmt.Sprintf("%d fields, and the header has %d", len(t.fields), t.layout.fields)}
	}
	q, err := t.request()
	if err != nil {
		return err
	}
	if q.out == 0 && t.layout.format == BurstGPT && !t.keep {
		t.odd.Add(trace.OddityFailed, "row %d: %s = 0", t.data, t.layout.columns.out)
		return nil
	}
	if q.in == 0 {
		t.odd.Add(trace.OddityEmpty, "row %d: %s = 0", t.data, t.layout.columns.in)
	}
	return t.add(q)
}

// add appends a request to its session.
func (t *Table) add(q request) error {
	if err := reserve(t.ask, 64); err != nil {
		return err
	}
	session := int32(none)
	if at := t.layout.session; at != none && len(t.fields[at]) > 0 {
		n, known := t.sessions[string(t.fields[at])]
		if !known {
			n = int32(len(t.sessions))
			t.sessions[string(t.fields[at])] = n
		}
		session = n
	}
	t.rows = append(t.rows, q)
	if t.layout.session != none {
		t.of = append(t.of, session)
	}
	return nil
}

// request reads the fields of a line.
func (t *Table) request() (q request, _ error) {
	l := t.layout
	q = request{took: none, row: t.calls}
	seconds, err := t.seconds(l.at, l.columns.at)
	if err != nil {
		return q, err
	}
	in, err := t.whole(l.in, l.columns.in)
	if err != nil {
		return q, err
	}
	out, err := t.whole(l.out, l.columns.out)
	if err != nil {
		return q, err
	}
	if err := checkNumbers(l.columns.at, l.columns.in, l.columns.out, seconds, in, out); err != nil {
		return q, err
	}
	q.at, q.in, q.out = millis(seconds), int32(in), int32(out)
	if l.model != none {
		q.model = t.models.number(t.fields[l.model])
	}
	if l.took == none || len(t.fields[l.took]) == 0 {
		return q, nil
	}
	took, err := t.seconds(l.took, l.columns.took)
	if err != nil {
		return q, err
	}
	if err := checkNumbers(strings.TrimSuffix(l.columns.took, "?"), "", "", took, 0, 0); err != nil {
		return q, err
	}
	q.took = max(q.at, millis(seconds+took)) - q.at
	return q, nil
}

// seconds reads a field: a number of seconds, or a time of day in UTC unless it names its zone.
func (t *Table) seconds(at int, name string) (float64, error) {
	text := string(t.fields[at])
	if v, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(v) {
		return v, nil
	}
	for _, layout := range [...]string{"2006-01-02 15:04:05", "2006-01-02 15:04:05Z07:00", time.RFC3339, "2006-01-02T15:04:05"} {
		if v, err := time.Parse(layout, text); err == nil {
			return float64(v.UnixMicro()) / 1e6, nil
		}
	}
	return 0, &trace.Error{Kind: trace.WrongType, Where: name, Problem: "want seconds, or a time such as 2023-11-16 18:17:03.9799600"}
}

func (t *Table) whole(at int, name string) (int64, error) {
	v, err := jsonlex.Whole(t.fields[at])
	if err != nil {
		return 0, &trace.Error{Kind: trace.WrongType, Where: name, Problem: "want a whole number of tokens"}
	}
	return v, nil
}

// Traces returns the traces in the order of their starts, with the odd rows of the file at the first. The error, a *trace.Error, is about a
// file whose requests all failed.
func (t *Table) Traces() (iter.Seq[*trace.Trace], error) {
	if len(t.rows) == 0 && len(t.odd) > 0 {
		return nil, &trace.Error{Kind: trace.Unclear, Row: 2, Problem: fmt.Sprintf("all requests of the file failed: every row has %s = 0", t.layout.columns.out),
			Hint: "another file; or the rule loads.failed=keep, which plays them for one token each"}
	}
	var rest []int32 // rows of each session, in the order of the input
	sessions := make([][]int32, len(t.sessions))
	for k := range t.rows {
		if t.of != nil && t.of[k] != none {
			sessions[t.of[k]] = append(sessions[t.of[k]], int32(k))
		} else {
			rest = append(rest, int32(k))
		}
	}
	ids := make([]string, len(sessions))
	for id, n := range t.sessions {
		ids[n] = id
	}
	first := int64(math.MaxInt64)
	for k := range t.rows {
		first = min(first, t.rows[k].at)
	}
	heads := rest
	session := map[int32]int{} // by its first row
	for n, rows := range sessions {
		if len(rows) > 0 {
			byStart(rows, t.rows)
			session[rows[0]] = n
			heads = append(heads, rows[0])
		}
	}
	slices.Sort(heads)
	byStart(heads, t.rows)
	taken := func(name string) bool { _, taken := t.sessions[name]; return taken }
	return func(yield func(*trace.Trace) bool) {
		for n, head := range heads {
			var tr *trace.Trace
			if k, linked := session[head]; linked {
				tr = t.trace(t.prefix+ids[k], sessions[k], first)
			} else {
				tr = t.trace(t.prefix+rowName(t.rowNumber(head), taken), heads[n:n+1], first)
			}
			if n == 0 {
				tr.Oddities = t.odd
			}
			if !yield(tr) {
				return
			}
		}
	}, nil
}

// rowNumber returns the number of a row behind the header.
func (t *Table) rowNumber(k int32) int32 { return t.rows[k].row - 1 }

// trace returns a trace of some rows.
func (t *Table) trace(id string, rows []int32, first int64) *trace.Trace {
	models := t.models.list
	if t.layout.model == none {
		models = []string{"unknown"}
	}
	tr := &trace.Trace{ID: id, BlockSize: 64, Scope: trace.ScopeLocal, Models: models, LengthsAlone: true, Linked: true, Format: t.layout.format,
		Start: trace.Seconds{V: float64(t.rows[rows[0]].at), OK: true}}
	for _, k := range rows {
		tr.Entries = append(tr.Entries, trace.Entry{Request: t.rows[k].traceRequest(first)})
		tr.Rows = append(tr.Rows, int(t.rows[k].row))
	}
	return tr
}

// Invalid returns nil: rows are checked one by one.
func (t *Table) Invalid() []*trace.Error { return nil }
