package replay

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOrders(t *testing.T) {
	traces := []int{3, 5, 7, 11, 13, 17, 19, 23}
	deal := func(o order, turns int) (list []int) {
		o.traces = traces
		for k := range turns {
			list = append(list, o.at(k))
		}
		return list
	}
	require.Equal(t, append(slices.Clone(traces), traces...), deal(order{}, 16))

	shuffled := deal(order{how: Shuffle, seed: "42"}, 24)
	require.Equal(t, shuffled, deal(order{how: Shuffle, seed: "42"}, 24))
	require.NotEqual(t, shuffled, deal(order{how: Shuffle, seed: "43"}, 24))
	require.NotEqual(t, shuffled[:8], shuffled[8:16], "a new order for every pass")
	for pass := range 3 {
		require.ElementsMatch(t, traces, shuffled[8*pass:8*pass+8])
	}
	again := order{traces: traces, how: Shuffle, seed: "42"} // whoever looks ahead sees what will be dealt
	for _, turn := range []int{7, 11, 6, 12, 8, 15, 16, 9, 23} {
		require.Equal(t, shuffled[turn], again.at(turn))
	}

	random := deal(order{how: Random, seed: "42"}, 800)
	require.Equal(t, random, deal(order{how: Random, seed: "42"}, 800))
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
