package resume

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/fixtures"
	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/preset"
)

// The command names settings so.
func init() { preset.Prefix = "--" }

const second = time.Second

// laneWith returns a lane with sessions that are ready after these times, and sessions that wait until these deadlines.
func laneWith(ready, parked []float64) *conductor.StartState {
	s := &conductor.StartState{}
	for _, ms := range ready {
		s.Live = append(s.Live, conductor.LiveSession{Due: milliseconds(ms)})
	}
	for _, ms := range parked {
		s.Live = append(s.Live, conductor.LiveSession{Due: milliseconds(ms), Parked: true})
	}
	return s
}

// traceWith returns a trace in which the root has sent a turn before t* = 0 and its children begin at the ready times. If there
// is a parked time, the root has a turn then that waits for them.
func traceWith(ready, parked []float64, immediate bool) *Trace {
	t := newTrace(append([]float64{-1}, parked...))
	t.ImmediateJoins = immediate
	children, joins := [][]float64{}, []int{}
	for _, ms := range ready {
		children = append(children, []float64{ms})
	}
	if len(parked) > 0 {
		joins = append(joins, 1)
	}
	t.spawn(0, 0, joins, children...)
	t.BranchStarts[0] = -1
	return t
}

// dues returns when the lanes send, and the deadlines of sessions that wait, in milliseconds.
func dues(lanes []*conductor.StartState) (sends, deadlines [][]float64) {
	for _, l := range lanes {
		var s, d []float64
		for _, live := range l.Live {
			if ms := live.Due.Seconds() * 1000; live.Parked {
				d = append(d, ms)
			} else {
				s = append(s, ms)
			}
		}
		sends, deadlines = append(sends, s), append(deadlines, d)
	}
	return sends, deadlines
}

// Covers T-23.
func TestAlignmentVectors(t *testing.T) {
	type in struct {
		Lanes   []struct{ Ready, Parked []float64 }
		Mode    string
		Untimed bool `json:"any_lane_without_timestamps"`
	}
	type want struct {
		Lanes []struct {
			Sends     []float64 `json:"sends_ms"`
			Deadlines []float64 `json:"deadlines_ms"`
		}
	}
	fixtures.EachCase(t, "anchor", fixtures.Counts{3, 2, 3}, func(t *testing.T, c fixtures.Case, in in, want want) {
		switches := switchesOf(t, c)
		modes := map[string]Alignment{"spread": spreadOf(switches), "burst": Burst}
		require.Contains(t, modes, in.Mode)
		var lanes []*conductor.StartState
		for _, l := range in.Lanes {
			lanes = append(lanes, traceWith(l.Ready, l.Parked, switches.ImmediateJoins).At(0))
		}
		require.Equal(t, make([]time.Duration, len(lanes)), modes[in.Mode].Align(lanes, in.Untimed, 0))
		sends, deadlines := dues(lanes)
		require.Len(t, want.Lanes, len(in.Lanes))
		for n, w := range want.Lanes {
			require.Equal(t, w.Sends, sends[n])
			if switches.ImmediateJoins && len(in.Lanes[n].Parked) > 0 {
				require.Nil(t, w.Deadlines)
				require.Equal(t, []float64{0}, deadlines[n], "none")
				continue
			}
			require.Equal(t, w.Deadlines, deadlines[n])
		}
	})
}

// The text of the catalogue: the third lane has nothing but a parent that waits.
//
// Covers T-23.
func TestAlignmentOfLanes(t *testing.T) {
	for _, c := range []struct {
		alignment Alignment
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
		lanes := []*conductor.StartState{laneWith([]float64{5000, 9000}, nil), laneWith([]float64{2000}, nil), laneWith(nil, []float64{4000})}
		c.alignment.Align(lanes, c.untimed, 0)
		sends, deadlines := dues(lanes)
		require.Equal(t, c.sends, sends)
		require.Equal(t, c.deadlines, deadlines[2])
	}
	require.Equal(t, make([]time.Duration, 2), Spread.Align([]*conductor.StartState{{}, {}}, false, second), "nothing to send at all")
	require.Empty(t, Spread.Align(nil, false, second))
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
	oneVector(t, "event_log", "lane-start-inside-a-gap", func(t *testing.T, c fixtures.Case, in in, want want) {
		var lanes []*conductor.StartState
		for _, l := range in.Lanes {
			trace, _ := in.Traces[l.Trace].trace()
			lanes = append(lanes, trace.At(l.TStar))
		}
		skipped := spreadOf(switchesOf(t, c)).Align(lanes, false, milliseconds(*in.Cap))
		sends, _ := dues(lanes)
		for n, w := range want.First {
			require.Equal(t, w, slices.Min(sends[n]))
			require.Equal(t, milliseconds(want.Skipped[n]), skipped[n])
		}
	})
}

// Covers T-48.
func TestLaneStartCapMovesTheWholeLane(t *testing.T) {
	aligned := func(limit time.Duration) (lanes []*conductor.StartState, skipped []time.Duration) {
		lanes = []*conductor.StartState{
			laneWith([]float64{402000, 310000, 999000}, []float64{305000, 400000}),
			laneWith([]float64{2000}, []float64{900000}),
			laneWith([]float64{302000}, nil),
			laneWith(nil, []float64{900000}),
		}
		return lanes, Spread.Align(lanes, false, limit)
	}
	lanes, skipped := aligned(300 * second)
	require.Equal(t, []time.Duration{8 * second, 0, 0, 0}, skipped)
	sends, deadlines := dues(lanes)
	require.Equal(t, [][]float64{{392000, 300000, 989000}, {0}, {300000}, nil}, sends)
	require.Equal(t, [][]float64{{295000, 390000}, {898000}, nil, {898000}}, deadlines)
	_, skipped = aligned(0)
	require.Equal(t, make([]time.Duration, 4), skipped, "no limit")
	_, skipped = aligned(second)
	require.Equal(t, []time.Duration{307 * second, 0, 299 * second, 0}, skipped)
}
