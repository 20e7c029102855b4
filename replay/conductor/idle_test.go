package conductor

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/fixtures"
)

// The cap on idle time of the system advances all timers by one amount, once for each turn that it releases.
//
// Covers T-25, A-16.
func TestSystemIdleCap(t *testing.T) {
	vectorsOf(t, "idle_system", "T-25", fixtures.Counts{10, 10, 10}, playSystemIdle)
	limits := Limits{SystemIdle: 10 * time.Second}
	t.Run("one common amount", func(t *testing.T) {
		w := newWorld(1, &assignments{lanes: []Assignment{sleepers(40e3, 41e3, 90e3)}}, limits)
		w.server = func(Dispatch) answer { return answer{} }
		w.play()
		require.Equal(t, []string{"10s lane0 tree0 1#0", "11s lane0 tree0 2#0", "21s lane0 tree0 3#0"}, w.log())
		require.Equal(t, 30*time.Second, w.of(IdleSkipped)[0].Skipped)
		require.Equal(t, 2, w.c.Counts().IdleJumps)
		require.Equal(t, 69*time.Second, w.c.Counts().IdleSkipped)
		w.requireQuiet(t)
	})
	t.Run("one request in flight", func(t *testing.T) {
		w := newWorld(2, &assignments{lanes: []Assignment{sleepers(40e3, 41e3), {Tree: root(0)}}}, limits)
		w.server = func(Dispatch) answer { return answer{takes: time.Hour} }
		w.play()
		require.Equal(t, []string{"0s lane1 tree1 0#0", "40s lane0 tree0 1#0", "41s lane0 tree0 2#0"}, w.log())
		require.Zero(t, w.c.Counts().IdleJumps)
	})
	t.Run("a timer fires onto a barrier", func(t *testing.T) { // the next is advanced within the same budget
		o := sleepers(40e3, 41e3, 90e3)
		o.Tree.after(1, 0, 2, 0)
		w := newWorld(1, &assignments{lanes: []Assignment{o}}, limits).play()
		require.Equal(t, []string{"10s lane0 tree0 2#0", "11s lane0 tree0 1#0", "22s lane0 tree0 3#0"}, w.log())
		require.Equal(t, 10*time.Second, w.of(TurnRetained)[0].At)
		w.requireQuiet(t)
	})
	t.Run("one jump for one turn", func(t *testing.T) { // the turn that a jump released is on the wire before another clock moves (hazard H38)
		w := newWorld(1, &assignments{lanes: []Assignment{sleepers(40e3, 44.84e3)}}, limits)
		w.server = func(Dispatch) answer { return answer{takes: time.Minute} }
		w.play()
		require.Equal(t, []string{"10s lane0 tree0 1#0", "14.84s lane0 tree0 2#0"}, w.log())
		require.Equal(t, 1, w.c.Counts().IdleJumps)
		w.requireQuiet(t)
	})
	t.Run("control timers are not moved", func(t *testing.T) {
		// The conductor has none: Stop ends the phase, and NextWake returns the time of requests alone. A turn that the cap
		// moves from behind the end to before it is sent.
		w := newWorld(1, &assignments{lanes: []Assignment{sleepers(40e3, 90e3)}}, limits).playUntil(15*time.Second, never)
		require.Equal(t, []string{"10s lane0 tree0 1#0"}, w.log())
		require.Equal(t, 15*time.Second, w.ended)
		w.requireQuiet(t)
	})
}

// The cap on idle time of a tree advances the timers of that tree alone.
//
// Covers T-26.
func TestTreeIdleCap(t *testing.T) {
	vectorsOf(t, "idle_tree", "T-26", fixtures.Counts{5, 0, 5}, playTreeIdle)
	busy := func(Dispatch) answer { return answer{takes: 50 * time.Second} }
	w := newWorld(2, &assignments{lanes: []Assignment{sleepers(400e3, 420e3, 700e3), {Tree: root(0, 350, 10)}}}, Limits{TreeIdle: 300 * time.Second})
	w.server = busy
	w.play()
	require.Equal(t, []string{
		"0s lane1 tree1 0#0", "5m0s lane0 tree0 1#0", "5m20s lane0 tree0 2#0", "5m50s lane1 tree1 0#1", "6m50s lane1 tree1 0#2", "10m0s lane0 tree0 3#0",
	}, w.log(), "420 s came 20 s after 400 s, as a request was in flight; so did 700 s")
	skipped := map[int][]time.Duration{}
	for _, e := range w.of(TreeIdleSkipped) {
		skipped[e.Lane] = append(skipped[e.Lane], e.Skipped)
	}
	require.Equal(t, map[int][]time.Duration{0: {100 * time.Second}, 1: {50 * time.Second}}, skipped, "each tree by itself")
	w.requireQuiet(t)
}

// A turn that is sent late is due since it could have been sent: a first turn since the start of the phase, a turn that a cap on
// idle time advances since the cap was reached.
func TestDueDoesNotHideLateness(t *testing.T) {
	dues := func(w *world) (list []time.Duration) {
		for _, s := range w.sends {
			list = append(list, s.Due)
		}
		return list
	}
	t.Run("start of the phase", func(t *testing.T) {
		w := newWorld(3, &assignments{lanes: []Assignment{{Tree: root(0, 5)}, {Tree: root(0)}, sleepers(0, 1)}}, Limits{})
		w.now = 2 * time.Millisecond
		w.play()
		require.Equal(t, []time.Duration{0, 0, 0, time.Millisecond, 6*time.Second + 2*time.Millisecond}, dues(w))
		require.Equal(t, 2*time.Millisecond, w.sends[0].at)
		w.requireQuiet(t)
	})
	for name, limits := range map[string]Limits{"a tree's cap": {TreeIdle: 10 * time.Second}, "the system's cap": {SystemIdle: 10 * time.Second}} {
		t.Run(name, func(t *testing.T) { // its root returns at 1 s, its children are due at 101 s, 101 s and 105 s
			tree := root(0).child(0, 0, false, 100, 0).child(0, 0, false, 100, 0).child(0, 0, false, 104, 0)
			w := newWorld(1, anyLane(tree), limits)
			late := []time.Duration{14 * time.Second} // the return is noticed at 15 s
			w.lag = func() (d time.Duration) {
				if len(late) > 0 {
					d, late = late[0], nil
				}
				return d
			}
			w.play()
			require.Equal(t, []string{"0s lane0 tree0 0#0", "15s lane0 tree0 1#0", "15s lane0 tree0 2#0", "19s lane0 tree0 3#0"}, w.log())
			require.Equal(t, []time.Duration{0, 11 * time.Second, 11 * time.Second, 19 * time.Second}, dues(w))
			w.requireQuiet(t)
		})
	}
}

// The caps act on offsets of children and on deadlines as on any timer (hazard H17).
//
// Covers T-46.
func TestIdleCapsMoveChildrenAndDeadlines(t *testing.T) {
	eventLogsOf(t, "T-46", fixtures.Counts{4, 3, 4})
	vectorsOf(t, "idle_system", "T-46", fixtures.Counts{3, 3, 3}, playSystemIdle)
	for cap, want := range map[time.Duration][]string{ // a deadline, its child's next turn, and a child
		0:                {"0s 0#0", "1s 1#0", "42s 1#1", "51s 2#0", "1m11s 0#1"},
		10 * time.Second: {"0s 0#0", "1s 1#0", "12s 1#1", "21s 2#0", "32s 0#1"},
	} {
		tree := root(0, 70).child(0, 0, false, 0, 0, 40).child(0, 0, false, 50, 0).join(0, 1, 1)
		for _, limits := range []Limits{{SystemIdle: cap}, {TreeIdle: cap}} {
			w := newWorld(1, anyLane(tree), limits).play()
			got := []string{}
			for _, s := range w.sends {
				got = append(got, fmt.Sprintf("%v %d#%d", s.at, s.Session, s.Turn))
			}
			require.Equal(t, want, got)
			w.requireQuiet(t)
		}
	}
}
