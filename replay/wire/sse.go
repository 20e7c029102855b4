package wire

import (
	"bytes"
	"strings"
)

// splitMessage returns the first message of a stream of server-sent events: the bytes before the first \n\n or \r\n\r\n.
// Used counts the bytes of message and separator; it is 0 when no separator is complete. No separator starts in the first
// from bytes.
func splitMessage(b []byte, from int) (message []byte, used int) {
	for i := from; ; i++ {
		j := bytes.IndexByte(b[i:], '\n')
		if j < 0 || i+j+1 == len(b) {
			return nil, 0
		}
		i += j
		if b[i+1] == '\n' {
			return b[:i], i + 2
		}
		if b[i+1] == '\r' && i+2 < len(b) && b[i+2] == '\n' && i > 0 && b[i-1] == '\r' {
			return b[:i-1], i + 3
		}
	}
}

// separatorTail is how many bytes at the end of an incomplete message may begin a separator.
const separatorTail = 3

// splitter splits a stream that arrives in pieces into messages. The messages do not depend on where the pieces end.
type splitter struct {
	emit    func(message []byte) // called with every complete message, which it must not keep
	pending []byte               // the start of a message that is not complete yet
}

// feed adds the next piece of the stream. Messages that lie in it completely are not copied.
func (s *splitter) feed(p []byte) {
	if len(s.pending) == 0 {
		s.pending = append(s.pending, p[s.split(p, 0):]...)
		return
	}
	from := max(0, len(s.pending)-separatorTail)
	s.pending = append(s.pending, p...)
	used := s.split(s.pending, from)
	s.pending = s.pending[:copy(s.pending, s.pending[used:])]
}

// split emits the complete messages at the start of b and returns how many bytes they take.
func (s *splitter) split(b []byte, from int) (used int) {
	for {
		message, n := splitMessage(b[used:], from)
		if n == 0 {
			return used
		}
		s.emit(message)
		used += n
		from = 0
	}
}

// finish emits the pending bytes: the last message needs no separator.
func (s *splitter) finish() { s.emit(s.pending) }

// sseMessage is one message of an event stream, split into fields.
type sseMessage struct{ fields []sseField }

// sseField is one line of a message. The name of a comment is "comment"; a line without a colon has no value.
type sseField struct {
	name, value string
	hasValue    bool
}

// parseMessage parses a message by the full rules: lines end at LF, CRLF or CR; values are trimmed; bytes that are no UTF-8
// are replaced. A line that follows an open JSON object and is no data line belongs to that object: some servers do not
// escape the newlines of a text.
func parseMessage(raw []byte) sseMessage {
	var m sseMessage
	for line := range lines(string([]rune(string(raw)))) {
		if n := len(m.fields); n > 0 && continues(m.fields[n-1].value, line) {
			m.fields[n-1].value += `\n` + line
			continue
		}
		name, value, hasValue := strings.Cut(line, ":")
		name = strings.TrimSpace(name)
		if hasValue && name == "" {
			name = "comment"
		}
		m.fields = append(m.fields, sseField{name, strings.TrimSpace(value), hasValue})
	}
	return m
}

// continues reports whether a line belongs to the JSON object that a value begins.
func continues(value, line string) bool {
	return strings.HasPrefix(value, "{") && !strings.HasSuffix(value, "}") && !strings.HasPrefix(line, "data:")
}

// lines yields the lines of a text that are not blank.
func lines(s string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for line := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == '\n' || r == '\r' }) {
			if strings.TrimSpace(line) != "" && !yield(line) {
				return
			}
		}
	}
}

// data returns the values of the data lines, joined with newlines.
func (m *sseMessage) data() string { return m.join("data") }

// isError reports whether the message is an event named error.
func (m *sseMessage) isError() bool {
	for _, f := range m.fields {
		if f.name == "event" && f.value == "error" {
			return true
		}
	}
	return false
}

// errorText returns the text of an error event: its comments, then its data.
func (m *sseMessage) errorText() string {
	return strings.TrimSpace(m.join("comment") + "\n" + m.data())
}

func (m *sseMessage) join(name string) string {
	var values []string
	for _, f := range m.fields {
		if f.name == name && f.hasValue {
			values = append(values, f.value)
		}
	}
	return strings.Join(values, "\n")
}
