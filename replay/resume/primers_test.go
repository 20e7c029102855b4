package resume

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/conductor"
)

// timed returns a trace of sessions whose turns start at these instants, in milliseconds. The first is the root, whose turn 0
// spawns the others.
func timed(sessions ...[]float64) *Trace {
	t := &Trace{Tree: &conductor.Tree{}, Starts: sessions}
	for n, starts := range sessions {
		t.Sessions = append(t.Sessions, conductor.Session{Turns: make([]conductor.Turn, len(starts)), Depth: min(n, 1), Rank: n})
		if n > 0 {
			t.Sessions[n].Branch = n - 1
			t.Branches = append(t.Branches, conductor.Branch{Sessions: []int{n}})
			t.BranchStarts = append(t.BranchStarts, math.NaN())
			t.Sessions[0].Turns[0].Spawns = append(t.Sessions[0].Turns[0].Spawns, n-1)
		}
	}
	return t
}

// There is one primer for each session with a turn before its next, also for a parent that waits, and none for a session that
// has sent nothing or has ended.
//
// Covers T-17.
func TestPrimers(t *testing.T) {
	s := time.Second
	trace := timed(
		[]float64{0, 10_000, 50_000}, // parked at turn 2
		[]float64{1000, 20_000, 45_000},
		[]float64{42_000, 43_000}, // to come
		[]float64{1000, 2000},     // over
	)
	trace.Sessions[0].Turns[2].Joins = []int{0}
	state := trace.At(40_000)
	require.True(t, state.Live[0].Parked)
	require.Equal(t, []Primer{{Session: 0, Turn: 1, Lead: 30 * s}, {Session: 1, Turn: 1, Lead: 20 * s}}, trace.Primers(state, 40_000))
	trace.Pace = func(ms float64) time.Duration { return time.Duration(ms * 1e6 / 4) }
	require.Equal(t, 7500*time.Millisecond, trace.Primers(state, 40_000)[0].Lead, "played four times as fast")
	trace.Starts[0][1] = math.NaN()
	require.Zero(t, trace.Primers(state, 40_000)[0].Lead, "its start is not known")
	require.Equal(t, []Primer{{Turn: 0}}, trace.Primers(trace.From(1), math.NaN()), "a trace without times")
	require.Empty(t, trace.Primers(trace.From(0), math.NaN()))
}

// The tree of primers sends them and nothing else, and is over with the last.
//
// Covers T-17.
func TestPrimerTree(t *testing.T) {
	trace := timed([]float64{0, 10, 20}, []float64{1, 12, 22}, []float64{2, 30})
	trace.Sessions[0].Turns[2].Joins = []int{0}
	trace.Sessions[1].Turns[2].After = []conductor.TurnRef{{Session: 0, Turn: 2}}
	require.NoError(t, trace.Validate())
	state := trace.At(15)
	list := trace.Primers(state, 15)
	require.Len(t, list, 3)
	at := []time.Duration{2 * time.Second, 0, time.Second}
	type sent struct{ session, turn int }
	var order []sent
	source := once{trace.PrimerTree(list, at)}
	c := conductor.New(1, &source, conductor.Limits{}, func(d conductor.Dispatch) error {
		order = append(order, sent{d.Session, d.Turn})
		require.Equal(t, d.Due, d.Issued)
		return nil
	}, nil)
	require.NoError(t, c.Start(0))
	for id := 0; !c.Done(); {
		if next, ok := c.NextWake(); ok {
			c.Wake(next)
		}
		for ; id < len(order); id++ {
			require.NoError(t, c.Returned(id, at[order[id].session], at[order[id].session], conductor.OK))
		}
	}
	require.Equal(t, []sent{{1, 1}, {2, 0}, {0, 1}}, order)
	n := c.Counts()
	require.Equal(t, 1, n.TreesDrained)
	require.Zero(t, n.ChildrenSpawned)
	require.Zero(t, n.ParentsSuspended)
	require.Len(t, trace.Sessions[0].Turns, 3, "the trace is as before")
}

// once is a source of one tree.
type once struct{ conductor.Assignment }

func (o *once) Next(int) (a conductor.Assignment, ok bool) {
	a, o.Assignment = o.Assignment, conductor.Assignment{}
	return a, a.Tree != nil
}

// Covers T-18.
func TestRamp(t *testing.T) {
	s := time.Second
	leads := []time.Duration{s / 2, 3 * s, 400 * s}
	require.Equal(t, []time.Duration{9500 * time.Millisecond, 7 * s, 0}, Ramp{Longest: 10 * s}.Times(leads))
	require.Equal(t, []time.Duration{399500 * time.Millisecond, 397 * s, 0}, Ramp{}.Times(leads))
	require.Equal(t, []time.Duration{0, 0, 0}, Ramp{Longest: 10 * s, Burst: true}.Times(leads))
	require.Empty(t, Ramp{}.Times(nil))
}
