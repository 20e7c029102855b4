package router

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/workload"
)

// randomChain returns the chain of a prompt whose ids begin as those of others do, and its numbers one by one.
func randomChain(draw *rand.Rand, chains *workload.Chains) (chain []engine.Run, list []uint32) {
	var ids []workload.IDRun
	tokens := 0
	for at := range draw.IntN(8) {
		ids = append(ids, workload.IDRun{ID: int64(1000*at + 300*draw.IntN(3)), Count: 1 + 50*draw.IntN(3)})
		tokens += 16 * ids[at].Count
	}
	chain = chains.Add(ids, tokens)
	for _, run := range chain {
		for k := range run.Count {
			list = append(list, run.First+k)
		}
	}
	return chain, list
}

// The index is a set of numbers, and the walk along a chain ends at the first that is missing.
//
// Covers S-20.
func TestIndexIsASet(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 1))
	for range 60 {
		var x Index
		set, private := map[uint32]bool{}, 0
		for range 60 {
			e := engine.KVEvent{Run: engine.Run{First: uint32(draw.IntN(700)), Count: uint32(1 + draw.IntN(200))}, Removed: draw.IntN(2) == 0}
			if draw.IntN(5) == 0 {
				e = engine.KVEvent{Run: engine.Run{Count: 3}, Private: true, Removed: private > 0 && e.Removed}
				if private += 3; e.Removed {
					private -= 6
				}
			} else {
				for k := range e.Count {
					if set[e.First+k] = !e.Removed; e.Removed {
						delete(set, e.First+k)
					}
				}
			}
			x.Apply(e)
			require.Equal(t, len(set)+private, x.size)
			first, count := draw.IntN(1000), draw.IntN(300)
			want := 0
			for want < count && set[uint32(first+want)] {
				want++
			}
			require.Equal(t, want, x.Leading([]engine.Run{{First: uint32(first), Count: uint32(count)}}))
			split := []engine.Run{{First: uint32(first), Count: uint32(count / 2)}, {First: uint32(first + count/2), Count: uint32(count - count/2)}}
			require.Equal(t, want, x.Leading(split))
		}
	}
}

// The blocks of prompts in flight are those of a set of all their numbers.
//
// Covers S-20.
func TestActiveBlocksAreUnique(t *testing.T) {
	draw := rand.New(rand.NewPCG(2, 2))
	var w worker
	chains := workload.NewChains(16, 16)
	numbers := map[*flight][]uint32{}
	for now := range int64(600) {
		if len(numbers) > 0 && draw.IntN(2) == 0 {
			for f := range numbers {
				w.end(now, f)
				delete(numbers, f)
				break
			}
		} else {
			chain, list := randomChain(draw, chains)
			want, set := 0, setOf(numbers)
			for want < len(list) && set[list[want]] {
				want++
			}
			require.Equal(t, want, w.lead(chain))
			f := &flight{chain: chain, private: draw.IntN(3)}
			w.dispatch(now, f)
			numbers[f] = list
		}
		private := 0
		for f := range numbers {
			private += f.private
		}
		require.Equal(t, len(setOf(numbers))+private, w.active)
		require.Len(t, w.flights, len(numbers))
	}
}

func setOf(numbers map[*flight][]uint32) map[uint32]bool {
	set := map[uint32]bool{}
	for _, list := range numbers {
		for _, c := range list {
			set[c] = true
		}
	}
	return set
}
