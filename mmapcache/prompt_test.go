package mmapcache

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/manifest"
)

// Content is copied window by window and equals the message decoded as a whole, wherever the windows were cut.
func TestPromptIsTheMessageDecodedAsAWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		y := drawToy(t)
		root, err := os.MkdirTemp("", "agentx-prompt-*")
		require.NoError(t, err)
		defer os.RemoveAll(root)
		c := open(t, root, y.build(t, root, ""))
		for i := range y.plans {
			for _, form := range []Encoding{Text, IDs} {
				tree, err := c.Render(i, form)
				require.NoError(t, err)
				checkPrompts(t, y, i, tree)
			}
		}
	})
}

// All sequences of windows of a corpus whose tokens are cut inside characters.
func TestEveryAdjacencyOfWindows(t *testing.T) {
	pieces := len(vocabulary) - 10 // the rest are whole characters
	for _, c := range []struct{ blockSize, windows int }{{1, 3}, {2, 2}, {3, 2}, {pieces, 1}, {2*pieces + 1, 2}} {
		y := &toy{plans: []*Plan{{Trace: Trace{ID: "t", BlockSize: uint32(c.blockSize), Blocks: uint32(pieces)}}}, starts: [][]uint32{nil}}
		for k := range pieces {
			y.corpus = append(y.corpus, uint32(10+k))
			y.starts[0] = append(y.starts[0], uint32(k))
		}
		p := y.plans[0]
		p.Runs = []BlockRun{{Count: uint32(pieces)}}
		ends := []int32{None} // segments that end a sequence
		for range c.windows {
			var longer []int32
			for _, parent := range ends {
				for k := range pieces {
					s := Segment{Parent: parent, Role: User, First: uint32(k), Count: 1}
					if parent != None {
						s.Flags = Continues
					}
					longer = append(longer, int32(len(p.Segments)))
					p.Segments = append(p.Segments, s)
				}
			}
			ends = longer
		}
		for _, last := range ends {
			p.Turns = append(p.Turns, Turn{Last: last})
			y.starts[0] = append(y.starts[0], 0)
		}
		p.Sessions = []Session{{ID: "t", Parent: None, Turns: uint32(len(ends)), SpawnTurn: None, JoinTurn: None}}
		root := t.TempDir()
		tree, err := open(t, root, y.build(t, root, "")).Render(0, Text)
		require.NoError(t, err)
		var prompt Prompt
		var got []byte
		for turn := range tree.Turns {
			tree.Prompt(turn, &prompt)
			want := decode(y.prompt(0, turn)[0].raw)
			got = prompt.AppendContent(got[:0], 0)
			if want != string(got) || len(got) != prompt.Messages[0].Size {
				t.Fatalf("turn %d of windows of %d: %q of size %d, want %q", turn, c.blockSize, got, prompt.Messages[0].Size, want)
			}
		}
	}
}

// A character that is cut on both sides of an empty head is whole again.
func TestEmptyHeadJoinsItsNeighbors(t *testing.T) {
	const a, empty, front, back = 0, 10, 14, 15 // "a", "", "\xe4\xb8", "\xad"
	y := &toy{corpus: []uint32{a, front, empty, a, back, a}, starts: [][]uint32{{0, 2, 4, 0}}, plans: []*Plan{{
		Trace:    Trace{ID: "t", BlockSize: 2, Blocks: 3},
		Sessions: []Session{{ID: "t", Parent: None, Turns: 1, SpawnTurn: None, JoinTurn: None}},
		Turns:    []Turn{{In: 4, HashIDs: 2, Last: 2}},
		Segments: []Segment{
			{Parent: None, Role: User, First: 0, Count: 1},
			{Parent: 0, Role: User, Flags: Continues | Head, First: 1, Count: 1},
			{Parent: 1, Role: User, Flags: Continues, First: 2, Count: 1},
		},
		Runs: []BlockRun{{Count: 3}},
	}}}
	root := t.TempDir()
	trace, err := open(t, root, y.build(t, root, "")).Render(0, Text)
	require.NoError(t, err)
	var p Prompt
	trace.Prompt(0, &p)
	assert.Equal(t, "a\u4e2da", string(p.AppendText(nil, 0)))
}

// checkPrompts compares every prompt of a trace with the truth.
func checkPrompts(t require.TestingT, y *toy, trace int, tree *RenderedTrace) {
	var p Prompt
	for turn := range tree.Turns {
		want := y.prompt(trace, turn)
		tree.Prompt(turn, &p)
		require.Len(t, p.Messages, len(want))
		tokens := 0
		for k, m := range want {
			tokens += len(m.tokens)
			require.Equal(t, m.role, p.Messages[k].Role)
			require.Equal(t, m.tokens, p.AppendTokenIDs(nil, k))
			got := p.AppendContent(nil, k)
			require.Equal(t, p.Messages[k].Size, len(got), "size of message %d", k)
			checkPieces(t, &p, k, got)
			if tree.encoding == IDs {
				ids := ""
				for _, id := range m.tokens {
					ids += strconv.Itoa(int(id)) + ","
				}
				require.Equal(t, ids, string(got))
				continue
			}
			require.Equal(t, decode(m.raw), string(p.AppendText(nil, k)))
			var text string
			require.NoError(t, json.Unmarshal([]byte(`"`+string(got)+`"`), &text))
			require.Equal(t, decode(m.raw), text)
		}
		require.Equal(t, tokens, p.Tokens)
	}
}

// checkPieces compares content appended in pieces of every small limit with the whole.
func checkPieces(t require.TestingT, p *Prompt, k int, whole []byte) {
	for limit := 1; limit <= 9; limit++ {
		var got []byte
		for at, ended := (Cursor{Message: k}), false; !ended; {
			var piece []byte
			piece, ended = p.AppendUpTo(make([]byte, 0, limit), &at, limit)
			if !ended {
				require.GreaterOrEqual(t, len(piece), limit)
				require.Equal(t, k, at.Message)
			} else {
				require.Equal(t, Cursor{Message: k + 1}, at)
			}
			got = append(got, piece...)
		}
		require.Equal(t, string(whole), string(got), "limit %d", limit)
	}
}

// plainToy has one trace over a corpus of n plain tokens.
func plainToy(n int) *toy {
	y := &toy{plans: []*Plan{{
		Trace:    Trace{ID: "t", Scope: "local", BlockSize: 4, Blocks: 3},
		Sessions: []Session{{ID: "t", Parent: None, Turns: 2, SpawnTurn: None, JoinTurn: None}},
		Turns:    []Turn{{In: 14, HashIDs: 3, Last: 1, Model: "m"}, {T: 2, In: 16, HashIDs: 3, Last: 3, Model: "m"}},
		Segments: []Segment{
			{Parent: None, Role: User, First: 0, Count: 3},
			{Parent: 0, Role: User, Flags: Continues | Filler, First: 0, Count: 2},
			{Parent: 0, Role: Assistant, First: 1, Count: 2},
			{Parent: 2, Role: User, Flags: Filler, First: 1, Count: 4},
		},
		Runs: []BlockRun{{Scope: "t", ID: 1, First: 0, Count: 3}},
	}}}
	for k := range n {
		y.corpus = append(y.corpus, uint32(k%8)) // characters of one byte
	}
	y.starts = [][]uint32{{0, uint32(n - 2), uint32(n / 2), uint32(n - 1), 1}}
	return y
}

// A window may be longer than the corpus, begin anywhere in it, and wrap more than once.
func TestWindowsWrap(t *testing.T) {
	for n := 1; n <= 9; n++ {
		y := plainToy(9)
		y.corpus = y.corpus[:n]
		plan := y.plans[0]
		y.plans, y.starts = nil, nil
		for start := range n {
			var starts []uint32
			for k := range 5 {
				starts = append(starts, uint32((start+k)%n))
			}
			y.plans, y.starts = append(y.plans, plan), append(y.starts, starts)
		}
		y.short = n%2 == 0
		root := t.TempDir()
		c := open(t, root, y.build(t, root, ""))
		for i := range y.plans {
			for _, form := range []Encoding{Text, IDs} {
				tree, err := c.Render(i, form)
				require.NoError(t, err)
				checkPrompts(t, y, i, tree)
			}
		}
	}
}

func TestPromptDoesNotAllocate(t *testing.T) {
	y := plainToy(100)
	root := t.TempDir()
	c := open(t, root, y.build(t, root, ""))
	for _, form := range []Encoding{Text, IDs} {
		tree, err := c.Render(0, form)
		require.NoError(t, err)
		var p Prompt
		buf := make([]byte, 0, 64)
		send := func() {
			for turn := range tree.Turns {
				tree.Prompt(turn, &p)
				for at := (Cursor{}); at.Message < len(p.Messages); {
					buf, _ = p.AppendUpTo(buf[:0], &at, 16)
				}
			}
		}
		send()
		assert.Zero(t, testing.AllocsPerRun(10, send))
	}
}

func TestTextThatEndsInsideAnEscapeIsDamage(t *testing.T) {
	for _, text := range []string{`\u`, `\uaaa`} {
		y := plainToy(20)
		root := t.TempDir()
		key := y.build(t, root, "")
		m, err := manifest.Read(filepath.Join(root, DatasetKind, key))
		require.NoError(t, err)
		path := filepath.Join(root, ArenasKind, m.Parts[ArenasKind].Key, "text.json")
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		size := len(data) - headerSize
		copy(data[headerSize:], strings.Repeat(text, size)[:size])
		require.NoError(t, os.Chmod(path, 0o600))
		require.NoError(t, os.WriteFile(path, data, 0o600))
		c := open(t, root, key)
		_, err = c.Digest(0, "-")
		require.ErrorIs(t, err, manifest.ErrDamaged)
		require.ErrorContains(t, err, "text.json")
		require.NoError(t, c.WriteText(t.Context(), io.Discard, Selection{}, false), "what is there")
	}
}

func TestStartBeyondTheCorpusIsDamage(t *testing.T) {
	y := plainToy(20)
	y.starts[0][1] = 20
	root := t.TempDir()
	c := open(t, root, y.build(t, root, ""))
	_, err := c.Render(0, Text)
	assert.ErrorContains(t, err, placementFile+": damaged")
}
