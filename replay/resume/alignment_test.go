package resume

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// played returns when the lanes send, and the deadlines of those that wait.
func played(lanes []Lane, shifts, skipped []float64) (sends, deadlines [][]float64) {
	for n, l := range lanes {
		var s, d []float64
		for _, offset := range l.Ready {
			s = append(s, Due(offset, shifts[n], skipped[n]))
		}
		for _, offset := range l.Parked {
			d = append(d, Due(offset, shifts[n], skipped[n]))
		}
		sends, deadlines = append(sends, s), append(deadlines, d)
	}
	return sends, deadlines
}

// Covers T-23.
func TestAlignmentVectors(t *testing.T) {
	type in struct {
		Lanes   []Lane
		Mode    string
		Untimed bool `json:"any_lane_without_timestamps"`
	}
	type want struct {
		Lanes []struct {
			Sends     []float64 `json:"sends_ms"`
			Deadlines []float64 `json:"deadlines_ms"`
		}
	}
	eachVector(t, "anchor", 3, func(t *testing.T, in in, want want) {
		a := map[string]Alignment{"spread": Spread, "burst": Burst}
		require.Contains(t, a, in.Mode)
		shifts := a[in.Mode].Shifts(in.Lanes, in.Untimed)
		sends, deadlines := played(in.Lanes, shifts, Skipped(in.Lanes, shifts, math.Inf(1)))
		require.Len(t, want.Lanes, len(in.Lanes))
		for n, w := range want.Lanes {
			require.Equal(t, w.Sends, sends[n])
			require.Equal(t, w.Deadlines, deadlines[n])
		}
	})
}

// The text of the catalogue: the third lane has nothing but a parent that waits.
//
// Covers T-23.
func TestAlignmentOfLanes(t *testing.T) {
	lanes := []Lane{{Ready: []float64{5000, 9000}}, {Ready: []float64{2000}}, {Parked: []float64{4000}}}
	for _, c := range []struct {
		anchor    Alignment
		untimed   bool
		sends     [][]float64
		deadlines []float64
	}{
		{Spread, false, [][]float64{{3000, 7000}, {0}, nil}, []float64{2000}},
		{Spread, true, [][]float64{{5000, 9000}, {2000}, nil}, []float64{4000}},
		{Burst, false, [][]float64{{0, 4000}, {0}, nil}, []float64{4000}},
		{Burst, true, [][]float64{{0, 4000}, {0}, nil}, []float64{4000}},
		{AsDrawn, false, [][]float64{{5000, 9000}, {2000}, nil}, []float64{4000}},
	} {
		shifts := c.anchor.Shifts(lanes, c.untimed)
		sends, deadlines := played(lanes, shifts, make([]float64, 3))
		require.Equal(t, c.sends, sends)
		require.Equal(t, c.deadlines, deadlines[2])
	}
	require.Equal(t, []float64{0, 0}, Spread.Shifts(make([]Lane, 2), false), "nothing to send at all")
	require.Empty(t, Spread.Shifts(nil, false))
}

// The vector of the conductor that starts a lane inside a gap, as far as it is decided before the conductor runs.
//
// Covers T-48.
func TestLaneStartCap(t *testing.T) {
	type in struct {
		Traces map[string]traceOf
		Lanes  []struct {
			Trace string
			TStar float64 `json:"t_star_ms"`
		}
		Cap *float64 `json:"lane_start_cap_ms"`
	}
	type want struct {
		First   []float64 `json:"lane_first_send_ms"`
		Skipped []float64 `json:"lane_skipped_ms"`
	}
	oneVector(t, "event_log", "lane-start-inside-a-gap", func(t *testing.T, in in, want want) {
		var lanes []Lane
		for _, l := range in.Lanes {
			trace, _ := in.Traces[l.Trace].trace()
			var lane Lane
			for _, s := range trace.At(l.TStar).States {
				lane.Ready = append(lane.Ready, s.Offset)
			}
			lanes = append(lanes, lane)
		}
		shifts := Spread.Shifts(lanes, false)
		skipped := Skipped(lanes, shifts, *in.Cap)
		require.Equal(t, want.Skipped, skipped)
		sends, _ := played(lanes, shifts, skipped)
		for n, w := range want.First {
			require.Equal(t, w, slices.Min(sends[n]))
		}
	})
}

// Covers T-48.
func TestLaneStartCapMovesTheWholeLane(t *testing.T) {
	lanes := []Lane{
		{Ready: []float64{402000, 310000, 999000}, Parked: []float64{305000, 400000}},
		{Ready: []float64{2000}, Parked: []float64{900000}},
		{Ready: []float64{302000}},
		{Parked: []float64{900000}},
	}
	shifts := Spread.Shifts(lanes, false)
	skipped := Skipped(lanes, shifts, 300000)
	require.Equal(t, []float64{8000, 0, 0, 0}, skipped)
	sends, deadlines := played(lanes, shifts, skipped)
	require.Equal(t, [][]float64{{392000, 300000, 989000}, {0}, {300000}, nil}, sends)
	require.Equal(t, [][]float64{{295000, 390000}, {898000}, nil, {898000}}, deadlines)
	require.Equal(t, make([]float64, 4), Skipped(lanes, shifts, math.Inf(1)), "no limit")
	require.Equal(t, []float64{308000, 0, 300000, 0}, Skipped(lanes, shifts, 0), "every lane starts at once")
}
