package weka

import (
	"fmt"
	"math"
)

// Mooncake JSON lines hold one request a line, of one file and one hash scope: times in milliseconds, blocks of 512 tokens
// unless told otherwise, and lists that give the tail of a prompt an id too. They become traces of their own: one per
// session_id, one per row without. Section 7 of the field guide to trace corpora.

// MooncakeBlock is the block size of Mooncake files, tokens, which do not say it.
const MooncakeBlock = 512

// IsMooncake reports whether a row is a Mooncake request rather than a trace.
func IsMooncake(data []byte) bool {
	s := scanner{b: data, tr: &Trace{}}
	ids, requests := false, false
	if s.space() != '{' {
		return false
	}
	s.object(func(name string) {
		ids = ids || name == "hash_ids"
		requests = requests || name == "requests"
		s.skip()
	})
	return s.err == nil && ids && !requests
}

// Mooncake gathers the rows of one Mooncake file.
type Mooncake struct {
	Reserve func(bytes int64) error // asked for the memory that a row takes until the end; may be nil

	prefix   string // of the names of its traces, where there are several files
	rules    Rules
	sessions map[string]*Trace
	order    []*Trace
	rows     int
	first    float64 // earliest first arrival, seconds
}

// NewMooncake begins a file. Its number, from 0, goes into the names of its traces from the second file on.
func NewMooncake(number int, r Rules) *Mooncake {
	m := &Mooncake{rules: r, sessions: map[string]*Trace{}, first: math.Inf(1)}
	if number > 0 {
		m.prefix = fmt.Sprintf("%d/", number+1)
	}
	return m
}

// mooncakeRow is one line.
type mooncakeRow struct {
	request           Request
	timestamp, delay  Seconds // milliseconds
	session           string
	hasSession, hasIn bool
	hasOut, hasIDs    bool
}

// mooncakeLater are fields of later additions, kept by nobody and not counted as unknown; mooncakeVariants tell formats
// that look alike and mean something else.
var (
	mooncakeLater    = map[string]bool{"request_id": true, "output_token_ids": true, "priority": true, "strict_priority": true, "policy_class": true, "routing_constraints": true}
	mooncakeVariants = map[string]string{"wait_for": "agentic_mooncake", "tool_wait_ms": "agentic_mooncake", "delta": "mooncake-delta", "event": "dynamo.request.trace.v1"}
)

// Add adds the next row. The error is always an *Error.
func (m *Mooncake) Add(data []byte) error {
	m.rows++
	row, unknown, err := m.scan(data)
	if err != nil {
		return err
	}
	name := row.session
	if !row.hasSession {
		name = fmt.Sprintf("row-%06d", m.rows)
	}
	t := m.sessions[name]
	if t == nil {
		t = &Trace{ID: m.prefix + name, BlockSize: m.blockSize(), Scope: ScopeGlobal, Models: []string{"unknown"}, TailIDs: true, format: FormatMooncake}
	}
	if err := m.place(t, row); err != nil {
		return err
	}
	for k, n := range unknown {
		if t.Unknown == nil {
			t.Unknown = map[string]int{}
		}
		t.Unknown[k] += n
	}
	if m.sessions[name] == nil {
		m.sessions[name] = t
		m.order = append(m.order, t)
		m.first = min(m.first, t.Entries[0].T)
	}
	return nil
}

func (m *Mooncake) blockSize() int64 {
	if m.rules.BlockSize > 0 {
		return int64(m.rules.BlockSize)
	}
	return MooncakeBlock
}

// place gives the row its time and appends it to its session.
func (m *Mooncake) place(t *Trace, row mooncakeRow) error {
	r := row.request
	fail := func(f ErrorKind, where, why string) error {
		return &Error{Kind: f, Trace: t.ID, Where: where, Problem: why}
	}
	switch n := len(t.Entries); {
	case row.delay.OK && row.delay.V < 0:
		return fail(TooLarge, "delay", fmt.Sprintf("%g ms: want no negative delay", row.delay.V))
	case n == 0 && row.delay.OK && row.delay.V > 0:
		return fail(Conflict, "delay", "the first turn of a session has no turn to wait for")
	case n == 0 && !row.timestamp.OK:
		return fail(MissingField, "", `required field "timestamp" is missing: only later turns of a session may leave it out`)
	case n == 0:
		r.T = row.timestamp.V / 1000
	case row.delay.OK: // from the completion of the turn before, of which nothing but its start is known
		r.T = t.Entries[n-1].T + row.delay.V/1000
		r.ThinkTime = Seconds{row.delay.V / 1000, true}
	case row.timestamp.OK:
		if before := t.Entries[n-1].T; row.timestamp.V/1000 < before {
			t.Oddities.add(oddBackward, "%s: timestamp %g, after one of %g", spot{n, none}, row.timestamp.V, before*1000)
		}
		r.T = max(row.timestamp.V/1000, t.Entries[n-1].T)
	default:
		r.T = t.Entries[n-1].T
	}
	t.Entries = append(t.Entries, Entry{Request: r})
	return nil
}

// scan reads one line.
func (m *Mooncake) scan(data []byte) (mooncakeRow, map[string]int, error) {
	s := scanner{b: data, strict: m.rules.strict(), tr: newTrace(m.Reserve), milliseconds: true}
	var row mooncakeRow
	r := &row.request
	r.Type = 'n'
	if s.space(); s.want("object") {
		s.object(func(name string) {
			switch name {
			case "timestamp", "created_time":
				row.timestamp = s.wantGiven()
			case "delay", "delay_ms":
				row.delay = s.wantGiven()
			case "input_length", "input_tokens":
				if row.hasIn = !s.leftOut(); row.hasIn {
					r.In = s.wantInt()
				}
			case "output_length", "output_tokens":
				r.Out, row.hasOut = s.wantInt(), true
			case "hash_ids":
				row.hasIDs = true
				if s.want("array") {
					r.IDs = s.hashIDs()
				}
			case "session_id":
				if row.hasSession = !s.leftOut(); row.hasSession {
					row.session = s.wantText()
				}
			default:
				if variant, ok := mooncakeVariants[name]; ok {
					s.fail(UnknownKey, "this is %s, which is not built: only plain Mooncake rows are", variant)
					s.err.Hint = tryPlain
					return
				}
				if s.skip(); s.err == nil && !mooncakeLater[name] {
					s.unknown(name)
				}
			}
		})
	}
	s.end()
	if s.needs(requestBytes + markerBytes); m.Reserve != nil {
		s.tr.meter.settle()
		s.needs(0)
	}
	size := m.blockSize()
	if !row.hasIn {
		r.In = int64(r.IDs.Len) * size
	}
	switch need := (r.In + size - 1) / size; {
	case s.err != nil:
	case !row.hasOut:
		s.missing("output_length")
	case !row.hasIDs:
		s.missing("hash_ids")
	case r.In < 0:
		s.fail(NegativeIn, "input_length %d: a prompt cannot have a negative length", r.In)
	case r.In > MaxTokens || r.Out > MaxTokens || r.Out < -MaxTokens:
		s.fail(TooLarge, "input_length %d, output_length %d: larger than %d tokens", r.In, r.Out, int64(MaxTokens))
	case need > int64(r.IDs.Len):
		s.fail(Conflict, "input_length %d needs %d blocks of %d tokens, hash_ids has %d", r.In, need, size, r.IDs.Len)
	}
	if s.err != nil {
		return row, nil, s.err
	}
	return row, s.tr.Unknown, nil
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
