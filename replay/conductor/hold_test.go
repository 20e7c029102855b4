package conductor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// holding makes all requests fail before an instant. A lane whose request fails is held for a pause.
func (w *world) holding(down, pause time.Duration) {
	w.server = func(s Dispatch) answer {
		if w.now >= down {
			return answer{takes: time.Second}
		}
		w.c.Hold(s.Lane, w.now+pause)
		return answer{outcome: Failed}
	}
}

func TestHeldLaneSendsNothing(t *testing.T) {
	t.Run("turns, children and trees wait for the end", func(t *testing.T) {
		// the child sleeps until 0.5 s, its sibling until 9 s; the tree after it is opened at 15 s
		tree := root(0, 0).child(0, 0, false, 0.5, 0).sibling(false, 9, 0)
		w := newWorld(2, queue{0: {tree, root(0)}, 1: {root(0, 2)}}, Limits{})
		w.holding(8*time.Second, 5*time.Second)
		w.play()
		require.Equal(t, []string{
			"0s lane0 tree0 0#0", "0s lane1 tree1 0#0",
			"5s lane0 tree0 0#1", "5s lane1 tree1 0#1",
			"10s lane0 tree0 1#0", "10s lane0 tree0 2#0", "11s lane0 tree2 0#0", // 0#1 holds the lane again
		}, w.log())
		for _, s := range w.sends {
			require.Equal(t, s.at, s.Due, "what is held is not late")
		}
		w.requireQuiet(t)
	})
	t.Run("only the lane", func(t *testing.T) {
		w := newWorld(2, queue{0: {root(0, 0)}, 1: {root(0, 0, 0)}}, Limits{})
		w.server = func(s Dispatch) answer {
			if s.Lane == 0 && s.Turn == 0 {
				w.c.Hold(0, 10*time.Second)
			}
			return answer{takes: time.Second}
		}
		w.play()
		require.Equal(t, []string{
			"0s lane0 tree0 0#0", "0s lane1 tree1 0#0", "1s lane1 tree1 0#1", "2s lane1 tree1 0#2", "10s lane0 tree0 0#1",
		}, w.log())
		w.requireQuiet(t)
	})
	t.Run("a hold is no idle time", func(t *testing.T) {
		w := newWorld(1, anyLane(root(0, 0, 500)), Limits{SystemIdle: time.Second, TreeIdle: time.Second})
		w.holding(time.Second, 30*time.Second)
		w.play()
		require.Equal(t, []string{"0s lane0 tree0 0#0", "30s lane0 tree0 0#1", "32s lane0 tree0 0#2"}, w.log())
		w.requireQuiet(t)
	})
	for name, limits := range map[string]Limits{"tree": {TreeIdle: time.Second}, "system": {SystemIdle: time.Second}} {
		t.Run("idle time ends with the hold: "+name, func(t *testing.T) {
			w := newWorld(1, anyLane(root(0, 500)), limits)
			w.holding(time.Second, 30*time.Second)
			w.play()
			require.Equal(t, []string{"0s lane0 tree0 0#0", "30s lane0 tree0 0#1"}, w.log())
			require.Equal(t, 30*time.Second, w.sends[1].Due)
			w.requireQuiet(t)
		})
	}
	t.Run("with one slot, the others go on", func(t *testing.T) {
		w := newWorld(2, queue{0: {root(0, 0)}, 1: {root(0, 0, 0)}}, Limits{Prefill: 1})
		w.server = func(s Dispatch) answer {
			if s.Lane == 0 && s.Turn == 0 {
				w.c.Hold(0, 10*time.Second)
			}
			return answer{takes: time.Second}
		}
		w.play()
		require.Equal(t, []string{
			"0s lane0 tree0 0#0", "1s lane1 tree1 0#0", "2s lane1 tree1 0#1", "3s lane1 tree1 0#2", "10s lane0 tree0 0#1",
		}, w.log())
		w.requireQuiet(t)
	})
	t.Run("the end of the phase ends a hold", func(t *testing.T) {
		w := newWorld(1, anyLane(root(0, 0), root(0)), Limits{})
		w.holding(never, 30*time.Second)
		w.playUntil(7*time.Second, never)
		require.Equal(t, []string{"0s lane0 tree0 0#0"}, w.log())
		require.Equal(t, 7*time.Second, w.ended)
		require.True(t, w.c.Stopped())
		w.requireQuiet(t)
	})
}
