package conductor

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/fixtures"
)

// A turn joins two branches, one of which was done before t*.
//
// Covers T-6.
func TestGateWithABranchOverBeforeTStar(t *testing.T) {
	eventLogsOf(t, "T-6", fixtures.Counts{2, 2, 2})
}

// A turn that joins two branches waits for the one that is spawned after t*.
//
// Covers T-7.
func TestGateWaitsForABranchSpawnedAfterTStar(t *testing.T) {
	eventLogsOf(t, "T-7", fixtures.Counts{1, 1, 1})
}

// A turn whose branches were all done at t* does not park.
//
// Covers T-8.
func TestNoGateWithoutALiveBranch(t *testing.T) { eventLogsOf(t, "T-8", fixtures.Counts{1, 1, 1}) }

// A session that parks after t* does not wait for a branch that was done before t* (hazard H1).
//
// Covers T-9.
func TestGateMadeAfterTStarKnowsTheBranchOverBefore(t *testing.T) {
	eventLogsOf(t, "T-9", fixtures.Counts{1, 1, 1})
}

// refused makes launch refuse the first turn of sessions.
func (w *world) refused(sessions ...int) *world {
	w.refuse = func(s Dispatch) error {
		for _, n := range sessions {
			if s.Session == n && s.Turn == 0 {
				return errRefused
			}
		}
		return nil
	}
	return w
}

// When no child of a gate starts, the turn behind the gate is sent once, after its delay (bug 5).
//
// Covers T-10.
func TestParentOfRefusedChildrenContinuesOnce(t *testing.T) {
	eventLogsOf(t, "T-10", fixtures.Counts{3, 3, 3})
	for name, onIssue := range map[string]bool{"children of the return": false, "children of the issue": true} {
		t.Run(name, func(t *testing.T) {
			tree := root(0, 5, 0, 0).child(0, 0, onIssue, 0, 0).sibling(onIssue, 0, 0).join(0, 1, 1, 2)
			w := newWorld(1, anyLane(tree), Limits{}).refused(1, 2).play()
			require.Equal(t, []string{"0s lane0 tree0 0#0", "6s lane0 tree0 0#1", "7s lane0 tree0 0#2", "8s lane0 tree0 0#3"}, w.log())
			require.Empty(t, w.of(SessionParked))
			require.Equal(t, 2, w.c.Counts().ChildrenTruncated)
			w.requireQuiet(t)
		})
	}
	t.Run("a grandchild is refused with its parent", func(t *testing.T) {
		tree := root(0, 5).child(0, 0, false, 0, 0, 0).child(1, 0, true, 0, 0).child(1, 0, false, 0, 0).join(0, 1, 1).join(1, 1, 3)
		w := newWorld(1, anyLane(tree), Limits{}).refused(1).play()
		require.Equal(t, []string{"0s lane0 tree0 0#0", "6s lane0 tree0 0#1"}, w.log())
		require.Equal(t, 2, w.c.Counts().ChildrenSpawned, "the one of the return never was")
		w.requireQuiet(t)
	})
}

// A parked parent sends its turn when its last child is refused or at its deadline, whichever is later.
//
// Covers T-11.
func TestRefusalOfTheLastChildSendsAParkedParent(t *testing.T) {
	eventLogsOf(t, "T-11", fixtures.Counts{1, 1, 1})
	for delay, want := range map[float64]string{2: "10s lane0 tree0 0#1", 20: "21s lane0 tree0 0#1"} {
		tree := root(0, delay).child(0, 0, false, 9, 0).join(0, 1, 1)
		w := newWorld(1, anyLane(tree), Limits{}).refused(1).play()
		require.Equal(t, []string{"0s lane0 tree0 0#0", want}, w.log())
		require.Len(t, w.of(SessionParked), 1)
		w.requireQuiet(t)
	}
}

// A gate of a later turn whose branches are done is passed when that turn comes, not before (hazard H2).
//
// Covers T-12.
func TestOuterGateOpensAtItsOwnTurn(t *testing.T) {
	eventLogsOf(t, "T-12", fixtures.Counts{1, 1, 1})
	t.Run("an arrow from another state is found", func(t *testing.T) {
		w := newWorld(1, anyLane(root(0, 1)), Limits{})
		w.start()
		s := w.c.lanes[0].sessions[0]
		for _, from := range []state{fresh, due, retained, queued, deferred, deciding, parked, closed} {
			require.PanicsWithValue(t, fmt.Sprintf("conductor: lane 0, tree 0, session 0, turn 0 is in flight, not %s, and cannot become due", from),
				func() { s.move(from, due) })
		}
		require.Panics(t, func() { w.c.schedule(s, 0) })
		require.Panics(t, func() { w.c.queueOrRetain(s, due) })
		require.Panics(t, func() { w.c.issue(s, 0) })
		require.Panics(t, func() { w.c.park(s) })
		require.Panics(t, func() { w.c.close(s, 0, Truncated) })
	})
}

// A turn waits for its recorded predecessors in other sessions.
//
// Covers T-27.
func TestRecordedOrderBetweenSessions(t *testing.T) {
	vectorsOf(t, "barrier_log", "T-27", fixtures.Counts{9, 9, 9}, playBarrier)
	eventLogsOf(t, "T-27", fixtures.Counts{1, 1, 1})
	t.Run("what is let go leaves in the order of names", func(t *testing.T) {
		tree := root(0).child(0, 0, true, 0, 0).child(0, 0, true, 1, 0).child(0, 0, true, 2, 0).child(0, 0, true, 3, 0)
		for n := 2; n <= 4; n++ {
			tree.after(n, 0, 1, 0)
			tree.Sessions[n].Rank = 10 - n
		}
		w := newWorld(1, anyLane(tree), Limits{})
		w.server = func(s Dispatch) answer { return answer{9 * time.Second, 0, Failed} } // how it ends does not matter
		w.play()
		require.Equal(t, []string{"9s lane0 tree0 4#0", "9s lane0 tree0 3#0", "9s lane0 tree0 2#0"}, w.log()[2:])
		require.Len(t, w.of(TurnRetained), 3)
		w.requireQuiet(t)
	})
	t.Run("edges are as recorded", func(t *testing.T) {
		for _, c := range []struct {
			name   string
			a, b   [2]float64 // start and end of the turns of two sessions
			before bool
		}{
			{"touching", [2]float64{0, 5}, [2]float64{5, 9}, true},
			{"equal starts", [2]float64{5, 5}, [2]float64{5, 9}, false},
			{"overlapping", [2]float64{0, 6}, [2]float64{5, 9}, false},
			{"apart", [2]float64{0, 4}, [2]float64{5, 9}, true},
		} {
			r := recorded{{{c.a[0], c.a[1]}}, {{c.b[0], c.b[1]}}}
			require.Equal(t, c.before, len(r.before(1, 0)) == 1, c.name)
			require.Empty(t, r.before(0, 0))
		}
		chained := recorded{{{0, 1}}, {{2, 3}}, {{4, 5}}}
		require.Equal(t, []TurnRef{{1, 0}}, chained.before(2, 0), "the first comes before the second already")
		require.Equal(t, []TurnRef{{0, 1}}, recorded{{{0, 1}, {1, 2}, {2, 9}}, {{3, 4}}}.before(1, 0), "the latest")
	})
	t.Run("a turn is retained once", func(t *testing.T) {
		w := newWorld(1, anyLane(root(0).child(0, 0, true, 0, 0).after(1, 0, 0, 0)), Limits{})
		w.start()
		s := w.c.lanes[0].sessions[1]
		require.Equal(t, retained, s.state)
		require.Panics(t, func() { w.c.queueOrRetain(s, due) })
	})
}

// The turns that a truncated session does not send count as done (hazard H9).
//
// Covers T-28.
func TestTruncatedSessionReleasesItsWaiters(t *testing.T) {
	eventLogsOf(t, "T-28", fixtures.Counts{2, 2, 2})
	for name, after := range map[string]int{"its last turn": 4, "a turn between": 2, "the next": 1} {
		t.Run(name, func(t *testing.T) { // the session overflows at turn 0, after the turn that waits came up
			tree := root(0).child(0, 0, true, 0, 0, 0, 0, 0, 0).child(0, 0, true, 2, 0).after(2, 0, 1, after)
			w := newWorld(1, anyLane(tree), Limits{})
			w.server = func(s Dispatch) answer {
				return answer{9 * time.Second, 0, map[bool]Outcome{true: Overflow}[s.Session == 1]}
			}
			w.play()
			require.Equal(t, []string{"0s lane0 tree0 0#0", "0s lane0 tree0 1#0", "9s lane0 tree0 2#0"}, w.log())
			require.Equal(t, 9*time.Second, w.sends[2].Due)
			w.requireQuiet(t)
		})
	}
}

// A gated turn is sent when its last child is done or at its deadline, whichever is later.
//
// Covers T-36.
func TestGatedTurnLeavesAtTheLaterOfChildAndDeadline(t *testing.T) {
	eventLogsOf(t, "T-36", fixtures.Counts{4, 4, 4})
	t.Run("no deadline", func(t *testing.T) { // the plan of JoinTiming = immediate
		for child, want := range map[float64]string{4: "4s lane0 tree0 0#1", 15: "15s lane0 tree0 0#1"} {
			tree := root(0, 10).child(0, 0, false, 0, 0).join(0, 1, 1)
			tree.Sessions[0].Turns[1].JoinDelay = 0
			w := newWorld(1, anyLane(tree), Limits{})
			w.takes(map[string]float64{"0#0": 1, "1#0": child - 1})
			w.play()
			require.Equal(t, want, w.log()[2])
			w.requireQuiet(t)
		}
	})
	t.Run("noticed late", func(t *testing.T) {
		w := newWorld(1, anyLane(root(0, 0).child(0, 0, true, 0, 0).join(0, 1, 1)), Limits{})
		w.start()
		require.NoError(t, w.c.Returned(0, 5*time.Second, 9*time.Second, OK)) // the root, before its child in the order of events
		w.now = 10 * time.Second
		require.NoError(t, w.c.Returned(1, 6*time.Second, w.now, OK))
		require.Equal(t, 6*time.Second, w.sends[2].Due)
		require.Equal(t, 10*time.Second, w.sends[2].at)
	})
}

// A child that began while its parent's request was in flight starts while it is, and once, however fast the answer is
// (hazard H3).
//
// Covers T-37.
func TestChildrenOfAnIssueStartOnce(t *testing.T) {
	eventLogsOf(t, "T-37", fixtures.Counts{2, 2, 2})
	tree := root(0, 0).child(0, 0, true, 0, 0).child(0, 0, true, 3, 0).child(1, 0, true, 0, 0) // nested: for every parent
	w := newWorld(1, anyLane(tree), Limits{})
	w.server = func(s Dispatch) answer { return answer{} }
	w.play()
	require.Equal(t, []string{
		"0s lane0 tree0 0#0", "0s lane0 tree0 1#0", "0s lane0 tree0 3#0", "0s lane0 tree0 0#1", "3s lane0 tree0 2#0",
	}, w.log())
	require.Len(t, w.of(SessionSpawned), 3)
	w.requireQuiet(t)
	require.Zero(t, w.check.sent-w.check.back)
}

// A branch that had begun at t* is not spawned again by its turn (hazard H15).
//
// Covers T-41.
func TestBranchBegunAtTStarIsNotSpawnedAgain(t *testing.T) {
	eventLogsOf(t, "T-41", fixtures.Counts{1, 1, 1})
	for name, outcome := range map[string]Outcome{"its turn is sent": OK, "its turn never is": Overflow} {
		t.Run("a nested chain that was over, "+name, func(t *testing.T) {
			tree := root(0, 1).child(0, 0, false, 0, 0, 0, 0).child(1, 1, true, 0, 0).child(1, 1, false, 0, 0)
			start := &StartState{TurnsDone: []int{1, 0, 1, 0}, Live: []LiveSession{{Session: 0, Turn: 1}, {Session: 1}}}
			w := newWorld(1, &assignments{lanes: []Assignment{{Tree: tree, Start: start}}}, Limits{})
			w.server = func(s Dispatch) answer {
				return answer{time.Second, 0, map[bool]Outcome{true: outcome}[s.Session == 1 && s.Turn == 0]}
			}
			w.play()
			require.Equal(t, map[Outcome]int{OK: 5, Overflow: 2}[outcome], len(w.sends))
			for _, e := range w.events {
				require.False(t, e.Session == 2, "%+v", e)
			}
			w.requireQuiet(t)
		})
	}
}

// A branch with a live session is not spawned again by its turn, also when a sibling is unplayable. Session 3 waits for the
// last turn of the live session.
func TestBranchWithAnUnplayableSiblingIsNotSpawnedAgain(t *testing.T) {
	for name, outcome := range map[string]Outcome{"its turn is sent": OK, "its turn never is": Overflow} {
		t.Run(name, func(t *testing.T) {
			tree := root(0, 1, 1).child(0, 1, false, 0, 0, 5).sibling(false, 0).child(0, 1, false, 0, 0).after(3, 0, 1, 1)
			tree.Sessions[2].Unplayable = true
			require.NoError(t, tree.Validate())
			start := &StartState{TurnsDone: make([]int, 4), Live: []LiveSession{{Session: 0}, {Session: 1}, {Session: 3}}}
			w := newWorld(1, &assignments{lanes: []Assignment{{Tree: tree, Start: start}}}, Limits{})
			w.server = func(s Dispatch) answer {
				return answer{time.Second, 0, map[bool]Outcome{true: outcome}[s.Session == 0 && s.Turn == 0]}
			}
			w.play()
			require.Equal(t, "7s lane0 tree0 3#0", w.log()[len(w.sends)-1], "after the turn at 6 s, which takes a second")
			for _, e := range w.events {
				require.False(t, e.Kind == SessionClosed && e.Reason == NeverSpawned, "%+v", e)
			}
			w.requireQuiet(t)
		})
	}
}

// The turns of sessions that are never spawned count as done (hazard H16).
//
// Covers T-42.
func TestSessionsNeverSpawnedReleaseTheirWaiters(t *testing.T) {
	eventLogsOf(t, "T-42", fixtures.Counts{2, 2, 2})
	for name, refuse := range map[string]int{"their parent overflows": 0, "their parent is refused": 1} {
		t.Run(name, func(t *testing.T) { // a subtree of three generations
			tree := root(0, 1).child(0, 0, false, 0, 0, 0).child(1, 1, false, 0, 0).child(2, 0, true, 0, 0, 0).after(0, 1, 3, 1)
			w := newWorld(1, anyLane(tree), Limits{})
			if refuse > 0 {
				w.refused(refuse)
			}
			w.server = func(s Dispatch) answer {
				return answer{time.Second, 0, map[bool]Outcome{true: Overflow}[s.Session == 1 && s.Turn == 0]}
			}
			w.play()
			require.Equal(t, "2s lane0 tree0 0#1", w.log()[len(w.sends)-1])
			never := 0
			for _, e := range w.of(SessionClosed) {
				never += count(e.Reason == NeverSpawned)
			}
			require.Equal(t, 2, never)
			w.requireQuiet(t)
		})
	}
}

// A deadlocked tree is reported at once, with every blocked session, and its lane takes the next tree.
//
// Covers T-43.
func TestDeadlockedTreeIsReportedAndItsLaneGoesOn(t *testing.T) {
	eventLogsOf(t, "T-43", fixtures.Counts{2, 2, 2})
	t.Run("other lanes are untouched", func(t *testing.T) {
		stuck := root(0, 1).child(0, 0, false, 0, 0, 2).after(0, 1, 1, 1).after(1, 1, 0, 1)
		w := newWorld(2, queue{0: {stuck, root(0)}, 1: {root(0, 3, 3)}}, Limits{}).play()
		deadlock := w.of(TreeDeadlocked)[0]
		require.Equal(t, Event{Kind: TreeDeadlocked, At: 4 * time.Second, Deadlock: deadlock.Deadlock}, deadlock, "when the second of them came up")
		require.Equal(t, []Blocked{{Session: 0, Turn: 1, After: []TurnRef{{1, 1}}}, {Session: 1, Turn: 1, After: []TurnRef{{0, 1}}}}, deadlock.Deadlock.Blocked)
		require.Equal(t, Event{Kind: TurnReturned, At: 2 * time.Second, Session: 1}, deadlock.Deadlock.Last)
		require.Equal(t, []string{
			"0s lane0 tree0 0#0", "0s lane1 tree1 0#0", "1s lane0 tree0 1#0", "4s lane1 tree1 0#1", "4s lane0 tree2 0#0", "8s lane1 tree1 0#2",
		}, w.log())
		require.Equal(t, 1, w.c.Counts().TreesDeadlocked)
		w.requireQuiet(t)
	})
}

// Children start at their recorded offsets. Speed and MaxGap act on the plan, before the conductor.
//
// Covers T-45.
func TestChildrenStartAtTheirRecordedOffsets(t *testing.T) {
	eventLogsOf(t, "T-45", fixtures.Counts{4, 3, 3})
	t.Run("no child of the return without a return", func(t *testing.T) { // also when none of the branch is in flight any more
		tree := root(0, 0).child(0, 0, true, 0, 0).sibling(false, 0, 0).sibling(false, 5, 0)
		w := newWorld(1, anyLane(tree), Limits{})
		w.server = func(s Dispatch) answer {
			return answer{time.Duration(10-9*s.Session) * time.Second, 0, map[bool]Outcome{true: Overflow}[s.Session == 0]}
		}
		w.play()
		require.Equal(t, []string{"0s lane0 tree0 0#0", "0s lane0 tree0 1#0"}, w.log())
		require.Equal(t, 2, w.c.Counts().ChildrenTruncated)
		w.requireQuiet(t)
	})
}
