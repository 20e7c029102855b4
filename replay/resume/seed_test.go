package resume

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Covers T-13.
func TestLaneSeed(t *testing.T) {
	type want struct {
		Seed uint64 `json:",string"`
	}
	eachVector(t, "lane_seed", 8, func(t *testing.T, in laneOf, want want) {
		require.Equal(t, want.Seed, in.seed())
	})
	require.Equal(t, hashSeed("-7:a:0"), LaneSeed("-7", "a", 0))
}
