package replay

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOrders(t *testing.T) {
	traces := []int{3, 5, 7, 11, 13, 17, 19, 23}
	deal := func(d dealer, turns int) (list []int) {
		d.traces = traces
		for k := range turns {
			list = append(list, d.at(k))
		}
		return list
	}
	require.Equal(t, append(slices.Clone(traces), traces...), deal(dealer{}, 16))

	shuffled := deal(dealer{order: Shuffle, seed: "42"}, 24)
	require.Equal(t, shuffled, deal(dealer{order: Shuffle, seed: "42"}, 24))
	require.NotEqual(t, shuffled, deal(dealer{order: Shuffle, seed: "43"}, 24))
	require.NotEqual(t, shuffled[:8], shuffled[8:16], "a new order for every pass")
	for pass := range 3 {
		require.ElementsMatch(t, traces, shuffled[8*pass:8*pass+8])
	}
	again := dealer{traces: traces, order: Shuffle, seed: "42"} // looking ahead shows what will be dealt
	for _, turn := range []int{7, 11, 6, 12, 8, 15, 16, 9, 23} {
		require.Equal(t, shuffled[turn], again.at(turn))
	}

	random := deal(dealer{order: Random, seed: "42"}, 800)
	require.Equal(t, random, deal(dealer{order: Random, seed: "42"}, 800))
	for _, trace := range traces {
		n := 0
		for _, r := range random {
			if r == trace {
				n++
			}
		}
		require.InDelta(t, 100, n, 50, trace)
	}
}
