package reply

import (
	"bytes"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/capture/canon"
)

// What a reader keeps of a reply is counted: bodies, texts, names, and what a coding can refer to.
//
// Covers C-26.
func TestHeld(t *testing.T) {
	const size = 1 << 20
	long := strings.Repeat("x", size)
	var coded bytes.Buffer
	w, err := zstd.NewWriter(&coded)
	require.NoError(t, err)
	_, err = w.Write([]byte(strings.Repeat(": comment\n\n", size/12)))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	for name, c := range map[string]struct {
		options Options
		text    string
	}{
		"body":  {Options{Format: canon.Messages, Limit: 2 * size}, long},
		"line":  {Options{Format: canon.Messages, Type: "text/event-stream"}, "data: " + long},
		"data":  {Options{Format: canon.Messages, Type: "text/event-stream"}, "data: " + long + "\n"},
		"text":  {Options{Format: canon.Chat, Type: "text/event-stream"}, `data: {"choices":[{"index":0,"delta":{"content":"` + long + `"}}]}` + "\n\n"},
		"name":  {Options{Format: canon.Chat, Type: "text/event-stream"}, `data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"` + long + `","function":{"name":"` + long + `"}}]}}]}` + "\n\n"},
		"coded": {Options{Format: canon.Chat, Type: "text/event-stream", Encoding: "zstd"}, coded.String()},
	} {
		r := New(c.options)
		r.Write([]byte(c.text[:len(c.text)/2]), 0)
		r.Write([]byte(c.text[len(c.text)/2:]), 0)
		if name == "name" {
			r.events.line, r.events.data = nil, nil
			require.GreaterOrEqual(t, r.Held(), int64(3*size), name)
		}
		switch name {
		case "data":
			r.events.line = nil
		case "text":
			r.events.line, r.events.data = nil, nil
		}
		require.GreaterOrEqual(t, r.Held(), int64(size)*9/10, name)
		r.Close()
	}
	r := New(Options{Format: canon.Messages, Type: "text/event-stream"})
	r.Write([]byte(": nothing\n\n"), 0)
	require.Less(t, r.Held(), int64(100))
}
