package reconstruct

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/trace"
)

// Blocks get the numbers that a map of each id gives them, with their chain breaks, whatever ids come and in whatever order: also more
// stretches than a part has, and the ids at both ends of 64 bits.
func TestNumbersOfBlocks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type known struct{ number, before uint32 }
		var runs []mmapcache.BlockRun
		got, scopes := blockNumbers{runs: &runs}, [2]*numbering{{scope: "a"}, {scope: "b"}}
		want, breaks, names := [2]map[int64]known{{}, {}}, 0, []int64(nil)
		for range rapid.IntRange(1, 20).Draw(t, "lists") {
			scope := rapid.IntRange(0, 1).Draw(t, "scope")
			var ids trace.IDs
			var numbers []uint32
			last := uint32(0)
			add := func(id int64) {
				ids.Append(id)
				k, ok := want[scope][id]
				if !ok {
					k = known{uint32(len(names)), last}
					want[scope][id], names = k, append(names, id)
				}
				if k.before != last {
					breaks++
				}
				numbers, last = append(numbers, k.number), k.number+1
			}
			for range rapid.IntRange(0, 6).Draw(t, "runs") {
				from := rapid.SampledFrom([]int64{0, 40, math.MaxInt64 - 2, math.MinInt64, -3}).Draw(t, "from") + rapid.Int64Range(0, 30).Draw(t, "shift")
				step := rapid.SampledFrom([]int64{1, 1, -1, 2, 7}).Draw(t, "step")
				for k := range rapid.SampledFrom([]int64{1, 3, 40, 3 * maxPart}).Draw(t, "ids") {
					add(from + k*step)
				}
			}
			var have []uint32
			for _, s := range got.numberBlocks(scopes[scope], nil, ids, 0) {
				for k := range s.n {
					have = append(have, s.first+k)
				}
			}
			require.Equal(t, numbers, have)
		}
		require.Equal(t, breaks, got.ChainBreaks)
		var have []int64
		for _, r := range runs {
			for k := range r.Count {
				have = append(have, r.ID+int64(k))
			}
		}
		require.Equal(t, names, have)
	})
}
