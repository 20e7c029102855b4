package wire

// seenMembers is a set of members, one bit each.
type seenMembers uint16

// add adds a member. A second one with the same name makes the reader not sure.
func (s *seenMembers) add(bit int, m *objectReader) {
	if *s&(1<<bit) != 0 {
		m.at = -1
	}
	*s |= 1 << bit
}

// objectReader iterates over the members of one JSON object. After next, at is the start of a value, and the caller moves it
// behind the value. After the last member at is behind the object. A negative at means not sure and ends the iteration.
type objectReader struct {
	b     []byte
	at    int
	begun bool
	name  []byte
}

// openObject returns the reader of an object whose brace is at i.
func openObject(b []byte, i int) objectReader {
	if i < 0 || i >= len(b) || b[i] != '{' {
		return objectReader{b: b, at: -1}
	}
	return objectReader{b: b, at: i + 1}
}

// next moves to the value of the next member and sets its name. It returns false behind the last member and when not sure.
func (m *objectReader) next() bool {
	i := skipSpace(m.b, m.at)
	if i < 0 || i >= len(m.b) {
		m.at = -1
		return false
	}
	switch {
	case m.b[i] == '}':
		m.at = i + 1
		return false
	case !m.begun:
		m.begun = true
	case m.b[i] == ',':
		i = skipSpace(m.b, i+1)
	default:
		m.at = -1
		return false
	}
	end, plain := skipString(m.b, i)
	if end < 0 || !plain {
		m.at = -1
		return false
	}
	m.name = m.b[i+1 : end-1]
	i = skipSpace(m.b, end)
	if i >= len(m.b) || m.b[i] != ':' {
		m.at = -1
		return false
	}
	m.at = skipSpace(m.b, i+1)
	return true
}

// skip moves behind a value of any kind.
func (m *objectReader) skip() { m.at = skipValue(m.b, m.at, 0) }

// skipNull moves behind a null and reports whether the value was one.
func (m *objectReader) skipNull() bool {
	if end := skipWord(m.b, m.at, "null"); end >= 0 {
		m.at = end
		return true
	}
	return false
}

// expectNull moves behind a null. It is not sure of any other value.
func (m *objectReader) expectNull() { m.expectWord("null") }

// expectWord moves behind a word. It is not sure of any other value; what a longer number goes on with is no part of an object.
func (m *objectReader) expectWord(word string) { m.at = skipWord(m.b, m.at, word) }

// skipText moves behind a string or null and reports whether it was a string that is not empty. It sets the text of the event.
func (m *objectReader) skipText(e *event) bool {
	if m.at < 0 || m.at >= len(m.b) || m.b[m.at] != '"' {
		m.expectNull()
		return false
	}
	start := m.at
	m.at, _ = skipString(m.b, start)
	if m.at <= start+2 {
		return false
	}
	e.textCount++
	e.textStart, e.textEnd = start, m.at
	return true
}

// skipContent does as skipText, and notes a string that is empty.
func (m *objectReader) skipContent(e *event) bool {
	start := m.at
	text := m.skipText(e)
	e.blank = e.blank || m.at == start+len(`""`)
	return text
}

// readCount moves behind a whole number or null and returns it, Unknown for null. It is not sure of any other value.
func (m *objectReader) readCount() int64 {
	if m.skipNull() || m.at < 0 {
		return Unknown
	}
	var n int64
	i := m.at
	for ; i < len(m.b) && m.b[i]-'0' <= 9 && i-m.at < 15; i++ {
		n = n*10 + int64(m.b[i]-'0')
	}
	odd := i == m.at || (m.b[m.at] == '0' && i > m.at+1) || i >= len(m.b)
	if odd || (m.b[i] != ',' && m.b[i] != '}' && !isSpace(m.b[i])) {
		m.at = -1
		return Unknown
	}
	m.at = i
	if n > maxCount {
		return Unknown
	}
	return n
}

// enter returns the position of the first byte inside an array or object that is no blank, or -1.
func (m *objectReader) enter(open byte) int {
	if m.at < 0 || m.at >= len(m.b) || m.b[m.at] != open {
		return -1
	}
	if i := skipSpace(m.b, m.at+1); i < len(m.b) {
		return i
	}
	return -1
}
