package mmapcache

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Sharing and Reuse agree with prompts written out block by block.
func TestSharing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		y := drawToy(t)
		for _, p := range y.plans { // few ids, so that traces share some; none twice in a trace, as in every plan
			id := rapid.Int64Range(0, 3).Draw(t, "first id")
			for k := range p.Runs {
				p.Runs[k].Scope, p.Runs[k].ID = rapid.SampledFrom([]string{"shared", p.Trace.ID}).Draw(t, "scope"), id
				id += int64(p.Runs[k].Count) + rapid.Int64Range(0, 2).Draw(t, "gap")
			}
			for k, s := range p.Segments {
				if s.Role == User && s.Flags&Continues == 0 && s.Parent != None && p.Segments[s.Parent].Role == Assistant && rapid.Bool().Draw(t, "tool result") {
					p.Tools = append(p.Tools, Tool{Segment: int32(k)})
				}
			}
		}
		root, err := os.MkdirTemp("", "agentx-sharing-*")
		require.NoError(t, err)
		defer os.RemoveAll(root)
		c := open(t, root, y.build(t, root, ""))
		got, err := c.Sharing()
		require.NoError(t, err)
		require.Equal(t, y.sharing(), got)
		for _, place := range []MarkerPlace{{}, {System: true}, {After: true}, {true, true}} {
			got, err := c.Reuse(place)
			require.NoError(t, err)
			require.Equal(t, y.reuse(t, c, place), got, place)
		}
	})
}

// A marker stands at no tool result: two traces share what stands before their first user message.
func TestReuseBehindToolResults(t *testing.T) {
	y := &toy{corpus: []uint32{0, 1, 2}}
	for k := range 2 {
		p := &Plan{Trace: Trace{ID: fmt.Sprint("trace ", k), BlockSize: 1, Blocks: 4}, Runs: []BlockRun{{Scope: "shared", Count: 4}}}
		for n, role := range []Role{Assistant, User, User, Assistant} {
			p.Segments = append(p.Segments, Segment{Parent: int32(n - 1), Role: role, First: uint32(n), Count: 1})
		}
		p.Turns = []Turn{{T: float64(k), In: 4, HashIDs: 4, Last: 3, Inner: None}}
		p.Sessions = []Session{{ID: p.Trace.ID, Parent: None, Turns: 1, SpawnTurn: None, JoinTurn: None}}
		p.Tools = []Tool{{Segment: 1}}
		y.plans, y.starts = append(y.plans, p), append(y.starts, make([]uint32, 5))
	}
	root := t.TempDir()
	c := open(t, root, y.build(t, root, ""))
	for place, hits := range map[MarkerPlace]int64{{}: 2, {System: true}: 2, {After: true}: 3, {true, true}: 3} {
		got, err := c.Reuse(place)
		require.NoError(t, err)
		require.Equal(t, Reuse{Blocks: 8, Hits: 4, HitsWithMarker: hits}, got, place)
	}
}

// blockName names a block: equal names are equal blocks.
func (y *toy) blockName(trace int, block uint32) string {
	for _, r := range y.plans[trace].Runs {
		if block >= r.First && block < r.First+r.Count {
			return fmt.Sprint(r.Scope, " ", r.ID+int64(block-r.First))
		}
	}
	panic("no such block")
}

// path returns the segments of a prompt in order.
func (p *Plan) path(turn int) (path []Segment) {
	for s := p.Turns[turn].Last; s != None; s = p.Segments[s].Parent {
		path = append([]Segment{p.Segments[s]}, path...)
	}
	return path
}

func (y *toy) sharing() Sharing {
	blocks, held := map[string]bool{}, map[string]int64{}
	for i, p := range y.plans {
		for b := range p.Trace.Blocks {
			blocks[y.blockName(i, b)] = true
		}
		for turn := range p.Turns {
			for _, s := range p.path(turn) {
				if s.Flags&Filler != 0 {
					n := s.Count
					if y.short {
						n = min(n, uint32(len(y.corpus)))
					}
					held[fmt.Sprint("filler ", i, " ", s.First)] = int64(n)
					continue
				}
				if s.Flags&Head != 0 {
					name := y.blockName(i, s.First)
					held[name] = max(held[name], int64(s.Count))
					continue
				}
				for b := range s.Count {
					held[y.blockName(i, s.First+b)] = int64(p.Trace.BlockSize)
				}
			}
		}
	}
	want := Sharing{Blocks: len(blocks)}
	for _, n := range held {
		want.Tokens += n
	}
	return want
}

// markedMessage returns the message of a prompt that a marker stands at, -1 for none.
func markedMessage(messages []Message, place MarkerPlace) int {
	at := slices.IndexFunc(messages, func(m Message) bool { return place.System && m.Role == System })
	if at < 0 {
		at = slices.IndexFunc(messages, func(m Message) bool { return m.Role == User && m.Kind() != ToolResultMessage })
	}
	return at
}

func (y *toy) reuse(t require.TestingT, c *Cache, place MarkerPlace) (want Reuse) {
	type turn struct{ trace, session, row int }
	var order []turn
	for i, p := range y.plans {
		for n, s := range p.Sessions {
			for k := range s.Turns {
				order = append(order, turn{i, n, int(s.FirstTurn + k)})
			}
		}
	}
	slices.SortStableFunc(order, func(a, b turn) int {
		x, y := y.plans[a.trace].Turns[a.row], y.plans[b.trace].Turns[b.row]
		return cmp.Or(cmp.Compare(x.T, y.T), cmp.Compare(x.Outer, y.Outer), a.session-b.session, a.row-b.row)
	})
	plain, marked := map[string]bool{}, map[string]bool{}
	for _, o := range order {
		var names, private []string
		tree, err := c.Render(o.trace, IDs)
		require.NoError(t, err)
		var p Prompt
		tree.Prompt(o.row, &p)
		at, message := markedMessage(p.Messages, place), -1
		for _, s := range y.plans[o.trace].path(o.row) {
			if s.Flags&Continues == 0 {
				message++
			}
			behind := at >= 0 && (message > at || message == at && !place.After)
			blocks := s.Count
			switch {
			case s.Flags&Filler != 0:
				blocks = 0
			case s.Flags&Head != 0:
				blocks = 1
			}
			for b := range blocks {
				name := y.blockName(o.trace, s.First+b)
				names = append(names, name)
				if behind {
					name = fmt.Sprint("trace ", o.trace, ": ", name)
				}
				private = append(private, name)
			}
		}
		want.Blocks += int64(len(names))
		want.Hits += leading(plain, names)
		want.HitsWithMarker += leading(marked, private)
	}
	return want
}

// leading counts the names at the beginning that are held, and adds all names.
func leading(held map[string]bool, names []string) (n int64) {
	for n < int64(len(names)) && held[names[n]] {
		n++
	}
	for _, name := range names {
		held[name] = true
	}
	return n
}
