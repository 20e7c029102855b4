package wire

import "bytes"

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
		return decodeMessagesEvent(payload, d.aiperf)
	}
	return decodeEvent(payload, d.aiperf)
}

// decodeMessagesEvent decodes any payload of the Messages API: an event of a stream, or a complete message. It defines what a
// payload means: skimMessagesEvent must agree with it wherever it is sure. The types of events and of blocks are ignored, but
// for message_stop: the member that a text stands in says what it is.
func decodeMessagesEvent(payload []byte, aiperf bool) event {
	top := parseJSON(payload)
	e := event{failed: top.member("error").isSet() || !aiperf && top.isErrorObject(), last: top.member("type").text() == "message_stop"}
	e.answer(top)
	e.answer(top.member("message")) // of message_start
	for _, name := range []string{"delta", "content_block"} {
		part := top.member(name)
		e.block(part)
		e.blank = e.blank || name == "delta" && (part.member("text").isBlank() || part.member("thinking").isBlank())
		if reason := part.member("stop_reason").text(); reason != "" {
			e.finish = reason
		}
	}
	return e
}

// answer reads a complete message, as far as it is there.
func (e *event) answer(message jsonValue) {
	if usage := usageOf(message); usage != nil {
		e.usage = usage
	}
	if reason := message.member("stop_reason").text(); reason != "" {
		e.finish = reason
	}
	for _, part := range message.member("content").parts('[') {
		e.block(part)
	}
}

// block reads a block of content, or what is added to one. The name of a tool counts, as its arguments do.
func (e *event) block(part jsonValue) {
	e.content = e.content || part.member("text").hasText()
	e.reasoning = e.reasoning || part.member("thinking").hasText()
	e.toolCall = e.toolCall || part.member("name").hasText() || part.member("partial_json").hasText()
}
