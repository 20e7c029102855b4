package replay

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/conductor"
)

// A first turn that is due when a turn of its parent was ordered leaves behind the request of that turn, and no other does.
//
// Covers T-153.
func TestChildLeavesBehindItsParent(t *testing.T) {
	root := mmapcache.Session{ID: "root", Parent: mmapcache.None, Turns: 9}
	child := mmapcache.Session{ID: "child", Parent: 0, Turns: 9}
	grandchild := mmapcache.Session{ID: "grandchild", Parent: 1, Turns: 9}
	tree := &activeTree{loadedTrace: &loadedTrace{plan: &mmapcache.Plan{Sessions: []mmapcache.Session{root, child, child, grandchild}}}}
	order := func(session, turn int, due, issued time.Duration) (own, ahead *leaving) {
		return tree.leaveBehindParent(conductor.Dispatch{Session: session, Turn: turn, Due: due, Issued: issued})
	}
	first, ahead := order(0, 0, 1, 5)
	require.Nil(t, ahead)
	_, ahead = order(1, 0, 7, 7)
	require.Nil(t, ahead, "it is due later")
	second, ahead := order(0, 1, 8, 8)
	require.Nil(t, ahead)
	other, ahead := order(2, 0, 8, 9) // ordered later: it waited for a slot
	require.Same(t, second, ahead)
	require.NotSame(t, first, ahead)
	_, ahead = order(2, 1, 8, 9)
	require.Nil(t, ahead, "it is no first turn")
	third, _ := order(1, 1, 10, 10)
	_, ahead = order(3, 0, 10, 10)
	require.Same(t, third, ahead)
	other.wasWritten()
	other.wasWritten()

	alone := &activeTree{loadedTrace: &loadedTrace{plan: &mmapcache.Plan{Sessions: []mmapcache.Session{root}}}}
	own, ahead := alone.leaveBehindParent(conductor.Dispatch{})
	require.Nil(t, own)
	require.Nil(t, ahead)
	own.wasWritten() // for those who cannot wait
	own.await(context.Background(), nil)
}

// What waits for a request leaves when that has been written, 10 ms later, or when the phase is over.
//
// Covers T-153.
func TestLeavesWhenWritten(t *testing.T) {
	for name, end := range map[string]func(l *leaving, timer chan time.Time, cancel func()){
		"written":  func(l *leaving, _ chan time.Time, _ func()) { l.wasWritten() },
		"too long": func(_ *leaving, timer chan time.Time, _ func()) { timer <- time.Time{} },
		"over":     func(_ *leaving, _ chan time.Time, cancel func()) { cancel() },
	} {
		l, timer, asked, left := &leaving{written: make(chan struct{})}, make(chan time.Time), make(chan time.Duration), make(chan struct{})
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			l.await(ctx, func(d time.Duration) <-chan time.Time { asked <- d; return timer })
			close(left)
		}()
		require.Equal(t, 10*time.Millisecond, <-asked, name)
		select {
		case <-left:
			t.Fatal(name, "it has left before")
		default:
		}
		end(l, timer, cancel)
		<-left
		cancel()
	}
	l := &leaving{written: make(chan struct{})}
	l.wasWritten()
	l.await(context.Background(), func(time.Duration) <-chan time.Time { t.Fatal("it has been written"); return nil })
}
