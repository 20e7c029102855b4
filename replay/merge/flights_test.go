package merge

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A request that ends when another is sent is not in flight any more; what ends after the last send counts up to it.
func TestFlights(t *testing.T) {
	var f flights
	for _, x := range [][2]int64{{0, 10}, {10, 20}, {5, 10}, {20, 90}} {
		f.add(x[0], x[1])
	}
	until, mean, most, known := f.load()
	require.True(t, known)
	require.EqualValues(t, 20, until)
	require.Equal(t, 25.0/20, mean)
	require.Equal(t, 2, most)

	f = flights{}
	f.add(0, 7)
	f.add(0, 9)
	_, _, most, known = f.load()
	require.False(t, known, "all was sent at one instant")
	require.Equal(t, 2, most)
	_, _, most, known = new(flights).load()
	require.False(t, known)
	require.Zero(t, most)
}
