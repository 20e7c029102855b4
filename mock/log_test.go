package mock

import (
	"bytes"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The log has a line for each request that was answered to its end, with the instants of its tokens.
func TestLogOfAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text bytes.Buffer
		s := New(Config{TTFT: 20 * time.Millisecond, ITL: 3 * time.Millisecond, Log: &text})
		ask := func(id, rest string) {
			r := post("/v1/completions", `{`+ids(70)+`,"max_tokens":5`+rest)
			r.Header.Set("X-Request-ID", id)
			serve(s, r)
		}
		ask("streamed", `,"stream":true}`)
		ask("whole", `}`)
		ask("bad", `,`)
		begun := s.started.UnixNano()
		var list []Answer
		for d := json.NewDecoder(&text); d.More(); {
			var a Answer
			require.NoError(t, d.Decode(&a))
			list = append(list, a)
		}
		const ms = int64(time.Millisecond)
		require.Equal(t, []Answer{
			{"streamed", begun, begun + 20*ms, begun + 32*ms, 70, 0, 5},
			{"whole", begun + 32*ms, begun + 64*ms, begun + 64*ms, 70, 64, 5},
		}, list)
	})
}
