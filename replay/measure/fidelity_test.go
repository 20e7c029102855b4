package measure

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What was delivered stands beside what was recorded and asked for. Requests that failed, or ended late, are not in it.
func TestFidelity(t *testing.T) {
	a := NewAggregate(Rules{})
	a.Add(good(0, 1, 0, 0.5, 2, 5)) // 98 prompt tokens for 100, 40 of them cached
	late := good(1, 2, 0.5, 0.5, 2, 3)
	late.RecordedBlocks, late.RecordedHits, late.MaxTokens = 10, 8, 5
	uncounted := good(1, 4, 0, 0.5, 2, 7)
	uncounted.PromptTokens, uncounted.CachedTokens, uncounted.OutputTokens = 0, 0, 0
	uncounted.RecordedBlocks, uncounted.RecordedHits = 10, 1
	cooled := good(1, 4, 9, 0.5, 2, 7)
	cooled.Bucket = Cooldown
	for _, r := range []*Record{late, uncounted, cooled, bad(Profiling, "timeout")} {
		a.Add(r)
	}
	facts := &Facts{
		PhaseDuration: 10, CPU: 5, Cores: 2, Prompts: &Prompts{Tokens: 400, Reused: 100},
		Load: &Load{Seconds: 8, Playing: 3.5, InFlight: 2.5, Requests: 4.5, MaxRequests: 9},
	}
	f := a.Summary(RunInfo{Lanes: 4, Facts: facts}).Fidelity
	require.Equal(t, Fidelity{
		PromptTokens:     PromptFidelity{Recorded: 200, Sent: 196, Ratio: 0.98},
		OutputTokens:     OutputFidelity{Asked: 10, Got: 8, Ratio: 0.8},
		PrefixReuse:      PrefixReuse{Recorded: 0.45, Sent: 0.25, Reported: 80.0 / 196},
		Lanes:            LaneUse{Configured: 4, Playing: 3.5, InFlight: 2.5},
		RequestsInFlight: InFlight{Mean: 4.5, Max: 9},
		Gaps:             Gaps{Kept: Number(2) / 3, P50: 0, P99: f.Gaps.P99, Max: 0.5},
		Client:           ClientShare{Time: 0.5 / 6.5, CPU: 0.25},
	}, f)
	require.InDelta(t, 0.49, float64(f.Gaps.P99), 1e-9)

	f = a.Summary(RunInfo{Lanes: 4}).Fidelity // of a run that was killed
	for _, n := range []Number{f.PrefixReuse.Sent, f.Lanes.Playing, f.Lanes.InFlight, f.RequestsInFlight.Mean, f.RequestsInFlight.Max, f.Client.CPU} {
		require.True(t, n.IsMissing())
	}
	require.EqualValues(t, 0.98, f.PromptTokens.Ratio)
}

// Figures of a run are compared with those of the machine alone, and named where they are near.
func TestCalibrationCompared(t *testing.T) {
	calibrated := func(rate, ttft Number) []string {
		a := NewAggregate(Rules{})
		a.Add(good(0, 0, 0, 0.5, 2, 5)) // one request in two seconds
		s := a.Summary(RunInfo{Calibration: &Calibration{RequestRate: rate, TTFT: Quantiles{ttft, ttft}}})
		require.Equal(t, s.Calibration.Near, detailOf(&s, "calibration"))
		return s.Calibration.Near
	}
	require.Nil(t, calibrated(1, 0.25))
	require.Equal(t, []string{"0.50 requests/s are 56 % of the 0.90 that this machine reaches alone"}, calibrated(0.9, 0.25))
	require.Equal(t, []string{"the median ttft 500 ms is 1.9 times the 260 ms that this machine needs alone"}, calibrated(1, 0.26))
	require.Len(t, calibrated(0.1, 3), 2)
	require.Nil(t, calibrated(Missing, Missing))
	s := NewAggregate(Rules{}).Summary(RunInfo{})
	require.Nil(t, s.Calibration)
	require.Nil(t, detailOf(&s, "calibration"))
}
