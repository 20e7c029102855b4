package replay

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/mmapcache"
)

func TestTraceDuration(t *testing.T) {
	// 10 to 12, beside it 11 to 15, and 15 to 16; then 84 s of nothing, one whose duration is not known, and 900 s
	turns := []mmapcache.Turn{{T: 100, APITime: math.NaN()}, {T: 10, APITime: 2}, {T: 11, APITime: 4}, {T: 15, APITime: 1}, {T: 1000, APITime: 5}}
	for want, c := range map[time.Duration]struct {
		pace Pace
		idle time.Duration
	}{
		(6 + 84 + 900 + 5) * time.Second: {Pace{}, 0},
		(6 + 84 + 300 + 5) * time.Second: {Pace{}, 300 * time.Second},
		(6 + 42 + 450 + 5) * time.Second: {Pace{Speed: 2}, 0},
		(6 + 9 + 9 + 5) * time.Second:    {Pace{Speed: 2, MaxGap: 9 * time.Second}, 0},
		(6 + 5) * time.Second:            {Pace{ASAP: true}, 0},
	} {
		require.Equal(t, want, traceDuration(turns, c.pace, c.idle))
	}
	require.Zero(t, traceDuration(nil, Pace{}, 0))
}

// The lane that is free first takes the next trace.
func TestEstimateDuration(t *testing.T) {
	traces := cachetest.TraceLine("a", 64, 64, 64) + cachetest.TraceLine("b", 64) + cachetest.TraceLine("c", 64, 64) // 2.25, 0.25 and 1.25 s
	c := cachetest.Prepare(t, traces, "code")
	for lanes, want := range map[int]float64{1: 3.75, 2: 2.25, 3: 2.25, 7: 2.25} {
		o := required(c)
		o.Concurrency = lanes
		got, err := EstimateDuration(o)
		require.NoError(t, err)
		require.InDelta(t, want, got.Seconds(), 1e-6, "%d lanes", lanes)
	}
	o := required(c)
	o.Traces, o.Pace.ASAP = 2, true
	got, err := EstimateDuration(o)
	require.NoError(t, err)
	require.InDelta(t, 1, got.Seconds(), 1e-6)
	overflow := []mmapcache.Turn{{T: 0, APITime: 1e300}, {T: 1e300, APITime: 1e300}, {T: 2e300}}
	require.Positive(t, traceDuration(overflow, Pace{Speed: 1e-300}, 0))
}
