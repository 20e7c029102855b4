package payload

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/mmapcache"
)

// A body behind a history has its messages first, however long they are, and the marker of the session once. Written and kept again, each
// message stands in its place.
func TestBodyBehindAHistory(t *testing.T) {
	c := cachetest.Demo(t)
	e := encoderOf(t, c, ChatCompletions, "m", FirstTurnPrefix)
	tree, err := c.Render(0, mmapcache.Text)
	require.NoError(t, err)
	var history []byte
	var want []message
	for k := range 12 {
		turn := k % len(tree.Turns)
		b, err := e.Body(tree, turn, someMarker, 7)
		require.NoError(t, err)
		own := *read(t, written(t, b)).Messages
		b.Behind(history)
		if k > 0 {
			unmarked, err := e.Body(tree, turn, "", 7)
			require.NoError(t, err)
			own = *read(t, written(t, unmarked)).Messages
		}
		want = append(want, own...)
		r := read(t, written(t, b))
		require.Equal(t, want, *r.Messages)
		require.Equal(t, 7, r.Chat)
		history, err = b.AppendTo(history)
		require.NoError(t, err)
		var a Answer
		a.Add([]byte(`{"object":"chat.completion.chunk","choices":[{"delta":{"content":"so"}}]}`))
		history = a.Append(history)
		want = append(want, message{Role: "assistant", Content: "so"})
		b.Release()
	}
	require.Greater(t, len(history), 2*chunk, "longer than what is gathered before a write")
}
