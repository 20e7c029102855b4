package mock

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// responseEvents returns the objects of a stream. Each must have the name of its event, and the number of its place.
func responseEvents(t *testing.T, stream string) (objects []map[string]any) {
	t.Helper()
	for i, event := range strings.Split(strings.TrimSuffix(stream, "\n\n"), "\n\n") {
		name, data, ok := strings.Cut(strings.TrimPrefix(event, "event: "), "\ndata: ")
		require.True(t, ok, event)
		var o map[string]any
		require.NoError(t, json.Unmarshal([]byte(data), &o), data)
		require.Equal(t, name, o["type"])
		require.EqualValues(t, i, o["sequence_number"])
		objects = append(objects, o)
	}
	return objects
}

func names(objects []map[string]any) (names []string) {
	for _, o := range objects {
		names = append(names, strings.TrimPrefix(fmt.Sprint(o["type"]), "response."))
	}
	return names
}

// A stream of the Responses API: its last event has what an answer that is not streamed has.
func TestResponsesStream(t *testing.T) {
	body := `{"model":"m","instructions":"be brief","input":"hello there","max_output_tokens":2%s}`
	w := serve(New(Config{}), post("/v1/responses", fmt.Sprintf(body, `,"stream":true`)))
	require.Equal(t, "text/event-stream", w.Header().Get("Content-Type"))
	all := responseEvents(t, w.Body.String())
	require.Equal(t, []string{"created", "in_progress", "output_item.added", "content_part.added", "output_text.delta", "output_text.delta",
		"output_text.done", "content_part.done", "output_item.done", "incomplete"}, names(all))
	require.Equal(t, []any{" the", " of", " the of"}, []any{all[4]["delta"], all[5]["delta"], all[6]["text"]})
	last := all[9]["response"].(map[string]any)
	require.Equal(t, map[string]any{"reason": "max_output_tokens"}, last["incomplete_details"])
	require.Equal(t, map[string]any{"input_tokens": 5., "input_tokens_details": map[string]any{"cached_tokens": 0.}, "output_tokens": 2.,
		"output_tokens_details": map[string]any{"reasoning_tokens": 0.}, "total_tokens": 7.}, last["usage"])
	whole := serve(New(Config{}), post("/v1/responses", fmt.Sprintf(body, "")))
	var object map[string]any
	require.NoError(t, json.Unmarshal(whole.Body.Bytes(), &object), whole.Body.String())
	for _, o := range []map[string]any{last, object} {
		delete(o, "created_at")
	}
	require.Equal(t, last, object)
	free := responseEvents(t, serve(New(Config{}), post("/v1/responses", `{"input":[{"role":"user","content":"a"}],"stream":true}`)).Body.String())
	require.Equal(t, "response.completed", free[len(free)-1]["type"])
}

// Prompts of the Responses API count as those of chats with the same texts do, and are found in the prefix cache.
func TestResponsesPrompt(t *testing.T) {
	rules, more := strings.Repeat("rule ", 4*BlockTokens), strings.Repeat("more ", 2*BlockTokens)
	s := New(Config{})
	serve(s, post("/v1/chat/completions", fmt.Sprintf(`{"messages":[{"role":"system","content":%q},{"role":"user","content":%q}],"max_tokens":1}`, rules, more)))
	for _, input := range []string{
		fmt.Sprintf(`[{"role":"user","content":%q}]`, more),
		fmt.Sprintf(`[{"type":"message","role":"user","content":[{"type":"input_text","text":%q}]}]`, more),
	} {
		w := serve(s, post("/v1/responses", fmt.Sprintf(`{"instructions":%q,"input":%s,"max_output_tokens":1}`, rules, input)))
		var o struct {
			Usage struct {
				Input   int `json:"input_tokens"`
				Details struct {
					Cached int `json:"cached_tokens"`
				} `json:"input_tokens_details"`
			}
		}
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &o))
		require.Equal(t, (len(rules)+len(more)+2)/4, o.Usage.Input)
		require.Greater(t, o.Usage.Details.Cached, o.Usage.Input*9/10)
	}
	for item, want := range map[string]int{
		`{"type":"function_call","call_id":"c","name":"ls","arguments":"abcdefgh"}`:                                   2,
		`{"type":"function_call_output","call_id":"c","output":"abcdefgh"}`:                                           2,
		`{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"abcdefgh"}]}`:            2,
		`{"type":"message","role":"assistant","content":[{"type":"output_text","text":"abcd","annotations":[null]}]}`: 1,
	} {
		w := serve(New(Config{}), post("/v1/responses", `{"input":[`+item+`]}`))
		require.Contains(t, w.Body.String(), fmt.Sprintf(`"input_tokens":%d,`, want), item)
	}
}

// A request that forces a tool gets a call of it, in every API, streamed and not.
func TestForcedTool(t *testing.T) {
	const arguments = `{"text":" the of and"}`
	choice := map[string]string{
		"/v1/chat/completions": `"messages":[{"role":"user","content":"a"}],"max_tokens":3,"tool_choice":{"type":"function","function":{"name":"Task"}}`,
		"/v1/messages":         `"messages":[{"role":"user","content":"a"}],"max_tokens":3,"tool_choice":{"type":"tool","name":"Task"}`,
		"/v1/responses":        `"input":"a","max_output_tokens":3,"tool_choice":{"type":"function","name":"Task"}`,
	}
	for path, fields := range choice {
		whole := serve(New(Config{}), post(path, "{"+fields+"}")).Body.String()
		require.True(t, json.Valid([]byte(whole)), whole)
		stream := serve(New(Config{}), post(path, "{"+fields+`,"stream":true}`)).Body.String()
		switch path {
		case "/v1/chat/completions":
			require.Contains(t, whole, `"content":null,"tool_calls":[{"index":0,"id":"call_0","type":"function","function":{"name":"Task","arguments":"{\"text\":\" the of and\"}"}}]},"logprobs":null,"finish_reason":"tool_calls"`)
			require.Contains(t, stream, `"finish_reason":"tool_calls"`)
		case "/v1/messages":
			require.Contains(t, whole, `"content":[{"type":"tool_use","id":"toolu_0","name":"Task","input":`+arguments+`}],"stop_reason":"tool_use"`)
			require.Contains(t, stream, `"content_block":{"type":"tool_use","id":"toolu_0","name":"Task","input":{}}`)
			require.Contains(t, stream, `"stop_reason":"tool_use"`)
		case "/v1/responses":
			require.Contains(t, whole, `"status":"completed","type":"function_call","call_id":"call_0","name":"Task","arguments":"{\"text\":\" the of and\"}"}`)
			require.Equal(t, []string{"created", "in_progress", "output_item.added", "function_call_arguments.delta", "function_call_arguments.delta",
				"function_call_arguments.delta", "function_call_arguments.done", "output_item.done", "completed"}, names(responseEvents(t, stream)))
		}
		require.Equal(t, arguments, deltas(t, stream), stream)
	}
	for _, free := range []string{`"auto"`, `"required"`, `{"type":"auto"}`, `null`} {
		w := serve(New(Config{}), post("/v1/messages", `{"messages":[{"role":"user","content":"a"}],"max_tokens":1,"tool_choice":`+free+`}`))
		require.Contains(t, w.Body.String(), `"text":" the"`, free)
	}
}

// deltas returns the arguments that the events of a stream have in pieces.
func deltas(t *testing.T, stream string) (arguments string) {
	t.Helper()
	for event := range strings.SplitSeq(stream, "\n\n") {
		_, data, _ := strings.Cut(event, "data: ")
		var o struct {
			Choices []struct {
				Delta struct {
					ToolCalls []struct {
						Function struct{ Arguments string }
					} `json:"tool_calls"`
				}
			}
			Delta json.RawMessage
		}
		if json.Unmarshal([]byte(data), &o) != nil {
			continue // the end
		}
		for _, c := range o.Choices {
			for _, call := range c.Delta.ToolCalls {
				arguments += call.Function.Arguments
			}
		}
		var text string
		var part struct {
			PartialJSON string `json:"partial_json"`
		}
		if json.Unmarshal(o.Delta, &text) == nil {
			arguments += text
		} else if json.Unmarshal(o.Delta, &part) == nil {
			arguments += part.PartialJSON
		}
	}
	return arguments
}

// Faults of the Responses API have its form.
func TestResponsesErrors(t *testing.T) {
	for kind, want := range map[string]string{
		"status=500":    `500 {"error":{"message":"this fault was asked for","type":"server_error","param":null,"code":null}}`,
		"overflow":      `"param":"input","code":"context_length_exceeded"}}`,
		"error-event":   `data: {"type":"error","code":"server_error","message":"this fault was asked for","param":null}` + "\n\n",
		"error-payload": `"status":"failed","error":{"code":"server_error","message":"this fault was asked for"}}}` + "\n\n",
		"wrong-counts":  `"total_tokens":30}}}` + "\n\n",
		"cut":           `"delta":" the"}` + "\n\n",
		"empty":         `"total_tokens":1}}}` + "\n\n",
	} {
		w := serve(New(Config{Faults: []Fault{{Kind: kind, Rate: 1}}}), post("/v1/responses", `{"input":"abcd","max_output_tokens":2,"stream":true}`))
		got := w.Body.String()
		if w.Code != http.StatusOK {
			got = fmt.Sprint(w.Code, " ", got)
		}
		require.True(t, strings.HasSuffix(got, want), "%s: %s", kind, got)
	}
	for body, want := range map[string]string{
		`{}`:                                     "input: missing or empty",
		`{"input":7}`:                            "input: byte 9",
		`{"input":"a","tool_choice":{"name":7}}`: "tool_choice: ",
	} {
		w := serve(New(Config{}), post("/v1/responses", body))
		require.Equal(t, http.StatusBadRequest, w.Code)
		require.Contains(t, w.Body.String(), want)
	}
}
