package canon

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// agentBody is the request of a coding agent late in a session, in Anthropic's format: tools, a system prompt and rounds of
// calls with source code as results. The code is that of this package.
func agentBody(t testing.TB, size int) []byte {
	var code strings.Builder
	files, err := os.ReadDir(".")
	require.NoError(t, err)
	for _, f := range files {
		if text, err := os.ReadFile(f.Name()); err == nil {
			code.Write(text)
		}
	}
	type object = map[string]any
	source := code.String()
	var tools, messages []any
	for i := range 20 {
		tools = append(tools, object{"name": fmt.Sprintf("tool_%d", i), "description": source[i*500:][:2000], "input_schema": object{"type": "object", "properties": object{"path": object{"type": "string"}}}})
	}
	for i := 0; i*4000 < size; i++ {
		from := i * 4000 % (len(source) - 4000)
		messages = append(messages,
			object{"role": "assistant", "content": []any{object{"type": "text", "text": "Reading on."}, object{"type": "tool_use", "id": fmt.Sprintf("toolu_%d", i), "name": "tool_1", "input": object{"path": "a/b.go", "line": i}}}},
			object{"role": "user", "content": []any{object{"type": "tool_result", "tool_use_id": fmt.Sprintf("toolu_%d", i), "content": fmt.Sprint(i, source[from:from+4000])}}})
	}
	body, err := json.Marshal(object{"model": "m", "stream": true, "system": source[:20000], "tools": tools, "messages": append([]any{object{"role": "user", "content": "Go on."}}, messages...)})
	require.NoError(t, err)
	return body
}

func BenchmarkParse(b *testing.B) {
	body := agentBody(b, 1<<20)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(Messages, body); err != nil {
			b.Fatal(err)
		}
	}
}
