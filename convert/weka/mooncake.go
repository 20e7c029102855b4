package weka

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/internal/foreign"
	"github.com/agentx/agentx/internal/jsonlex"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/trace"
)

// IsTrace reports whether a row is a trace: it has requests. It reads no further than to their beginning.
func IsTrace(data []byte) bool {
	l := jsonlex.Lexer{Data: data, MaxDepth: maxDepth, Strict: true}
	return l.Object(func(key []byte) error {
		if string(key) == "requests" {
			return errRequests
		}
		return l.Skip()
	}) == errRequests
}

// errRequests ends the look at a row.
var errRequests = errors.New("it has requests")

// IsMooncake reports whether a row that is no trace is a Mooncake request.
func IsMooncake(data []byte) bool {
	l := jsonlex.Lexer{Data: data, MaxDepth: maxDepth, Strict: true}
	ids := false
	err := l.Object(func(key []byte) error {
		ids = ids || string(key) == "hash_ids"
		return l.Skip()
	})
	return err == nil && ids
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

// add reads a row and appends it to its session, which it begins where the row is the first.
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

// countUnknown adds how often a row has unknown keys, by name.
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

// Block sizes of Mooncake rows: the usual one, and those that lengths may tell.
const usualBlock = 512

var guessedBlocks = []int64{16, 32, 64, 128, 256, 512, 1024}

// rowBlock is how a prompt of Mooncake rows divides into blocks.
type rowBlock struct {
	size int64
	down bool // the tokens after the last whole block have no id
}

func (b rowBlock) String() string {
	if b.down {
		return fmt.Sprintf("%d tokens, whole blocks alone", b.size)
	}
	return fmt.Sprintf("%d tokens, the partial last block included", b.size)
}

// need returns how many ids a prompt has.
func (b rowBlock) need(in int64) int64 {
	if b.down {
		return in / b.size
	}
	return (in + b.size - 1) / b.size
}

// settle checks a row with the block size of its file, and gives it the length of all blocks of its list where it has none.
func (b rowBlock) settle(r *trace.Request) *trace.Error {
	if r.In == lengthByIDs {
		r.In = int64(r.IDs.Len) * b.size
	}
	switch need := b.need(r.In); {
	case r.In > trace.MaxTokens:
		return &trace.Error{Kind: trace.TooLarge, Problem: fmt.Sprintf("%d hash_ids of %d tokens: larger than %d tokens", r.IDs.Len, b.size, int64(trace.MaxTokens))}
	case need > int64(r.IDs.Len):
		return &trace.Error{Kind: trace.Conflict, Problem: fmt.Sprintf("input_length %d needs %d blocks of %d tokens, hash_ids has %d", r.In, need, b.size, r.IDs.Len)}
	}
	return nil
}

// knownBlock returns the block size that the rows or the rules say, else the usual one.
func (m *Mooncake) knownBlock() rowBlock {
	return rowBlock{size: cmp.Or(m.declared, int64(m.rules.BlockSize), usualBlock)}
}

// settleBlocks decides the block size of the file: doc/spec/reconstruction.md 1.9.
func (m *Mooncake) settleBlocks() (rowBlock, *trace.Error) {
	b, asked := m.knownBlock(), int64(m.rules.BlockSize)
	whole := rowBlock{b.size, true}
	switch {
	case m.declared != 0 && asked != 0 && asked != m.declared:
		return b, &trace.Error{Kind: trace.Contradiction, Problem: fmt.Sprintf("rows have block_size %d, and the rule block_size says %d", m.declared, asked),
			Hint: "without that rule: rows that say their block size need none"}
	case m.frozen || m.misfit(b) == nil:
		return b, nil
	case m.declared != 0 || asked != 0:
		if !m.rules.Strict() && m.misfit(whole) == nil {
			return whole, nil
		}
		return b, nil // rows with too few ids are refused one by one
	}
	return m.guessBlock(b)
}

// misfit returns the first row whose list has another length than its prompt has blocks; nil: all fit. Rows without a length or ids fit.
func (m *Mooncake) misfit(b rowBlock) *misfit {
	for _, t := range m.order {
		for k := range t.Entries {
			if r := &t.Entries[k].Request; r.In != lengthByIDs && r.IDs.Len > 0 && int64(r.IDs.Len) != b.need(r.In) {
				return &misfit{r, t.Rows[k]}
			}
		}
	}
	return nil
}

// misfit is a row that does not fit a block size.
type misfit struct {
	*trace.Request
	row int
}

// guessBlock returns the only way to divide prompts into blocks that fits all rows, where the usual one does not.
func (m *Mooncake) guessBlock(usual rowBlock) (rowBlock, *trace.Error) {
	var fit []rowBlock
	for _, size := range guessedBlocks {
		for _, down := range []bool{false, true} { // both fit where prompts have whole blocks alone, and are the same then
			if b := (rowBlock{size, down}); m.misfit(b) == nil {
				fit = append(fit, b)
				break
			}
		}
	}
	if len(fit) == 1 {
		m.order[0].Oddities.Add(trace.OddityGuessedBlock, "blocks of %v", fit[0])
		return fit[0], nil
	}
	wrong := m.misfit(usual)
	e := &trace.Error{Kind: trace.Unclear, Row: wrong.row, Hint: "the rule block_size=N, the tokens of a block",
		Problem: fmt.Sprintf("input_length %d and %d hash_ids do not fit blocks of %d tokens, and ", wrong.In, wrong.IDs.Len, usual.size)}
	if len(fit) == 0 {
		e.Problem += fmt.Sprintf("no block size fits all rows of the file: tried %s, rounded up and down", strings.Trim(fmt.Sprint(guessedBlocks), "[]"))
		return usual, e
	}
	var names []string
	for _, b := range fit {
		names = append(names, b.String())
	}
	e.Problem += "several block sizes fit all rows of the file: " + strings.Join(names, "; ")
	return usual, e
}

// Traces returns the sessions of the file in the order of their first rows, on a clock that begins with the earliest. The error, an
// *Error, is about the whole file. Invalid returns rows that turned out invalid: their sessions are left out.
func (m *Mooncake) Traces() ([]*trace.Trace, error) {
	b, err := m.settleBlocks()
	if err == nil && m.large && m.negative {
		err = &trace.Error{Kind: trace.Unclear, Problem: "hash_ids of the file has numbers from 2^63 on and negative ones: each may be the 64 bits of the other",
			Hint: "ids of 64 bits, all with a sign or all without"}
	}
	if err != nil {
		return nil, err
	}
	for _, t := range m.order {
		t.BlockSize, t.Namespace = b.size, m.Namespace
		for k := range t.Entries {
			e := &t.Entries[k]
			if err := b.settle(&e.Request); err != nil {
				err.Row = t.Rows[k]
				m.invalid = append(m.invalid, err)
				m.spoiled[t.ID] = true
			}
		}
	}
	if err := m.settleSessions(b); err != nil {
		return nil, err
	}
	m.order = slices.DeleteFunc(m.order, func(t *trace.Trace) bool { return m.spoiled[t.ID] })
	first := math.Inf(1)
	for _, t := range m.order {
		first = min(first, t.Entries[0].T)
	}
	for _, t := range m.order {
		for k := range t.Entries {
			t.Entries[k].T -= first
		}
	}
	return m.order, nil
}

// Invalid returns why rows are invalid that Add took, after Traces.
func (m *Mooncake) Invalid() []*trace.Error { return m.invalid }

// settleSessions decides whether the rows of each session hold whole prompts, or what is new in them: doc/spec/reconstruction.md 1.9.
func (m *Mooncake) settleSessions(b rowBlock) *trace.Error {
	for _, t := range m.order {
		t.Live = m.rules.SessionRows == "live"
		at := breaksOff(t)
		if m.rules.SessionRows == "delta" && len(t.Entries) > 1 {
			at = 1
		}
		if at == 0 || m.spoiled[t.ID] {
			continue
		}
		switch m.rules.SessionRows {
		case "ask":
			return unclearRows(t, at)
		case "new", "delta":
			if err := prependHistory(t, b); err != nil {
				m.invalid = append(m.invalid, err)
				m.spoiled[t.ID] = true
			}
		}
	}
	return nil
}

// breaksOff returns the index of the first request that shares no first block with the one before, where no request of the session shares
// one: then the ids do not say what rows hold. It returns 0 where they do.
func breaksOff(t *trace.Trace) (at int) {
	for k := 1; k < len(t.Entries); k++ {
		before, ids := t.Entries[k-1].IDs, t.Entries[k].IDs
		switch {
		case before.Len == 0:
		case trace.CommonPrefix(before, ids) > 0:
			return 0
		case at == 0:
			at = k
		}
	}
	return at
}

// shownRows bounds the rows of a session whose lengths an error shows.
const shownRows = 4

// unclearRows is the error about a session whose ids do not say whether a row, that of entry at, holds a whole prompt or what is new.
func unclearRows(t *trace.Trace, at int) *trace.Error {
	var whole, longer []string
	total := int64(0)
	for k := range t.Entries[:min(len(t.Entries), shownRows)] {
		if k > 0 {
			total += max(0, t.Entries[k-1].Out)
		}
		total += t.Entries[k].In
		whole, longer = append(whole, fmt.Sprint(t.Entries[k].In)), append(longer, fmt.Sprint(total))
	}
	return &trace.Error{
		Kind: trace.Unclear, Row: t.Rows[at], Trace: t.ID,
		Problem: fmt.Sprintf("rows of this session share no first block with the row before: either each has its whole prompt (%s tokens), or what is new in it, behind all before and the answers (%s tokens)",
			strings.Join(whole, ", "), strings.Join(longer, ", ")),
		Hint: "the rule session_rows=whole where rows have whole prompts; the rule session_rows=new where they have what is new, as those of mooncake-delta",
	}
}

// prependHistory gives the rows of a session, which hold what is new, their whole prompts: all of the row before, as many tokens as its
// answer had, and what is new. The whole blocks of the first row keep their ids. Behind them the session has blocks of its own: they begin
// where no recorded block does.
func prependHistory(t *trace.Trace, b rowBlock) *trace.Error {
	first := &t.Entries[0].Request
	kept := first.IDs.Head(int(first.In / b.size))
	own := ownIDs(t.ID)
	total := int64(0)
	for k := range t.Entries {
		r := &t.Entries[k].Request
		if total += r.In; k > 0 {
			total += max(0, t.Entries[k-1].Out)
			t.Oddities.Add(trace.OddityAnswers, "requests[%d]: %d tokens stand before its %d", k, total-r.In, r.In)
		}
		if total > trace.MaxTokens {
			return &trace.Error{Kind: trace.TooLarge, Row: t.Rows[k], Trace: t.ID, Problem: fmt.Sprintf("the prompt of this row has %d tokens with all rows and answers before it: more than %d: split the session", total, int64(trace.MaxTokens))}
		}
		r.In, r.IDs = total, trace.IDs{Runs: append([]trace.Run(nil), kept.Runs...), Len: kept.Len}
		if n := int(b.need(total)) - kept.Len; n > 0 {
			r.IDs.Runs, r.IDs.Len = append(r.IDs.Runs, trace.Run{First: own + int64(kept.Len), N: n}), kept.Len+n
		}
	}
	return nil
}

// ownIDs returns the first of many ids that no other trace has, but by a chance of one in 2^60.
func ownIDs(trace string) int64 {
	sum := sha256.Sum256([]byte("session_rows=new\x00" + trace))
	return int64(binary.BigEndian.Uint64(sum[:]) >> 2)
}
