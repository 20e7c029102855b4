package mmapcache

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestDrawnPlansAreValid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		for _, p := range drawToy(t).plans {
			s := NewStructure()
			require.NoError(t, s.Append(p))
			require.NoError(t, s.check())
		}
	})
}

// Every index that a reader follows is checked once, when the tables are opened.
func TestBadIndicesAreRefused(t *testing.T) {
	for name, spoil := range map[string]func(*Plan){
		"block size":            func(p *Plan) { p.Trace.BlockSize = 0 },
		"no session":            func(p *Plan) { p.Sessions = nil },
		"turns of no session":   func(p *Plan) { p.Sessions[0].Turns = 1 },
		"too many turns":        func(p *Plan) { p.Sessions[0].Turns = 3 },
		"first turn":            func(p *Plan) { p.Sessions[0].FirstTurn = 1 },
		"parent of the root":    func(p *Plan) { p.Sessions[0].Parent = 0 },
		"kind":                  func(p *Plan) { p.Sessions[0].Kind = 3 },
		"join of the root":      func(p *Plan) { p.Sessions[0].JoinTurn = 0 },
		"spawn turn":            func(p *Plan) { p.Sessions[1].SpawnTurn = 2 },
		"join turn":             func(p *Plan) { p.Sessions[1].JoinTurn = 2 },
		"parent after child":    func(p *Plan) { p.Sessions[1].Parent = 1 },
		"second root":           func(p *Plan) { p.Sessions[1].Parent = None },
		"spawn from":            func(p *Plan) { p.Sessions[1].SpawnFrom = 2 },
		"spawn offset":          func(p *Plan) { p.Sessions[1].SpawnOffset = -1 },
		"spawn offset NaN":      func(p *Plan) { p.Sessions[1].SpawnOffset = math.NaN() },
		"segment's parent":      func(p *Plan) { p.Segments[2].Parent = 2 },
		"negative parent":       func(p *Plan) { p.Segments[2].Parent = -2 },
		"role":                  func(p *Plan) { p.Segments[0].Role = 3 },
		"part":                  func(p *Plan) { p.Segments[0].Flags = 8 },
		"continues nothing":     func(p *Plan) { p.Segments[0].Flags = Continues },
		"continues other role":  func(p *Plan) { p.Segments[2].Flags = Continues },
		"blocks":                func(p *Plan) { p.Segments[0].Count = 4 },
		"blocks, overflowing":   func(p *Plan) { p.Segments[0].First = math.MaxUint32 },
		"filler of no turn":     func(p *Plan) { p.Segments[3].First = 2 },
		"filler, not all of it": func(p *Plan) { p.Segments[3].Count-- },
		"last segment":          func(p *Plan) { p.Turns[1].Last = 4 },
		"negative last":         func(p *Plan) { p.Turns[1].Last = -2 },
		"input kind":            func(p *Plan) { p.Turns[1].Input = 3 },
		"runs":                  func(p *Plan) { p.Runs[0].First = 1 },
		"empty run":             func(p *Plan) { p.Runs = append(p.Runs, BlockRun{First: 3}) },
		"fewer blocks in runs":  func(p *Plan) { p.Runs[0].Count = 2 },
	} {
		t.Run(name, func(t *testing.T) {
			p := plainToy(20).plans[0]
			p.Sessions = append(p.Sessions, Session{ID: "c", Kind: Subagent, FirstTurn: 2, JoinTurn: 1})
			s := NewStructure()
			require.NoError(t, s.Append(p))
			require.NoError(t, s.check())
			spoil(p)
			s = NewStructure()
			require.NoError(t, s.Append(p))
			assert.Error(t, s.check())
		})
	}
}

// Traces must tile the tables.
func TestRowsOfNoTraceAreRefused(t *testing.T) {
	for name, spoil := range map[string]func(*Structure){
		"a session more": func(s *Structure) { s.Sessions.push(Session{}) },
		"a turn more":    func(s *Structure) { s.Turns.push(Turn{}) },
		"a segment more": func(s *Structure) { s.Segments.push(Segment{}) },
		"a run more":     func(s *Structure) { s.Runs.push(BlockRun{}) },
		"an overlap":     func(s *Structure) { s.Traces.push(Trace{BlockSize: 1}) },
		"more than exists": func(s *Structure) {
			s.Traces.push(Trace{FirstSession: 1, FirstTurn: 2, FirstSegment: 4, FirstRun: 1, FirstBlock: 3, Turns: 9})
		},
	} {
		s := NewStructure()
		require.NoError(t, s.Append(plainToy(20).plans[0]))
		spoil(s)
		assert.Error(t, s.check(), name)
	}
}
