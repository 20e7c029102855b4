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
		}
		root, err := os.MkdirTemp("", "agentx-sharing-*")
		require.NoError(t, err)
		defer os.RemoveAll(root)
		c := open(t, root, y.build(t, root, ""))
		got, err := c.Sharing()
		require.NoError(t, err)
		require.Equal(t, y.sharing(), got)
		for _, system := range []bool{false, true} {
			got, err := c.Reuse(system)
			require.NoError(t, err)
			require.Equal(t, y.reuse(system), got)
		}
	})
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

func (y *toy) reuse(system bool) (want Reuse) {
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
		behind := system
		for _, s := range y.plans[o.trace].path(o.row) {
			behind = behind || s.Role == User
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
