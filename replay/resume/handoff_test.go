package resume

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/fixtures"
	"github.com/agentx/agentx/replay/conductor"
)

// The vectors name HandoffOffset by what they know: the next turn's time, or its delay.
//
// Covers T-22.
func TestHandoffOffsets(t *testing.T) {
	type in struct {
		Next     *float64 `json:"next_turn_ms"`
		Origin   float64  `json:"origin_ms"`
		Delay    float64  `json:"delay_ms"`
		Since    float64  `json:"since_return_ms"`
		Cap      float64  `json:"trace_cap_ms"`
		Retained bool
	}
	type want struct {
		Offset float64 `json:"offset_ms"`
	}
	ms := func(n float64) time.Duration { return time.Duration(n * 1e6) }
	fixtures.EachCase(t, "handoff_offset", fixtures.Counts{3, 4, 3}, func(t *testing.T, c fixtures.Case, in in, want want) {
		require.Equal(t, c.Preset == "aiperf-0.13", in.Next == nil, "what tells the offset")
		h := Handoff{SinceReturn: in.Next == nil, Origin: in.Origin, End: time.Hour, Longest: ms(in.Cap)}
		trace := timed([]float64{0, math.NaN()})
		if in.Next != nil {
			trace.Starts[0][1] = *in.Next
		}
		trace.Sessions[0].Turns[1].Delay = ms(in.Delay)
		session := conductor.HandedSession{Turn: 1, Retained: in.Retained, ReturnedAt: h.End - ms(in.Since)}
		state := h.Resume(trace, conductor.LaneState{Sessions: []conductor.HandedSession{session}, TurnsDone: []int{1}})
		require.Equal(t, []conductor.LiveSession{{Turn: 1, Due: ms(want.Offset)}}, state.Live)
		require.Equal(t, []int{1}, state.TurnsDone)
	})
}

// A parent that waits keeps waiting, with the deadline that its turn has. A session that returned nothing in the stage did so
// when it began. Without recorded times the delay counts.
//
// Covers T-22.
func TestHandoffOfParentsAndOfSilentSessions(t *testing.T) {
	s := time.Second
	trace := timed([]float64{0, 60_000}, []float64{math.NaN(), math.NaN()})
	trace.Sessions[0].Turns[1].Joins, trace.Sessions[0].Turns[1].JoinDelay = []int{0}, 50*s
	trace.Sessions[1].Turns[1].Delay = 9 * s
	handed := conductor.LaneState{TurnsDone: []int{1, 1}, Sessions: []conductor.HandedSession{
		{Session: 0, Turn: 1, Parked: true, ReturnedAt: -1}, {Session: 1, Turn: 1, ReturnedAt: -1},
	}}
	dues := func(h Handoff) (list []time.Duration) {
		state := h.Resume(trace, handed)
		require.Equal(t, []bool{true, false}, []bool{state.Live[0].Parked, state.Live[1].Parked})
		return append(list, state.Live[0].Due, state.Live[1].Due)
	}
	require.Equal(t, []time.Duration{20 * s, 9 * s}, dues(Handoff{Origin: 40_000}))
	require.Equal(t, []time.Duration{50 * s, 9 * s}, dues(Handoff{Origin: math.NaN()}))
	require.Equal(t, []time.Duration{45 * s, 4 * s}, dues(Handoff{SinceReturn: true, End: 5 * s}))
	trace.ImmediateJoins = true
	require.Equal(t, []time.Duration{0, 9 * s}, dues(Handoff{Origin: 40_000}))
	require.Equal(t, []time.Duration{0, 4 * s}, dues(Handoff{SinceReturn: true, End: 5 * s}))
}
