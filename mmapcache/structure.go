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
