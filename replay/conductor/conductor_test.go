package conductor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAllLanesSendAtTheStart(t *testing.T) {
	w := newWorld(3, anyLane(root(0, 1), root(9), root(0)), Limits{}).play()
	require.Equal(t, []string{"0s lane0 tree0 0#0", "0s lane1 tree1 0#0", "0s lane2 tree2 0#0", "2s lane0 tree0 0#1"}, w.log())
	w.requireQuiet(t)
}

func TestGapCountsFromTheEndOfTheTurnBefore(t *testing.T) {
	w := newWorld(1, anyLane(root(0, 4, 0)), Limits{})
	w.takes(map[string]float64{"0#0": 30, "0#1": 2.5})
	w.play()
	require.Equal(t, []string{"0s lane0 tree0 0#0", "34s lane0 tree0 0#1", "36.5s lane0 tree0 0#2"}, w.log())
}

func TestGapCountsFromTheEndEvenWhenItIsNoticedLate(t *testing.T) {
	w := newWorld(1, anyLane(root(0, 4)), Limits{})
	w.c.Start(0)
	w.c.Returned(0, 10*time.Second, 13*time.Second, false)
	at, ok := w.c.Next()
	require.True(t, ok)
	require.Equal(t, 14*time.Second, at)
	w.now = 17 * time.Second
	w.c.Wake(w.now)
	require.Equal(t, 14*time.Second, w.sends[1].Due)
	require.Equal(t, 17*time.Second, w.sends[1].at)
}

func TestChildOfAnIssueStartsWhileItsTurnRuns(t *testing.T) {
	w := newWorld(1, anyLane(root(0, 0).child(0, 0, true, 3, 0, 1)), Limits{})
	w.takes(map[string]float64{"0#0": 10})
	w.play()
	require.Equal(t, []string{"0s lane0 tree0 0#0", "3s lane0 tree0 1#0", "5s lane0 tree0 1#1", "10s lane0 tree0 0#1"}, w.log())
}

func TestChildOfAReturnStartsItsOffsetAfterIt(t *testing.T) {
	w := newWorld(1, anyLane(root(0, 20).child(0, 0, false, 3, 0)), Limits{})
	w.takes(map[string]float64{"0#0": 10})
	w.play()
	require.Equal(t, []string{"0s lane0 tree0 0#0", "13s lane0 tree0 1#0", "30s lane0 tree0 0#1"}, w.log())
}

func TestRootNeedsNoParent(t *testing.T) {
	tree := root(0, 1)
	tree.Sessions[0].Parent = -1
	w := newWorld(1, anyLane(tree), Limits{}).play()
	require.Equal(t, []string{"0s lane0 tree0 0#0", "2s lane0 tree0 0#1"}, w.log())
}

func TestJoinWaitsForTheLastChild(t *testing.T) {
	w := newWorld(1, anyLane(root(0, 2).child(0, 0, false, 0, 0).child(0, 0, false, 1, 0, 0).join(0, 1, 1, 2)), Limits{})
	w.takes(map[string]float64{"2#1": 30})
	w.play() // the first child ends at 2 s, the second at 33 s
	require.Equal(t, "33s lane0 tree0 0#1", w.log()[4])
	w.requireQuiet(t)
}

func TestJoinWaitsForItsOwnGap(t *testing.T) {
	w := newWorld(1, anyLane(root(0, 50).child(0, 0, false, 0, 0).join(0, 1, 1)), Limits{}).play()
	require.Equal(t, "51s lane0 tree0 0#1", w.log()[2])
}

func TestJoinIsDueWhenTheLastChildEnded(t *testing.T) {
	w := newWorld(1, anyLane(root(0, 0).child(0, 0, true, 0, 0).join(0, 1, 1)), Limits{})
	w.c.Start(0)
	w.c.Returned(0, 5*time.Second, 9*time.Second, false) // the root, before its child in the order of events
	w.now = 10 * time.Second
	w.c.Returned(1, 6*time.Second, w.now, false)
	require.Equal(t, 6*time.Second, w.sends[2].Due)
	require.Equal(t, 10*time.Second, w.sends[2].at)
}

func TestChildNobodySpawnedHoldsUpNobody(t *testing.T) {
	w := newWorld(1, anyLane(root(0, 1, 1).child(0, 1, false, 0, 0).join(0, 1, 1)), Limits{}).play()
	require.Equal(t, []string{"0s lane0 tree0 0#0", "2s lane0 tree0 0#1", "3s lane0 tree0 1#0", "4s lane0 tree0 0#2"}, w.log())
	w.requireQuiet(t)
}

func TestGrandchildHoldsUpItsParentAlone(t *testing.T) {
	tree := root(0, 0).child(0, 0, false, 0, 0, 0).child(1, 0, false, 0, 0).join(1, 1, 2)
	w := newWorld(1, anyLane(tree), Limits{})
	w.takes(map[string]float64{"2#0": 60})
	w.play()
	require.Equal(t, []string{"0s lane0 tree0 0#0", "1s lane0 tree0 1#0", "1s lane0 tree0 0#1", "2s lane0 tree0 2#0", "1m2s lane0 tree0 1#1"}, w.log())
	w.requireQuiet(t)
}

func TestBackgroundChildHoldsTheLane(t *testing.T) {
	w := newWorld(1, anyLane(root(0, 0).child(0, 0, true, 0, 0), root(0)), Limits{})
	w.takes(map[string]float64{"1#0": 100})
	w.play()
	require.Equal(t, "1m40s lane0 tree1 0#0", w.log()[3], "the root ended at 2 s")
	w.requireQuiet(t)
}

func TestNextTreeIsDueWhenTheLastOneEnded(t *testing.T) {
	w := newWorld(1, anyLane(root(0).child(0, 0, true, 0, 0), root(0)), Limits{})
	w.c.Start(0)
	w.c.Returned(1, 8*time.Second, 9*time.Second, false)
	w.now = 10 * time.Second
	w.c.Returned(0, 7*time.Second, w.now, false)
	require.Equal(t, sending{Send{ID: 2, Tree: 1, Due: 8 * time.Second}, 10 * time.Second}, w.sends[2])
}

func TestFailedRequestDoesNotEndItsSession(t *testing.T) {
	w := newWorld(1, anyLane(root(0, 1)), Limits{}).play() // the conductor is told of ended sessions alone
	require.Len(t, w.sends, 2)
}

func TestOverflowEndsTheSession(t *testing.T) {
	w := newWorld(1, anyLane(root(0, 0, 0), root(0)), Limits{})
	w.service = func(s Send) (time.Duration, bool) { return time.Second, s.Tree == 0 && s.Turn == 1 }
	w.play()
	require.Equal(t, []string{"0s lane0 tree0 0#0", "1s lane0 tree0 0#1", "2s lane0 tree1 0#0"}, w.log())
	w.requireQuiet(t)
}

func TestOverflowLeavesItsChildrenUnborn(t *testing.T) {
	tree := root(0, 0).child(0, 0, false, 0, 0).child(0, 1, false, 0, 0).child(0, 0, true, 5, 0)
	w := newWorld(1, anyLane(tree), Limits{})
	w.service = func(s Send) (time.Duration, bool) { return time.Second, s.Session == 0 }
	w.play()
	require.Equal(t, []string{"0s lane0 tree0 0#0", "5s lane0 tree0 3#0"}, w.log(), "the one of the issue was born before")
	w.requireQuiet(t)
}

func TestOverflowOfTheLastTurnIsAnEndLikeAnother(t *testing.T) {
	w := newWorld(1, anyLane(root(0).child(0, 0, false, 2, 0)), Limits{})
	w.service = func(s Send) (time.Duration, bool) { return time.Second, s.Session == 0 }
	w.play()
	require.Equal(t, []string{"0s lane0 tree0 0#0", "3s lane0 tree0 1#0"}, w.log())
}

func TestOverflowOfAChildReleasesItsParent(t *testing.T) {
	w := newWorld(1, anyLane(root(0, 0).child(0, 0, false, 0, 0, 0, 0).join(0, 1, 1)), Limits{})
	w.service = func(s Send) (time.Duration, bool) { return time.Second, s.Session == 1 }
	w.play()
	require.Equal(t, []string{"0s lane0 tree0 0#0", "1s lane0 tree0 1#0", "2s lane0 tree0 0#1"}, w.log())
	w.requireQuiet(t)
}

func TestSessionsWithoutTurnsAreDoneAtOnce(t *testing.T) {
	trees := anyLane(root(), root(0, 0).child(0, 0, false, 99).child(0, 0, true, 99).join(0, 1, 1, 2), root().child(0, 0, false, 0, 0), root(0))
	w := newWorld(1, trees, Limits{}).play()
	require.Equal(t, []string{"0s lane0 tree1 0#0", "1s lane0 tree1 0#1", "2s lane0 tree3 0#0"}, w.log())
	require.Equal(t, 4, w.c.Counts().TreesDrained)
	w.requireQuiet(t)
}

func TestRequestLimitIsMetExactly(t *testing.T) {
	for limit := 1; limit <= 7; limit++ {
		trees := anyLane(root(0, 0, 0).child(0, 0, true, 0, 0), root(0, 3), root(0))
		w := newWorld(2, trees, Limits{Requests: limit}).play()
		require.Len(t, w.sends, limit)
		w.requireQuiet(t)
	}
}

func TestTreeLimitIsMetExactly(t *testing.T) {
	for limit := 1; limit <= 4; limit++ {
		w := newWorld(2, anyLane(root(0), root(0, 0), root(0), root(0), root(0)), Limits{Trees: limit}).play()
		require.Equal(t, limit, w.c.Counts().TreesOpened)
		trees := map[int]bool{}
		for _, s := range w.sends {
			trees[s.Tree] = true
		}
		require.Len(t, trees, limit)
		w.requireQuiet(t)
	}
}

func TestSourceThatRunsDryLetsTheOtherLanesFinish(t *testing.T) {
	w := newWorld(8, anyLane(root(0, 1), root(0)), Limits{}).play()
	require.Len(t, w.sends, 3)
	w.requireQuiet(t)
}

func TestStopClosesWhatWaitsAndLetsFlightsReturn(t *testing.T) {
	parked := root(0, 0).child(0, 0, false, 0, 0, 60).join(0, 1, 1)         // its child sleeps at the stop
	flying := root(0, 0).child(0, 0, false, 0, 0).join(0, 1, 1)             // its child is in flight
	sleeping := root(0, 60)                                                 // between turns
	unborn := root(0, 0).child(0, 0, false, 60, 0).child(0, 1, false, 0, 0) // one child sleeps, one is not born yet
	w := newWorld(4, anyLane(parked, flying, sleeping, unborn, root(0)), Limits{})
	w.service = func(s Send) (time.Duration, bool) {
		if s.Tree == 1 && s.Session == 1 || s.Tree == 3 && s.Turn == 1 {
			return 20 * time.Second, false
		}
		return time.Second, false
	}
	w.playUntil(10*time.Second, 1<<62)
	require.Len(t, w.sends, 7)
	require.Equal(t, 21*time.Second, w.ended, "when the last flight came in")
	require.Equal(t, 4, w.c.Counts().TreesOpened)
	w.requireQuiet(t)
}

func TestStopWithNothingInFlightEndsThePhaseThere(t *testing.T) {
	w := newWorld(1, anyLane(root(0, 60)), Limits{}).playUntil(5*time.Second, 1<<62)
	require.Equal(t, 5*time.Second, w.ended)
	w.requireQuiet(t)
}

func TestNothingStartsAfterStop(t *testing.T) {
	w := newWorld(1, anyLane(root(0, 0), root(0)), Limits{})
	w.c.Start(0)
	w.c.Stop(0)
	w.c.Stop(0)
	require.False(t, w.c.Done())
	w.c.Wake(time.Hour)
	w.c.Returned(0, time.Second, time.Second, false)
	require.True(t, w.c.Done())
	require.Len(t, w.sends, 1)
	require.Equal(t, Counts{Sent: 1, TreesOpened: 1, TreesDrained: 1}, w.c.Counts())
}

func TestStopBeforeTheStart(t *testing.T) {
	w := newWorld(1, anyLane(root(0)), Limits{})
	w.c.Stop(0)
	w.play()
	require.Empty(t, w.sends)
	require.True(t, w.c.Done())
}

func TestUnknownReturnsAreIgnored(t *testing.T) {
	w := newWorld(1, anyLane(root(0, 5)), Limits{})
	w.c.Start(0)
	w.c.Returned(7, 0, 0, true)
	w.c.Returned(-1, 0, 0, true)
	w.c.Returned(0, time.Second, time.Second, false)
	w.c.Returned(0, 2*time.Second, 2*time.Second, true) // a second time
	at, ok := w.c.Next()
	require.True(t, ok)
	require.Equal(t, 6*time.Second, at)
	require.Equal(t, Counts{Sent: 1, TreesOpened: 1}, w.c.Counts())
}

func TestSendsGoOutInTheOrderOfDueTimes(t *testing.T) {
	w := newWorld(4, anyLane(root(0, 4).child(0, 0, true, 6, 0), root(0, 2), root(0, 4), root(0, 1)), Limits{})
	w.c.Start(0)
	for id := range 4 {
		w.c.Returned(id, 0, 0, false)
	}
	w.now = time.Minute // everything is noticed at once
	w.c.Wake(w.now)
	var got []Send
	for _, s := range w.sends[4:] {
		got = append(got, s.Send)
	}
	second := func(n int) time.Duration { return time.Duration(n) * time.Second }
	require.Equal(t, []Send{
		{4, 3, 3, 0, 1, second(1)}, {5, 1, 1, 0, 1, second(2)}, {6, 0, 0, 0, 1, second(4)}, {7, 2, 2, 0, 1, second(4)}, {8, 0, 0, 1, 0, second(6)},
	}, got, "ties in the order of scheduling")
}

func TestReturnDoesNotOvertakeWhatWasDueBefore(t *testing.T) {
	w := newWorld(2, anyLane(root(0, 0), root(0, 1)), Limits{})
	w.c.Start(0)
	w.c.Returned(1, 0, 0, false) // due at 1 s
	w.c.Returned(0, 5*time.Second, 5*time.Second, false)
	require.Equal(t, []int{0, 1, 1, 0}, []int{w.sends[0].Lane, w.sends[1].Lane, w.sends[2].Lane, w.sends[3].Lane})
}

func TestIssueThatIsLateMovesTheChildrenThatCountFromIt(t *testing.T) {
	w := newWorld(1, anyLane(root(0, 1).child(0, 1, true, 2, 0)), Limits{})
	w.c.Start(0)
	w.c.Returned(0, 0, 0, false)
	w.c.Wake(10 * time.Second)
	at, _ := w.c.Next()
	require.Equal(t, 12*time.Second, at)
}

func TestFourThousandLanes(t *testing.T) {
	const lanes = 4096
	source := queue{}
	for k := range lanes {
		source[k] = []*Tree{root(0, float64(k%7)), root(0)}
	}
	w := newWorld(lanes, source, Limits{}).play()
	for k := range lanes {
		require.Equal(t, time.Duration(0), w.sends[k].at)
		require.Equal(t, k, w.sends[k].Lane)
	}
	require.Len(t, w.sends, 3*lanes)
	w.requireQuiet(t)
}
