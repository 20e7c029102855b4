package wire

import (
	"bytes"
	"iter"
)

// splitLines returns the first message of a stream of server-sent events: a message ends before the first empty line, and lines end at
// LF, CRLF or CR, mixed in any way. Used counts the bytes of message and separator; it is 0 when no separator is complete. No separator
// starts in the first from bytes.
func splitLines(b []byte, from int) (message []byte, used int) {
	for i := from; ; {
		j := bytes.IndexAny(b[i:], "\r\n")
		if j < 0 {
			return nil, 0
		}
		i += j
		next := i + 1
		if b[i] == '\r' && next < len(b) && b[next] == '\n' {
			next++
		}
		if next == len(b) {
			return nil, 0
		}
		if isLineEnd(b[next]) {
			return bytes.TrimSuffix(b[:i], []byte("\r")), next + 1
		}
		i = next
	}
}

// splitMessage does as splitLines where no CR follows a CR, several times as fast: all separators then have an LF.
func splitMessage(b []byte, from int) (message []byte, used int) {
	for i := from; ; i++ {
		j := bytes.IndexByte(b[i:], '\n')
		if j < 0 || i+j+1 == len(b) {
			return nil, 0
		}
		if i += j; !isLineEnd(b[i+1]) {
			continue
		}
		if i > 0 && b[i-1] == '\r' {
			return b[:i-1], i + 2
		}
		return b[:i], i + 2
	}
}

// splitAIPerf ends a message at the first \n\n or \r\n\r\n, as AIPerf 0.13.0 does.
func splitAIPerf(b []byte, from int) (message []byte, used int) {
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

func isLineEnd(c byte) bool { return c == '\n' || c == '\r' }

// hasCRCR reports whether a CR follows a CR.
func hasCRCR(b []byte) bool {
	for {
		i := bytes.IndexByte(b, '\r')
		if i < 0 || i+1 == len(b) {
			return false
		}
		if b[i+1] == '\r' {
			return true
		}
		b = b[i+1:]
	}
}

// separatorTail is how many bytes at the end of an incomplete message may begin a separator.
const separatorTail = 3

// splitter splits a stream that arrives in pieces into messages. The messages do not depend on where the pieces end.
type splitter struct {
	emit    func(message []byte) // called with every complete message, which it must not keep
	pending []byte               // the start of a message that is not complete yet
	aiperf  bool                 // messages end where AIPerf ends them
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

// split emits the complete messages at the start of b and returns how many bytes they take. A message does not begin with a line end:
// that belongs to the separator before. One that has an LF behind it may have a CR that follows a CR in it: see splitInner.
func (s *splitter) split(b []byte, from int) (used int) {
	lines := false
	for {
		var message []byte
		var n int
		switch {
		case s.aiperf:
			message, n = splitAIPerf(b[used:], from)
		case lines:
			message, n = splitLines(b[used:], from)
		default:
			message, n = splitMessage(b[used:], from)
		}
		switch {
		case n > 0:
			s.emit(message)
			used += n
			for from = 0; !s.aiperf && used < len(b) && isLineEnd(b[used]); {
				used++
			}
		case lines || s.aiperf || !hasCRCR(b[used+from:]):
			return used
		default:
			lines = true
		}
	}
}

// splitInner emits the messages of one that has a CR which follows a CR.
func splitInner(message []byte, emit func([]byte)) {
	for {
		first, n := splitLines(message, 0)
		if n == 0 {
			emit(message)
			return
		}
		emit(first)
		message = bytes.TrimLeft(message[n:], "\r\n")
	}
}

// finish emits the pending bytes: the last message needs no separator.
func (s *splitter) finish() { s.emit(s.pending) }

// sseMessage is what counts of a message.
type sseMessage struct {
	hasFields bool
	isError   bool   // it is an event named error
	data      values // of the data lines
	comments  values // their beginning
	stray     values // lines that are no field of server-sent events
}

// sseLine is one line of a message, in place: a field, or one that goes on with the value of the field before. The name of a
// comment is "comment"; a field without a colon has no value.
type sseLine struct {
	name, value []byte
	hasValue    bool
	goesOn      bool
	whole       []byte // the line
}

var comment = []byte("comment")

// sseLines yields the lines of a message by the full rules: they end at LF, CRLF or CR; values are trimmed. A line that follows an
// open JSON object and is no data line belongs to that object: some servers do not escape the newlines of a text.
func sseLines(raw []byte) iter.Seq[sseLine] {
	return func(yield func(sseLine) bool) {
		open := false // the value so far is an open object
		for line := range bytes.FieldsFuncSeq(raw, func(r rune) bool { return r == '\n' || r == '\r' }) {
			if len(bytes.TrimSpace(line)) == 0 {
				continue
			}
			if open && !bytes.HasPrefix(line, []byte("data:")) {
				open = line[len(line)-1] != '}'
				if !yield(sseLine{value: line, goesOn: true}) {
					return
				}
				continue
			}
			name, value, hasValue := bytes.Cut(line, []byte(":"))
			l := sseLine{name: bytes.TrimSpace(name), value: bytes.TrimSpace(value), hasValue: hasValue, whole: line}
			if hasValue && len(l.name) == 0 {
				l.name = comment
			}
			open = bytes.HasPrefix(l.value, []byte("{")) && l.value[len(l.value)-1] != '}'
			if !yield(l) {
				return
			}
		}
	}
}

// parseMessage parses a message by the full rules.
func parseMessage(raw []byte) (m sseMessage) {
	m.data.limit, m.comments.limit = len(raw)+len(raw)/2, maxErrorText // a line end of one byte becomes two
	m.stray.limit = len(raw)
	var current *values // of the field; nil: it does not count
	separator := `\n`   // before a line that goes on
	for l := range sseLines(raw) {
		m.hasFields = true
		if l.goesOn {
			current.add(separator, l.value)
			continue
		}
		current, separator = nil, `\n`
		switch string(l.name) {
		case "event":
			m.isError = m.isError || string(l.value) == "error"
		case "data":
			current = &m.data
		case "comment":
			current = &m.comments
		case "id", "retry":
		default:
			m.stray.add("\n", l.whole)
			current, separator = &m.stray, "\n"
			continue
		}
		if l.hasValue {
			current.add("\n", l.value)
		}
	}
	return m
}

// errorText returns the text of an error event: its comments, then its data.
func (m *sseMessage) errorText() string {
	return string(trim([]byte(excerpt(m.comments.text) + "\n" + excerpt(m.data.text))))
}

// values are joined values of lines. A single one is not copied.
type values struct {
	text  []byte
	lines int
	limit int // of text, once there are several lines: the others are left out
}

// add adds a line, behind a separator.
func (v *values) add(separator string, line []byte) {
	if v == nil {
		return
	}
	switch v.lines++; v.lines {
	case 1:
		v.text = line
		return
	case 2:
		v.text = append(make([]byte, 0, v.limit), v.text[:min(len(v.text), v.limit)]...)
	}
	if len(v.text)+len(separator)+len(line) <= v.limit {
		v.text = append(append(v.text, separator...), line...)
	}
}
