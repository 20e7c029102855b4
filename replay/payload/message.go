package payload

import "github.com/agentx/agentx/mmapcache"

// openings stand before the content of a message in a chat request, by role.
var openings = func() (o [3]string) {
	for r := range o {
		o[r] = `{"role":"` + mmapcache.Role(r).String() + `","content":"`
	}
	return o
}()

// opening returns what stands before the content of a message in a chat request.
func opening(m *mmapcache.Message) string {
	if m.Kind() == mmapcache.ToolResultMessage {
		return `{"role":"tool","tool_call_id":"` + m.CallID() + `","content":"`
	}
	return openings[m.Role]
}

// closing returns what stands after the content of a message in a chat request.
func closing(m *mmapcache.Message) string {
	if m.Kind() == mmapcache.ToolCallMessage {
		return `","tool_calls":[{"id":"` + m.CallID() + `","type":"function","function":{"name":"recorded_tool","arguments":"{}"}}]}`
	}
	return `"}`
}

// AppendMessages appends the messages of a prompt in the encoding Text, as a chat request lists them: JSON objects
// separated by commas.
func AppendMessages(b []byte, p *mmapcache.Prompt) []byte {
	for k := range p.Messages {
		m := &p.Messages[k]
		if k > 0 {
			b = append(b, separator...)
		}
		b = append(b, opening(m)...)
		b = append(p.AppendContent(b, k), closing(m)...)
	}
	return b
}
