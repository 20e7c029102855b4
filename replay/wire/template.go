package wire

import (
	"bytes"

	"github.com/agentx/agentx/internal/jsonlex"
)

// template is a message without its only text. A message that differs from it in nothing but that text means the
// same event, and this comparison is many times faster than reading it. Most messages of a stream match the one before.
type template struct {
	prefix, suffix []byte // around the text, with its quotes
	event          event
}

// maxTemplate bounds the messages that become a template, bytes.
const maxTemplate = 4 << 10

// learn makes the template of a message. The payload of e begins at offset in the message.
func (t *template) learn(message []byte, offset int, e *event) {
	if e.textCount != 1 || e.usage != nil || len(message) > maxTemplate {
		return
	}
	t.prefix = append(t.prefix[:0], message[:offset+e.textStart+1]...)
	t.suffix = append(t.suffix[:0], message[offset+e.textEnd-1:]...)
	t.event = *e
}

// matches reports whether a message differs from the template in its text alone, and the text is not empty.
func (t *template) matches(message []byte) bool {
	size := len(message) - len(t.prefix) - len(t.suffix)
	if size <= 0 || len(t.prefix) == 0 || !bytes.HasPrefix(message, t.prefix) || !bytes.HasSuffix(message, t.suffix) {
		return false
	}
	end, _ := jsonlex.StringEnd(message, len(t.prefix)-1)
	return end == len(t.prefix)+size+1
}
