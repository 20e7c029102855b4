package mmapcache

import (
	"fmt"
	"io"
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
	return &Structure{Traces: traceTable(), Sessions: sessionTable(), Turns: turnTable(), Segments: segmentTable(), Runs: runTable(), Tools: toolTable()}
}

func traceTable() Table[Trace] {
	return Table[Trace]{file: "traces.arrow", columns: []column[Trace]{
		text("id", func(r *Trace) *string { return &r.ID }),
		word("hash_id_scope", func(r *Trace) *string { return &r.Scope }),
		number("block_size", func(r *Trace) *uint32 { return &r.BlockSize }),
		number("first_session", func(r *Trace) *uint32 { return &r.FirstSession }),
		number("sessions", func(r *Trace) *uint32 { return &r.Sessions }),
		number("first_turn", func(r *Trace) *uint32 { return &r.FirstTurn }),
		number("turns", func(r *Trace) *uint32 { return &r.Turns }),
		number("first_segment", func(r *Trace) *uint32 { return &r.FirstSegment }),
		number("segments", func(r *Trace) *uint32 { return &r.Segments }),
		number("first_run", func(r *Trace) *uint32 { return &r.FirstRun }),
		number("runs", func(r *Trace) *uint32 { return &r.Runs }),
		number("first_block", func(r *Trace) *uint32 { return &r.FirstBlock }),
		number("blocks", func(r *Trace) *uint32 { return &r.Blocks }),
		number("first_tool", func(r *Trace) *uint32 { return &r.FirstTool }),
		number("tools", func(r *Trace) *uint32 { return &r.Tools }),
	}, late: lateTimes[Trace]("recorded_start_ms")}
}

func sessionTable() Table[Session] {
	return Table[Session]{file: "sessions.arrow", columns: []column[Session]{
		text("session_id", func(r *Session) *string { return &r.ID }),
		text("agent_id", func(r *Session) *string { return &r.Agent }),
		number("kind", func(r *Session) *uint8 { return (*uint8)(&r.Kind) }),
		number("parent", func(r *Session) *int32 { return &r.Parent }),
		number("source_outer_idx", func(r *Session) *uint32 { return &r.Outer }),
		number("first_turn", func(r *Session) *uint32 { return &r.FirstTurn }),
		number("turns", func(r *Session) *uint32 { return &r.Turns }),
		number("spawn_turn", func(r *Session) *int32 { return &r.SpawnTurn }),
		number("join_turn", func(r *Session) *int32 { return &r.JoinTurn }),
		number("spawn_from", func(r *Session) *uint8 { return (*uint8)(&r.SpawnFrom) }),
		number("spawn_offset_ms", func(r *Session) *float64 { return &r.SpawnOffset }),
		optional("marker_start", func(r *Session) *float64 { return &r.Start }),
		optional("marker_end", func(r *Session) *float64 { return &r.End }),
		word("marker_clock", func(r *Session) *string { return &r.Clock }),
	}}
}

// hitsColumn is the column of turns.arrow that SetHits corrects.
const hitsColumn = "cache_hits"

func turnTable() Table[Turn] {
	return Table[Turn]{file: "turns.arrow", columns: []column[Turn]{
		number("t", func(r *Turn) *float64 { return &r.T }),
		optional("api_time", func(r *Turn) *float64 { return &r.APITime }),
		optional("think_time", func(r *Turn) *float64 { return &r.ThinkTime }),
		number("in", func(r *Turn) *uint32 { return &r.In }),
		number("out", func(r *Turn) *int32 { return &r.Out }),
		number("hash_ids", func(r *Turn) *uint32 { return &r.HashIDs }),
		number(hitsColumn, func(r *Turn) *uint32 { return &r.CacheHits }),
		number("last_segment", func(r *Turn) *int32 { return &r.Last }),
		number("source_outer_idx", func(r *Turn) *uint32 { return &r.Outer }),
		number("source_inner_idx", func(r *Turn) *int32 { return &r.Inner }),
		word("model", func(r *Turn) *string { return &r.Model }),
		number("input_kind", func(r *Turn) *uint8 { return (*uint8)(&r.Input) }),
	}}
}

func segmentTable() Table[Segment] {
	return Table[Segment]{file: "segments.arrow", columns: []column[Segment]{
		number("parent", func(r *Segment) *int32 { return &r.Parent }),
		number("role", func(r *Segment) *uint8 { return (*uint8)(&r.Role) }),
		number("part", func(r *Segment) *uint8 { return (*uint8)(&r.Flags) }),
		number("first", func(r *Segment) *uint32 { return &r.First }),
		number("count", func(r *Segment) *uint32 { return &r.Count }),
	}}
}

func runTable() Table[BlockRun] {
	return Table[BlockRun]{file: "blocks.arrow", columns: []column[BlockRun]{
		word("scope", func(r *BlockRun) *string { return &r.Scope }),
		number("hash_id", func(r *BlockRun) *int64 { return &r.ID }),
		number("first", func(r *BlockRun) *uint32 { return &r.First }),
		number("count", func(r *BlockRun) *uint32 { return &r.Count }),
	}}
}

func toolTable() Table[Tool] {
	return Table[Tool]{file: "tools.arrow", columns: []column[Tool]{
		number("segment", func(r *Tool) *int32 { return &r.Segment }),
		number("turn", func(r *Tool) *uint32 { return &r.Turn }),
	}}
}

// tableFile is a table as a file.
type tableFile struct {
	name  string
	read  func(data []byte) error
	write func(io.Writer) error
}

// files lists the tables as files, in the order in which they are written.
func (s *Structure) files() []tableFile {
	return []tableFile{s.Traces.asFile(), s.Sessions.asFile(), s.Turns.asFile(), s.Segments.asFile(), s.Runs.asFile(), s.Tools.asFile()}
}

func (t *Table[R]) asFile() tableFile { return tableFile{t.file, t.read, t.writeTo} }

// BuildStructure writes the tables of a structure.
func (b *Builder) BuildStructure(s *Structure, facts StructureFacts) error {
	for _, t := range s.files() {
		if err := b.writeFile(file{t.name, t.write}); err != nil {
			return err
		}
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
