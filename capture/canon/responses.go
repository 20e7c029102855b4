package canon

import (
	"strings"

	"github.com/agentx/agentx/capture/journal"
	"github.com/agentx/agentx/internal/jsonlex"
)

// responses writes the prompt of OpenAI's Responses, or what it adds to an earlier one.
func (b *builder) responses() error {
	if b.member(0, nConversation) != 0 || b.member(0, nPrompt) != 0 {
		return unhashable("the server has a part of the prompt")
	}
	if previous := b.member(0, nPrevious); previous != 0 {
		if b.prompt.Previous = b.word(previous); b.prompt.Previous == "" {
			return unhashable("previous_response_id is no id")
		}
	}
	if err := b.tools(b.member(0, nTools)); err != nil {
		return err
	}
	plain := func(block int32, _ int) bool { b.block(block); return true }
	if err := b.system(b.member(0, nInstructions), plain); err != nil {
		return err
	}
	input := b.member(0, nInput)
	switch b.kind(input) {
	case jsonlex.None:
		return nil
	case jsonlex.String:
		b.beginMessage([]byte("user"))
		b.content(input)
		return nil
	}
	return b.items(input)
}

// items writes the items of a list.
func (b *builder) items(list int32) error {
	if b.values[list].kind != jsonlex.Array {
		return unhashable("the input is neither text nor a list")
	}
	b.role = 0
	b.beginList(list)
	for i, index := b.values[list].first, 0; i != 0; i, index = b.values[i].next, index+1 {
		if err := b.item(i); err != nil {
			return err
		}
		b.endElement(list, index)
	}
	return nil
}

// item writes an item of the input or the output of Responses.
func (b *builder) item(i int32) error {
	if b.kind(i) != jsonlex.Object {
		return unhashable("an item is no object")
	}
	switch kind := b.word(b.member(i, nType)); kind {
	case "", "message":
		return b.message(i)
	case "item_reference":
		return unhashable("the server has an item of the prompt")
	case "function_call":
		b.ofAssistant(func() journal.Kinds { b.call(i, nArguments); return journal.ToolUse })
	case "custom_tool_call":
		b.ofAssistant(func() journal.Kinds { b.call(i, nInput); return journal.ToolUse })
	case "reasoning":
		b.ofAssistant(func() journal.Kinds { b.reasoning(i); return journal.Thinking })
	case "function_call_output", "custom_tool_call_output":
		b.beginMessage([]byte("tool"))
		b.result(b.member(i, nCallID), b.member(i, nOutput), false)
		b.cut(journal.ToolResult)
	default:
		b.otherItem(i, kind)
	}
	return nil
}

// otherItem writes an item that no rule knows. What is no output of a tool comes from the assistant.
func (b *builder) otherItem(i int32, kind string) {
	write := func() journal.Kinds { return b.otherWithout(i, "id", "status", "call_id") }
	if strings.HasSuffix(kind, "_output") {
		b.beginMessage([]byte("tool"))
		b.cut(write())
		return
	}
	b.ofAssistant(write)
}

// ofAssistant writes an item that needs no role behind another one of the assistant.
func (b *builder) ofAssistant(write func() journal.Kinds) {
	first := b.role == 0
	if b.role == RoleAssistant {
		b.endMessage()
	} else {
		b.beginMessage([]byte("assistant"))
	}
	b.cut(write())
	b.prompt.Segments[len(b.prompt.Segments)-1].Follows = first
}

// reasoning writes an item of reasoning: what can be read of it, then what is encrypted.
func (b *builder) reasoning(i int32) {
	encrypted := b.bytes(b.member(i, nEncrypted))
	texts := b.member(i, nSummary)
	if b.kind(texts) != jsonlex.Array || b.values[texts].first == 0 {
		texts = b.member(i, nContent)
	}
	if readable := b.kind(texts) == jsonlex.Array && b.values[texts].first != 0; readable || len(encrypted) == 0 {
		b.token(Thinking)
		if readable {
			for i := b.values[texts].first; i != 0; i = b.values[i].next {
				if b.kind(i) == jsonlex.Object {
					b.text(b.bytes(b.member(i, nText)))
				}
			}
		}
		b.token(End)
	}
	if len(encrypted) > 0 {
		b.redactedText(encrypted)
	}
}
