package payload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/agentx/agentx/mmapcache"
)

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

// Contents are strings or lists of one part.
var (
	contentOpenings = [2]string{`"`, `[` + partOpening}
	contentClosings = [2]string{`"`, partClosing + `]`}
	closings        = [2]string{contentClosings[0] + `}`, contentClosings[1] + `}`}
)

// openings stand before the content of a text message, by role.
var openings = func() (o [2][3]string) {
	for parts := range o {
		for r := range o[parts] {
			o[parts][r] = `{"role":"` + mmapcache.Role(r).String() + `","content":` + contentOpenings[parts]
		}
	}
	return o
}()

// The system prompt of the Messages API stands apart from its messages, as a string or as a list of one block.
const (
	systemOpening, systemClosing             = `"system":"`, `",`
	systemPartsOpening, systemPartsClosing   = `"system":[` + partOpening, partClosing + `],`
	recordedTool                             = "recorded_tool"
	chatCallOpening, chatCallClosing         = `,"tool_calls":[{"id":"`, `","type":"function","function":{"name":"` + recordedTool + `","arguments":"{}"}}]}`
	messagesCallOpening, messagesCallClosing = `{"type":"tool_use","id":"`, `","name":"` + recordedTool + `","input":{}}]}`
)

// opening and closing return what stands before and after the content of a message.
func (f form) opening(m *mmapcache.Message) string {
	if m.Recorded() {
		return "" // it is all of the message
	}
	return endpointTable[f.endpoint].opening(m, f.parts)
}

// closing returns what follows the text of a message.
func (f form) closing(m *mmapcache.Message) string {
	if m.Recorded() {
		return ""
	}
	return endpointTable[f.endpoint].closing(m, f.parts)
}

// index returns the column of the tables below: 1 where contents are lists of parts.
func index(parts bool) int {
	if parts {
		return 1
	}
	return 0
}

func nothing(*mmapcache.Message, bool) string { return "" }

func chatOpening(m *mmapcache.Message, parts bool) string {
	if m.Kind() == mmapcache.ToolResultMessage {
		return `{"role":"tool","tool_call_id":"` + m.CallID() + `","content":` + contentOpenings[index(parts)]
	}
	return openings[index(parts)][m.Role]
}

func chatClosing(m *mmapcache.Message, parts bool) string {
	if m.Kind() == mmapcache.ToolCallMessage {
		return contentClosings[index(parts)] + chatCallOpening + m.CallID() + chatCallClosing
	}
	return closings[index(parts)]
}

func messagesOpening(m *mmapcache.Message, parts bool) string {
	switch m.Kind() {
	case mmapcache.ToolResultMessage:
		return `{"role":"user","content":[{"type":"tool_result","tool_use_id":"` + m.CallID() + `","content":` + contentOpenings[index(parts)]
	case mmapcache.ToolCallMessage:
		parts = true // beside the call, the text is a part
	}
	return openings[index(parts)][m.Role]
}

func messagesClosing(m *mmapcache.Message, parts bool) string {
	switch m.Kind() {
	case mmapcache.ToolResultMessage:
		return contentClosings[index(parts)] + `}]}`
	case mmapcache.ToolCallMessage:
		return partClosing + `,` + messagesCallOpening + m.CallID() + messagesCallClosing
	}
	return closings[index(parts)]
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
	first := 0
	for first < len(p.Messages) && p.Messages[first].Role >= mmapcache.Tools {
		first++ // a member of its own
	}
	for k := first; k < len(p.Messages); k++ {
		m := &p.Messages[k]
		if k > first {
			b = append(b, endpointTable[ChatCompletions].separator...)
		}
		b = append(b, chat.opening(m)...)
		b = append(p.AppendContent(b, k), chat.closing(m)...)
	}
	return b
}

// member is one member of a JSON object.
type member struct {
	name  string
	value json.RawMessage // as it was written, without blanks
}

// continuousUsage is the member of stream_options that asks for token counts in every message.
const continuousUsage = "continuous_usage_stats"

// asksForUsagePerChunk reports whether the member of stream_options asks for token counts in every message.
func (m member) asksForUsagePerChunk() bool {
	return m.name == continuousUsage && string(m.value) == "true"
}

// appendMembers appends members with commas between them.
func appendMembers(b []byte, list []member) []byte {
	for k, m := range list {
		if k > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, `%s:%s`, quote(m.name), m.value)
	}
	return b
}

// membersOf returns the members of a JSON object in their order. An empty text has none.
func membersOf(object []byte) (list []member, err error) {
	if len(bytes.TrimSpace(object)) == 0 {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(object))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, errors.New("want a JSON object")
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("want a JSON object: %w", err)
		}
		m := member{name: name.(string)}
		if err := d.Decode(&m.value); err != nil {
			return nil, fmt.Errorf("want a JSON object: %s: %w", quote(m.name), err)
		}
		var value bytes.Buffer
		if err := json.Compact(&value, m.value); err != nil {
			return nil, err
		}
		m.value = value.Bytes()
		if slices.ContainsFunc(list, func(o member) bool { return o.name == m.name }) {
			return nil, fmt.Errorf("%s occurs twice", quote(m.name))
		}
		list = append(list, m)
	}
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("want a JSON object: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("want one JSON object and nothing after it")
	}
	return list, nil
}

// quote returns a name as JSON.
func quote(name string) []byte {
	q, _ := json.Marshal(name) // a string always marshals
	return q
}
