package weka

import (
	"cmp"
	"fmt"
	"math"

	"github.com/agentx/agentx/internal/jsonlex"
)

// MooncakeBlock is the block size of Mooncake files, in tokens. They do not declare it.
const MooncakeBlock = 512

// IsMooncake reports whether a row is a Mooncake request rather than a trace.
func IsMooncake(data []byte) bool {
	l := jsonlex.Lexer{Data: data, MaxDepth: maxDepth, Strict: true}
	ids, requests := false, false
	err := l.Object(func(key []byte) error {
		ids = ids || string(key) == "hash_ids"
		requests = requests || string(key) == "requests"
		return l.Skip()
	})
	return err == nil && ids && !requests
}

// Mooncake builds traces from the rows of one Mooncake file: doc/spec/reconstruction.md 1.9.
//
// A row is one request. All rows of a file share one hash scope; times are milliseconds, blocks have 512 tokens unless the
// rules say otherwise, and the last id of a list may name a block that the prompt has only in part. A session_id
// becomes a trace, and so does each row without one.
type Mooncake struct {
	Reserve Reserve // asked for the memory that a row takes until the end; may be nil

	prefix   string // of the names of its traces, where there are several files
	rules    Rules
	sessions map[string]*Trace
	order    []*Trace
	rows     int
	first    float64 // earliest first start of a session, seconds
	timed    bool    // a row had a timestamp
}

// NewMooncake begins a file. Its number, from 0, goes into the names of its traces from the second file on.
func NewMooncake(number int, r Rules) *Mooncake {
	m := &Mooncake{rules: r.WithDefaults(), sessions: map[string]*Trace{}, first: math.Inf(1)}
	if number > 0 {
		m.prefix = fmt.Sprintf("%d/", number+1)
	}
	return m
}

// Add adds the next row. The error is always an *Error.
func (m *Mooncake) Add(data []byte) error {
	m.rows++
	row, unknown, err := m.scan(data)
	if err != nil {
		return err
	}
	m.timed = m.timed || row.timestamp.OK
	name := row.session
	if !row.hasSession {
		name = fmt.Sprintf("row-%06d", m.rows)
	}
	t, known := m.sessions[name]
	if !known {
		t = &Trace{ID: m.prefix + name, BlockSize: m.blockSize(), Scope: ScopeGlobal, Models: []string{"unknown"}, TailIDs: true, start: row.timestamp.Seconds, format: FormatMooncake}
	}
	if err := t.addRow(row); err != nil {
		return err
	}
	t.countUnknown(unknown)
	if !known {
		m.sessions[name] = t
		m.order = append(m.order, t)
		m.first = min(m.first, t.Entries[0].T)
	}
	return nil
}

// Traces returns the sessions of the file in the order of their first rows, on a clock that begins with the earliest.
func (m *Mooncake) Traces() []*Trace {
	for _, t := range m.order {
		for k := range t.Entries {
			t.Entries[k].T -= m.first
		}
	}
	return m.order
}

func (m *Mooncake) blockSize() int64 { return cmp.Or(int64(m.rules.BlockSize), MooncakeBlock) }

// addRow appends a row as the next request of its session.
func (t *Trace) addRow(row mooncakeRow) *Error {
	var before *Request
	if n := len(t.Entries); n > 0 {
		before = &t.Entries[n-1].Request
	}
	start, backward, err := row.start(before)
	if err != nil {
		err.Trace = t.ID
		return err
	}
	if backward {
		t.rowOddities.add(oddBackward, "%s: timestamp %g, after one of %g", requestPlace{len(t.Entries), none}, row.timestamp.V, before.T*1000)
	}
	if row.fraction {
		t.rowOddities.add(oddFraction, "%s: timestamp %s", requestPlace{len(t.Entries), none}, row.timestamp.text)
	}
	r := row.request
	r.T, r.ThinkTime = start, row.thinkTime(before)
	t.Entries = append(t.Entries, Entry{Request: r})
	return nil
}

func (t *Trace) countUnknown(names map[string]int) {
	if t.Unknown == nil && len(names) > 0 {
		t.Unknown = map[string]int{}
	}
	for name, n := range names {
		t.Unknown[name] += n
	}
}

// mooncakeRow is one line.
type mooncakeRow struct {
	request           Request
	timestamp, delay  rowTime
	fraction          bool // of the timestamp, whose unit nobody said
	session           string
	hasSession, hasIn bool
	hasOut, hasIDs    bool
}

// mooncakeLater are fields of later versions of the format, which the scanner skips and does not count as unknown.
// mooncakeVariants are fields that identify similar formats with another meaning.
var (
	mooncakeLater    = map[string]bool{"request_id": true, "output_token_ids": true, "priority": true, "strict_priority": true, "policy_class": true, "routing_constraints": true}
	mooncakeVariants = map[string]string{"chat_id": bailian, "parent_chat_id": bailian, "wait_for": "agentic_mooncake", "tool_wait_ms": "agentic_mooncake", "delta": "mooncake-delta", "event": "dynamo.request.trace.v1"}
)

// bailian names the traces of Alibaba's Bailian (qwen-bailian-usagetraces-anon).
const bailian = "Bailian's format, with blocks of 16 tokens and times in seconds"

// scan reads one line, and the names in it that no schema has.
func (m *Mooncake) scan(data []byte) (row mooncakeRow, unknown map[string]int, err error) {
	s := newScanner(m.rules, m.Reserve)
	s.milliseconds, s.first = true, !m.timed
	s.read(data)
	if s.want(jsonlex.Object) {
		s.object(func(name string) { s.readRowMember(&row, name, m.rules.Timestamps) })
	}
	s.end()
	if s.need(requestBytes + subagentBytes); !s.tr.budget.flush() {
		s.need(0)
	}
	if s.err == nil {
		s.finishRow(&row, m.blockSize())
	}
	if s.err != nil {
		return row, nil, s.err
	}
	return row, s.tr.Unknown, nil
}

// readRowMember reads one member of a row, with timestamps in a unit.
func (s *scanner) readRowMember(row *mooncakeRow, name, unit string) {
	r := &row.request
	switch name {
	case "timestamp", "created_time":
		row.timestamp = s.timestamp(unit)
		row.fraction = unit == "auto" && row.timestamp.raw != math.Trunc(row.timestamp.raw)
	case "delay":
		row.delay = s.rowTime(unit, false)
	case "delay_ms":
		row.delay = s.rowTime("ms", false)
	case "input_length", "input_tokens":
		if row.hasIn = !s.leftOut(); row.hasIn {
			r.In = s.whole()
		}
	case "output_length", "output_tokens":
		r.Out, row.hasOut = s.whole(), true
	case "hash_ids":
		r.IDs, row.hasIDs = s.ids(), true
	case "session_id":
		if row.hasSession = !s.leftOut(); row.hasSession {
			row.session = s.text()
		}
	default:
		s.readOtherRowMember(name)
	}
}

// readOtherRowMember reads a member that plain Mooncake rows do not have.
func (s *scanner) readOtherRowMember(name string) {
	if variant, ok := mooncakeVariants[name]; ok {
		s.fail(UnknownKey, "this is %s, which agentx does not read: only plain Mooncake rows are read", variant)
		s.err.Hint = hintPlain
		return
	}
	if s.skip(); s.err == nil && !mooncakeLater[name] {
		s.unknown(name)
	}
}

// finishRow checks a row, all of whose members are read. Without input_length its prompt has all blocks of its list.
func (s *scanner) finishRow(row *mooncakeRow, blockSize int64) {
	r := &row.request
	if !row.hasIn {
		r.In = int64(r.IDs.Len) * blockSize
	}
	switch {
	case !row.hasOut:
		s.missing("output_length")
	case !row.hasIDs:
		s.missing("hash_ids")
	}
	s.checkLengths("input_length", "output_length", r.In, r.Out)
	if need := (r.In + blockSize - 1) / blockSize; s.err == nil && need > int64(r.IDs.Len) {
		s.fail(Conflict, "input_length %d needs %d blocks of %d tokens, hash_ids has %d", r.In, need, blockSize, r.IDs.Len)
	}
}
