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
