package conductor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// throttling makes all requests come back as throttled before an instant, at once. Their lanes are held for a pause.
func (w *world) throttling(busy, pause time.Duration) {
	w.server = func(s Dispatch) answer {
		if w.now >= busy {
			return answer{takes: time.Second}
		}
		w.c.Hold(s.Lane, w.now+pause)
		return answer{outcome: Throttled}
	}
}

// A turn that its server did not take is sent again, with its number, when its lane is no longer held. What the turn has spawned at its
// first issue is not spawned again; slots, bounds, idle caps and the order of sessions are as for one request.
//
// Covers T-163.
func TestThrottledTurnIsSentAgain(t *testing.T) {
	t.Run("with its number, and not late", func(t *testing.T) {
		w := newWorld(1, anyLane(root(0, 0)), Limits{})
		w.throttling(5*time.Second, 2*time.Second)
		w.play()
		require.Equal(t, []string{"0s lane0 tree0 0#0", "2s lane0 tree0 0#0", "4s lane0 tree0 0#0", "6s lane0 tree0 0#0", "7s lane0 tree0 0#1"}, w.log())
		for k, s := range w.sends {
			require.Equal(t, max(0, k-3), s.ID)
			require.Equal(t, s.at, s.Due)
		}
		require.Equal(t, 2, w.c.Counts().Sent)
		w.requireQuiet(t)
	})
	t.Run("children of its issue are spawned once", func(t *testing.T) {
		w := newWorld(1, anyLane(root(0, 0).child(0, 0, true, 0, 0).join(0, 1, 1)), Limits{})
		w.throttling(1, 2*time.Second)
		w.play()
		require.Equal(t, []string{
			"0s lane0 tree0 0#0", "2s lane0 tree0 0#0", "2s lane0 tree0 1#0", "3s lane0 tree0 0#1",
		}, w.log())
		require.Equal(t, 1, w.c.Counts().ChildrenSpawned)
		w.requireQuiet(t)
	})
	t.Run("a stop closes what waits for it, once", func(t *testing.T) {
		tree := root(0).child(0, 0, true, 0, 0)
		tree.Sessions[1].OnIssue = false // it waits for the return
		w := newWorld(1, anyLane(tree), Limits{})
		w.throttling(time.Minute, time.Minute)
		w.playUntil(time.Second, 0)
		require.Equal(t, []string{"0s lane0 tree0 0#0"}, w.log())
		w.requireQuiet(t)
	})
	t.Run("its slot is free meanwhile, other lanes go on", func(t *testing.T) {
		w := newWorld(2, queue{0: {root(0)}, 1: {root(0, 0)}}, Limits{Prefill: 1})
		w.server = func(s Dispatch) answer {
			if s.Lane == 0 && w.now == 0 {
				w.c.Hold(0, 10*time.Second)
				return answer{takes: time.Second, outcome: Throttled}
			}
			return answer{takes: time.Second}
		}
		w.play()
		require.Equal(t, []string{"0s lane0 tree0 0#0", "1s lane1 tree1 0#0", "2s lane1 tree1 0#1", "10s lane0 tree0 0#0"}, w.log())
		w.requireQuiet(t)
	})
	t.Run("idle caps do not shorten the wait", func(t *testing.T) {
		w := newWorld(1, anyLane(root(0)), Limits{SystemIdle: time.Second, TreeIdle: time.Second})
		w.throttling(1, 30*time.Second)
		w.play()
		require.Equal(t, []string{"0s lane0 tree0 0#0", "30s lane0 tree0 0#0"}, w.log())
		w.requireQuiet(t)
	})
	t.Run("what the conductor learns late is due when it could be sent", func(t *testing.T) {
		w := newWorld(1, anyLane(root(0)), Limits{})
		w.lag = func() time.Duration { return 4 * time.Second }
		w.server = func(s Dispatch) answer {
			if w.now > 0 {
				return answer{takes: time.Second}
			}
			w.c.Hold(0, 3*time.Second)
			return answer{takes: time.Second, outcome: Throttled}
		}
		w.play()
		require.Equal(t, []string{"0s lane0 tree0 0#0", "5s lane0 tree0 0#0"}, w.log())
		require.Equal(t, 3*time.Second, w.sends[1].Due)
		w.requireQuiet(t)
	})
	t.Run("a lane at its bound sends it again", func(t *testing.T) {
		later := Assignment{Tree: root(0, 0), Start: &StartState{TurnsDone: []int{0}, Live: []LiveSession{{Due: 10 * time.Second}}}}
		w := newWorld(2, &assignments{lanes: []Assignment{{Tree: root(0, 0)}, later}}, Limits{LaneRequests: 1})
		w.server = func(s Dispatch) answer {
			if s.Lane == 0 && w.now == 0 {
				w.c.Hold(0, 5*time.Second)
				return answer{outcome: Throttled}
			}
			return answer{takes: time.Second}
		}
		w.play()
		require.Equal(t, []string{"0s lane0 tree0 0#0", "5s lane0 tree0 0#0", "10s lane1 tree1 0#0"}, w.log())
		require.Empty(t, w.check.broken)
	})
	t.Run("bounds count it once", func(t *testing.T) {
		w := newWorld(1, anyLane(root(0, 0, 0), root(0)), Limits{LaneRequests: 2})
		w.throttling(1, 2*time.Second)
		w.play()
		require.Equal(t, []string{"0s lane0 tree0 0#0", "2s lane0 tree0 0#0", "3s lane0 tree0 0#1"}, w.log())
		state, ok := w.c.Handoff(0)
		require.True(t, ok)
		require.Equal(t, 2, state.Sessions[0].Turn)
	})
}

// The end of the phase ends the wait; a pause leaves the turn to the next phase.
func TestThrottledTurnAtTheEnd(t *testing.T) {
	w := newWorld(2, anyLane(root(0, 0), root(0, 0)), Limits{})
	w.throttling(never, 30*time.Second)
	w.playUntil(7*time.Second, never)
	require.Equal(t, []string{"0s lane0 tree0 0#0", "0s lane1 tree1 0#0"}, w.log())
	require.Equal(t, 7*time.Second, w.ended)
	w.requireQuiet(t)

	w = newWorld(1, anyLane(root(0, 0)), Limits{})
	w.pauses = true
	w.throttling(never, 30*time.Second)
	w.playUntil(7*time.Second, never)
	state, ok := w.c.Handoff(0)
	require.True(t, ok)
	require.Equal(t, 0, state.Sessions[0].Turn)
	require.Empty(t, w.check.broken)

	w = newWorld(1, anyLane(root(0, 0)), Limits{})
	w.start()
	w.call(func() { w.c.Stop(0) })
	w.call(func() { require.NoError(t, w.c.Returned(0, time.Second, time.Second, Throttled)) })
	require.True(t, w.c.Done(), "after the end it has failed")
	require.Empty(t, w.check.broken)
}

// A turn whose second sending is refused ends its session, and is counted as sent once.
func TestThrottledTurnIsRefused(t *testing.T) {
	w := newWorld(1, anyLane(root(0, 0)), Limits{})
	w.throttling(never, time.Second)
	w.refuse = func(Dispatch) error {
		if w.now > 0 {
			return errRefused
		}
		return nil
	}
	w.play()
	require.Equal(t, 1, w.c.Counts().Sent)
	w.requireQuiet(t)
}
