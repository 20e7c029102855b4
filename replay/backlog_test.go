package replay

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/conductor"
)

// The means over the quarters are those of all instants one by one, over any time.
func TestBacklogOverTheQuartersOfTheArrivals(t *testing.T) {
	for seed := range uint64(50) {
		g := rand.New(rand.NewPCG(seed, 1))
		unit := time.Duration(1) << (20 + g.IntN(20)) // from a millisecond to minutes
		var b backlog
		var at time.Duration
		arrived, sum := 0, make([]float64, 4)
		type span struct {
			from, to time.Duration
			n        int
		}
		var spans []span
		for range 5000 {
			n := conductor.Counts{TreesWaiting: g.IntN(9), InFlight: g.IntN(9), TreesArrived: arrived, TreesOpen: g.IntN(9)}
			arrived++
			n.TreesArrived = arrived
			b.set(at, n)
			next := at + time.Duration(g.Int64N(int64(unit)+1))
			spans = append(spans, span{at, next, n.TreesWaiting + n.InFlight})
			at = next
		}
		got := b.quarters()
		total := b.last - b.first
		if total < 4 {
			continue
		}
		for _, s := range spans {
			for k := range sum {
				from, to := max(s.from, b.first+total*time.Duration(k)/4), min(s.to, b.first+total*time.Duration(k+1)/4)
				sum[k] += float64(s.n) * max(0, to-from).Seconds()
			}
		}
		for k := range sum {
			require.InEpsilon(t, sum[k]/(total.Seconds()/4), got[k], 0.02)
		}
		require.LessOrEqual(t, len(b.sums), maxBacklogSteps)
	}
	require.Nil(t, new(backlog).quarters())
}
