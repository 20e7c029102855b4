package mmapcache

import (
	"context"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/timeline"
)

// vocabulary is that of the tests: token i is the bytes of entry i. It cuts characters at every place.
var vocabulary = []string{
	"a", "the ", "\n", "\t\x00\x1f", `"`, `\`, `\u0041`, "\x7f", "e\u0301", "\u2028",
	"", "\u4e2d", "\xe4", "\xb8\xad", "\xe4\xb8", "\xad", // a Han character whole, and cut after each byte
	"e", "\xcc", "\x81", // a combining mark
	"\U0001F468\u200d\U0001F469", "\xf0", "\x9f", "\xf0\x9f\x91", "\xa8\xe2", "\x80\x8d\xf0", // a joined emoji
	"\xe2\x82", "\xc0\xaf", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xff", "\x80", "\xbf\xbf", // no UTF-8
}

func vocabularyBytes(id uint32) ([]byte, bool) {
	if int(id) >= len(vocabulary) {
		return nil, false
	}
	return []byte(vocabulary[id]), true
}

// unsynced leaves out the syncing, which makes builds slow and is tested elsewhere.
var unsynced = durable.Options{Sync: func(*os.File) error { return nil }}

// withoutSync is the context of a test in which nothing is forced to disk.
func withoutSync(t require.TestingT) context.Context {
	return durable.WithOptions(contextOf(t), unsynced)
}

// toy is a small cache in plain form: a builder writes it, and tests compare what they read with it.
type toy struct {
	corpus   []uint32
	plans    []*Plan
	starts   [][]uint32 // of every trace: its blocks, then its fillers
	short    bool       // filler is not longer than the corpus
	recorded []float64  // recorded starts of the first traces, milliseconds; NaN: none
}

// build writes the four directories of a toy below root and returns the dataset's key. salt tells datasets apart.
func (y *toy) build(t require.TestingT, root, salt string) string {
	structure := y.buildStructure(t, root, salt)
	arenas := y.buildArenas(t, root, salt)
	starts := y.part(t, root, PlacementKind, salt, func(b *Builder) error { return y.writeStarts(t, b) })
	return y.part(t, root, DatasetKind, salt, func(b *Builder) error {
		b.AddPart(structure)
		b.AddPart(starts)
		b.AddPart(arenas)
		return nil
	}).Key
}

func (y *toy) buildArenas(t require.TestingT, root, salt string) *manifest.Manifest {
	return y.part(t, root, ArenasKind, salt, func(b *Builder) error {
		return b.BuildArenas(PromptCorpus{y.corpus, vocabularyBytes}, NewMarkerPieces(func(s string) []uint32 { return []uint32{uint32(len(s))} }))
	})
}

func (y *toy) buildStructure(t require.TestingT, root, salt string) *manifest.Manifest {
	s := NewStructure()
	blocks := 0
	for k, p := range y.plans {
		require.NoError(t, s.Append(p))
		blocks += int(p.Trace.Blocks)
		if y.recorded != nil && !math.IsNaN(y.recorded[k]) {
			s.SetRecordedStart(k, y.recorded[k])
		}
	}
	return y.part(t, root, StructureKind, salt, func(b *Builder) error {
		return b.BuildStructure(s, StructureFacts{
			Traces: len(y.plans), Sessions: s.Sessions.Len(), Turns: s.Turns.Len(), Blocks: blocks, Rules: TimeRules{ShortFiller: y.short}, Starts: s.RecordedStarts(),
		})
	})
}

// writeStarts puts the starts of the last trace first: order does not matter.
func (y *toy) writeStarts(t require.TestingT, b *Builder) error {
	var firstBlock, firstTurn []int
	blocks, turns := 0, 0
	for _, p := range y.plans {
		firstBlock, firstTurn = append(firstBlock, blocks), append(firstTurn, turns)
		blocks += int(p.Trace.Blocks)
		turns += len(p.Turns)
	}
	table, err := b.NewPlacement(blocks+turns, len(y.corpus))
	require.NoError(t, err)
	for i := len(y.plans) - 1; i >= 0; i-- {
		n := y.plans[i].Trace.Blocks
		require.NoError(t, table.Put(blocks+firstTurn[i], y.starts[i][n:]))
		require.NoError(t, table.Put(firstBlock[i], y.starts[i][:n]))
	}
	return table.Close(contextOf(t))
}

func contextOf(t require.TestingT) context.Context {
	return t.(interface{ Context() context.Context }).Context()
}

// part publishes one directory.
func (y *toy) part(t require.TestingT, root, kind, salt string, fill func(*Builder) error) *manifest.Manifest {
	b, err := NewBuilder(withoutSync(t), root, kind, map[string]string{"kind": kind, "salt": salt})
	require.NoError(t, err)
	defer b.Discard()
	require.NoError(t, fill(b))
	m, err := b.Publish(contextOf(t), Provenance{Created: time.Unix(0, 0).UTC(), Host: "host", Agentx: "test", Sources: []Source{{Path: "in", Size: 1, SHA256: "00"}}})
	require.NoError(t, err)
	return m
}

// open opens a dataset and closes it when the test ends.
func open(t interface {
	require.TestingT
	Cleanup(func())
}, root, key string) *Cache {
	c, err := Open(root, key)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// tokens returns the tokens of the window [start, start+n) of the corpus, taken modulo its length.
func (y *toy) tokens(start, n uint32) (list []uint32) {
	for k := range n {
		list = append(list, y.corpus[(int(start)+int(k))%len(y.corpus)])
	}
	return list
}

// truth is a message written out.
type truth struct {
	role   Role
	tokens []uint32
	raw    []byte
}

// prompt writes out the messages of a turn, straight from the meaning of the tables.
func (y *toy) prompt(trace, turn int) (list []truth) {
	p := y.plans[trace]
	var path []Segment
	for s := p.Turns[turn].Last; s != None; s = p.Segments[s].Parent {
		path = append([]Segment{p.Segments[s]}, path...)
	}
	for _, s := range path {
		if s.Flags&Continues == 0 {
			list = append(list, truth{role: s.Role})
		}
		m := &list[len(list)-1]
		if s.Flags&Filler != 0 {
			n := s.Count
			if y.short {
				n = min(n, uint32(len(y.corpus)))
			}
			m.tokens = append(m.tokens, y.tokens(y.starts[trace][p.Trace.Blocks+s.First], n)...)
			continue
		}
		if s.Flags&Head != 0 {
			m.tokens = append(m.tokens, y.tokens(y.starts[trace][s.First], s.Count)...)
			continue
		}
		for b := s.First; b < s.First+s.Count; b++ {
			m.tokens = append(m.tokens, y.tokens(y.starts[trace][b], p.Trace.BlockSize)...)
		}
	}
	for k := range list {
		for _, id := range list[k].tokens {
			list[k].raw = append(list[k].raw, vocabulary[id]...)
		}
	}
	return list
}

// drawToy draws a corpus and the plans of some traces. Every index is valid; everything else is arbitrary.
func drawToy(t *rapid.T) *toy {
	words := rapid.SampledFrom([][2]int{{0, 10}, {0, 12}, {10, 16}, {10, 26}, {0, len(vocabulary)}}).Draw(t, "words")
	y := &toy{corpus: rapid.SliceOfN(rapid.Uint32Range(uint32(words[0]), uint32(words[1]-1)), 1, 40).Draw(t, "corpus"), short: rapid.Bool().Draw(t, "short")}
	for i := range rapid.IntRange(1, 3).Draw(t, "traces") {
		p := drawPlan(t, fmt.Sprint("trace ", i))
		start := rapid.Uint32Range(0, uint32(len(y.corpus)-1))
		n := int(p.Trace.Blocks) + len(p.Turns)
		y.plans = append(y.plans, p)
		y.starts = append(y.starts, rapid.SliceOfN(start, n, n).Draw(t, "starts"))
	}
	return y
}

func drawPlan(t *rapid.T, id string) *Plan {
	small := func(low, high int) int { return rapid.IntRange(low, high).Draw(t, "n") }
	seconds := func() float64 {
		return rapid.SampledFrom([]float64{0, -1.5, 1e9, 0.1, timeline.Missing}).Draw(t, "seconds")
	}
	word := func() string { return rapid.SampledFrom([]string{"", "m", "n\"\n", "\u4e2d"}).Draw(t, "word") }
	p := &Plan{Trace: Trace{ID: id, Scope: word(), BlockSize: uint32(small(1, 9)), Blocks: uint32(small(0, 9))}}
	for b := uint32(0); b < p.Trace.Blocks; {
		n := uint32(small(1, int(p.Trace.Blocks-b)))
		p.Runs = append(p.Runs, BlockRun{Scope: word(), ID: rapid.Int64().Draw(t, "id"), First: b, Count: n})
		b += n
	}
	for k := range small(1, 3) {
		s := Session{ID: fmt.Sprint(id, "::", k), Agent: word(), Parent: None, FirstTurn: uint32(len(p.Turns)), Turns: uint32(small(0, 3)),
			SpawnTurn: None, JoinTurn: None, Start: seconds(), End: seconds(), Clock: word()}
		if k > 0 {
			if len(p.Turns) == 0 || p.Sessions[0].Turns == 0 {
				continue
			}
			s.Kind, s.Parent, s.SpawnTurn = Subagent, 0, int32(small(0, int(p.Sessions[0].Turns)-1))
			s.JoinTurn = int32(small(None, int(p.Sessions[0].Turns)-1))
			s.SpawnFrom, s.SpawnOffset = timeline.FromIssue, 12.5
		}
		p.Sessions = append(p.Sessions, s)
		for range s.Turns {
			p.Turns = append(p.Turns, Turn{T: rapid.SampledFrom([]float64{0, -3, 1e-9}).Draw(t, "t"), APITime: seconds(), ThinkTime: seconds(),
				In: uint32(small(0, 30)), Out: int32(small(-2, 2)), HashIDs: uint32(small(0, 4)), CacheHits: uint32(small(0, 4)), Last: None,
				Outer: uint32(small(0, 4)), Inner: int32(small(None, 4)), Model: word(), Input: InputKind(small(0, 2))})
		}
	}
	if len(p.Turns) > 0 {
		drawSegments(t, p, small)
	}
	return p
}

// drawSegments draws a tree of segments, and which of them end prompts.
func drawSegments(t *rapid.T, p *Plan, small func(int, int) int) {
	for k := range small(1, 12) {
		s := Segment{Parent: int32(max(None, small(-2, k-1))), Role: Role(small(0, 2))}
		if s.Parent != None && rapid.Bool().Draw(t, "continues") {
			s.Flags, s.Role = Continues, p.Segments[s.Parent].Role
		}
		if p.Trace.Blocks == 0 || rapid.Bool().Draw(t, "filler") {
			s.Flags |= Filler
			s.First = uint32(small(0, len(p.Turns)-1))
			s.Count = p.Turns[s.First].FillerTokens(p.Trace.BlockSize)
		} else if p.Trace.BlockSize > 1 && rapid.Bool().Draw(t, "head") {
			s.Flags |= Head
			s.First = uint32(small(0, int(p.Trace.Blocks)-1))
			s.Count = uint32(small(1, int(p.Trace.BlockSize)-1))
		} else {
			s.First = uint32(small(0, int(p.Trace.Blocks)-1))
			s.Count = uint32(small(0, int(p.Trace.Blocks-s.First)))
		}
		p.Segments = append(p.Segments, s)
	}
	for k := range p.Turns {
		p.Turns[k].Last = int32(small(None, len(p.Segments)-1))
	}
}
