package replay

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The clock returns an event that is there at once, and an interrupt once.
func TestRealClock(t *testing.T) {
	fallback := newWakeTimer()
	if f, ok := fallback.(interface{ fail() }); ok {
		f.fail()
	}
	for name, timer := range map[string]wakeTimer{"of the kernel": newWakeTimer(), "of the runtime": newRuntimeTimer(), "fallback": fallback} {
		t.Run(name, func(t *testing.T) {
			defer timer.close()
			events := make(chan event, 1)
			ctx, interrupt := context.WithCancel(context.Background())
			defer interrupt()
			c := &realClock{epoch: time.Now(), timer: timer, events: events, interrupted: ctx.Done()}
			until := c.now() + time.Millisecond
			for c.now() < until { // await may return earlier
				_, ok := c.await(until)
				require.False(t, ok)
			}
			_, ok := c.await(0)
			require.False(t, ok)
			events <- event{kind: firstToken, id: 7}
			e, ok := c.await(0)
			require.True(t, ok)
			require.Equal(t, event{kind: firstToken, id: 7}, e)
			interrupt()
			for ok = false; !ok; { // the timer may fire once more before
				e, ok = c.await(time.Hour)
			}
			require.Equal(t, event{kind: interrupted}, e)
			_, ok = c.await(0)
			require.False(t, ok)
		})
	}
}
