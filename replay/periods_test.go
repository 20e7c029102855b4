package replay

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/wire"
)

// A phase tells of its periods on time, also while nothing happens. Counts and time go up from its start.
func TestPeriodsAreTold(t *testing.T) {
	const interval = 30*time.Second + 500*time.Millisecond // not at a report of progress, which wakes the loop
	var told []Progress
	o := Options{Concurrency: 2, Duration: 100 * time.Second, Grace: 30 * time.Second, StatsInterval: interval,
		Period: func(p Progress) { told = append(told, p) }}
	s := &simulation{script: func(d conductor.Dispatch) (time.Duration, time.Duration, wire.Category) {
		if d.ID%4 == 3 {
			return time.Second, 0, wire.Timeout
		}
		return time.Second, 0, ""
	}}
	require.NoError(t, s.loop(o, turnsOf{0, time.Second, 50 * time.Second}).run())
	require.Len(t, told, 3)
	for k, p := range told {
		require.Equal(t, measure.ProfilingPhase, p.Phase)
		require.Equal(t, time.Duration(k+1)*interval, p.Elapsed)
	}
	// Each lane: 0, 2, 53, 54, 56 and not at 107.
	require.Equal(t, []int{4, 10, 10}, []int{told[0].Requests, told[1].Requests, told[2].Requests})
	require.Equal(t, []int{3, 8, 8}, []int{told[0].Completed, told[1].Completed, told[2].Completed})
	require.Equal(t, []int{1, 2, 2}, []int{told[0].Errors, told[1].Errors, told[2].Errors})

	told, o.StatsInterval = nil, 0
	require.NoError(t, s.loop(o, turnsOf{0, time.Second}).run())
	require.Empty(t, told)
}
