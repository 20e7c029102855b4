package conductor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// eventsOf lists the events of a kind, as sendings.
func (w *world) eventsOf(kind EventKind) (lines []string) {
	for _, e := range w.of(kind) {
		lines = append(lines, sending{Dispatch{Lane: e.Lane, Tree: e.Tree, Session: e.Session, Turn: e.Turn}, e.At}.String())
	}
	return lines
}

// handed returns the state of a lane.
func (w *world) handed(t require.TestingT, lane int) LaneState {
	state, ok := w.c.Handoff(lane)
	require.True(t, ok)
	return state
}

func TestLaneRequestsDeferTheRest(t *testing.T) {
	// Lane 0 sends a turn and its two children, and defers its second turn. Lane 1 takes a second tree after its third request.
	tree := root(0, 0, 0).child(0, 0, false, 0, 0).sibling(false, 0, 0, 0).join(0, 2, 1)
	w := newWorld(2, queue{0: {tree}, 1: {root(0, 0, 0), root(0), root(0)}}, Limits{LaneRequests: 3})
	w.takes(map[string]float64{"0#1": 9})
	w.play()
	require.Empty(t, w.check.broken)
	require.Equal(t, []string{
		"0s lane0 tree0 0#0", "0s lane1 tree1 0#0", "1s lane0 tree0 0#1", "1s lane0 tree0 1#0", "1s lane1 tree1 0#1", "10s lane1 tree1 0#2",
	}, w.log())
	require.Equal(t, []string{"1s lane0 tree0 2#0"}, w.eventsOf(TurnDeferred))
	require.Equal(t, LaneState{TurnsDone: []int{2, 1, 0}, Sessions: []HandedSession{
		{Session: 0, Turn: 2, Parked: true, ReturnedAt: 10 * time.Second}, {Session: 2, Turn: 0, ReturnedAt: -1},
	}}, w.handed(t, 0))
	_, ok := w.c.Handoff(1)
	require.False(t, ok)
	require.True(t, w.c.paused)
	require.Equal(t, 11*time.Second, w.ended)
}

func TestPauseKeepsEverySession(t *testing.T) {
	// At 5 s session 1 is in flight, the root is parked for it, session 2 is retained until it is done, session 3 sleeps, and lane 1
	// has a turn that is due later.
	tree := root(0, 0, 0).child(0, 0, false, 0, 0, 0).child(0, 0, false, 0, 0).child(0, 0, false, 60, 0).join(0, 1, 1).after(2, 0, 1, 0)
	w := newWorld(2, queue{0: {tree, root(0)}, 1: {root(0, 60)}}, Limits{SystemIdle: 30 * time.Second, TreeIdle: 20 * time.Second})
	w.takes(map[string]float64{"1#0": 9})
	w.start()
	for range 2 {
		w.now = time.Second
		w.back(w.flights.remove(0))
	}
	w.now = 5 * time.Second
	w.call(func() { w.c.Pause(w.now) })
	require.False(t, w.c.Done())
	_, ok := w.c.NextWake()
	require.False(t, ok)
	require.Panics(t, func() { w.c.Handoff(0) })
	w.goOn(never, never)
	require.Empty(t, w.check.broken)
	require.Len(t, w.sends, 3)
	require.Equal(t, 10*time.Second, w.ended, "the last return")
	require.Equal(t, LaneState{TurnsDone: []int{1, 1, 0, 0}, Sessions: []HandedSession{
		{Session: 0, Turn: 1, Parked: true, ReturnedAt: time.Second},
		{Session: 1, Turn: 1, ReturnedAt: 10 * time.Second},
		{Session: 2, Turn: 0, Retained: true, ReturnedAt: -1},
		{Session: 3, Turn: 0, ReturnedAt: -1},
	}}, w.handed(t, 0))
	require.Equal(t, LaneState{Tree: 1, TurnsDone: []int{1}, Sessions: []HandedSession{{Turn: 1, ReturnedAt: time.Second}}}, w.handed(t, 1))
	w.call(func() { w.c.Stop(w.now) })
	w.requireQuiet(t)
}

// A parent whose last child ends in a pause is handed over as retained: it waits for no branch any more.
func TestGateOpensInAPause(t *testing.T) {
	w := newWorld(1, anyLane(root(0, 0).child(0, 0, false, 0, 0).join(0, 1, 1)), Limits{})
	w.pauses = true
	w.playUntil(3*time.Second/2, never)
	require.Empty(t, w.check.broken)
	require.Equal(t, LaneState{TurnsDone: []int{1, 1}, Sessions: []HandedSession{{Turn: 1, Retained: true, ReturnedAt: time.Second}}}, w.handed(t, 0))
}

// A parent that waits for its deadline alone waits for no branch.
func TestDeadlineInAPause(t *testing.T) {
	w := newWorld(1, anyLane(root(0, 60).child(0, 0, false, 0, 0).join(0, 1, 1)), Limits{})
	w.pauses = true
	w.playUntil(9*time.Second, never)
	require.Len(t, w.of(SessionParked), 1)
	require.Equal(t, 9*time.Second, w.ended)
	require.Equal(t, LaneState{TurnsDone: []int{1, 1}, Sessions: []HandedSession{{Turn: 1, ReturnedAt: time.Second}}}, w.handed(t, 0))
}

func TestPauseEndsAPhaseAtOnce(t *testing.T) {
	t.Run("of a lane that is held", func(t *testing.T) {
		w := newWorld(1, anyLane(root(0, 0)), Limits{})
		w.holding(time.Second, 5*time.Minute)
		w.pauses = true
		w.playUntil(7*time.Second, never)
		require.Equal(t, 7*time.Second, w.ended)
		require.Equal(t, []HandedSession{{Turn: 1}}, w.handed(t, 0).Sessions)
	})
	t.Run("before it has begun", func(t *testing.T) {
		w := newWorld(1, anyLane(root(0)), Limits{})
		w.c.Pause(0)
		w.play()
		require.Empty(t, w.events)
		_, ok := w.c.Handoff(0)
		require.False(t, ok)
	})
	t.Run("twice", func(t *testing.T) {
		w := newWorld(1, anyLane(root(0, 0), root(0)), Limits{}).refused()
		w.start()
		w.c.Pause(0)
		w.c.Pause(time.Second)
		w.goOn(never, never)
		require.Equal(t, []HandedSession{{Turn: 1, ReturnedAt: time.Second}}, w.handed(t, 0).Sessions)
	})
	t.Run("with turns that wait for a slot", func(t *testing.T) {
		w := newWorld(3, anyLane(root(0), root(0), root(0)), Limits{Prefill: 1})
		w.start()
		w.call(func() { w.c.Pause(0) })
		require.Empty(t, w.of(TurnDeferred), "there is no slot")
		w.goOn(never, never)
		require.Equal(t, []string{"1s lane1 tree1 0#0", "1s lane2 tree2 0#0"}, w.eventsOf(TurnDeferred))
		require.Zero(t, w.c.prefill.inUse)
	})
}

// Each lane counts for itself. One that finishes keeps no phase open, and one that is refused has sent nothing.
func TestLanesReachTheirRequests(t *testing.T) {
	w := newWorld(4, queue{0: {root(0, 60, 0)}, 1: {root(0)}, 2: {root(0)}, 3: {root(0), root(0, 0)}}, Limits{LaneRequests: 2})
	w.refuse = func(s Dispatch) error {
		if s.Lane == 2 {
			return errRefused
		}
		return nil
	}
	w.play()
	require.Empty(t, w.check.broken)
	require.Equal(t, []string{"0s lane0 tree0 0#0", "0s lane1 tree1 0#0", "0s lane3 tree3 0#0", "1s lane3 tree4 0#0", "1m1s lane0 tree0 0#1"}, w.log())
	require.Equal(t, []string{"2s lane3 tree4 0#1"}, w.eventsOf(TurnDeferred))
	require.True(t, w.c.paused)
	require.Equal(t, 2, w.handed(t, 0).Sessions[0].Turn)
	require.Equal(t, 1, w.handed(t, 3).Sessions[0].Turn)
	w.call(func() { w.c.Stop(w.now) })
	w.requireQuiet(t)
}

// A lane whose tree drains after its last request takes the next tree, whose first turn is deferred, as long as others send.
func TestLaneAtItsRequestsTakesTheNextTree(t *testing.T) {
	late := &StartState{TurnsDone: []int{0}, Live: []LiveSession{{Due: 5 * time.Second}}}
	w := newWorld(2, &assignments{lanes: []Assignment{{Tree: root(0)}, {Tree: root(0), Start: late}}, more: []*Tree{root(0, 0)}}, Limits{LaneRequests: 1}).play()
	require.Empty(t, w.check.broken)
	require.Equal(t, []string{"0s lane0 tree0 0#0", "5s lane1 tree1 0#0"}, w.log())
	require.Equal(t, []string{"1s lane0 tree2 0#0"}, w.eventsOf(TurnDeferred))
	require.Equal(t, LaneState{Tree: 2, TurnsDone: []int{0}, Sessions: []HandedSession{{ReturnedAt: -1}}}, w.handed(t, 0))
	_, ok := w.c.Handoff(1)
	require.False(t, ok, "its tree drained in the pause")
}
