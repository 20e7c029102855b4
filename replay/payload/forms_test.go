package payload

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/mmapcache"
)

// sent is the prompt of a body, decoded: what stands under system, messages and prompt.
type sent struct {
	System   any
	Messages []any
	Prompt   any
}

// object is a JSON object, decoded.
type object = map[string]any

// formed returns what a body of a form says of a turn: the slow oracle. It knows messages by their roles and contents alone.
func formed(f form, tree *mmapcache.RenderedTrace, turn int, marker Marker, target MarkerTarget) (s sent) {
	var p mmapcache.Prompt
	tree.Prompt(turn, &p)
	plain, names := contents(tree, turn), roles(tree, turn)
	for k := range plain {
		plain[k].Role = names[k]
		if f.parts {
			plain[k].Content = []any{textPart(plain[k].Content.(string))}
		}
	}
	first := 0
	if f.endpoint == Messages && len(plain) > 0 && plain[0].Role == "system" {
		s.System, plain, first = plain[0].Content, plain[1:], 1
	}
	text := "[rid:" + string(marker) + "]"
	if marker == "" {
		text = ""
	}
	system, marked := injectAll(s.System, plain, text, target)
	s.System = system
	s.Messages = []any{}
	for k, m := range marked {
		of := &p.Messages[first+k]
		s.Messages = append(s.Messages, structured(f, m, of))
	}
	return s
}

// structured is one message as a form writes it.
func structured(f form, m message, of *mmapcache.Message) object {
	content := m.Content
	switch id := of.CallID(); {
	case f.endpoint == Messages && m.Role == "tool":
		return object{"role": "user", "content": []any{object{"type": "tool_result", "tool_use_id": id, "content": content}}}
	case f.endpoint == Messages && of.Kind() == mmapcache.ToolCallMessage:
		if text, ok := content.(string); ok {
			content = []any{textPart(text)}
		}
		return object{"role": m.Role, "content": append(content.([]any), object{"type": "tool_use", "id": id, "name": "recorded_tool", "input": object{}})}
	case m.Role == "tool":
		return object{"role": m.Role, "tool_call_id": id, "content": content}
	case of.Kind() == mmapcache.ToolCallMessage:
		return object{"role": m.Role, "content": content, "tool_calls": []any{object{
			"id": id, "type": "function", "function": object{"name": "recorded_tool", "arguments": "{}"},
		}}}
	}
	return object{"role": m.Role, "content": content}
}

// forms are the forms of a list of messages.
var forms = map[string]form{
	"chat": {ChatCompletions, false}, "chat in parts": {ChatCompletions, true},
	"messages": {Messages, false}, "messages in parts": {Messages, true},
}

// formEncoder returns an encoder of a form.
func formEncoder(t testing.TB, c *mmapcache.Cache, f form, target MarkerTarget) *Encoder {
	t.Helper()
	e, _, err := NewEncoder(c, Options{Endpoint: f.endpoint, Parts: f.parts, Model: "m", Marker: target})
	require.NoError(t, err)
	return e
}

// Bodies of every form hold the messages of the plan, with and without marker, system prompt and tool calls; the Messages API has
// the system prompt apart. The texts are those of a chat.
//
// Covers T-40, M-9.
func TestFormsHoldTheMessages(t *testing.T) {
	for name, c := range map[string]*mmapcache.Cache{"shaped": shaped(t), "split": cachetest.SplitCharacters(t), "demo": cachetest.Demo(t)} {
		for of, f := range forms {
			t.Run(name+", "+of, func(t *testing.T) {
				systems, calls := 0, 0
				encoders := map[MarkerTarget]*Encoder{}
				for _, target := range targets {
					encoders[target] = formEncoder(t, c, f, target)
				}
				var b Body
				eachTurn(t, c, f.endpoint, func(tree *mmapcache.RenderedTrace, turn int) {
					for _, target := range targets {
						for _, marker := range []Marker{someMarker, ""} {
							b.fill(encoders[target], tree, turn, marker, 7)
							var got sent
							body := written(t, &b)
							require.NoError(t, json.Unmarshal(body, &got))
							require.Equal(t, formed(f, tree, turn, marker, target), got, "turn %d, %s", turn, target)
							if got.System != nil {
								systems++
							}
							calls += bytes.Count(body, []byte("recorded_tool"))
						}
					}
				})
				require.Equal(t, name == "shaped", calls > 0, "tool calls")
				require.Equal(t, f.endpoint == Messages, systems > 0, "system prompts")
			})
		}
	}
}

// A text prompt is the contents of all messages with a newline between two, the marker where a chat has it.
//
// Covers T-40.
func TestTextPrompt(t *testing.T) {
	for name, c := range map[string]*mmapcache.Cache{"shaped": shaped(t), "split": cachetest.SplitCharacters(t)} {
		t.Run(name, func(t *testing.T) {
			var b Body
			eachTurn(t, c, TextCompletions, func(tree *mmapcache.RenderedTrace, turn int) {
				for _, target := range targets {
					b.fill(encoderOf(t, c, TextCompletions, "m", target), tree, turn, someMarker, 7)
					plain := contents(tree, turn)
					for k, role := range roles(tree, turn) {
						plain[k].Role = role
					}
					var texts []string
					for _, m := range inject(plain, "[rid:"+string(someMarker)+"]", target) {
						texts = append(texts, m.Content.(string))
					}
					var got sent
					require.NoError(t, json.Unmarshal(written(t, &b), &got))
					require.Equal(t, sent{Prompt: strings.Join(texts, "\n")}, got, "turn %d, %s", turn, target)
				}
			})
		})
	}
}

// Bodies byte for byte: the order of keys, and where the system prompt and the marker stand.
//
// Covers T-40.
func TestBodyGolden(t *testing.T) {
	c := shaped(t)
	tree, err := c.Render(0, mmapcache.Text)
	require.NoError(t, err)
	ids, err := c.Render(0, mmapcache.IDs)
	require.NoError(t, err)
	const marker = "[rid:0123456789ab]"
	for _, test := range []struct {
		form   form
		target MarkerTarget
		turn   int
		want   string // S, U, A, T stand for the contents of the system, the user, the assistant and a tool, as JSON escapes them
	}{
		{forms["chat"], FirstTurnPrefix, 1, `{"messages":[{"role":"system","content":"S"},{"role":"user","content":"` + marker + `\n\nU"}],` +
			`"model":"m","stream":true,"max_completion_tokens":7,"ignore_eos":true,"stream_options":{"include_usage":true}}`},
		{forms["chat in parts"], FirstTurnSuffix, 1, `{"messages":[{"role":"system","content":[{"type":"text","text":"S"}]},{"role":"user","content":[{"type":"text","text":"U"},{"type":"text","text":"` + marker + `"}]}],` +
			`"model":"m","stream":true,"max_completion_tokens":7,"ignore_eos":true,"stream_options":{"include_usage":true}}`},
		{forms["messages"], FirstTurnPrefix, 1, `{"system":"S","messages":[{"role":"user","content":"` + marker + `\n\nU"}],` +
			`"model":"m","stream":true,"max_tokens":7,"ignore_eos":true}`},
		{forms["messages"], SystemSuffix, 0, `{"system":"S\n\n` + marker + `","messages":[],"model":"m","stream":true,"max_tokens":7,"ignore_eos":true}`},
		{forms["messages in parts"], SystemPrefix, 1, `{"system":[{"type":"text","text":"` + marker + `\n\nS"}],"messages":[{"role":"user","content":[{"type":"text","text":"U"}]}],` +
			`"model":"m","stream":true,"max_tokens":7,"ignore_eos":true}`},
		{forms["messages in parts"], FirstTurnPrefix, 1, `{"system":[{"type":"text","text":"S"}],"messages":[{"role":"user","content":[{"type":"text","text":"` + marker + `"},{"type":"text","text":"U"}]}],` +
			`"model":"m","stream":true,"max_tokens":7,"ignore_eos":true}`},
		{forms["messages"], NoMarker, 4, `{"messages":[{"role":"user","content":"U"},{"role":"assistant","content":[{"type":"text","text":"A"},{"type":"tool_use","id":"call_turn_1","name":"recorded_tool","input":{}}]},` +
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_turn_1","content":"T"}]}],"model":"m","stream":true,"max_tokens":7,"ignore_eos":true}`},
		{form{TextCompletions, false}, SystemPrefix, 1, `{"prompt":"` + marker + `\n\nS\nU","model":"m","stream":true,"max_tokens":7,"ignore_eos":true,"stream_options":{"include_usage":true}}`},
		{form{Completions, false}, NoMarker, 0, `{"prompt":[I],"model":"m","stream":true,"max_tokens":7,"ignore_eos":true,"stream_options":{"include_usage":true}}`},
	} {
		var b Body
		var p mmapcache.Prompt
		of := tree
		if test.form.endpoint == Completions {
			of = ids
		}
		of.Prompt(test.turn, &p)
		want := test.want
		for k, role := range roles(of, test.turn) {
			letter := map[string]string{"system": "S", "user": "U", "assistant": "A", "tool": "T"}[role]
			if of == ids {
				letter = "I"
			}
			content := strings.TrimSuffix(string(p.AppendContent(nil, k)), ",")
			for _, edge := range []string{`"` + letter + `"`, `\n` + letter + `"`, `"` + letter + `\n`, `\n` + letter + `\n`, `[` + letter + `]`} {
				want = strings.Replace(want, edge, edge[:strings.Index(edge, letter)]+content+edge[strings.Index(edge, letter)+1:], 1)
			}
		}
		b.fill(formEncoder(t, c, test.form, test.target), of, test.turn, someMarker, 7)
		require.Equal(t, want, string(written(t, &b)), test.want)
	}
}

// The probe of every endpoint is a body of one message, which asks for one token.
func TestProbes(t *testing.T) {
	c := cachetest.Demo(t)
	for f, want := range map[form][2]string{
		{ChatCompletions, false}: {`{"messages":[{"role":"user","content":"`, `"}],"model":"m","stream":true,"max_completion_tokens":1,"ignore_eos":true,"stream_options":{"include_usage":true}}`},
		{ChatCompletions, true}:  {`{"messages":[{"role":"user","content":[{"type":"text","text":"`, `"}]}],"model":"m","stream":true,"max_completion_tokens":1,"ignore_eos":true,"stream_options":{"include_usage":true}}`},
		{Completions, false}:     {`{"prompt":[`, `],"model":"m","stream":true,"max_tokens":1,"ignore_eos":true,"stream_options":{"include_usage":true}}`},
		{Messages, false}:        {`{"messages":[{"role":"user","content":"`, `"}],"model":"m","stream":true,"max_tokens":1,"ignore_eos":true}`},
		{TextCompletions, false}: {`{"prompt":"`, `","model":"m","stream":true,"max_tokens":1,"ignore_eos":true,"stream_options":{"include_usage":true}}`},
	} {
		body, tokens, err := formEncoder(t, c, f, NoMarker).Probe(8)
		require.NoError(t, err)
		require.Equal(t, 8, tokens)
		require.True(t, json.Valid(body), string(body))
		require.True(t, bytes.HasPrefix(body, []byte(want[0])) && bytes.HasSuffix(body, []byte(want[1])), string(body))
	}
}
