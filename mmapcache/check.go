package mmapcache

import "fmt"

// check validates every index of the tables, so that no reader has to.
func (s *Structure) check() error {
	var sessions, turns, segments, runs, tools, blocks uint64
	var p Plan
	for i := range s.Traces.Len() {
		t := s.Traces.At(i)
		if uint64(t.FirstSession) != sessions || uint64(t.FirstTurn) != turns || uint64(t.FirstSegment) != segments ||
			uint64(t.FirstRun) != runs || uint64(t.FirstTool) != tools || uint64(t.FirstBlock) != blocks {
			return fmt.Errorf("trace %d %q does not begin where the one before ends", i, t.ID)
		}
		sessions += uint64(t.Sessions)
		turns += uint64(t.Turns)
		segments += uint64(t.Segments)
		runs += uint64(t.Runs)
		tools += uint64(t.Tools)
		blocks += uint64(t.Blocks)
		if sessions > uint64(s.Sessions.Len()) || turns > uint64(s.Turns.Len()) || segments > uint64(s.Segments.Len()) ||
			runs > uint64(s.Runs.Len()) || tools > uint64(s.Tools.Len()) || blocks > 1<<31 {
			return fmt.Errorf("trace %d %q has more rows than there are", i, t.ID)
		}
		s.plan(i, &p)
		if err := p.check(); err != nil {
			return fmt.Errorf("trace %d %q: %w", i, t.ID, err)
		}
	}
	if sessions != uint64(s.Sessions.Len()) || turns != uint64(s.Turns.Len()) || segments != uint64(s.Segments.Len()) ||
		runs != uint64(s.Runs.Len()) || tools != uint64(s.Tools.Len()) {
		return fmt.Errorf("tables hold rows of no trace")
	}
	s.blocks = blocks
	return nil
}

// check validates the indices of one trace.
func (p *Plan) check() error {
	t := p.Trace
	if t.BlockSize == 0 {
		return fmt.Errorf("block size 0")
	}
	next := uint32(0)
	for i, s := range p.Sessions {
		root := i == 0
		if s.FirstTurn != next || s.Turns > t.Turns-next || root != (s.Parent == None) || s.Kind > Flat || s.SpawnFrom > 1 ||
			!root && (s.Parent < 0 || int(s.Parent) >= i || !validTurn(p, 0, s.SpawnTurn) || !validTurn(p, s.Parent, s.SpawnTurn)) ||
			s.JoinTurn != None && (root || !validTurn(p, 0, s.JoinTurn) || !validTurn(p, s.Parent, s.JoinTurn)) || !(s.SpawnOffset >= 0) {
			return fmt.Errorf("session %d %q: bad row", i, s.ID)
		}
		next += s.Turns
	}
	if next != t.Turns || len(p.Sessions) == 0 {
		return fmt.Errorf("%d turns in sessions, %d in the trace", next, t.Turns)
	}
	for i, s := range p.Segments {
		bad := s.Parent < None || int(s.Parent) >= i || s.Role > Assistant
		switch s.Part &^ Continues {
		case Filler:
			bad = bad || s.First >= t.Turns || s.Count != p.Turns[min(s.First, t.Turns-1)].FillerTokens(t.BlockSize)
		case Head:
			bad = bad || s.First >= t.Blocks || s.Count == 0 || s.Count >= t.BlockSize
		case 0:
			bad = bad || uint64(s.First)+uint64(s.Count) > uint64(t.Blocks)
		default:
			bad = true
		}
		if bad || s.Part&Continues != 0 && (s.Parent == None || p.Segments[s.Parent].Role != s.Role) {
			return fmt.Errorf("segment %d: bad row %+v", i, s)
		}
	}
	for i, u := range p.Turns {
		if u.Last < None || int(u.Last) >= len(p.Segments) || u.Input > ToolResult {
			return fmt.Errorf("turn %d: bad row", i)
		}
	}
	for i, r := range p.Tools {
		if r.Segment < 0 || int(r.Segment) >= len(p.Segments) || p.Segments[r.Segment].Part&Continues != 0 || p.Segments[r.Segment].Parent == None {
			return fmt.Errorf("tool %d: bad row", i)
		}
	}
	blocks := uint64(0)
	for i, r := range p.Runs {
		if uint64(r.First) != blocks || r.Count == 0 {
			return fmt.Errorf("block run %d does not begin where the one before ends", i)
		}
		blocks += uint64(r.Count)
	}
	if blocks != uint64(t.Blocks) {
		return fmt.Errorf("%d blocks in runs, %d in the trace", blocks, t.Blocks)
	}
	return nil
}

// validTurn reports whether a turn number, counted in its session, exists.
func validTurn(p *Plan, session, turn int32) bool {
	return turn >= 0 && uint32(turn) < p.Sessions[session].Turns
}
