package mock

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A stream of the Messages API, byte for byte.
func TestMessagesStream(t *testing.T) {
	s := New(Config{})
	w := serve(s, post("/v1/messages", `{"model":"m","system":"be brief","messages":[{"role":"user","content":"hello there"}],"max_tokens":2,"stream":true}`))
	require.Equal(t, "text/event-stream", w.Header().Get("Content-Type"))
	require.Equal(t, `event: message_start
data: {"type":"message_start","message":{"id":"msg_0","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":5,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":1}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}

event: ping
data: {"type":"ping"}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" the"}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" of"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"max_tokens","stop_sequence":null},"usage":{"output_tokens":2}}

event: message_stop
data: {"type":"message_stop"}

`, w.Body.String())
}

// billed is a whole answer of the Messages API.
type billed struct {
	Type, Role string
	Content    []struct{ Type, Text string }
	StopReason string `json:"stop_reason"`
	Usage      struct {
		Input   int `json:"input_tokens"`
		Read    int `json:"cache_read_input_tokens"`
		Written int `json:"cache_creation_input_tokens"`
		Output  int `json:"output_tokens"`
	}
}

func message(t *testing.T, s *Server, body string) (m billed) {
	t.Helper()
	w := serve(s, post("/v1/messages", body))
	require.Equal(t, http.StatusOK, w.Code, w.Body.String())
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &m))
	return m
}

// Usage tells what the prefix cache had, what it took, and the rest. A chat of the same texts hits the same blocks, wherever the
// system prompt stands in the body and however contents are written.
func TestMessagesUsage(t *testing.T) {
	rules, more := strings.Repeat("rule ", 4*BlockTokens), strings.Repeat("more ", 2*BlockTokens)
	user := fmt.Sprintf(`"messages":[{"role":"user","content":%q}]`, more)
	total := (len(rules) + len(more) + 2) / 4
	for name, second := range map[string]string{
		"string": fmt.Sprintf(`{"system":%q,%s,"max_tokens":1}`, rules, user),
		"blocks": fmt.Sprintf(`{"system":[{"type":"text","text":%q}],"messages":[{"role":"user","content":[{"type":"text","text":%q}]}],"max_tokens":1}`, rules, more),
		"behind": fmt.Sprintf(`{%s,"max_tokens":1,"system":%q}`, user, rules),
	} {
		s := New(Config{})
		first := message(t, s, fmt.Sprintf(`{"system":%q,"messages":[],"max_tokens":3}`, rules))
		require.Equal(t, "message assistant max_tokens the of and", strings.Join([]string{first.Type, first.Role, first.StopReason + first.Content[0].Text}, " "))
		require.Equal(t, 3, first.Usage.Output)
		require.Zero(t, first.Usage.Read)
		require.Equal(t, (len(rules)+2)/4, first.Usage.Input+first.Usage.Written)
		require.Positive(t, first.Usage.Written)
		again := message(t, s, second)
		require.Equal(t, total, again.Usage.Input+again.Usage.Read+again.Usage.Written, name)
		require.InDelta(t, first.Usage.Written, again.Usage.Read, 2, name)
		require.Positive(t, again.Usage.Written, name)
		chat := decode(t, serve(s, post("/v1/chat/completions", fmt.Sprintf(`{"messages":[{"role":"system","content":%q},{"role":"user","content":%q}],"max_tokens":1}`, rules, more))).Body.String())
		require.Equal(t, total, chat.Usage.PromptTokens, name)
		require.InDelta(t, again.Usage.Read+again.Usage.Written, chat.Usage.Details.CachedTokens, 2, name)
	}
	off := message(t, New(Config{CacheBlocks: -1}), fmt.Sprintf(`{%s,"max_tokens":1}`, user))
	require.Equal(t, []int{(len(more) + 2) / 4, 0, 0}, []int{off.Usage.Input, off.Usage.Read, off.Usage.Written})
}

// Contents of tool results count, as texts do.
func TestMessagesToolResults(t *testing.T) {
	text := strings.Repeat("abcd", 50)
	for _, content := range []string{`"` + text + `"`, `[{"type":"text","text":"` + text + `"}]`} {
		m := message(t, New(Config{}), `{"max_tokens":1,"messages":[{"role":"assistant","content":[{"type":"text","text":"x"},{"type":"tool_use","id":"t","name":"ls","input":{"text":"none"}}]},`+
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":`+content+`}]}]}`)
		require.Equal(t, 50, m.Usage.Input)
	}
}

// Errors are written as those of the Messages API.
func TestMessagesErrors(t *testing.T) {
	for body, want := range map[string]string{
		`{"messages":[],"max_tokens":1}`:                              "messages: missing or empty",
		`{"messages":[{"role":"user","content":"a"}]}`:                "max_tokens: missing",
		`{"messages":[{"role":"user","content":"a"}],"max_tokens":0}`: "at least 1",
		`{"system":7,"messages":[],"max_tokens":1}`:                   "system",
	} {
		w := serve(New(Config{}), post("/v1/messages", body))
		require.Equal(t, http.StatusBadRequest, w.Code)
		var e struct {
			Type  string
			Error struct{ Type, Message string }
		}
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &e))
		require.Equal(t, []string{"error", "invalid_request_error"}, []string{e.Type, e.Error.Type})
		require.Contains(t, e.Error.Message, want)
	}
	for kind, want := range map[string]string{
		"status=529":    `529 {"error":{"message":"this fault was asked for","type":"overloaded_error"},"type":"error"}`,
		"status=500":    `500 {"error":{"message":"this fault was asked for","type":"api_error"},"type":"error"}`,
		"overflow":      `400 {"error":{"message":"prompt is too long: 1 tokens \u003e 0 maximum","type":"invalid_request_error"},"type":"error"}`,
		"error-event":   "event: error\ndata: {\"error\":{\"message\":\"this fault was asked for\",\"type\":\"overloaded_error\"},\"type\":\"error\"}\n\n",
		"error-payload": "data: {\"error\":{\"message\":\"this fault was asked for\",\"type\":\"api_error\"},\"type\":\"error\"}\n\n" + messageStop,
		"cut":           "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\" the\"}}\n\n",
		"empty":         "\"usage\":{\"output_tokens\":0}}\n\n" + messageStop,
	} {
		w := serve(New(Config{Faults: []Fault{{Kind: kind, Rate: 1}}}), post("/v1/messages", `{"messages":[{"role":"user","content":"abcd"}],"max_tokens":2,"stream":true}`))
		got := w.Body.String()
		if !strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream") {
			got = fmt.Sprint(w.Code, " ", got)
		}
		require.True(t, strings.HasSuffix(got, want), "%s: %s", kind, got)
	}
}
