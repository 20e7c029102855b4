package timeline

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/fixtures"
)

// vector is one case of a group of the replay vectors.
type vector[In, Want any] struct {
	Name, Profile string
	Tol           float64
	In            In
	Want          Want
}

// replayVectors reads one group.
func replayVectors[In, Want any](t *testing.T, group string) (list []vector[In, Want]) {
	data, err := fixtures.Replay(group)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(data, &list))
	require.NotEmpty(t, list)
	return list
}

// seconds is a recorded time of a vector: null is missing, "NaN" is NaN.
type seconds float64

func (s *seconds) UnmarshalJSON(data []byte) error {
	if text := string(data); text == "null" || text == `"NaN"` {
		*s = seconds(Missing)
		return nil
	}
	return json.Unmarshal(data, (*float64)(s))
}

// orMissing returns a wanted time as Play does.
func orMissing(v *float64) float64 {
	if v == nil {
		return Missing
	}
	return *v
}

// assertTime compares bit for bit; every NaN equals every other.
func assertTime(t *testing.T, want, got float64, what string) {
	t.Helper()
	if math.IsNaN(want) {
		assert.True(t, math.IsNaN(got), "%s: %g, want none", what, got)
		return
	}
	assert.Equal(t, want, got, what)
}

func TestDelayVectors(t *testing.T) {
	type in struct {
		PrevStart   seconds  `json:"prev_start_s"`
		PrevAPITime *seconds `json:"prev_api_time_s"`
		Start       seconds  `json:"start_s"`
	}
	type want struct {
		Delay float64 `json:"delay_ms"`
	}
	for _, v := range replayVectors[in, want](t, "delay") {
		t.Run(v.Name, func(t *testing.T) {
			api := Missing
			if v.In.PrevAPITime != nil {
				api = float64(*v.In.PrevAPITime)
			}
			rules := Rules{SubtractNegative: strings.HasPrefix(v.Profile, "aiperf-0.13")}
			turns := []Recorded{{float64(v.In.PrevStart), api, Missing}, {float64(v.In.Start), Missing, Missing}}
			got, err := View{}.TurnTimes(rules, turns, false, nil)
			require.NoError(t, err)
			assert.InDelta(t, v.Want.Delay, got[1].Delay, v.Tol)
			assertTime(t, Missing, got[0].Delay, "delay of the first")
		})
	}
}

// Covers D5, D18, P16.
func TestTimingVectors(t *testing.T) {
	list, err := fixtures.Weka("timing")
	require.NoError(t, err)
	require.NotEmpty(t, list)
	for _, v := range list {
		t.Run(v.Name, func(t *testing.T) {
			var in struct {
				Profile  string
				Requests []struct {
					T     float64
					API   *seconds `json:"api_time"`
					Think *seconds `json:"think_time"`
				}
				Think         string
				TurnCap       float64 `json:"turn_cap_s"`
				FloorNegative bool    `json:"floor_negative"`
				IgnoreDelays  bool    `json:"ignore_delays"`
			}
			var want struct {
				Turns [][3]*float64
				Error string
			}
			require.NoError(t, json.Unmarshal(v.In, &in))
			require.NoError(t, json.Unmarshal(v.Want, &want))
			var turns []Recorded
			for _, q := range in.Requests {
				r := Recorded{q.T, Missing, Missing}
				if q.API != nil {
					r.API = float64(*q.API)
				}
				if q.Think != nil {
					r.Think = float64(*q.Think)
				}
				turns = append(turns, r)
			}
			aiperf := in.Profile == "aiperf"
			rules := Rules{SubtractNegative: aiperf, RawThink: aiperf, RefuseNegative: aiperf}
			view := View{ThinkTimeOnly: in.Think != "off", IgnoreDelays: in.IgnoreDelays, TurnCap: in.TurnCap}
			got, err := view.TurnTimes(rules, turns, !in.FloorNegative, nil)
			if want.Error != "" {
				assert.ErrorContains(t, err, strings.ReplaceAll(want.Error, "_", " "))
				return
			}
			require.NoError(t, err)
			require.Len(t, got, len(want.Turns))
			for k, w := range want.Turns {
				assertTime(t, orMissing(w[0]), got[k].Start, "start")
				assertTime(t, orMissing(w[1]), got[k].Delay, "delay")
				assertTime(t, orMissing(w[2]), got[k].API, "duration")
			}
		})
	}
}

func TestSpawnOffsetVectors(t *testing.T) {
	type in struct {
		Turn         float64  `json:"turn_ms"`
		API          *float64 `json:"api_ms"`
		Child        float64  `json:"child_ms"`
		Branch       float64  `json:"branch_ms"`
		Speed        *float64
		GapCap       *float64 `json:"gap_cap_ms"`
		IgnoreDelays bool     `json:"ignore_delays"`
	}
	type want struct {
		From   string
		Offset float64 `json:"offset_ms"`
	}
	for _, v := range replayVectors[in, want](t, "spawn_offset") {
		t.Run(v.Name, func(t *testing.T) {
			if v.In.Speed != nil || v.In.GapCap != nil || v.In.IgnoreDelays {
				t.Skip("speed, gap cap and ignored delays are applied by the player, and tested there")
			}
			api := Missing
			if v.In.API != nil {
				api = *v.In.API / 1000
			}
			check := func(from Origin, offset float64) {
				assert.Equal(t, v.Want.From, from.String())
				assert.InDelta(t, v.Want.Offset, offset, v.Tol)
			}
			if v.Profile == "default" || v.Profile == "all" {
				check(SpawnOffset(v.In.Turn/1000, api, v.In.Child/1000))
			}
			if v.Profile != "default" {
				check(BranchSpawnOffset(v.In.Turn/1000, api, v.In.Branch/1000, v.In.Child/1000))
			}
		})
	}
}

// Covers P16.
func TestDurationsThatCannotBeUsedHaveWidthZero(t *testing.T) {
	for _, api := range []float64{Missing, -1, 0, math.Inf(1), math.Inf(-1)} {
		assert.Zero(t, Duration(api), "%g", api)
	}
	assert.Equal(t, 1500.0, Duration(1.5))
}

// Times are multiplied before they are subtracted: the order decides the last bit.
func TestOrderOfTheArithmetic(t *testing.T) {
	start, width, end := 0.1, 0.05, 0.3
	a, w, b := start*1000, width*1000, end*1000
	require.NotEqual(t, (end-start)*1000, b-a)
	got, err := View{}.TurnTimes(Rules{}, []Recorded{{start, width, Missing}, {end, Missing, Missing}}, false, nil)
	require.NoError(t, err)
	assert.Equal(t, b-a-w, got[1].Delay)
	_, offset := SpawnOffset(start, width, end)
	assert.Equal(t, b-a-w, offset)
}
