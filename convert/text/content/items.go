package content

import (
	"strings"

	"github.com/agentx/agentx/convert/text"
)

// ItemFields are the members of an item of Responses that decide about it.
var ItemFields = [...]string{"type", "role", "content", "summary", "encrypted_content", "name", "arguments", "input", "call_id", "output"}

// Places in ItemFields.
const (
	itemType = iota
	itemRole
	itemContent
	itemSummary
	itemEncrypted
	itemName
	itemArguments
	itemInput
	itemCall
	itemOutput
)

var itemSchema = NewSchema(ItemFields[:])

// ItemKind says where an item comes from.
type ItemKind uint8

// The kinds of an item.
const (
	UnknownItem ItemKind = iota
	InputItem            // a message of a person or a client
	ResultItem           // of a tool
	OutputItem           // of the model
	HeadItem             // of a server: what stands for a history that it has shortened
)

// Item is an item of Responses.
type Item struct {
	Kind    ItemKind
	Follows bool // has no role of its own behind an item of the assistant: Message.Continues
	Type    string
	Message text.Message
}

// Items calls item for each item of a list.
func (r *Reader) Items(list Raw, item func(Item)) {
	_ = list.Array(func(v Raw) error { // it was read before
		fields := make([]Raw, len(ItemFields))
		_ = itemSchema.Read(v, fields)
		item(r.Item(v, fields))
		return nil
	})
}

// Item reads an item, whose members of ItemFields are known.
func (r *Reader) Item(v Raw, f []Raw) Item {
	i := Item{Type: string(f[itemType].Bytes())}
	assistant := func(kind ItemKind, parts ...text.Part) Item {
		i.Kind, i.Follows, i.Message = kind, true, text.Message{Role: text.Assistant, Parts: parts}
		return i
	}
	tool := func(p text.Part) Item {
		i.Kind, i.Message = ResultItem, text.Message{Role: text.Tool, Parts: []text.Part{p}}
		return i
	}
	switch i.Type {
	case "message", "":
		return r.messageItem(i, f)
	case "reasoning":
		return assistant(OutputItem, r.reasoning(f)...)
	case "function_call":
		return assistant(OutputItem, r.call(f[itemCall], f[itemName], f[itemArguments]))
	case "custom_tool_call":
		return assistant(OutputItem, r.call(f[itemCall], f[itemName], f[itemInput]))
	case "function_call_output", "custom_tool_call_output":
		return tool(r.result(f[itemCall], resultOf(f[itemOutput]), false))
	case "compaction", "compaction_summary", "context_compaction":
		if f[itemEncrypted].IsString() {
			return assistant(HeadItem, r.Redacted(f[itemEncrypted]))
		}
		return i
	}
	other := func() text.Part {
		return text.Part{Kind: text.Other, Text: r.Without(v, "id", "status", "call_id", "cache_control")}
	}
	switch {
	case strings.HasSuffix(i.Type, "_call"):
		return assistant(OutputItem, other())
	case strings.HasSuffix(i.Type, "_output"):
		return tool(other())
	}
	return i
}

// messageItem reads a message; one without a role is unknown.
func (r *Reader) messageItem(i Item, f []Raw) Item {
	if !f[itemRole].IsString() {
		return i
	}
	m := r.says(f[itemRole])
	m.Parts = r.Blocks(f[itemContent])
	if i.Kind = InputItem; m.Role == text.Assistant {
		i.Kind = OutputItem
	}
	i.Message = m
	return i
}

// reasoning reads what can be read of reasoning, each text a part, then what is encrypted. There is a part where neither is.
func (r *Reader) reasoning(f []Raw) (parts []text.Part) {
	for _, list := range [...]Raw{f[itemSummary], f[itemContent]} {
		_ = list.Array(func(v Raw) error {
			var said Raw
			_ = v.Object(func(key []byte, v Raw) error {
				if string(key) == "text" {
					said = v
				}
				return nil
			})
			parts = append(parts, text.Part{Kind: text.Thinking, Text: r.Text(said)})
			return nil
		})
		if len(parts) > 0 {
			break
		}
	}
	if v := f[itemEncrypted]; v.IsString() && len(v) > len(`""`) {
		parts = append(parts, r.Redacted(v))
	}
	if len(parts) == 0 {
		parts = []text.Part{{Kind: text.Thinking}}
	}
	return parts
}

// resultOf returns the content of an output of a tool, which may stand in an object beside whether it succeeded.
func resultOf(output Raw) Raw {
	content := output
	_ = output.Object(func(key []byte, v Raw) error {
		if string(key) == "content" {
			content = v
		}
		return nil
	})
	return content
}
