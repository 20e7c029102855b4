package mmapcache

import (
	"fmt"
	"slices"
)

// Structure holds the tables of a set of traces: everything about them but tokens.
type Structure struct {
	Traces   Table[Trace]
	Sessions Table[Session]
	Turns    Table[Turn]
	Segments Table[Segment]
	Runs     Table[BlockRun]
	Tools    Table[Tool]

	blocks uint64 // of all traces
}

// NewStructure returns an empty structure, to append plans to.
func NewStructure() *Structure {
	s := &Structure{
		Traces: newTable[Trace]("traces.arrow"), Sessions: newTable[Session](sessionsFile), Turns: newTable[Turn]("turns.arrow"),
		Segments: newTable[Segment]("segments.arrow"), Runs: newTable[BlockRun]("blocks.arrow"), Tools: newTable[Tool]("tools.arrow"),
	}
	c := s.Traces.columns
	s.Traces.columns = slices.Concat(c[:3], c[4:13], c[3:4], c[13:]) // blocks stand behind first_block
	s.Traces.late = lateTimes[Trace]("recorded_start_ms")
	return s
}

const (
	sessionsFile = "sessions.arrow"
	hitsColumn   = "cache_hits" // the column of turns.arrow that SetHits corrects
)

// files lists the tables as files, in the order in which they are written.
func (s *Structure) files() []file {
	return []file{s.Traces.asFile(), s.Sessions.asFile(), s.Turns.asFile(), s.Segments.asFile(), s.Runs.asFile(), s.Tools.asFile()}
}

func (t *Table[R]) asFile() file { return file{t.file, t.read, t.writeTo} }

// BuildStructure writes the tables of a structure.
func (b *Builder) BuildStructure(s *Structure, facts StructureFacts) error {
	if err := b.writeFiles(s.files()); err != nil {
		return err
	}
	return b.setFacts(facts)
}

// Blocks returns the number of blocks of all traces: distinct ids per scope and trace.
func (s *Structure) Blocks() int { return int(s.blocks) }

// Append adds the plan of the next trace. It fails where a table would exceed the range of its indices.
func (s *Structure) Append(p *Plan) error {
	const most = 1<<31 - 1
	t := p.Trace
	if s.blocks+uint64(t.Blocks)+uint64(s.Turns.Len()+len(p.Turns)) > most || s.Segments.Len()+len(p.Segments) > most {
		return fmt.Errorf("trace %q: more than %d blocks or segments: split the input", t.ID, most)
	}
	t.FirstSession, t.Sessions = s.Sessions.append(p.Sessions)
	t.FirstTurn, t.Turns = s.Turns.append(p.Turns)
	t.FirstSegment, t.Segments = s.Segments.append(p.Segments)
	t.FirstRun, t.Runs = s.Runs.append(p.Runs)
	t.FirstTool, t.Tools = s.Tools.append(p.Tools)
	t.FirstBlock = uint32(s.blocks)
	s.blocks += uint64(t.Blocks)
	s.Traces.push(t)
	return nil
}

// SetHits corrects the cache hits of a turn that has been appended.
func (s *Structure) SetHits(turn, hits int) {
	for _, c := range s.Turns.columns {
		if n, ok := c.(*numbers[Turn, uint32]); ok && n.name == hitsColumn {
			n.values[turn] = uint32(hits)
		}
	}
}

// Plan returns the plan of trace i, as it was appended.
func (s *Structure) Plan(i int) *Plan {
	p := new(Plan)
	s.ReadPlan(i, p)
	return p
}

// ReadPlan is Plan into the slices of p.
func (s *Structure) ReadPlan(i int, p *Plan) {
	t := s.Traces.At(i)
	p.Trace = t
	p.Sessions = s.Sessions.Range(p.Sessions[:0], t.FirstSession, t.Sessions)
	p.Turns = s.Turns.Range(p.Turns[:0], t.FirstTurn, t.Turns)
	p.Segments = s.Segments.Range(p.Segments[:0], t.FirstSegment, t.Segments)
	p.Runs = s.Runs.Range(p.Runs[:0], t.FirstRun, t.Runs)
	p.Tools = s.Tools.Range(p.Tools[:0], t.FirstTool, t.Tools)
}

// check validates every index of the tables, so that no reader has to. The rows of every trace begin in each table where
// those of the trace before end.
func (s *Structure) check() error {
	var p Plan
	var ends [5]int // of the rows of the traces so far, by table
	blocks := uint64(0)
	for i := range s.Traces.Len() {
		t := s.Traces.At(i)
		err := s.checkRows(&t, &ends)
		if uint64(t.FirstBlock) != blocks {
			err = fmt.Errorf("first block %d, want %d", t.FirstBlock, blocks)
		}
		if blocks += uint64(t.Blocks); blocks > 1<<31 {
			err = fmt.Errorf("ends at block %d, the limit is %d", blocks, 1<<31)
		}
		if err == nil {
			err = s.checkRecordedStart(i)
		}
		if err == nil {
			s.ReadPlan(i, &p)
			err = p.check()
		}
		if err != nil {
			return fmt.Errorf("trace %d %q: %w", i, t.ID, err)
		}
	}
	for k, r := range s.rows(&Trace{}) {
		if r.inTable != ends[k] {
			return fmt.Errorf("%s: %d rows, the traces have %d", r.table, r.inTable, ends[k])
		}
	}
	s.blocks = blocks
	return nil
}

// rows says which rows of a table belong to a trace.
type rows struct {
	table    string
	first, n uint32
	inTable  int // all of them
}

// rows returns which rows of each table belong to a trace.
func (s *Structure) rows(t *Trace) [5]rows {
	return [...]rows{
		{s.Sessions.file, t.FirstSession, t.Sessions, s.Sessions.Len()},
		{s.Turns.file, t.FirstTurn, t.Turns, s.Turns.Len()},
		{s.Segments.file, t.FirstSegment, t.Segments, s.Segments.Len()},
		{s.Runs.file, t.FirstRun, t.Runs, s.Runs.Len()},
		{s.Tools.file, t.FirstTool, t.Tools, s.Tools.Len()},
	}
}

// checkRows checks that the rows of a trace begin at ends and exist, and moves ends behind them.
func (s *Structure) checkRows(t *Trace, ends *[5]int) error {
	for k, r := range s.rows(t) {
		if int(r.first) != ends[k] {
			return fmt.Errorf("%s: first row %d, want %d", r.table, r.first, ends[k])
		}
		if ends[k] += int(r.n); ends[k] > r.inTable {
			return fmt.Errorf("%s: rows [%d,%d), the table has %d", r.table, r.first, ends[k], r.inTable)
		}
	}
	return nil
}

// check validates the indices of one trace.
func (p *Plan) check() error {
	if p.Trace.BlockSize == 0 {
		return fmt.Errorf("block size 0: want 1 or more")
	}
	if err := p.checkSessions(); err != nil {
		return err
	}
	for i := range p.Segments {
		if err := p.checkSegment(i); err != nil {
			return fmt.Errorf("segment %d: %w", i, err)
		}
	}
	for i, u := range p.Turns {
		if u.Last < None || int(u.Last) >= len(p.Segments) {
			return fmt.Errorf("turn %d: last segment %d out of range [-1,%d)", i, u.Last, len(p.Segments))
		}
		if u.Input > ToolResult {
			return fmt.Errorf("turn %d: input kind %d out of range [0,%d]", i, u.Input, ToolResult)
		}
	}
	for i, r := range p.Tools {
		if r.Segment < 0 || int(r.Segment) >= len(p.Segments) {
			return fmt.Errorf("tool result %d: segment %d out of range [0,%d)", i, r.Segment, len(p.Segments))
		}
		if s := p.Segments[r.Segment]; s.Flags&Continues != 0 || s.Parent == None {
			return fmt.Errorf("tool result %d: segment %d begins no message that follows another", i, r.Segment)
		}
	}
	return p.checkRuns()
}

// checkSessions checks that the sessions tile the turns, and each session.
func (p *Plan) checkSessions() error {
	next := uint32(0)
	for i, s := range p.Sessions {
		err := p.checkSession(i)
		if s.FirstTurn != next || s.Turns > p.Trace.Turns-next {
			err = fmt.Errorf("first turn %d and %d turns: want %d, and at most %d turns", s.FirstTurn, s.Turns, next, p.Trace.Turns-next)
		}
		if err != nil {
			return fmt.Errorf("session %d %q: %w", i, s.ID, err)
		}
		next += s.Turns
	}
	if next != p.Trace.Turns || len(p.Sessions) == 0 {
		return fmt.Errorf("%d turns in %d sessions, the trace has %d", next, len(p.Sessions), p.Trace.Turns)
	}
	return nil
}

// checkSession checks kind, parent, spawn and join of session i.
func (p *Plan) checkSession(i int) error {
	s := &p.Sessions[i]
	root := i == 0
	switch {
	case s.Kind > Flat:
		return fmt.Errorf("kind %d out of range [0,%d]", s.Kind, Flat)
	case s.SpawnFrom > 1:
		return fmt.Errorf("spawn origin %d out of range [0,1]", uint8(s.SpawnFrom))
	case !(s.SpawnOffset >= 0):
		return fmt.Errorf("spawn offset %g ms: want 0 or more", s.SpawnOffset)
	case root && s.Parent != None:
		return fmt.Errorf("parent %d: the first session is the root, which has none", s.Parent)
	case root && s.JoinTurn != None:
		return fmt.Errorf("join turn %d: the root joins nothing", s.JoinTurn)
	case root:
		return nil
	case s.Parent < 0 || int(s.Parent) >= i:
		return fmt.Errorf("parent %d out of range [0,%d)", s.Parent, i)
	}
	turns := min(p.Sessions[0].Turns, p.Sessions[s.Parent].Turns)
	if s.SpawnTurn < 0 || uint32(s.SpawnTurn) >= turns {
		return fmt.Errorf("spawn turn %d out of range [0,%d)", s.SpawnTurn, turns)
	}
	if s.JoinTurn != None && (s.JoinTurn < 0 || uint32(s.JoinTurn) >= turns) {
		return fmt.Errorf("join turn %d out of range [0,%d)", s.JoinTurn, turns)
	}
	return nil
}

// checkSegment checks parent, role, flags and range of segment i.
func (p *Plan) checkSegment(i int) error {
	s, t := &p.Segments[i], &p.Trace
	switch {
	case s.Parent < None || int(s.Parent) >= i:
		return fmt.Errorf("parent %d out of range [-1,%d)", s.Parent, i)
	case s.Role > Members || s.Role > Assistant && s.Flags&Recorded == 0:
		return fmt.Errorf("role %d out of range [0,%d]", s.Role, Assistant)
	case s.Flags&Continues != 0 && (s.Parent == None || p.Segments[s.Parent].Role != s.Role):
		return fmt.Errorf("continues segment %d, which is no message of role %s", s.Parent, s.Role)
	}
	switch part := s.Flags &^ Continues; {
	case part == Filler && s.First >= t.Turns:
		return fmt.Errorf("filler of turn %d out of range [0,%d)", s.First, t.Turns)
	case part == Filler && s.Count != p.Turns[s.First].FillerTokens(t.BlockSize):
		return fmt.Errorf("filler of turn %d: %d tokens, want %d", s.First, s.Count, p.Turns[s.First].FillerTokens(t.BlockSize))
	case part == Filler:
	case part == Head && s.First >= t.Blocks:
		return fmt.Errorf("head of block %d out of range [0,%d)", s.First, t.Blocks)
	case part == Head && (s.Count == 0 || s.Count >= t.BlockSize):
		return fmt.Errorf("head of block %d: %d tokens out of range [1,%d)", s.First, s.Count, t.BlockSize)
	case part == Head:
	case part == Recorded || part == Prefix: // checkTexts and locate look further
		if t.Scope != ScopeText {
			return fmt.Errorf("a recorded message in a trace of scope %q", t.Scope)
		}
	case part != 0:
		return fmt.Errorf("part %d: want a sum of %d and one of %d and %d", s.Flags, Continues, Filler, Head)
	case uint64(s.First)+uint64(s.Count) > uint64(t.Blocks):
		return fmt.Errorf("%d blocks from %d on, the trace has %d", s.Count, s.First, t.Blocks)
	}
	return nil
}

// checkRuns checks that the block runs tile the blocks.
func (p *Plan) checkRuns() error {
	blocks := uint64(0)
	for i, r := range p.Runs {
		if uint64(r.First) != blocks || r.Count == 0 {
			return fmt.Errorf("block run %d: %d blocks from %d on, want some from %d on", i, r.Count, r.First, blocks)
		}
		blocks += uint64(r.Count)
	}
	if blocks != uint64(p.Trace.Blocks) {
		return fmt.Errorf("%d blocks in runs, the trace has %d", blocks, p.Trace.Blocks)
	}
	return nil
}
