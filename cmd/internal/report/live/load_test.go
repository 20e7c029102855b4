package live

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/measure"
)

// However long a run is, its load has at most maxLoad points, evenly spread, the first and nearly the last report among them.
func TestLoadIsBounded(t *testing.T) {
	var l load
	l.add(measure.Progress{Phase: measure.WarmupPhase, Elapsed: time.Second})
	require.Empty(t, l.at)
	const seconds = 20 * maxLoad
	for k := range seconds {
		l.add(measure.Progress{Phase: measure.ProfilingPhase, Elapsed: time.Duration(k) * time.Second, InFlight: k, TreesOpen: 2 * k})
		require.Less(t, len(l.at), maxLoad)
	}
	require.GreaterOrEqual(t, len(l.at), maxLoad/2-1)
	require.Zero(t, l.at[0])
	last := len(l.at) - 1
	require.Less(t, time.Duration(seconds)*time.Second-time.Duration(l.at[last]), 2*l.every)
	for k := range l.at {
		require.Equal(t, []int64{l.at[k] / 1e9, 2 * l.at[k] / 1e9}, []int64{l.inFlight[k], l.openTrees[k]})
		if k > 0 {
			require.InDelta(t, float64(l.every), float64(l.at[k]-l.at[k-1]), float64(l.every))
		}
	}
}
