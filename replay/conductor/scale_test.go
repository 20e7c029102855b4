package conductor

import (
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/fixtures"
)

// Nothing outlives its tree (hazard H18): requireQuiet looks for what is left.
//
// Covers T-49.
func TestNothingOutlivesItsTree(t *testing.T) {
	vectorsOf(t, "barrier_log", "T-49", fixtures.Counts{1, 1, 1}, playBarrier)
	t.Run("many trees that end with a child", func(t *testing.T) {
		trees := crowd() / 4
		source := queue{}
		for range trees {
			source[-1] = append(source[-1], root(0, 1, 1).child(0, 0, true, 0, 0).child(0, 2, false, 3, 0, 0).join(0, 1, 1).after(2, 1, 0, 2))
		}
		w := newWorld(7, source, Limits{TreeIdle: 2 * time.Second, Prefill: 5}).play()
		require.Equal(t, trees, w.c.Counts().TreesDrained)
		require.Len(t, w.sends, 6*trees)
		require.LessOrEqual(t, cap(w.c.timers.trees.items)+cap(w.c.prefill.trees.items)+cap(w.c.touched)+cap(w.c.undecided), 64)
		w.requireQuiet(t)
	})
	t.Run("one tree with many live children", func(t *testing.T) {
		n := crowd()
		w := newWorld(1, anyLane(wide(n, 1, func(k int) (bool, float64) { return false, 0 })), Limits{})
		w.server = func(s Dispatch) answer { return answer{takes: time.Duration(1+s.ID%100) * time.Second} }
		w.play()
		require.Len(t, w.sends, 1+n)
		w.requireQuiet(t)
	})
}

// crowd returns how many children a tree has in the tests of scale: ten times as many under make test-long. Work for each of them is beyond
// the bounds in either.
func crowd() int {
	if os.Getenv("AGENTX_LONG") == "" {
		return 4000
	}
	return 40_000
}

// wide returns a tree of a root whose first turn spawns many children of one turn, in one branch. The function of returns
// whether a child counts from the issue, and its offset in seconds.
func wide(children, turns int, of func(k int) (onIssue bool, offset float64)) *Tree {
	t := root(append(make([]float64, 1), make([]float64, turns-1)...)...)
	for k := range children {
		onIssue, offset := of(k)
		if k == 0 {
			t.child(0, 0, onIssue, offset, 0)
		} else {
			t.sibling(onIssue, offset, 0)
		}
	}
	return t
}

// In a tree with very many live children no event costs more than INV-17 allows, which the checker counts: the work is that of the
// event, not of the tree (hazard H34).
//
// Covers T-60.
func TestWorkOfAnEventIsBounded(t *testing.T) {
	n, worst := crowd(), 0
	asleep := func(k int) (bool, float64) { return false, 10 + float64(k)/1000 } // so that each has an event of its own
	run := func(name string, source Source, limits Limits, stop time.Duration, act func(w *world)) {
		t.Run(name, func(t *testing.T) {
			w := newWorld(1, source, limits)
			w.start()
			if act != nil {
				act(w)
			}
			w.goOn(stop, never)
			w.requireQuiet(t)
			require.LessOrEqual(t, w.check.worst, 128)
			t.Logf("at most %d entries for a unit of work", w.check.worst)
			worst = max(worst, w.check.worst)
		})
	}
	gated := wide(n, 2, asleep).join(0, 1, 1)
	run("spawn and return", anyLane(gated), Limits{}, never, nil)
	run("refusal", anyLane(gated), Limits{}, never, func(w *world) {
		w.refuse = func(s Dispatch) error { return map[bool]error{true: errRefused}[s.Session%2 == 1] }
	})
	run("deadline", anyLane(gated), Limits{}, 20*time.Second, nil)
	run("deadline with all in flight", anyLane(gated), Limits{}, time.Hour, func(w *world) {
		w.server = func(s Dispatch) answer { return answer{takes: time.Duration(count(s.Session > 0)) * 2 * time.Hour} }
	})
	run("jumps of the cap of the tree", anyLane(gated), Limits{TreeIdle: time.Millisecond}, never, func(w *world) {
		w.server = func(s Dispatch) answer { return answer{} }
	})
	run("jumps of the cap of the system", anyLane(gated), Limits{SystemIdle: time.Millisecond}, never, func(w *world) {
		w.server = func(s Dispatch) answer { return answer{} }
	})
	run("one slot for all", anyLane(gated), Limits{Prefill: 1}, never, nil)
	run("a request limit", anyLane(gated), Limits{Requests: n / 2}, never, nil)

	nested := wide(n, 2, asleep) // child k spawns a grandchild among them all
	for k := 1; k <= n; k += n / 8 {
		nested.child(k, 0, k%2 == 0, 5, 0)
	}
	run("one more child", anyLane(nested), Limits{}, never, nil)

	run("children of the issue and of the return", anyLane(wide(n, 3, func(k int) (bool, float64) { return k < n-2, float64(k) / 1000 })), Limits{}, never,
		func(w *world) { // the first kind is over when the turn returns, and the turn does not look for them
			w.flights.items[0].at = time.Hour
		})
	dead := wide(n, 3, func(k int) (bool, float64) { return k < n-2, float64(k) / 1000 })
	run("the same, and the turn overflows", anyLane(dead), Limits{}, never, func(w *world) {
		w.flights.items[0].at, w.flights.items[0].outcome = time.Hour, Overflow
	})

	branches := root(0, 1)
	for k := range n {
		branches.child(0, 0, false, 10+float64(k)/1000, 0).join(0, 1, k+1)
	}
	run("as many branches at one gate", anyLane(branches), Limits{}, never, nil)

	// Each of these edges is checked once, however many are done when the turn is due: 20 s after half of the children are
	// done, or when all are.
	ordered := wide(n, 2, asleep)
	for k := range n {
		ordered.after(0, 1, k+1, 0)
	}
	run("all are predecessors of one turn", anyLane(ordered), Limits{}, never, nil)
	late := wide(n, 2, asleep)
	late.Sessions[0].Turns[1].Delay = 10*time.Second + time.Duration(n/2)*time.Millisecond
	late.Sessions[0].Turns[1].After = ordered.Sessions[0].Turns[1].After
	run("half of them are over when it comes up", anyLane(late), Limits{}, never, nil)
	gate := wide(n, 2, asleep).join(0, 1, 1)
	gate.Sessions[0].Turns[1].After = ordered.Sessions[0].Turns[1].After
	run("and they gate it as well", anyLane(gate), Limits{}, never, nil)
	crossed := wide(n, 2, asleep) // each waits for the one after it: none can be sent before the last
	for k := 1; k < n; k++ {
		crossed.after(k, 0, k+1, 0)
	}
	run("each waits for another", anyLane(crossed), Limits{}, never, nil)
	stuck := wide(n, 2, asleep).after(0, 1, 1, 0)
	for k := range n {
		stuck.after(k+1, 0, 0, 1)
	}
	run("all are deadlocked", anyLane(stuck), Limits{}, never, nil)

	start := &StartState{TurnsDone: make([]int, n+1)}
	start.TurnsDone[0] = 1
	start.Live = []LiveSession{{Session: 0, Turn: 1, Parked: true}}
	for k := 1; k <= n; k++ {
		if k%2 == 0 {
			start.TurnsDone[k] = 1
		} else {
			start.Live = append(start.Live, LiveSession{Session: k, Due: time.Duration(k) * time.Millisecond})
		}
	}
	run("a start state", &assignments{lanes: []Assignment{{Tree: gated, Start: start}}}, Limits{}, never, nil)
	ahead := &StartState{TurnsDone: make([]int, n+2), Live: []LiveSession{{Session: 0, Turn: 1}}} // of which nearly all is ahead
	ahead.TurnsDone[0] = 1
	later := root(0, 0, 1).child(0, 0, false, 0, 0)
	for k := range n {
		later.child(0, 1, false, 10+float64(k)/1000, 0)
	}
	ahead.TurnsDone[1] = 1
	run("a start state with all ahead", &assignments{lanes: []Assignment{{Tree: later, Start: ahead}}}, Limits{}, never, nil)
	t.Logf("at most %d entries for a unit of work in all", worst)
}

// TestHourOf256Lanes plays an hour of 256 lanes, in trees most of which have eight live children: all of it under make test-long, else ten
// minutes.
func TestHourOf256Lanes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	minutes := 10
	if os.Getenv("AGENTX_LONG") != "" {
		minutes = 60
	}
	length := time.Duration(minutes) * time.Minute
	w := newWorld(256, grown{random}, Limits{TreeIdle: 300 * time.Second, SystemIdle: 10 * time.Second, Prefill: 2000})
	w.server = func(Dispatch) answer {
		a := answer{takes: time.Duration(random.ExpFloat64() * float64(12*time.Second))}
		a.token, a.outcome = a.takes/8, []Outcome{OK, OK, OK, OK, OK, OK, OK, OK, Failed, Overflow}[random.IntN(10)]
		return a
	}
	w.playUntil(length, length+30*time.Second)
	w.requireQuiet(t)
	n := w.c.Counts()
	require.Greater(t, n.Sent, 100_000*minutes/60)
	require.Greater(t, n.TreesDrained, 256*minutes/60)
	t.Logf("%d requests, %d trees, at most %d entries for a unit of work", n.Sent, n.TreesOpened, w.check.worst)
}

// grown is a source of trees with eight children and a nested one, gates and recorded order.
type grown struct{ *rand.Rand }

func (g grown) Next(int) (Assignment, bool) {
	gaps := func(turns int) []float64 {
		list := make([]float64, turns)
		for k := 1; k < turns; k++ {
			list[k] = g.ExpFloat64() * 20
		}
		return list
	}
	t := root(gaps(12)...)
	for range 8 {
		t.child(0, g.IntN(3), g.IntN(2) == 0, g.ExpFloat64()*30, gaps(15)...)
	}
	t.child(4, 7, true, 5, gaps(4)...)
	t.join(0, 8, 1, 2, 3).join(0, 10, 2, 4)
	t.after(0, 9, 5, 3).after(6, 5, 0, 4)
	return Assignment{Tree: t}, true
}
