package imports

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/cmd/internal/capture/canon"
	"github.com/agentx/agentx/convert/text"
	"github.com/agentx/agentx/convert/text/content"
)

// bytewise is a tokenizer whose tokens are bytes.
type bytewise struct{}

func (bytewise) AppendIDs(ids []uint32, s string) []uint32 {
	for _, b := range []byte(s) {
		ids = append(ids, uint32(b))
	}
	return ids
}

// flat is a segment as tokens; those of media are their number.
type flat struct {
	Role   uint32
	Kinds  string
	Tokens []uint32
}

func flatten(list []canon.Segment) (flats []flat) {
	for _, s := range list {
		f := flat{Role: s.Role, Kinds: fmt.Sprint(s.Kinds.Names())}
		for _, p := range s.Parts {
			switch p.Kind {
			case canon.Structure:
				f.Tokens = append(f.Tokens, p.Token)
			case canon.PlainText:
				f.Tokens = bytewise{}.AppendIDs(f.Tokens, string(p.Data))
			case canon.TokenIDs:
				f.Tokens = append(f.Tokens, p.IDs...)
			case canon.MediaTokens:
				f.Tokens = append(f.Tokens, canon.Media, uint32(p.Count))
			}
		}
		flats = append(flats, f)
	}
	return flats
}

type object = map[string]any

// drawBlock draws a block of a message of Anthropic's Messages, or of a result.
func drawBlock(t *rapid.T, inside bool) any {
	words := rapid.SampledFrom([]string{"", "a", "two words", "\"quoted\" \\ \n", "é😀\u2028", "<b>&"})
	kinds := []string{"text", "image", "document", "unknown", "server_tool_use"}
	if !inside {
		kinds = append(kinds, "thinking", "redacted_thinking", "tool_use", "tool_result")
	}
	switch kind := rapid.SampledFrom(kinds).Draw(t, "kind"); kind {
	case "text":
		return object{"type": "text", "text": words.Draw(t, "text"), "cache_control": object{"type": "ephemeral"}}
	case "thinking":
		return object{"type": "thinking", "thinking": words.Draw(t, "thinking"), "signature": "s"}
	case "redacted_thinking":
		return object{"type": kind, "data": words.Draw(t, "data")}
	case "image", "document":
		return object{"type": kind, "source": object{"type": "base64", "media_type": "image/png", "data": rapid.SampledFrom([]string{"YWJj", "", "YWJjZGVmZ2hpamtsbW5vcA=="}).Draw(t, "base64")}}
	case "tool_use":
		return object{"type": kind, "id": words.Draw(t, "id"), "name": words.Draw(t, "name"), "input": rapid.SampledFrom([]any{object{}, object{"a": []any{1, "b"}}, "{not json", nil}).Draw(t, "input")}
	case "tool_result":
		o := object{"type": kind, "tool_use_id": words.Draw(t, "id"), "is_error": rapid.Bool().Draw(t, "failed")}
		switch rapid.IntRange(0, 2).Draw(t, "result") {
		case 0:
			o["content"] = words.Draw(t, "text")
		case 1:
			o["content"] = drawBlocks(t, true)
		}
		return o
	}
	return object{"type": "server_tool_use", "id": "x", "name": words.Draw(t, "name")}
}

func drawBlocks(t *rapid.T, inside bool) []any {
	list := []any{}
	for range rapid.IntRange(0, 3).Draw(t, "blocks") {
		list = append(list, drawBlock(t, inside))
	}
	return list
}

// The segments of messages are those that a capture makes of a body with them, whatever they have.
func TestSegmentsAreThoseOfACapture(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var messages, tools []any
		for range rapid.IntRange(1, 4).Draw(rt, "messages") {
			m := object{"role": rapid.SampledFrom([]string{"user", "assistant", "system", "developer", "critic"}).Draw(rt, "role")}
			switch rapid.IntRange(0, 2).Draw(rt, "content") {
			case 0:
				m["content"] = rapid.SampledFrom([]string{"", "a text"}).Draw(rt, "text")
			case 1:
				m["content"] = drawBlocks(rt, false)
			}
			messages = append(messages, m)
		}
		for k := range rapid.IntRange(0, 2).Draw(rt, "tools") {
			tools = append(tools, object{"name": fmt.Sprint("t", k), "input_schema": object{"type": "object"}, "cache_control": object{}})
		}
		body := object{"messages": messages}
		if len(tools) > 0 {
			body["tools"] = tools
		}
		checkBody(rt, canon.Messages, body, tools, messages)
	})
}

// The same of chat completions, which have calls, reasoning, refusals and sound beside the content.
func TestSegmentsOfChat(t *testing.T) {
	messages := []any{
		object{"role": "system", "content": "be brief"},
		object{"role": "developer", "content": []any{object{"type": "text", "text": "a"}, object{"type": "input_text", "text": "b"}}},
		object{"role": "user", "content": []any{object{"type": "image_url", "image_url": object{"url": "data:image/png;base64,YWJj"}}, object{"type": "input_audio", "input_audio": object{"data": "YWJj", "format": "wav"}}, "bare"}},
		object{"role": "assistant", "content": nil, "reasoning_content": "hm", "refusal": "no", "audio": object{"id": "x"},
			"tool_calls": []any{object{"id": "c", "type": "function", "function": object{"name": "f", "arguments": `{"a": 1}`}}, object{"id": "d", "type": "custom", "custom": object{"name": "g", "input": "i"}}, object{"id": "e", "type": "odd_call"}}},
		object{"role": "tool", "tool_call_id": "c", "content": "done"},
		object{"role": "tool", "tool_call_id": "d", "content": []any{object{"type": "text", "text": "x"}, object{"type": "file", "file": object{"file_data": "YWJj"}}}},
		object{"role": "assistant", "content": "", "function_call": object{"name": "h", "arguments": ""}},
		object{"role": "function", "name": "h", "content": "r"},
	}
	tools := []any{object{"type": "function", "function": object{"name": "f"}}}
	checkBody(t, canon.Chat, object{"messages": messages, "tools": tools}, tools, messages)
}

func checkBody(t require.TestingT, format canon.Format, body object, tools, messages []any) {
	raw, err := json.Marshal(body)
	require.NoError(t, err)
	want, err := canon.Parse(format, raw)
	require.NoError(t, err)
	d := text.NewDataset(text.NewStore(""))
	r := content.Reader{Data: d}
	session := &text.Session{Lacks: text.None, Filler: text.None}
	for _, tool := range tools {
		b, _ := json.Marshal(tool)
		session.Tools = append(session.Tools, r.Tool(b))
	}
	var list []text.Message
	for _, m := range messages {
		b, _ := json.Marshal(m)
		message, err := r.Message(b)
		require.NoError(t, err)
		list = append(list, message)
	}
	s := &stream{data: d, sizes: text.NewSizes(d, bytewise{})}
	got, media := s.head(nil, session), 0
	for k := range list {
		got = s.message(got, &list[k])
		media += mediaTokens(list[k].Parts)
	}
	require.NoError(t, s.err)
	require.Equal(t, flatten(want.Segments), flatten(got), "%s", raw)
	require.Equal(t, want.MediaTokens, media)
}
