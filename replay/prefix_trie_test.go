package replay

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/measure"
)

// Sequences of windows share what they share token by token, however the windows are cut and in whatever order they come.
func TestPrefixTrie(t *testing.T) {
	const corpus = 12
	rapid.Check(t, func(t *rapid.T) {
		c := prefixCount{&prefixTrie{nodes: make([]prefixNode, 1), children: map[prefixKey]int32{}, corpusSize: corpus}, new(measure.Prompts)}
		var ends []int32
		var spelled [][]uint32
		for range rapid.IntRange(1, 8).Draw(t, "prompts") {
			var places []uint32
			node := int32(0)
			for range rapid.IntRange(0, 4).Draw(t, "windows") {
				w := mmapcache.Window{Start: rapid.Uint32Range(0, 2).Draw(t, "start") * 5, Tokens: rapid.Uint32Range(0, corpus+3).Draw(t, "tokens")}
				node = c.window(node, w)
				for k := range w.Tokens {
					places = append(places, (w.Start+k)%corpus)
				}
			}
			ends, spelled = append(ends, node), append(spelled, places)
		}
		for k, end := range ends {
			want := 0
			for _, earlier := range spelled[:k] {
				same := 0
				for same < min(len(earlier), len(spelled[k])) && earlier[same] == spelled[k][same] {
					same++
				}
				want = max(want, same)
			}
			require.EqualValues(t, len(spelled[k]), c.nodes[end].depth)
			require.EqualValues(t, want, c.send(end, 1, false))
		}
	})
}
