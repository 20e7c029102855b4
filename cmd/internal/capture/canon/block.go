package canon

import (
	"strings"

	"github.com/agentx/agentx/cmd/internal/capture/journal"
	"github.com/agentx/agentx/internal/jsonlex"
)

// block writes a block of content, and returns which type of content it is.
func (b *builder) block(i int32) journal.Kinds {
	switch b.kind(i) {
	case jsonlex.String:
		b.segment(Text, b.bytes(i))
		return journal.Text
	case jsonlex.Object:
	default:
		return b.other(i)
	}
	switch kind := b.word(b.member(i, "type")); kind {
	case "text", "input_text", "output_text", "refusal":
		return b.textOrOther(i)
	case "tool_use":
		b.call(i, "input")
		return journal.ToolUse
	case "tool_result":
		b.result(b.member(i, "tool_use_id"), b.member(i, "content"), b.isTrue(b.member(i, "is_error")))
		return journal.ToolResult
	case "thinking":
		b.segment(thinking, b.bytes(b.member(i, "thinking")))
		return journal.Thinking
	case "redacted_thinking":
		b.redacted(b.bytes(b.member(i, "data")))
		return journal.Thinking
	case "image", "image_url", "input_image":
		b.image(i)
		return journal.Text
	case "document", "file", "input_file":
		b.bySize(document, i)
		return journal.Text
	case "audio", "input_audio":
		b.bySize(Audio, i)
		return journal.Text
	}
	return b.other(i)
}

// textOf returns the text of a block that is text, 0 for other blocks.
func (b *builder) textOf(i int32) int32 {
	if b.kind(i) != jsonlex.Object {
		return 0
	}
	at := "text"
	switch b.word(b.member(i, "type")) {
	case "text", "input_text", "output_text":
	case "refusal":
		at = "refusal"
	default:
		return 0
	}
	if text := b.member(i, at); b.kind(text) == jsonlex.String {
		return text
	}
	return 0
}

// textOrOther writes a block that says that it is text.
func (b *builder) textOrOther(i int32) journal.Kinds {
	text := b.textOf(i)
	if text == 0 {
		return b.other(i)
	}
	b.segment(Text, b.bytes(text))
	return journal.Text
}

// segment writes a segment whose body is a text.
func (b *builder) segment(kind uint32, text []byte) {
	b.token(kind)
	b.text(text)
	b.token(End)
}

// call writes the call of a tool. Its arguments are a string, which is taken as it is, or JSON, which becomes compact.
func (b *builder) call(i int32, arguments string) {
	b.token(toolCall)
	b.text(b.bytes(b.member(i, "name")))
	b.token(sep)
	switch a := b.member(i, arguments); b.kind(a) {
	case jsonlex.None:
	case jsonlex.String:
		b.text(b.bytes(a))
	default:
		b.text(b.compact(a))
	}
	b.token(End)
}

// result writes the result of a call: texts bare, what else it has as segments inside.
func (b *builder) result(call, content int32, failed bool) {
	if id := b.word(call); id != "" {
		b.prompt.Results = append(b.prompt.Results, id)
	}
	b.token(toolResult)
	switch b.kind(content) {
	case jsonlex.None:
	case jsonlex.String:
		b.text(b.bytes(content))
	case jsonlex.Array:
		for i := b.values[content].first; i != 0; i = b.values[i].next {
			b.resultPart(i)
		}
	default:
		b.other(content)
	}
	if failed {
		b.token(sep)
	}
	b.token(End)
}

// resultPart writes a part of the result of a call.
func (b *builder) resultPart(i int32) {
	text := b.textOf(i)
	if b.kind(i) == jsonlex.String {
		text = i
	}
	if text != 0 {
		b.text(b.bytes(text))
		return
	}
	b.block(i)
}

// other writes what no rule knows, as JSON. The ids that link calls and results go.
func (b *builder) other(i int32) journal.Kinds {
	if b.otherKinds(i) == journal.Text {
		return b.otherWithout(i)
	}
	return b.otherWithout(i, "id", "tool_use_id", "call_id")
}

// otherKinds returns the type of content that a value is by the name of its type.
func (b *builder) otherKinds(i int32) journal.Kinds {
	if b.kind(i) != jsonlex.Object {
		return journal.Text
	}
	switch kind := b.word(b.member(i, "type")); {
	case strings.HasSuffix(kind, "tool_use"), strings.HasSuffix(kind, "_call"):
		return journal.ToolUse
	case strings.HasSuffix(kind, "tool_result"), strings.HasSuffix(kind, "_call_output"):
		return journal.ToolResult
	}
	return journal.Text
}

// otherWithout writes a value as JSON without cache_control and further members.
func (b *builder) otherWithout(i int32, keys ...string) journal.Kinds {
	b.segment(other, b.compactWithout(i, append(keys, "cache_control")...))
	return b.otherKinds(i)
}

// message writes a message whose content is all that it has: those of Anthropic, and messages among the items of Responses.
func (b *builder) message(m int32) error {
	role := b.member(m, "role")
	if b.kind(role) != jsonlex.String {
		return unhashable("a message has no role")
	}
	b.beginMessage(b.bytes(role))
	b.content(b.member(m, "content"))
	return nil
}

// chatMessage writes a message of chat completions, which has calls of tools and reasoning beside its content.
func (b *builder) chatMessage(m int32) error {
	role := b.member(m, "role")
	if b.kind(role) != jsonlex.String {
		return unhashable("a message has no role")
	}
	name := b.bytes(role)
	b.beginMessage(name)
	if string(name) == "tool" {
		b.result(b.member(m, "tool_call_id"), b.member(m, "content"), false)
		b.cut(journal.ToolResult)
		return nil
	}
	if reasoning := b.member(m, "reasoning_content"); b.kind(reasoning) == jsonlex.String {
		b.segment(thinking, b.bytes(reasoning))
		b.cut(journal.Thinking)
	}
	b.content(b.member(m, "content"))
	if refusal := b.member(m, "refusal"); b.kind(refusal) == jsonlex.String {
		b.segment(Text, b.bytes(refusal))
		b.cut(journal.Text)
	}
	if audio := b.member(m, "audio"); b.kind(audio) == jsonlex.Object {
		b.bySize(Audio, audio)
		b.cut(journal.Text)
	}
	b.chatCalls(m)
	return nil
}

// chatCalls writes the calls of a message, those of today and the one of before.
func (b *builder) chatCalls(m int32) {
	if list := b.member(m, "tool_calls"); b.kind(list) == jsonlex.Array {
		for i := b.values[list].first; i != 0; i = b.values[i].next {
			b.chatCall(i)
			b.cut(journal.ToolUse)
		}
	}
	if call := b.member(m, "function_call"); b.kind(call) == jsonlex.Object {
		b.call(call, "arguments")
		b.cut(journal.ToolUse)
	}
}

// chatCall writes an element of tool_calls.
func (b *builder) chatCall(i int32) {
	if b.kind(i) == jsonlex.Object {
		if f := b.member(i, "function"); b.kind(f) == jsonlex.Object {
			b.call(f, "arguments")
			return
		}
		if f := b.member(i, "custom"); b.kind(f) == jsonlex.Object {
			b.call(f, "input")
			return
		}
	}
	b.other(i)
}

// content writes the content of a message, one segment per block.
func (b *builder) content(i int32) {
	switch b.kind(i) {
	case jsonlex.None:
	case jsonlex.Array:
		for i := b.values[i].first; i != 0; i = b.values[i].next {
			b.cut(b.block(i))
		}
	default:
		b.cut(b.block(i))
	}
}
