package wire

import (
	"bytes"
	"encoding/json"
)

// API is how a server writes its answers.
type API uint8

// The APIs.
const (
	OpenAI      API = iota // chat completions and completions
	MessagesAPI            // Anthropic's Messages: POST /v1/messages
)

// dataOf returns the payload of a message of one data line. A message of the Messages API has its name in a line before. Of any
// other message, and of an event named error, it is not sure.
func (d *decoder) dataOf(raw []byte) (payload []byte, sure bool) {
	if d.api == MessagesAPI {
		if name, ok := bytes.CutPrefix(raw, []byte("event: ")); ok {
			end := 0
			for end < len(name) && (name[end] == '_' || name[end]-'a' < 26) {
				end++
			}
			if end == len(name) || name[end] != '\n' || string(name[:end]) == "error" {
				return nil, false
			}
			raw = name[end+1:]
		}
	}
	return bytes.CutPrefix(raw, []byte("data:"))
}

func (d *decoder) skim(payload []byte) (e event, sure bool) {
	if d.api == MessagesAPI {
		return skimMessagesEvent(payload)
	}
	return skimEvent(payload)
}

func (d *decoder) decode(payload []byte) event {
	if d.api == MessagesAPI {
		return decodeMessagesEvent(payload)
	}
	return decodeEvent(payload)
}

// decodeMessagesEvent decodes a payload of the Messages API with encoding/json: an event of a stream, or a complete message. It
// defines what a payload means: skimMessagesEvent must agree with it wherever it is sure. The types of events and of blocks
// are ignored, but for message_stop: the member that a text stands in says what it is.
func decodeMessagesEvent(payload []byte) event {
	top, ok := object(payload)
	if !ok {
		return event{}
	}
	e := event{failed: isSet(top["error"]), last: text(top["type"]) == "message_stop"}
	e.answer(top)
	message, _ := object(top["message"]) // of message_start
	e.answer(message)
	for _, name := range []string{"delta", "content_block"} {
		part, _ := object(top[name])
		e.block(part)
		if reason := text(part["stop_reason"]); reason != "" {
			e.finish = reason
		}
	}
	return e
}

// answer reads a complete message, as far as it is there.
func (e *event) answer(message map[string]json.RawMessage) {
	if usage, ok := object(message["usage"]); ok && len(usage) > 0 {
		e.usage = message["usage"]
	}
	if reason := text(message["stop_reason"]); reason != "" {
		e.finish = reason
	}
	for _, raw := range array(message["content"]) {
		part, _ := object(raw)
		e.block(part)
	}
}

// block reads a block of content, or what is added to one. The name of a tool counts, as its arguments do.
func (e *event) block(part map[string]json.RawMessage) {
	e.content = e.content || text(part["text"]) != ""
	e.reasoning = e.reasoning || text(part["thinking"]) != ""
	e.toolCall = e.toolCall || text(part["name"]) != "" || text(part["partial_json"]) != ""
}
