package reply

import "bytes"

// maxEvent bounds the bytes of one event: doc/spec/capture.md 4.
const maxEvent = 16 << 20

// events splits a stream of server-sent events, which may arrive in any pieces, by the rules of the HTML standard: lines end at
// LF, CRLF or CR, a colon begins a comment, the data of several lines are joined, and unknown fields are ignored. The last event
// needs no blank line. What is emitted does not depend on where the pieces end.
type events struct {
	emit    func(data []byte) // valid until it returns
	tooLong func()            // called in place of emit

	line    []byte // the beginning of a line that is not complete
	data    []byte
	hasData bool
	over    bool // the event is longer than maxEvent
	size    int  // of the event so far
	cr      bool // the last byte was a CR: an LF right behind it ends no line
	begun   bool // the mark of byte order, which may begin the stream, is behind
}

// write adds the next piece.
func (e *events) write(p []byte) {
	for len(p) > 0 {
		if e.cr {
			e.cr = false
			if p[0] == '\n' {
				p = p[1:]
				continue
			}
		}
		end := bytes.IndexByte(p, '\n')
		if end < 0 {
			end = len(p)
		}
		if cr := bytes.IndexByte(p[:end], '\r'); cr >= 0 {
			end = cr
		}
		if end == len(p) {
			e.hold(p)
			return
		}
		line := p[:end]
		if len(e.line) > 0 {
			e.hold(line)
			line = e.line
		}
		e.cr = p[end] == '\r'
		p = p[end+1:]
		e.endLine(line)
		e.line = e.line[:0]
	}
}

// hold keeps the beginning of a line.
func (e *events) hold(p []byte) {
	if e.line = append(e.line, p...); e.size+len(e.line) > maxEvent {
		e.over, e.line = true, e.line[:1] // it is no blank line
	}
}

// endLine takes a whole line.
func (e *events) endLine(line []byte) {
	if !e.begun {
		e.begun = true
		line = bytes.TrimPrefix(line, []byte("\xef\xbb\xbf"))
	}
	if len(line) == 0 {
		e.dispatch()
		return
	}
	if e.size += len(line); e.size > maxEvent {
		e.over = true
	}
	if e.over {
		return
	}
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	if string(field) == "data" {
		if e.hasData {
			e.data = append(e.data, '\n')
		}
		e.data = append(e.data, value...)
		e.hasData = true
	}
}

// dispatch ends an event. One without data is none.
func (e *events) dispatch() {
	switch {
	case e.over:
		e.tooLong()
	case e.hasData:
		e.emit(e.data)
	}
	e.data, e.hasData, e.over, e.size = e.data[:0], false, false, 0
}

// finish ends the stream.
func (e *events) finish() {
	if len(e.line) > 0 {
		e.endLine(e.line)
		e.line = e.line[:0]
	}
	e.dispatch()
}
