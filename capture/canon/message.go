package canon

import (
	"github.com/agentx/agentx/capture/journal"
	"github.com/agentx/agentx/internal/jsonlex"
)

// message writes a message whose content is all that it has: those of Anthropic, and messages among the items of Responses.
func (b *builder) message(m int32) error {
	role := b.member(m, nRole)
	if b.kind(role) != jsonlex.String {
		return unhashable("a message has no role")
	}
	b.beginMessage(b.bytes(role))
	b.content(b.member(m, nContent))
	return nil
}

// chatMessage writes a message of chat completions, which has calls of tools and reasoning beside its content.
func (b *builder) chatMessage(m int32) error {
	role := b.member(m, nRole)
	if b.kind(role) != jsonlex.String {
		return unhashable("a message has no role")
	}
	name := b.bytes(role)
	b.beginMessage(name)
	if string(name) == "tool" {
		b.result(b.member(m, nToolCallID), b.member(m, nContent), false)
		b.cut(journal.ToolResult)
		return nil
	}
	if reasoning := b.member(m, nReasoning); b.kind(reasoning) == jsonlex.String {
		b.segment(Thinking, reasoning)
		b.cut(journal.Thinking)
	}
	b.content(b.member(m, nContent))
	if refusal := b.member(m, nRefusal); b.kind(refusal) == jsonlex.String {
		b.segment(Text, refusal)
		b.cut(journal.Text)
	}
	if audio := b.member(m, nAudio); b.kind(audio) == jsonlex.Object {
		b.audio(audio)
		b.cut(journal.Text)
	}
	b.chatCalls(m)
	return nil
}

// chatCalls writes the calls of a message, those of today and the one of before.
func (b *builder) chatCalls(m int32) {
	if list := b.member(m, nToolCalls); b.kind(list) == jsonlex.Array {
		for i := b.values[list].first; i != 0; i = b.values[i].next {
			b.chatCall(i)
			b.cut(journal.ToolUse)
		}
	}
	if call := b.member(m, nFunctionCall); b.kind(call) == jsonlex.Object {
		b.call(call, nArguments)
		b.cut(journal.ToolUse)
	}
}

// chatCall writes an element of tool_calls.
func (b *builder) chatCall(i int32) {
	if b.kind(i) == jsonlex.Object {
		if f := b.member(i, nFunction); b.kind(f) == jsonlex.Object {
			b.call(f, nArguments)
			return
		}
		if f := b.member(i, nCustom); b.kind(f) == jsonlex.Object {
			b.call(f, nInput)
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
