package weka

import (
	"fmt"
	"math"
	"slices"

	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/internal/foreign"
	"github.com/agentx/agentx/internal/jsonlex"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/trace"
)

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

// Mooncake builds traces from the rows of one file: doc/spec/reconstruction.md 1.9. A session_id becomes a trace, and so does
// each row without one. What the rows mean is settled when all are read: [Mooncake.Traces].
type Mooncake struct {
	Reserve   trace.Reserve // asked for the memory that a row takes until the end; may be nil
	Namespace int           // its ids name blocks that files of the same number share; 0: and other traces of global scope

	prefix   string // of the names of its traces, where there are several files
	rules    rules.Rules
	sessions map[string]*trace.Trace
	order    []*trace.Trace
	rows     int
	timed    bool  // a row had a timestamp
	frozen   bool  // rows are read as they were before rules for them existed: the probe of all inputs
	declared int64 // block_size of the rows; 0: none has it
	invalid  []*trace.Error
	large    bool            // an id is 2^63 or above
	negative bool            // an id is below 0
	spoiled  map[string]bool // sessions with a row that is invalid, by the id of their trace
}

// NewMooncake begins a file. Its number, from 0, goes into the names of its traces from the second file on.
func NewMooncake(number int, r rules.Rules) *Mooncake {
	r = r.WithDefaults()
	m := &Mooncake{rules: r, frozen: r == r.WithoutMooncake(), sessions: map[string]*trace.Trace{}, spoiled: map[string]bool{}}
	if number > 0 {
		m.prefix = fmt.Sprintf("%d/", number+1)
	}
	return m
}

// Add adds the next row. The error is always an *Error. One of the kind Unclear or Contradiction is about the whole file.
func (m *Mooncake) Add(data []byte) error {
	m.rows++
	err := m.add(data)
	if err == nil {
		return nil // not an *Error that is nil
	}
	if name, ok := sessionOf(data); ok {
		m.spoiled[m.prefix+name] = !m.frozen
		if err.Hint == "" && err.Trace == "" { // else all rows are likely to be refused, or it is named
			err.Problem += fmt.Sprintf(" (session %q)", name)
		}
	}
	return err
}

func (m *Mooncake) add(data []byte) *trace.Error {
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
		t = &trace.Trace{ID: m.prefix + name, Scope: trace.ScopeGlobal, Models: []string{"unknown"}, TailIDs: true, Start: row.timestamp.Seconds, Format: mmapcache.FormatMooncake}
	}
	if err := addRow(t, row, m.rows); err != nil {
		return err
	}
	countUnknown(t, unknown)
	if !known {
		m.sessions[name] = t
		m.order = append(m.order, t)
	}
	return nil
}

// addRow appends a row, which has a number in its file, as the next request of its session.
func addRow(t *trace.Trace, row mooncakeRow, number int) *trace.Error {
	var before *trace.Request
	if n := len(t.Entries); n > 0 {
		before = &t.Entries[n-1].Request
	}
	start, backward, err := row.start(before)
	if err != nil {
		err.Trace = t.ID
		return err
	}
	if backward {
		t.Oddities.Add(trace.OddityBackward, "%s: timestamp %g, after one of %g", trace.Place{Outer: len(t.Entries), Inner: trace.None}, row.timestamp.V, before.T*1000)
	}
	if row.fraction {
		t.Oddities.Add(trace.OddityFraction, "%s: timestamp %s", trace.Place{Outer: len(t.Entries), Inner: trace.None}, row.timestamp.text)
	}
	r := row.request
	r.T, r.ThinkTime = start, row.thinkTime(before)
	t.Entries = append(t.Entries, trace.Entry{Request: r})
	t.Rows = append(t.Rows, number)
	return nil
}

// sessionOf returns the session of a row, which may be invalid otherwise.
func sessionOf(data []byte) (name string, ok bool) {
	l := jsonlex.Lexer{Data: data, MaxDepth: maxDepth, Strict: true}
	_ = l.Object(func(key []byte) (err error) {
		if string(key) != "session_id" || l.Kind() != jsonlex.String {
			return l.Skip()
		}
		name, err = l.Text()
		ok = err == nil
		return err
	})
	return name, ok
}

func countUnknown(t *trace.Trace, names map[string]int) {
	if t.Unknown == nil && len(names) > 0 {
		t.Unknown = map[string]int{}
	}
	for name, n := range names {
		t.Unknown[name] += n
	}
}

// mooncakeRow is one line.
type mooncakeRow struct {
	request           trace.Request
	timestamp, delay  rowTime
	fraction          bool // of the timestamp, whose unit nobody said
	session           string
	hasSession, hasIn bool
	hasOut, hasIDs    bool
	block             int64 // block_size; 0: none
}

// mooncakeLater are fields of later versions of the format, which the scanner skips and does not count as unknown.
var mooncakeLater = map[string]bool{"request_id": true, "output_token_ids": true, "priority": true, "strict_priority": true, "policy_class": true, "routing_constraints": true}

// mooncakePrompts are fields of AIPerf that say what a request has besides, or in the place of, blocks.
var mooncakePrompts = []string{"text_input", "messages", "tools", "payload", "extra"}

// scan reads one line, and the names in it that no schema has.
func (m *Mooncake) scan(data []byte) (row mooncakeRow, unknown map[string]int, err *trace.Error) {
	s := newScanner(m.rules, m.Reserve)
	s.first = !m.timed
	s.loose.allowed = !s.strict && !m.frozen
	s.read(data)
	if s.want(jsonlex.Object) {
		s.object(func(name string) { s.readRowMember(&row, name, m.rules.Timestamps) })
	}
	s.end()
	if s.need(trace.RequestBytes + trace.SubagentBytes); !s.tr.Budget.Flush() {
		s.need(0)
	}
	if s.err == nil {
		s.finishRow(&row, m)
	}
	if s.err != nil {
		return row, nil, s.err
	}
	m.large, m.negative = m.large || s.loose.large, m.negative || s.loose.negative
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
	case "block_size":
		s.readRowBlock(row)
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
	if f := foreign.OfMember(name); f != nil {
		s.fail(trace.UnknownKey, "this is %s", f.Name())
		s.err.Hint = f.Hint()
		return
	}
	if s.strict && slices.Contains(mooncakePrompts, name) {
		if !s.null() {
			s.fail(trace.UnknownKey, "AIPerf sends the text of this key, and agentx makes prompts from hash_ids: rows with this key are not played")
			s.err.Hint = "a file whose rows have input_length and hash_ids in place of it"
		}
		return
	}
	if s.skip(); s.err == nil && !mooncakeLater[name] {
		s.countUnknown(name) // AIPerf, too, takes any
	}
}

// readRowBlock reads the block size of a row. Strict rules have none.
func (s *scanner) readRowBlock(row *mooncakeRow) {
	if s.strict {
		s.skip()
		s.unknown("block_size")
		return
	}
	if s.null() {
		return
	}
	row.block = s.whole()
	s.refuse(trace.CheckBlockSize(row.block))
}

// lengthByIDs stands for the length of a prompt that has all blocks of its list.
const lengthByIDs = -1

// finishRow checks a row, all of whose members are read, and takes its block size for its file.
func (s *scanner) finishRow(row *mooncakeRow, m *Mooncake) {
	switch {
	case !row.hasOut:
		s.missing("output_length")
	case !row.hasIDs:
		s.missing("hash_ids")
	}
	r := &row.request
	s.refuse(trace.CheckLengths("input_length", "output_length", r.In, r.Out))
	switch {
	case s.err != nil:
	case row.block != 0 && m.declared != 0 && row.block != m.declared:
		s.fail(trace.Contradiction, "block_size %d: rows before it have %d", row.block, m.declared)
		s.err.Hint = "a file for each block size"
	case row.block != 0:
		m.declared = row.block
	}
	if !row.hasIn {
		r.In = lengthByIDs
	}
	if m.frozen && s.err == nil {
		s.err = m.knownBlock().settle(r)
	}
}
