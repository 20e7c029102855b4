package render

import (
	"strings"

	"github.com/agentx/agentx/convert/text"
	"github.com/agentx/agentx/convert/text/content"
)

// chatMessage writes a message as chat completions have it. Results are messages of role tool of their own, in front of the rest; the first
// are those of aborted calls.
func (p *pieces) chatMessage(m *text.Message, numbers, aborted []int) {
	rest, wrote := false, len(aborted) > 0
	for k, n := range aborted {
		p.separate(k)
		p.put(`{"role":"tool","tool_call_id":"`, callName(n), `","content":"`+abortedResult+`"}`)
	}
	for k := range m.Parts {
		part := &m.Parts[k]
		if part.Kind != text.Result || numbers[k] == 0 {
			rest = rest || part.Kind != text.Redacted
			continue
		}
		if wrote {
			p.put(`,`)
		}
		wrote = true
		p.put(`{"role":"tool","tool_call_id":"`, callName(numbers[k]), `","content":`)
		p.content(part.Parts, false)
		p.put(`}`)
	}
	if wrote && !rest {
		return
	}
	if wrote {
		p.put(`,`)
	}
	p.put(`{"role":"`)
	switch m.Role {
	case text.OtherRole:
		p.text(m.Name)
	case text.Tool: // its result answers no call
		p.put("user")
	default:
		p.put(m.Role.String())
	}
	p.put(`"`)
	if m.Role != text.Assistant {
		p.put(`,"content":`)
		p.content(unanswered(m.Parts, numbers), true)
		p.put(`}`)
		return
	}
	p.chatAnswer(m, numbers)
}

// chatAnswer writes the members of a message of the assistant behind its role: its reasoning, content and calls.
func (p *pieces) chatAnswer(m *text.Message, numbers []int) {
	var plain []text.Part
	thinking, calls := 0, 0
	for k := range m.Parts {
		switch part := m.Parts[k]; part.Kind {
		case text.Thinking:
			if thinking++; thinking == 1 {
				p.put(`,"reasoning_content":"`)
			}
			p.text(part.Text)
		case text.Call:
			calls++
		case text.Redacted:
		default:
			plain = append(plain, part)
		}
	}
	if thinking > 0 {
		p.put(`"`)
	}
	if p.put(`,"content":`); len(plain) == 0 && calls > 0 {
		p.put(`null`)
	} else {
		p.content(plain, true)
	}
	for k, n := 0, 0; k < len(m.Parts); k++ {
		if m.Parts[k].Kind != text.Call {
			continue
		}
		if n++; n == 1 {
			p.put(`,"tool_calls":[`)
		} else {
			p.put(`,`)
		}
		p.put(`{"id":"`, callName(numbers[k]), `","type":"function","function":{"name":"`)
		p.text(m.Parts[k].Name)
		p.put(`","arguments":"`)
		p.text(m.Parts[k].Text)
		p.put(`"}}`)
	}
	if calls > 0 {
		p.put(`]`)
	}
	p.put(`}`)
}

// unanswered returns the parts of a message without the results that answer a call; the others are their parts.
func unanswered(parts []text.Part, numbers []int) (list []text.Part) {
	for k, part := range parts {
		switch {
		case part.Kind == text.Redacted || part.Kind == text.Result && numbers[k] > 0:
		case part.Kind == text.Result:
			list = append(list, part.Parts...)
		default:
			list = append(list, part)
		}
	}
	return list
}

// content writes the value of content: a string of one text, else a list of text parts. first says that the message begins with it.
func (p *pieces) content(parts []text.Part, first bool) {
	switch {
	case len(parts) == 0:
		p.put(`""`)
	case len(parts) == 1 && parts[0].Kind == text.Plain:
		p.put(`"`)
		p.plain(&parts[0], first)
		p.put(`"`)
	default:
		p.put(`[`)
		for k := range parts {
			p.separate(k)
			p.block(&parts[k], first && k == 0)
		}
		p.put(`]`)
	}
}

// separate writes what stands in front of element k of a list.
func (p *pieces) separate(k int) {
	if k > 0 {
		p.put(`,`)
	}
}

// block writes a part as a block of text.
func (p *pieces) block(part *text.Part, first bool) {
	p.put(`{"type":"text","text":"`)
	p.plain(part, first)
	p.put(`"}`)
}

// plain writes what a part says, between the quotes of a string.
func (p *pieces) plain(part *text.Part, first bool) {
	if first {
		p.leads()
	}
	switch part.Kind {
	case text.Image, text.Document, text.Audio:
		p.put(strings.Repeat(" "+part.Kind.String(), int(part.Tokens)))
	case text.Result:
		for k := range part.Parts {
			p.plain(&part.Parts[k], false)
		}
	default:
		p.text(part.Text)
	}
}

// anthropicMessage writes a message as Anthropic's Messages have it.
func (p *pieces) anthropicMessage(m *text.Message, numbers, aborted []int) {
	role := "user"
	if m.Role == text.Assistant {
		role = "assistant"
	}
	p.put(`{"role":"`, role, `","content":`)
	if len(m.Parts) == 1 && m.Parts[0].Kind == text.Plain {
		p.content(m.Parts, true)
	} else {
		p.put(`[`)
		p.blocks(m, numbers, aborted, true)
		p.put(`]`)
	}
	p.put(`}`)
}

// blocks writes the parts of a message as blocks, behind results of aborted calls. Those of a system prompt are texts alone.
func (p *pieces) blocks(m *text.Message, numbers, aborted []int, calls bool) {
	n := len(aborted)
	for k, call := range aborted {
		p.separate(k)
		p.put(`{"type":"tool_result","tool_use_id":"`, callName(call), `","content":"`+abortedResult+`","is_error":true}`)
	}
	for k := range m.Parts {
		part := &m.Parts[k]
		if part.Kind == text.Redacted {
			continue
		}
		p.separate(n)
		n++
		switch {
		case calls && part.Kind == text.Thinking:
			p.put(`{"type":"thinking","thinking":"`)
			p.text(part.Text)
			p.put(`","signature":""}`)
		case calls && part.Kind == text.Call && numbers[k] > 0:
			p.put(`{"type":"tool_use","id":"`, callName(numbers[k]), `","name":"`)
			p.text(part.Name)
			p.put(`","input":`)
			p.input(part.Text)
			p.put(`}`)
		case calls && part.Kind == text.Result && numbers[k] > 0:
			p.put(`{"type":"tool_result","tool_use_id":"`, callName(numbers[k]), `","content":`)
			p.content(part.Parts, false)
			if part.Failed {
				p.put(`,"is_error":true`)
			}
			p.put(`}`)
		default:
			p.block(part, n == 1)
		}
	}
	if n == 0 {
		p.put(`{"type":"text","text":""}`)
	}
}

// input writes the arguments of a call as an object: one that is none is its member arguments.
func (p *pieces) input(t text.Text) {
	if v, err := content.Value(p.r.read(t)); err == nil && v.IsObject() {
		p.json(t)
		return
	}
	if t == 0 {
		p.put(`{}`)
		return
	}
	p.put(`{"arguments":"`)
	p.text(t)
	p.put(`"}`)
}

// tools writes definitions of tools as a list, in each form.
func (r *Renderer) tools(list []text.Text) (chat, anthropic *pieces) {
	chat, anthropic = r.begin()
	chat.put(`[`)
	anthropic.put(`[`)
	for k, t := range list {
		chat.separate(k)
		anthropic.separate(k)
		r.tool(t, chat, anthropic)
	}
	chat.put(`]`)
	anthropic.put(`]`)
	return chat, anthropic
}

// tool writes the definition of a tool, which may be in the form of any API.
func (r *Renderer) tool(t text.Text, chat, anthropic *pieces) {
	var outer, function definition
	raw := content.Raw(r.read(t))
	outer.read(raw)
	function = outer
	if outer.function != nil {
		function = definition{}
		function.read(outer.function)
	}
	if function.name == nil { // a tool that the API has built in
		chat.json(t)
		anthropic.json(t)
		return
	}
	if outer.function != nil {
		chat.json(t)
	} else {
		chat.put(`{"type":"function","function":{"name":`, string(function.name))
		if function.description != nil {
			chat.put(`,"description":`, string(function.description))
		}
		if function.schema != nil {
			chat.put(`,"parameters":`, string(function.schema))
		}
		chat.put(`}}`)
	}
	if outer.function == nil && outer.anthropic {
		anthropic.json(t)
		return
	}
	anthropic.put(`{"name":`, string(function.name))
	if function.description != nil {
		anthropic.put(`,"description":`, string(function.description))
	}
	schema := string(function.schema)
	if schema == "" {
		schema = `{"type":"object"}`
	}
	anthropic.put(`,"input_schema":`, schema, `}`)
}

// definition has the members of a definition of a tool.
type definition struct {
	name, description, schema, function content.Raw
	anthropic                           bool
}

func (d *definition) read(v content.Raw) {
	_ = v.Object(func(key []byte, v content.Raw) error {
		switch string(key) {
		case "name":
			d.name = v
		case "description":
			d.description = v
		case "parameters":
			d.schema = v
		case "input_schema", "inputSchema":
			d.schema, d.anthropic = v, string(key) == "input_schema"
		case "function":
			if v.IsObject() {
				d.function = v
			}
		}
		return nil
	})
}
