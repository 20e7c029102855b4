package conductor

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/fixtures"
)

// No tree is opened at the deadline or after, and a request returns once.
//
// Covers T-30.
func TestNoTreeOpensAtTheDeadline(t *testing.T) {
	const deadline = 10 * time.Second
	for off, opened := range map[time.Duration]int{-1: 2, 0: 1, 1: 1} {
		w := newWorld(1, anyLane(root(0), root(0)), Limits{})
		w.server = func(s Dispatch) answer { return answer{takes: deadline + off} }
		w.playUntil(deadline, never)
		require.Equal(t, opened, w.c.Counts().TreesOpened, "%d ns", off)
		require.Len(t, w.sends, opened)
		w.requireQuiet(t)
	}
	w := newWorld(1, anyLane(root(0), root(0)), Limits{})
	w.start()
	require.NoError(t, w.c.Returned(0, time.Second, time.Second, OK))
	before := w.c.Counts()
	require.EqualError(t, w.c.Returned(0, time.Second, time.Second, OK), "conductor: request 0 returns, but is not in flight")
	require.Error(t, w.c.Returned(7, time.Second, time.Second, OK), "one that was never sent")
	require.Error(t, w.c.Returned(-1, time.Second, time.Second, OK))
	require.Equal(t, before, w.c.Counts())
	require.Len(t, w.sends, 2)
}

// The end of the phase closes sessions in every state. Package replay cancels the requests in flight.
//
// Covers T-34.
func TestDeadlineEndsSessionsInEveryState(t *testing.T) {
	eventLogsOf(t, "T-34", fixtures.Counts{1, 1, 1})
	parked := root(0, 0).child(0, 0, false, 0, 0, 60).join(0, 1, 1)         // its child sleeps at the end
	flying := root(0, 0).child(0, 0, false, 0, 0).join(0, 1, 1)             // its child is in flight, and ends in grace
	timer := root(0, 60)                                                    // between turns
	unborn := root(0, 0).child(0, 0, false, 60, 0).child(0, 1, false, 0, 0) // one child sleeps, one will never be; its root never ends
	retained := root(0, 60).child(0, 0, false, 0, 0).after(1, 0, 0, 1)
	w := newWorld(5, anyLane(parked, flying, timer, unborn, retained, root(0)), Limits{})
	w.server = func(s Dispatch) answer {
		switch {
		case s.Tree == 1 && s.Session == 1:
			return answer{takes: 20 * time.Second}
		case s.Tree == 3 && s.Turn == 1:
			return answer{takes: time.Hour}
		}
		return answer{takes: time.Second}
	}
	w.playUntil(10*time.Second, 40*time.Second)
	require.Len(t, w.sends, 8)
	for _, s := range w.sends {
		require.Less(t, s.at, 10*time.Second)
	}
	require.Equal(t, 40*time.Second, w.ended, "when the last request was cancelled")
	require.Equal(t, []Outcome{OK, Cancelled}, []Outcome{w.returns[6].outcome, w.returns[7].outcome})
	n := w.c.Counts()
	require.Equal(t, []int{5, 0, 5}, []int{n.TreesOpened, n.TreesDrained, n.TreesReleased})
	require.Equal(t, []int{4, 1, 3}, []int{n.ChildrenSpawned, n.ChildrenCompleted, n.ChildrenTruncated})
	require.Equal(t, []int{2, 0, 2}, []int{n.ParentsSuspended, n.ParentsResumed, n.JoinsSuppressed})
	w.requireQuiet(t)
	for _, r := range w.returns {
		require.Error(t, w.c.Returned(r.ID, w.now, w.now, OK), "late")
	}
	require.Equal(t, n, w.c.Counts())
}

func TestNothingStartsAfterStop(t *testing.T) {
	w := newWorld(1, anyLane(root(0, 0), root(0)), Limits{})
	w.start()
	w.c.Stop(0)
	w.c.Stop(0)
	require.False(t, w.c.Done())
	w.c.Wake(time.Hour)
	require.NoError(t, w.c.Returned(0, time.Second, time.Second, OK))
	require.True(t, w.c.Done())
	require.Len(t, w.sends, 1)
	require.Equal(t, Counts{Sent: 1, Branches: Branches{TreesOpened: 1, TreesReleased: 1}}, w.c.Counts())

	w = newWorld(1, anyLane(root(0)), Limits{})
	w.c.Stop(0)
	w.play()
	require.Empty(t, w.sends)
	require.True(t, w.c.Done())
}

// The phase ends when its last request returns (hazards H21 and H5).
//
// Covers T-50.
func TestPhaseEndsWithItsLastResponse(t *testing.T) {
	eventLogsOf(t, "T-50", fixtures.Counts{3, 3, 3})
	w := newWorld(1, anyLane(root(0, 60)), Limits{}).playUntil(5*time.Second, never)
	require.Equal(t, 5*time.Second, w.ended)
	w.requireQuiet(t)
	nested := root(0, 0).child(0, 0, false, 0, 0, 0).child(1, 0, false, 0, 0, 60).join(1, 1, 2).join(0, 1, 1)
	w = newWorld(1, anyLane(nested), Limits{}).playUntil(5*time.Second, never)
	require.Equal(t, 5*time.Second, w.ended)
	n := w.c.Counts()
	require.Equal(t, []int{2, 2, 2}, []int{n.ParentsSuspended, n.JoinsSuppressed, n.ChildrenTruncated})
	w.requireQuiet(t)
}

// The counters add up after every event, which the checker checks. In this phase every counter counts something.
//
// Covers T-53.
func TestCountersAddUp(t *testing.T) {
	eventLogsOf(t, "T-53", fixtures.Counts{1, 1, 1})
	mixed := root(0, 1, 1).child(0, 0, false, 0, 0).sibling(false, 0, 0).child(0, 0, true, 2, 0, 0).child(0, 1, false, 0, 0).join(0, 1, 1).join(0, 2, 4)
	mixed.Sessions[2].Unplayable = true
	stuck := root(0, 1).child(0, 0, false, 0, 0, 0).after(1, 1, 0, 1).join(0, 1, 1)
	resumed := sleepers(0, 30e3)
	late := root(0, 1).child(0, 0, false, 0, 0, 60).join(0, 1, 1).after(0, 1, 1, 1)
	w := newWorld(4, &assignments{lanes: []Assignment{{Tree: mixed}, {Tree: stuck}, resumed, {Tree: late}}}, Limits{}).refused(4)
	w.server = func(s Dispatch) answer {
		return answer{time.Second, 0, map[bool]Outcome{true: Overflow}[s.Tree == 0 && s.Session == 3]}
	}
	w.playUntil(20*time.Second, never)
	require.Equal(t, Counts{
		Sent: 10, Branches: Branches{
			TreesOpened: 4, TreesDrained: 2, TreesReleased: 2, TreesDeadlocked: 1,
			ChildrenResumed: 2, ChildrenSpawned: 6, ChildrenDelayed: 1,
			ChildrenCompleted: 2, // 1 of the first tree, 1 of the third
			ChildrenErrored:   1, // could not be played
			ChildrenTruncated: 5, // overflow, refused, deadlocked, and two at the end
			ParentsSuspended:  3, ParentsResumed: 1, JoinsSuppressed: 2,
		},
	}, w.c.Counts(), fmt.Sprint(w.log()))
	w.requireQuiet(t)
}
