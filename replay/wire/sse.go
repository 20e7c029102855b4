package wire

import (
	"bytes"
	"strings"
)

// splitMessage cuts the first message off a run of server-sent events: the bytes before the earliest \n\n or
// \r\n\r\n, and how many bytes message and separator take; used is 0 when no separator is complete yet. The first
// from bytes are known to start no separator.
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

// separatorTail is how many bytes at the end of an incomplete message may be the beginning of a separator.
const separatorTail = 3

// splitter cuts a stream that arrives piece by piece into messages, the same ones however it was cut before.
type splitter struct {
	each    func(message []byte) // called for every complete message; it must not keep it
	pending []byte               // the beginning of a message that is not complete yet
}

// feed takes the next piece. Messages that lie in it as a whole are not copied.
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

// split hands out the complete messages at the start of b and returns how many bytes they took.
func (s *splitter) split(b []byte, from int) (used int) {
	for {
		message, n := splitMessage(b[used:], from)
		if n == 0 {
			return used
		}
		s.each(message)
		used += n
		from = 0
	}
}

// finish hands out what is pending: the last message needs no separator.
func (s *splitter) finish() { s.each(s.pending) }

// sseMessage is one message of an event stream, field by field.
type sseMessage struct{ fields []sseField }

// sseField is one line: its name ("comment" for a comment) and its value, which a line without a colon has not.
type sseField struct {
	name, value string
	hasValue    bool
}

// parseMessage reads a message by the full rules: lines end at LF, CRLF or CR; values are trimmed; bytes that are
// no UTF-8 are replaced; and a line that follows an open JSON object and is no data line is part of that object,
// a newline that the server forgot to escape.
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

// continues reports whether line belongs to the JSON object that value begins.
func continues(value, line string) bool {
	return strings.HasPrefix(value, "{") && !strings.HasSuffix(value, "}") && !strings.HasPrefix(line, "data:")
}

// lines yields the lines of s that are not blank.
func lines(s string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for line := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == '\n' || r == '\r' }) {
			if strings.TrimSpace(line) != "" && !yield(line) {
				return
			}
		}
	}
}

// data joins the values of the data lines with a newline.
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

// errorText is what an error event says: its comments, else its data.
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
