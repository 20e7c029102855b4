package payload

import "github.com/agentx/agentx/mmapcache"

// A message is written as an opening, its content, and a closing. The content stands between the quotes of a JSON string.
// form says what the opening and the closing are.
type form struct {
	endpoint Endpoint
	parts    bool // contents are lists of text parts, else strings
}

const (
	partOpening = `{"type":"text","text":"`
	partClosing = `"}`
)

// openings and closings stand around the content of a text message by role, as a string or as a list of one part.
var openings, closings = func() (o, c [2][3]string) {
	for r := range o[0] {
		o[0][r] = `{"role":"` + mmapcache.Role(r).String() + `","content":"`
		o[1][r] = `{"role":"` + mmapcache.Role(r).String() + `","content":[` + partOpening
		c[0][r], c[1][r] = `"}`, partClosing+`]}`
	}
	return o, c
}()

// The system prompt of the Messages API stands apart from its messages, as a string or as a list of one block.
const (
	systemOpening, systemClosing             = `"system":"`, `",`
	systemPartsOpening, systemPartsClosing   = `"system":[` + partOpening, partClosing + `],`
	recordedTool                             = "recorded_tool"
	chatCallOpening, chatCallClosing         = `,"tool_calls":[{"id":"`, `","type":"function","function":{"name":"` + recordedTool + `","arguments":"{}"}}]}`
	messagesCallOpening, messagesCallClosing = `{"type":"tool_use","id":"`, `","name":"` + recordedTool + `","input":{}}]}`
)

func (f form) index() int {
	if f.parts {
		return 1
	}
	return 0
}

// opening returns what stands before the content of a message.
func (f form) opening(m *mmapcache.Message) string {
	switch kind := m.Kind(); {
	case f.endpoint == TextCompletions:
		return ""
	case f.endpoint == Messages && kind == mmapcache.ToolResultMessage && f.parts:
		return `{"role":"user","content":[{"type":"tool_result","tool_use_id":"` + m.CallID() + `","content":[` + partOpening
	case f.endpoint == Messages && kind == mmapcache.ToolResultMessage:
		return `{"role":"user","content":[{"type":"tool_result","tool_use_id":"` + m.CallID() + `","content":"`
	case kind == mmapcache.ToolResultMessage && f.parts:
		return `{"role":"tool","tool_call_id":"` + m.CallID() + `","content":[` + partOpening
	case kind == mmapcache.ToolResultMessage:
		return `{"role":"tool","tool_call_id":"` + m.CallID() + `","content":"`
	case f.endpoint == Messages && kind == mmapcache.ToolCallMessage:
		return openings[1][m.Role] // beside the call, the text is a part
	}
	return openings[f.index()][m.Role]
}

// closing returns what stands after the content of a message.
func (f form) closing(m *mmapcache.Message) string {
	switch kind := m.Kind(); {
	case f.endpoint == TextCompletions:
		return ""
	case f.endpoint == Messages && kind == mmapcache.ToolResultMessage && f.parts:
		return partClosing + `]}]}`
	case f.endpoint == Messages && kind == mmapcache.ToolResultMessage:
		return `"}]}`
	case f.endpoint == Messages && kind == mmapcache.ToolCallMessage:
		return partClosing + `,` + messagesCallOpening + m.CallID() + messagesCallClosing
	case kind == mmapcache.ToolCallMessage && f.parts:
		return partClosing + `]` + chatCallOpening + m.CallID() + chatCallClosing
	case kind == mmapcache.ToolCallMessage:
		return `"` + chatCallOpening + m.CallID() + chatCallClosing
	}
	return closings[f.index()][m.Role]
}

// system returns what stands around the system prompt of the Messages API.
func (f form) system() (opening, closing string) {
	if f.parts {
		return systemPartsOpening, systemPartsClosing
	}
	return systemOpening, systemClosing
}

// AppendMessages appends the messages of a prompt in the encoding Text, as a chat request lists them: JSON objects
// separated by commas.
func AppendMessages(b []byte, p *mmapcache.Prompt) []byte {
	var chat form
	for k := range p.Messages {
		m := &p.Messages[k]
		if k > 0 {
			b = append(b, frames[ChatCompletions].separator...)
		}
		b = append(b, chat.opening(m)...)
		b = append(p.AppendContent(b, k), chat.closing(m)...)
	}
	return b
}
