package conductor

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/fixtures"
)

// slow is a server whose first token comes after a second and whose answer ends after a while.
func slow(takes time.Duration) func(Dispatch) answer {
	return func(Dispatch) answer { return answer{takes: takes, token: time.Second} }
}

// Every slot that is granted is released, and no turn is dropped for want of a slot.
//
// Covers T-33.
func TestEveryPrefillSlotIsGivenBack(t *testing.T) {
	t.Run("fan-out of 8 from the last turn", func(t *testing.T) {
		tree := root(0).child(0, 0, false, 0, 0)
		for range 7 {
			tree.sibling(false, 0, 0)
		}
		w := newWorld(1, anyLane(tree, root(0)), Limits{Prefill: 1})
		w.server = slow(3 * time.Second)
		w.play()
		want := []string{"0s lane0 tree0 0#0"}
		for n := range 8 {
			want = append(want, fmt.Sprintf("%ds lane0 tree0 %d#0", 3+n, n+1))
		}
		require.Equal(t, append(want, "13s lane0 tree1 0#0"), w.log(), "the tree stays open for the last of them")
		for _, s := range w.sends[1:9] {
			require.Equal(t, 3*time.Second, s.Due)
		}
		w.requireQuiet(t)
	})
	t.Run("a root that is refused gives its slot back", func(t *testing.T) {
		w := newWorld(3, queue{0: {root(0)}, 1: {root(0), root(0)}, 2: {root(0)}}, Limits{Prefill: 1})
		w.refuse = func(s Dispatch) error {
			if s.Lane == 0 {
				return errRefused
			}
			return nil
		}
		w.server = slow(3 * time.Second)
		w.play()
		require.Equal(t, []string{"0s lane1 tree1 0#0", "1s lane2 tree2 0#0", "3s lane1 tree3 0#0"}, w.log())
		require.ErrorContains(t, w.failed, "lane 0")
		w.requireQuiet(t)
	})
	t.Run("an answer without a first token gives it back", func(t *testing.T) {
		w := newWorld(3, anyLane(root(0), root(0), root(0)), Limits{Prefill: 1}).play()
		require.Equal(t, []string{"0s lane0 tree0 0#0", "1s lane1 tree1 0#0", "2s lane2 tree2 0#0"}, w.log())
		w.requireQuiet(t)
	})
	t.Run("a first token that is told twice, or too late", func(t *testing.T) {
		w := newWorld(4, anyLane(root(0), root(0), root(0), root(0)), Limits{Prefill: 1})
		w.start()
		w.call(func() { w.c.FirstToken(0, 0) })
		w.call(func() { w.c.FirstToken(0, 0) })
		w.call(func() { w.check.must(w.c.Returned(0, 0, 0, OK)) })
		w.call(func() { w.c.FirstToken(0, 0) })
		require.Len(t, w.sends, 2)
		require.Empty(t, w.check.broken)
	})
	t.Run("what waits for a slot at the end", func(t *testing.T) {
		w := newWorld(2, anyLane(root(0), root(0)), Limits{Prefill: 1})
		w.server = slow(3 * time.Second)
		w.playUntil(time.Second/2, never)
		require.Len(t, w.sends, 1)
		require.Equal(t, 3*time.Second, w.ended)
		w.requireQuiet(t)
	})
}

// A parent does not queue behind its children. Trees are served in the order of their earliest due turns (hazard H20).
//
// Covers T-52.
func TestPrefillQueueOrder(t *testing.T) {
	vectorsOf(t, "slot_order", "T-52", fixtures.Counts{2, 2, 2}, playSlotOrder)
	tree := root(0, 0.05).child(0, 0, false, 0, 0)
	for range 7 {
		tree.sibling(false, 0, 0)
	}
	other := root(0, 0.12)
	w := newWorld(2, queue{0: {tree}, 1: {other}}, Limits{Prefill: 1})
	w.server = func(s Dispatch) answer {
		if s.Turn == 0 && s.Session == 0 {
			return answer{takes: time.Duration(1-s.Lane) * 100 * time.Millisecond} // lane 1 is answered when it is asked
		}
		return answer{takes: time.Hour, token: time.Second}
	}
	w.play()
	got := []string{}
	for _, s := range w.sends[2:] {
		got = append(got, fmt.Sprintf("%v %v %d:%d", s.Due, s.at, s.Lane, s.Session))
	}
	require.Equal(t, []string{
		"100ms 100ms 0:1", "150ms 1.1s 0:0", "100ms 2.1s 0:2", "100ms 3.1s 0:3", "100ms 4.1s 0:4", "100ms 5.1s 0:5", "100ms 6.1s 0:6",
		"100ms 7.1s 0:7", "100ms 8.1s 0:8", "220ms 9.1s 1:0",
	}, got)
	w.requireQuiet(t)
}
