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
		arrived, sent, sum, sends := 0, 0, make([]float64, 4), make([]float64, 4)
		type span struct {
			from, to time.Duration
			n, sent  int
		}
		var spans []span
		for range 5000 {
			n := conductor.Counts{TreesWaiting: g.IntN(9), InFlight: g.IntN(9), TreesArrived: arrived, TreesOpen: g.IntN(9)}
			arrived++
			sends := g.IntN(5)
			sent += sends
			n.TreesArrived, n.Sent = arrived, sent
			b.set(at, n)
			next := at + time.Duration(g.Int64N(int64(unit)+1))
			spans = append(spans, span{at, next, n.TreesWaiting + n.InFlight, sends})
			at = next
		}
		got, rates := b.quarters()
		total := b.last - b.first
		if total < 4 {
			continue
		}
		for _, s := range spans {
			if k := int(4 * float64(s.from-b.first) / float64(total)); k < 4 {
				sends[k] += float64(s.sent)
			}
			for k := range sum {
				from, to := max(s.from, b.first+total*time.Duration(k)/4), min(s.to, b.first+total*time.Duration(k+1)/4)
				sum[k] += float64(s.n) * max(0, to-from).Seconds()
			}
		}
		for k := range sum {
			require.InEpsilon(t, sum[k]/(total.Seconds()/4), got[k], 0.02)
			require.InEpsilon(t, sends[k]/(total.Seconds()/4), rates[k], 0.02)
		}
		require.LessOrEqual(t, len(b.sums), maxBacklogSteps)
	}
	waiting, rates := new(backlog).quarters()
	require.Nil(t, waiting)
	require.Nil(t, rates)
}
