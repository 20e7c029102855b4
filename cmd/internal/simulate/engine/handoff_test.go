package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/simulate/preset"
)

// A worker of a decode pool that holds too little room for a request that was preempted goes on as soon as another is handed to it: the
// one that has its prompt enters then, and each request that gets blocks lets the next one look for them.
//
// Covers S-25.
func TestDecodeWorkerGoesOn(t *testing.T) {
	config := Default()
	config.Blocks = 10
	switches, _ := preset.Named(preset.Dynamo16)
	w := New(Options{Config: config, Timing: NewTiming(config, nil), Switches: switches, Role: Decode})
	now := int64(0)
	pass := func() {
		w.Start(now)
		now = w.End()
		w.Finish()
	}
	hand := func(r *Request) {
		require.True(t, w.Expect(r))
		one, _ := w.Reserve()
		require.Same(t, r, one)
		w.Activate(r)
	}
	a, b := &Request{Prompt: 128, Output: 200}, &Request{Prompt: 128, Output: 290}
	hand(a)
	hand(b)
	c, d, e := &Request{Prompt: 320, Output: 9}, &Request{Prompt: 128, Output: 9}, &Request{Prompt: 640, Output: 9}
	for a.Status != Done {
		pass()
		if b.Status == Preempted && w.expected.len() == 0 {
			w.Expect(c)
			w.Expect(d)
		}
	}
	one, _ := w.Reserve()
	require.Same(t, c, one, "of 10 blocks 5")
	pass()
	require.False(t, w.Ready(now), "what runs again needs 6")
	one, _ = w.Reserve()
	require.Same(t, d, one)
	require.True(t, w.Ready(now), "the end of one more pass lets the next one look")
	pass()
	w.Activate(c)
	pass()
	require.False(t, w.Ready(now), "the one that was preempted is before it")
	require.True(t, w.Expect(e))
	require.True(t, w.Ready(now))
	pass()
	require.Equal(t, []Status{Preempted, Running}, []Status{b.Status, c.Status})
}
