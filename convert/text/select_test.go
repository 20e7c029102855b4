package text

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// threeTraces are root sessions a, b and c of one, two and three turns, a minute apart; those of c rest an hour, and it has a subagent.
func threeTraces(t *testing.T, s Selection) (*Dataset, error) {
	d := NewDataset(NewStore(""))
	d.Select = s
	for k, id := range []string{"c", "b", "a"} {
		trace := d.NewTrace(id)
		root := &trace.Sessions[0]
		for n := range 3 - k {
			u := NewTurn()
			u.At = int64(3-k)*60_000 + int64(n)*3_600_000
			u.End = u.At + 1000
			u.LastResult = u.At - 500
			u.Before = int32(n - 1)
			root.Turns = append(root.Turns, u)
		}
	}
	agent := NewTurn()
	agent.At, agent.End = 3*60_000+2000, 3*60_000+1_800_000
	d.Traces[0].Sessions = append(d.Traces[0].Sessions, Session{ID: "x", Kind: Subagent, Parent: 0, SpawnTurn: 0, JoinTurn: None, Filler: None, Turns: []Turn{agent}})
	return d, d.Finish()
}

func TestSelection(t *testing.T) {
	for _, c := range []struct {
		s    Selection
		want string
	}{
		{Selection{}, "abc"}, {Selection{Sessions: "[ab]"}, "ab"}, {Selection{Sessions: "?*"}, "abc"}, {Selection{Since: 120_000}, "bc"},
		{Selection{Until: 120_000}, "a"}, {Selection{MinTurns: 2}, "bc"}, {Selection{MaxSessions: 2}, "ab"}, {Selection{MinTurns: 2, MaxSessions: 1}, "b"},
	} {
		d, err := threeTraces(t, c.s)
		require.NoError(t, err)
		got := ""
		for _, trace := range d.Traces {
			got += trace.Sessions[0].ID
		}
		require.Equal(t, c.want, got, "%+v", c.s)
	}
	_, err := threeTraces(t, Selection{Sessions: "z"})
	require.ErrorIs(t, err, ErrNoneSelected)
}

// A stretch in which no session of a trace runs is cut, also at both ends of a subagent's turn; the time of tools stays within what is left.
func TestCutGaps(t *testing.T) {
	d, err := threeTraces(t, Selection{Sessions: "c", MaxGap: 10_000})
	require.NoError(t, err)
	trace := d.Traces[0]
	turns := trace.Sessions[0].Turns
	require.Equal(t, []int64{0, 1_800_000 + 10_000, 1_800_000 + 21_000}, []int64{turns[0].At - trace.Start, turns[1].At - trace.Start, turns[2].At - trace.Start})
	require.Equal(t, []int64{None, 1_809_000, 10_000}, []int64{turns[0].Gap, turns[1].Gap, turns[2].Gap})
	require.Equal(t, int64(10_000), turns[2].ToolTime)
	require.Equal(t, int64(1000), turns[2].End-turns[2].At)
	agent := trace.Sessions[1].Turns[0]
	require.Equal(t, int64(2000), agent.At-trace.Start)
}

func TestFit(t *testing.T) {
	require.Zero(t, FitOf(nil))
	f := FitOf([]Stretch{{Turns: 7}, {Turns: 8, P50: 0.01, P99: 0.02, Ratio: 1.2, Call: 90, Lacks: 100, Reuse: 0.9, Cached: 0.8, Apart: 0.1}, {Turns: 9, P50: 0.03, P99: 0.2, Ratio: 1.3, Call: 110, Lacks: 200},
		{Turns: 9, Shrunk: true, P99: 3}})
	require.Equal(t, Fit{Stretches: 2, Shrunk: 1, Short: 1, P50: 0.01, P99: 0.2, Ratio: 1.2, Call: 90, Filler: 100, Above: 1, Reuse: 0.9, Cached: 0.8, Apart: 0.1}, f)
}

// Recorded lengths that have a ratio and so many tokens for each call fit; a stretch too short for both, or whose calls grow as its tokens,
// has the ratio alone.
func TestStretchesFit(t *testing.T) {
	turns := func(n int, calls func(k int) float64) (list []sized) {
		for k := range n {
			counted := float64(100 * (k + k*k%7))
			list = append(list, sized{in: 5000 + 1.25*counted + 40*calls(k), counted: counted, calls: calls(k), cached: math.NaN()})
		}
		return list
	}
	var st Stretch
	st.fit(turns(9, func(k int) float64 { return float64(k / 2) }))
	require.InDeltaSlice(t, []float64{5000, 1.25, 40, 0, 0}, []float64{st.Prefix, st.Ratio, st.Call, st.P50, st.P99}, 1e-6)
	st = Stretch{}
	st.fit(turns(7, func(k int) float64 { return float64(k / 2) }))
	require.Zero(t, st.Call)
	require.Greater(t, st.P99, 0.0)
	st = Stretch{}
	st.fit(turns(9, func(k int) float64 { return float64(k + k*k%7) }))
	require.InDeltaSlice(t, []float64{5000, 1.65, 0, 0, 0}, []float64{st.Prefix, st.Ratio, st.Call, st.P50, st.P99}, 1e-6)
}
