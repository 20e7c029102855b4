package replay

import (
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/payload"
)

// The bodies of the preflight and of the run have the fields that were chosen.
func TestFieldsArrive(t *testing.T) {
	var mu sync.Mutex
	var bodies []map[string]any
	url, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body map[string]any
		if json.NewDecoder(r.Body).Decode(&body) == nil {
			delete(body, "prompt")
			mu.Lock()
			bodies = append(bodies, body)
			mu.Unlock()
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	}))
	o := optionsFor(t, cachetest.Demo(t), url)
	o.Endpoint, o.Requests, o.SkipPreflight, o.Concurrency = payload.Completions, 3, false, 1 // one lane: bodies and records in one order
	o.Fields = payload.Fields{Length: payload.MaxCompletionTokens, OmitIgnoreEOS: true, OmitStreamOptions: true, Extra: json.RawMessage(`{"top_k":1}`)}
	p := play(t, t.Context(), o)
	require.Equal(t, 3, p.Completed)
	require.Len(t, bodies, 4)
	for k, body := range bodies {
		want := map[string]any{"model": o.Model, "stream": true, "top_k": 1.0, "max_completion_tokens": 1.0}
		if k > 0 {
			want["max_completion_tokens"] = float64(p.records[k-1].MaxTokens)
		}
		require.Equal(t, want, body)
	}
}

// The token count of the first message is recorded if it was asked for.
func TestUsageOfTheFirstMessage(t *testing.T) {
	url, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"text\":\"abc\"}],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":3}}\n\n"+
			"data: {\"choices\":[{\"text\":\"d\",\"finish_reason\":\"length\"}],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":4}}\n\ndata: [DONE]\n\n")
	}))
	for extra, want := range map[string]measure.Count{``: 0, `{"stream_options":{"continuous_usage_stats":false}}`: 0, `{"stream_options":{"continuous_usage_stats":true}}`: measure.Tokens(3)} {
		o := optionsFor(t, cachetest.Demo(t), url)
		o.Requests, o.Fields.Extra = 3, json.RawMessage(extra)
		for _, r := range play(t, t.Context(), o).records {
			require.Equal(t, want, r.FirstChunkTokens, extra)
		}
	}
}
