package resume

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/fixtures"
)

// Covers T-13.
func TestLaneSeed(t *testing.T) {
	type want struct {
		Seed uint64 `json:",string"`
	}
	fixtures.EachCase(t, "lane_seed", fixtures.Counts{8, 8, 8}, func(t *testing.T, _ fixtures.Case, in laneOf, want want) {
		require.Equal(t, want.Seed, in.seed())
	})
	require.Equal(t, hashSeed("-7:a:0"), LaneSeed("-7", "a", 0))
}
