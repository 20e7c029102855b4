package conductor

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// instants are arrivals, in seconds.
type instants []float64

func (list *instants) Next() (time.Duration, bool) {
	if len(*list) == 0 {
		return 0, false
	}
	at := (*list)[0]
	*list = (*list)[1:]
	return seconds(at), true
}

// every are arrivals in equal distances, without end.
type every struct{ at, gap time.Duration }

func (e *every) Next() (time.Duration, bool) {
	e.at += e.gap
	return e.at - e.gap, true
}

// arriving returns a world in which trees of one turn arrive.
func arriving(lanes int, limits Limits, at ...float64) *world {
	return newWorld(lanes, endlessTrees{root(0)}, limits).openBy((*instants)(&at))
}

// endlessTrees is a source of one tree, again and again; nil: of trees that cannot be played.
type endlessTrees struct{ *Tree }

func (s endlessTrees) Next(int) (Assignment, bool) { return Assignment{Tree: s.Tree}, true }

// queuedLog lists what was sent, with when it was due and how long it waited for a lane.
func (w *world) queuedLog() (lines []string) {
	for _, s := range w.sends {
		lines = append(lines, fmt.Sprintf("%v due %v queued %v", s, s.Due, s.Queued))
	}
	return lines
}

// A server that answers nothing for 30 s changes when trees are opened, not when they are due.
//
// Covers T-65, INV-21.
func TestFirstTurnsAreDueWhenTheyArrive(t *testing.T) {
	dues := func(takes time.Duration) (list []time.Duration) {
		w := arriving(2, Limits{}, 0, 1, 2, 2, 50)
		w.server = func(Dispatch) answer { return answer{takes: takes} }
		w.play().requireQuiet(t)
		for _, s := range w.sends {
			list = append(list, s.Due)
		}
		if takes == 30*time.Second {
			require.Equal(t, []string{
				"0s lane0 tree0 0#0 due 0s queued 0s", "1s lane1 tree1 0#0 due 1s queued 0s", "30s lane0 tree2 0#0 due 2s queued 28s",
				"31s lane1 tree3 0#0 due 2s queued 29s", "1m0s lane0 tree4 0#0 due 50s queued 10s",
			}, w.queuedLog())
		}
		return list
	}
	want := []time.Duration{0, seconds(1), seconds(2), seconds(2), seconds(50)}
	require.Equal(t, want, dues(time.Millisecond))
	require.Equal(t, want, dues(30*time.Second))
}

func TestTreesThatArriveTakeTheLowestFreeLane(t *testing.T) {
	w := arriving(4, Limits{}, 0, 0, 0, 2.5, 3, 4, 4.5, 6)
	w.server = func(s Dispatch) answer {
		return answer{takes: []time.Duration{seconds(5), seconds(2), seconds(3), seconds(1)}[s.Tree%4]}
	}
	w.play().requireQuiet(t)
	require.Equal(t, []string{
		"0s lane0 tree0 0#0", "0s lane1 tree1 0#0", "0s lane2 tree2 0#0", // over at 5, 2 and 3 s
		"2.5s lane1 tree3 0#0", "3s lane2 tree4 0#0", // at 3.5 and 8 s
		"4s lane1 tree5 0#0", "4.5s lane3 tree6 0#0", // at 6 and 7.5 s
		"6s lane0 tree7 0#0",
	}, w.log())
	require.Empty(t, w.of(LaneFinished))
	n := w.c.Counts()
	require.Equal(t, [4]int{8, 8, 0, 0}, [4]int{n.TreesArrived, n.TreesOpened, n.TreesSkipped, n.TreesAbandoned})
}

func TestArrivalsAreTimers(t *testing.T) {
	w := arriving(1, Limits{}, 5, 6)
	w.start()
	at, ok := w.c.NextWake()
	require.Equal(t, []any{seconds(5), true, false}, []any{at, ok, w.c.Done()})
	require.Equal(t, Counts{}, w.c.Counts())
	w.now = seconds(5)
	w.call(func() { w.c.Wake(w.now) })
	at, ok = w.c.NextWake()
	require.Equal(t, []any{seconds(6), true}, []any{at, ok})
	w.now = seconds(6)
	w.call(func() { w.c.Wake(w.now) })
	_, ok = w.c.NextWake()
	require.Equal(t, []any{false, 1, 1}, []any{ok, w.c.Counts().TreesWaiting, w.c.Counts().TreesOpen})
	w.goOn(never, never).requireQuiet(t)
	require.Len(t, w.sends, 2)
}

// What arrives before a request ends does not get its lane, however late the conductor is called; what arrives later does.
func TestLateCallsChangeNoArrival(t *testing.T) {
	w := arriving(2, Limits{}, 0, 0, 4.5, 5.5)
	w.server = func(s Dispatch) answer {
		return answer{takes: []time.Duration{seconds(5), seconds(3), seconds(9), seconds(9)}[s.Tree]}
	}
	w.start()
	w.now = seconds(7)
	w.back(w.flights.remove(0)) // of lane 1, at 3 s
	w.goOn(never, never).requireQuiet(t)
	require.Equal(t, []string{
		"0s lane0 tree0 0#0 due 0s queued 0s", "0s lane1 tree1 0#0 due 0s queued 0s",
		"7s lane1 tree2 0#0 due 4.5s queued 0s", "7s lane0 tree3 0#0 due 5.5s queued 0s",
	}, w.queuedLog())
}

func TestArrivalsThatCannotBePlayed(t *testing.T) {
	tree := root(0)
	t.Run("the lane stays free for the next", func(t *testing.T) {
		w := newWorld(1, anyLane(nil, tree, nil, nil, tree, tree), Limits{}).openBy(&instants{0, 1, 1, 1, 1, 1.5})
		w.play().requireQuiet(t)
		require.Equal(t, []string{"1s lane0 tree0 0#0 due 1s queued 0s", "2s lane0 tree1 0#0 due 1s queued 1s", "3s lane0 tree2 0#0 due 1.5s queued 1.5s"}, w.queuedLog())
		require.Equal(t, 3, w.c.Counts().TreesSkipped)
	})
	t.Run("none can", func(t *testing.T) {
		w := newWorld(3, endlessTrees{}, Limits{}).openBy(&every{gap: time.Second})
		w.playUntil(seconds(5000.5), never).requireQuiet(t)
		require.Equal(t, 5001, w.c.Counts().TreesSkipped)
		require.Empty(t, w.sends)
	})
	t.Run("one more arrives in its place", func(t *testing.T) { // it arrived at 3 s, and could have had no lane then
		w := newWorld(1, anyLane(tree, nil, tree, tree), Limits{Trees: 2}).openBy(&instants{0, 1, 3, 4})
		w.server = func(Dispatch) answer { return answer{takes: seconds(100)} }
		w.play().requireQuiet(t)
		require.Equal(t, []string{"0s lane0 tree0 0#0 due 0s queued 0s", "1m40s lane0 tree1 0#0 due 3s queued 1m37s"}, w.queuedLog())
		require.Equal(t, 3, w.c.Counts().TreesArrived)
	})
}

func TestEndOfArrivals(t *testing.T) {
	arrivals := func() Arrivals { return &every{gap: time.Second} }
	slow := func(w *world) *world {
		w.server = func(Dispatch) answer { return answer{takes: seconds(10)} }
		return w.openBy(arrivals())
	}
	check := func(t *testing.T, w *world, ended time.Duration, arrived, opened, abandoned int) {
		w.requireQuiet(t)
		n := w.c.Counts()
		require.Equal(t, []int{arrived, opened, abandoned}, []int{n.TreesArrived, n.TreesOpened, n.TreesAbandoned})
		require.Equal(t, ended, w.ended)
	}
	trees := endlessTrees{root(0)}
	t.Run("of trees", func(t *testing.T) {
		check(t, slow(newWorld(1, trees, Limits{Trees: 3})).play(), 30*time.Second, 3, 3, 0)
	})
	t.Run("of requests", func(t *testing.T) {
		check(t, slow(newWorld(2, trees, Limits{Requests: 3})).play(), 20*time.Second, 11, 3, 8) // one of them is opened at 10 s
	})
	t.Run("of the source, while a lane is free", func(t *testing.T) {
		check(t, slow(newWorld(9, anyLane(root(0), root(0)), Limits{})).play(), 11*time.Second, 2, 2, 0)
	})
	t.Run("of the source, while trees wait", func(t *testing.T) {
		check(t, slow(newWorld(1, anyLane(root(0), root(0)), Limits{})).play(), 20*time.Second, 20, 2, 18)
	})
	t.Run("by Stop", func(t *testing.T) {
		check(t, slow(newWorld(1, trees, Limits{})).playUntil(seconds(4.5), never), 10*time.Second, 5, 1, 4)
	})
	t.Run("by Stop before the start", func(t *testing.T) {
		w := slow(newWorld(1, trees, Limits{}))
		w.c.Stop(0)
		check(t, w.play(), 0, 0, 0, 0)
	})
	t.Run("by Pause", func(t *testing.T) {
		w := slow(newWorld(3, endlessTrees{root(0, 0)}, Limits{}))
		w.pauses = true
		w.playUntil(seconds(1.5), never)
		require.Empty(t, w.check.broken)
		require.True(t, w.c.Done())
		for lane, open := range []bool{true, true, false} {
			_, ok := w.c.Handoff(lane)
			require.Equal(t, open, ok)
		}
	})
}

func TestTooManyTreesWait(t *testing.T) {
	w := newWorld(2, endlessTrees{root(0, 0)}, Limits{}).openBy(&every{gap: time.Second})
	w.server = func(Dispatch) answer { return answer{takes: seconds(1000)} }
	w.c.openings.max = 10
	w.play().requireQuiet(t)
	require.ErrorIs(t, w.c.Err(), ErrTooManyWaiting)
	require.EqualError(t, w.c.Err(), "more than 10 trees at 12s, with 2 lanes: too many trees have arrived and wait for a lane: let fewer arrive, or give them more lanes")
	require.True(t, w.c.Stopped())
	require.Equal(t, 1001*time.Second, w.ended, "what is in flight returns")
	require.Equal(t, 11, w.c.Counts().TreesAbandoned)
	require.Equal(t, 1<<24, newWorld(1, nil, Limits{}).openBy(nil).c.openings.max)
}

func TestRefusedTreesDoNotEndLanesOfArrivals(t *testing.T) {
	w := arriving(2, Limits{}, 0, 0, 1, 1)
	w.refuse = func(d Dispatch) error {
		if d.Tree < 3 {
			return errRefused
		}
		return nil
	}
	w.play().requireQuiet(t)
	require.NoError(t, w.failed)
	require.Equal(t, []string{"1s lane1 tree3 0#0"}, w.log())
	require.Empty(t, w.of(LaneFinished))
}

// A hold is of the tree whose request failed: the tree that takes the lane next begins when it arrives.
func TestHoldDelaysNoArrival(t *testing.T) {
	w := newWorld(1, anyLane(root(0), root(0, 0)), Limits{}).openBy(&instants{0, 1})
	w.holding(seconds(0.5), seconds(30))
	w.play().requireQuiet(t)
	require.Equal(t, []string{"0s lane0 tree0 0#0", "1s lane0 tree1 0#0", "2s lane0 tree1 0#1"}, w.log())

	w = newWorld(2, anyLane(root(0), root(0, 0)), Limits{Prefill: 1}).openBy(&instants{0, 0})
	w.server = func(Dispatch) answer { // while the first turn of the other lane waits for a slot
		w.c.Hold(1, seconds(10))
		return answer{takes: time.Second}
	}
	w.play().requireQuiet(t)
	require.Equal(t, []string{"0s lane0 tree0 0#0", "1s lane1 tree1 0#0", "10s lane1 tree1 0#1"}, w.log())
}

func TestOpenByRefuses(t *testing.T) {
	for _, c := range []struct {
		lanes  int
		limits Limits
		ramp   time.Duration
		want   string
	}{
		{1, Limits{SystemIdle: time.Second}, 0, "conductor: a limit of system idle time, 1s, would move arrivals"},
		{1, Limits{LaneRequests: 2}, 0, "conductor: a limit of requests of a lane, 2, would end lanes that arrivals need"},
		{0, Limits{}, 0, "conductor: arrivals on 0 lanes with a ramp of 0s: want a lane and no ramp"},
		{1, Limits{}, time.Minute, "conductor: arrivals on 1 lanes with a ramp of 1m0s: want a lane and no ramp"},
	} {
		require.PanicsWithValue(t, c.want, func() {
			conductor := New(c.lanes, nil, c.limits, nil, nil)
			conductor.Ramp(c.ramp)
			conductor.OpenBy(&instants{})
		})
	}
	require.PanicsWithValue(t, "conductor: a ramp of 1s, arrivals: true: want a ramp of 0 or more and no arrivals", func() {
		conductor := New(1, nil, Limits{}, nil, nil)
		conductor.OpenBy(&instants{})
		conductor.Ramp(time.Second)
	})
	require.PanicsWithValue(t, "conductor: an arrival at 1s after one at 2s", func() { arriving(1, Limits{}, 0, 2, 1).play() })
}

// 65,536 lanes cost nothing until trees take them; and no arrival costs more than INV-17 allows.
//
// Covers INV-17.
func TestArrivalsOnManyLanes(t *testing.T) {
	w := arriving(1<<16, Limits{}, 0, 1, 2, 2.5)
	w.play().requireQuiet(t)
	require.Len(t, w.c.lanes, 2)
	lanes := 1 << 12 // 16 times as many under make test-long
	if os.Getenv("AGENTX_LONG") != "" {
		lanes = 1 << 16
	}
	w = newWorld(lanes, endlessTrees{root(0)}, Limits{Trees: 3 * lanes / 2}).openBy(&every{gap: time.Microsecond})
	w.server = func(s Dispatch) answer { // the first half of the lanes is busy for long, then each becomes free
		return answer{takes: time.Minute + time.Duration(s.Tree*48271%65537)*time.Microsecond}
	}
	w.play().requireQuiet(t)
	require.LessOrEqual(t, w.check.worst, 64)
	t.Logf("at most %d entries for a unit of work", w.check.worst)
}

// Covers T-66.
func TestRampOpensOneLaneAfterAnother(t *testing.T) {
	w := newWorld(4, queue{0: {root(0), root(0)}, -1: {root(0), root(0), root(0), root(0)}}, Limits{})
	w.c.Ramp(6 * time.Second)
	w.play().requireQuiet(t)
	require.Equal(t, []string{
		"0s lane0 tree0 0#0", "1s lane0 tree1 0#0", "1.5s lane1 tree2 0#0", "2s lane0 tree3 0#0", "2.5s lane1 tree4 0#0", "3s lane2 tree5 0#0",
	}, w.log())
	require.Len(t, w.of(LaneFinished), 4)
	require.Equal(t, seconds(4.5), w.of(LaneFinished)[3].At)

	t.Run("start states begin with their lanes", func(t *testing.T) {
		start := func() *StartState {
			return &StartState{TurnsDone: []int{1}, Live: []LiveSession{{Turn: 1, Due: seconds(2)}}}
		}
		lanes := []Assignment{{Tree: root(0, 0), Start: start()}, {Tree: root(0, 0), Start: start()}}
		w := newWorld(2, &assignments{lanes: lanes}, Limits{SystemIdle: time.Minute})
		w.c.Ramp(2 * time.Hour)
		w.play().requireQuiet(t)
		require.Equal(t, []string{"2s lane0 tree0 0#1", "1h0m2s lane1 tree1 0#1"}, w.log(), "the ramp is no idle time")
	})
	t.Run("the end", func(t *testing.T) {
		w := newWorld(3, endlessTrees{root(0)}, Limits{})
		w.c.Ramp(30 * time.Second)
		w.playUntil(seconds(10.5), never).requireQuiet(t)
		require.Len(t, w.sends, 12)
	})
	require.Panics(t, func() { w.c.Ramp(-1) })
	r := &ramp{lane: 1 << 16, lanes: 1<<16 + 1, length: never}
	at, _ := r.Next()
	require.InEpsilon(t, float64(never), float64(at), 1e-4, "without overflow")
}

// Turns of an Absolute tree are due at their recorded instants from its arrival, or when what they follow is done.
//
// Covers T-67.
func TestTurnsAtRecordedInstants(t *testing.T) {
	at := func(t *Tree, list ...[]float64) *Tree { // instants by session and turn, instead of gaps
		t.Absolute = true
		for n, instants := range list {
			for k, s := range instants {
				t.Sessions[n].Turns[k] = Turn{At: seconds(s), Delay: never, JoinDelay: never, Spawns: t.Sessions[n].Turns[k].Spawns, Joins: t.Sessions[n].Turns[k].Joins}
			}
			t.Sessions[n].Offset = never
		}
		return t
	}
	t.Run("the later of the two", func(t *testing.T) {
		w := newWorld(1, anyLane(at(root(0, 0, 0, 0), []float64{0, 5, 7, 20})), Limits{}).openBy(&instants{10})
		w.takes(map[string]float64{"0#1": 4})
		w.play().requireQuiet(t)
		require.Equal(t, []string{"10s lane0 tree0 0#0", "15s lane0 tree0 0#1", "19s lane0 tree0 0#2", "30s lane0 tree0 0#3"}, w.log())
	})
	t.Run("from the arrival, not from the opening", func(t *testing.T) {
		w := newWorld(1, anyLane(root(0), at(root(0, 0, 0), []float64{0, 5, 20})), Limits{}).openBy(&instants{0, 1})
		w.takes(map[string]float64{"0#0": 10})
		w.play().requireQuiet(t)
		require.Equal(t, []string{
			"0s lane0 tree0 0#0 due 0s queued 0s", "10s lane0 tree1 0#0 due 1s queued 9s", "20s lane0 tree1 0#1 due 20s queued 0s",
			"21s lane0 tree1 0#2 due 21s queued 0s",
		}, w.queuedLog())
	})
	tree := func() *Tree {
		return at(root(0, 0).child(0, 0, true, 0, 0).child(0, 0, false, 0, 0, 0).join(0, 1, 1, 2), []float64{0, 12}, []float64{3}, []float64{0.5, 6})
	}
	t.Run("children and joins", func(t *testing.T) {
		w := newWorld(1, anyLane(tree()), Limits{}).openBy(&instants{10})
		w.takes(map[string]float64{"2#1": 1.5})
		w.play().requireQuiet(t)
		require.Equal(t, []string{ // session 2 begins when turn 0 is over
			"10s lane0 tree0 0#0", "11s lane0 tree0 2#0", "13s lane0 tree0 1#0", "16s lane0 tree0 2#1", "22s lane0 tree0 0#1",
		}, w.log())
		require.Equal(t, 1, w.c.Counts().ChildrenDelayed)
		w = newWorld(1, anyLane(tree()), Limits{}).openBy(&instants{10})
		w.takes(map[string]float64{"2#1": 20})
		w.play().requireQuiet(t)
		require.Equal(t, "36s lane0 tree0 0#1", w.log()[4], "with its last child")
	})
	t.Run("in a closed loop from the opening, and under a cap on idle time", func(t *testing.T) {
		w := newWorld(1, anyLane(tree(), tree()), Limits{TreeIdle: seconds(2)})
		w.play().requireQuiet(t)
		require.Equal(t, []string{ // 1#0 is over at 4 s, 2#1 at 7 s: after a second less than recorded; 0#1 after two
			"0s lane0 tree0 0#0", "1s lane0 tree0 2#0", "3s lane0 tree0 1#0", "6s lane0 tree0 2#1", "9s lane0 tree0 0#1",
			"10s lane0 tree1 0#0", "11s lane0 tree1 2#0", "13s lane0 tree1 1#0", "16s lane0 tree1 2#1", "19s lane0 tree1 0#1",
		}, w.log())
	})
	t.Run("what a cap has skipped stays skipped", func(t *testing.T) {
		w := newWorld(1, anyLane(at(root(0, 0, 0, 0), []float64{0, 100, 103, 109})), Limits{TreeIdle: seconds(5)})
		w.play().requireQuiet(t)
		require.Equal(t, []string{"0s lane0 tree0 0#0", "6s lane0 tree0 0#1", "9s lane0 tree0 0#2", "15s lane0 tree0 0#3"}, w.log())
	})
	t.Run("the same with the cap of the system", func(t *testing.T) {
		w := newWorld(1, anyLane(at(root(0, 0, 0, 0), []float64{0, 100, 103, 109})), Limits{SystemIdle: seconds(5)})
		w.play().requireQuiet(t)
		require.Equal(t, []string{"0s lane0 tree0 0#0", "6s lane0 tree0 0#1", "9s lane0 tree0 0#2", "15s lane0 tree0 0#3"}, w.log())
	})
}
