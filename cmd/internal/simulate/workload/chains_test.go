package workload

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/preset"
	"github.com/agentx/agentx/internal/fixtures"
)

// plain is a prompt with its ids one by one.
type plain struct {
	IDs    []int64 `json:"hash_ids"`
	Length int     `json:"input_length"`
}

// runs returns the ids as ranges.
func (p plain) runs() (list []IDRun) {
	reader := prompts{}
	for _, id := range p.IDs {
		reader.append(0, id, 1)
	}
	return reader.list
}

// token is what a prompt has at a place: the id that covers it, or its own.
type token struct {
	id    int64
	place int
	owner int // 0: an id covers it
}

// tokens writes a prompt out.
func (p plain) tokens(owner, traceBlock int) []token {
	list := make([]token, p.Length)
	for k := range list {
		if k/traceBlock < len(p.IDs) {
			list[k] = token{id: p.IDs[k/traceBlock], place: k}
		} else {
			list[k] = token{place: k, owner: owner}
		}
	}
	return list
}

// sharedBlocks compares two prompts token by token. A block covers whole trace blocks only in part, and needs their ids to be the same.
func sharedBlocks(a, b plain, traceBlock, block int) (n int) {
	x, y := a.tokens(1, traceBlock), b.tokens(2, traceBlock)
	for n = 0; (n+1)*block <= min(len(x), len(y)); n++ {
		for k := n * block; k < (n+1)*block; k++ {
			if x[k] != y[k] {
				return n
			}
		}
	}
	return n
}

func common(a, b []engine.Run) (n int) {
	x, y := numbers(a), numbers(b)
	for n < min(len(x), len(y)) && x[n] == y[n] {
		n++
	}
	return n
}

func numbers(chain []engine.Run) (list []uint32) {
	for _, r := range chain {
		for k := range r.Count {
			list = append(list, r.First+k)
		}
	}
	return list
}

// Covers S-03.
func TestIdentityVectors(t *testing.T) {
	type in struct {
		A, B       plain
		TraceBlock int `json:"trace_block_size"`
		Block      int `json:"block_size"`
	}
	type want struct {
		FullA, FullB, Shared int
	}
	fixtures.EachSimulate(t, "identity", fixtures.SimulateCounts{7, 6, 7}, func(t *testing.T, c fixtures.SimulateCase, in in, _ json.RawMessage) {
		var w struct {
			FullA  int `json:"full_a"`
			FullB  int `json:"full_b"`
			Shared int
		}
		require.NoError(t, json.Unmarshal(c.Want, &w))
		switches, _ := preset.Named(c.Preset)
		numbering := NewChains(in.TraceBlock, in.Block)
		var chains [2][]engine.Run
		for k, p := range []plain{in.A, in.B} {
			reader := prompts{narrow: switches.IDWidth == preset.Width32}
			for _, id := range p.IDs {
				reader.append(0, id, 1)
			}
			chains[k] = numbering.Add(reader.list, p.Length)
		}
		require.Equal(t, want{w.FullA, w.FullB, w.Shared}, want{in.A.Length / in.Block, in.B.Length / in.Block, common(chains[0], chains[1])})
	})
}

// Chain numbers agree with tokens that are written out, for pairs among prompts that were all numbered together.
//
// Covers S-03.
func TestChainNumbersAreThoseOfTokens(t *testing.T) {
	sizes := []int{1, 16, 48, 64, 128, 512}
	pairs, shared := 0, 0
	for seed := range uint64(700) {
		draw := rand.New(rand.NewPCG(seed, 3))
		traceBlock, block := sizes[draw.IntN(len(sizes))], sizes[draw.IntN(len(sizes))]
		numbering := NewChains(traceBlock, block)
		var list []plain
		var chains [][]engine.Run
		for range 6 {
			p := randomPrompt(draw, list, traceBlock)
			list, chains = append(list, p), append(chains, numbering.Add(p.runs(), p.Length))
		}
		for a := range list {
			own := min(list[a].Length, len(list[a].IDs)*traceBlock) / block
			require.Len(t, numbers(chains[a]), own, "blocks that ids cover")
			for b := range a {
				want := sharedBlocks(list[a], list[b], traceBlock, block)
				require.Equal(t, want, common(chains[a], chains[b]), "seed %d: B %d, b %d: %v and %v", seed, traceBlock, block, list[a], list[b])
				pairs, shared = pairs+1, shared+min(want, 1)
			}
		}
	}
	require.Greater(t, pairs, 10_000)
	require.Greater(t, shared, 3_000)
}

// randomPrompt returns a prompt, mostly one that begins as another.
func randomPrompt(draw *rand.Rand, others []plain, traceBlock int) (p plain) {
	n := 1 + draw.IntN(12)
	if len(others) > 0 && draw.IntN(4) > 0 {
		one := others[draw.IntN(len(others))]
		p.IDs = append(p.IDs, one.IDs[:draw.IntN(len(one.IDs)+1)]...)
	}
	for len(p.IDs) < n {
		id := int64(draw.IntN(4))
		if k := len(p.IDs); k > 0 && draw.IntN(2) == 0 {
			id = p.IDs[k-1] + 1
		}
		p.IDs = append(p.IDs, id)
	}
	p.Length = max(len(p.IDs)*traceBlock+draw.IntN(2*traceBlock+1)-traceBlock, 1)
	return p
}

// Two scopes share no block.
func TestScopesAreApart(t *testing.T) {
	numbering := NewChains(16, 16)
	a := numbering.Add([]IDRun{{0, 5, 3}}, 48)
	require.Zero(t, common(a, numbering.Add([]IDRun{{1, 5, 3}}, 48)))
	require.Equal(t, 1, common(a, numbering.Add([]IDRun{{0, 5, 1}, {1, 6, 2}}, 48)))
	require.Equal(t, 9-1, numbering.Count())
}
