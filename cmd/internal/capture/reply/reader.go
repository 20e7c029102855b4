// Package reply reads what a model answered, as its bytes pass: how long it is, of what kind, why it ended and what its API
// counted. It changes nothing, refuses nothing and keeps no text longer than a request lasts: what is wrong with a reply becomes
// a mark. doc/spec/capture.md sections 4 and 6.3 have the rules.
package reply

import (
	"bytes"
	"errors"
	"io"
	"iter"
	"mime"
	"strings"

	"github.com/agentx/agentx/cmd/internal/capture/canon"
	"github.com/agentx/agentx/cmd/internal/capture/coding"
	"github.com/agentx/agentx/cmd/internal/capture/journal"
	"github.com/agentx/agentx/internal/jsonlex"
)

// maxDepth of JSON in a reply: doc/spec/capture.md 6.3.
const maxDepth = 1000

// maxText bounds the output that is kept of a stream, to count it if the API does not.
const maxText = 4 << 20

// Reader reads one reply. It is not safe for concurrent use.
type Reader struct {
	stream bool
	limit  int64 // of a body that is no stream
	body   []byte
	at     int64 // of the piece that is being read
	got    int64 // bytes, decoded

	events events
	answer answer

	// Of a coded body: the decoder runs as a coroutine, which stops where it needs the next piece.
	encoding string
	rest     []byte // of the piece
	ended    bool   // no piece follows
	damaged  bool   // the coding is
	next     func() (struct{}, bool)
	stop     func()
}

// Options say what a reader reads.
type Options struct {
	Format   canon.Format // of the request
	Type     string       // value of Content-Type
	Encoding string       // value of Content-Encoding
	Limit    int64        // of a body that is no stream, in bytes; streams have no limit
}

// New returns a reader of the body of a reply with status 200.
func New(o Options) *Reader {
	r := &Reader{limit: o.Limit, answer: answer{dialect: dialects[o.Format], open: map[int]bool{}, first: -1, counts: counts{tokens: [4]int64{-1, -1, -1, -1}}}}
	media, _, err := mime.ParseMediaType(o.Type)
	if err != nil {
		media, _, _ = strings.Cut(o.Type, ";")
	}
	r.stream = strings.EqualFold(strings.TrimSpace(media), "text/event-stream")
	r.answer.stream = r.stream
	r.events.emit = func(data []byte) {
		r.answer.at = r.at
		r.answer.event(&r.answer, data)
	}
	r.events.tooLong = func() { r.answer.marks |= journal.MarkReplyStream }
	switch {
	case coding.Identity(o.Encoding):
	case coding.Known(o.Encoding):
		r.encoding = o.Encoding
		r.next, r.stop = iter.Pull(r.decode)
	default:
		r.answer.lost = journal.HoleEncoding
	}
	return r
}

// Write reads the next piece, which arrived at an instant. It does not keep p.
func (r *Reader) Write(p []byte, at int64) {
	if r.answer.lost != "" || len(p) == 0 {
		return
	}
	r.at = at
	if r.next == nil {
		r.read(p)
		return
	}
	r.rest = p
	r.next()
}

// read takes decoded bytes: those of a stream are split into events, those of another body kept up to its limit.
func (r *Reader) read(p []byte) {
	if r.got += int64(len(p)); r.stream {
		r.events.write(p)
		return
	}
	if r.got > r.limit {
		r.answer.lost, r.body = journal.HoleOversize, nil
		return
	}
	r.body = append(r.body, p...)
}

// End returns what the reply says. Broken says that it ended before its end. The reader is of no use afterwards.
func (r *Reader) End(broken bool) *Facts {
	if r.next != nil {
		r.ended = true
		r.next()
		r.stop()
	}
	a := &r.answer
	switch {
	case a.lost != "":
		return &Facts{First: -1, Prompt: -1, Out: -1, Lost: a.lost}
	case r.stream:
		r.events.finish()
		if a.terminals != 1 && !broken || a.terminals > 1 {
			a.marks |= journal.MarkReplyStream
		}
	case broken: // nothing can be said of a part of an object
	default:
		a.terminals = 1
		if r.damaged {
			a.marks |= journal.MarkReplyJSON
		}
		a.parse(r.body, journal.MarkReplyJSON, func(l *jsonlex.Lexer) error { return a.whole(a, l) })
	}
	return a.facts()
}

// Held returns the bytes of memory that the reader keeps of the reply.
func (r *Reader) Held() int64 {
	room := cap(r.body) + cap(r.events.line) + cap(r.events.data) + r.answer.room + cap(r.answer.items)
	return int64(room) + coding.Room(r.encoding, r.got)
}

// Close ends a reader that is not asked for the End. It may be called at any time.
func (r *Reader) Close() {
	if r.stop != nil {
		r.stop()
	}
	r.body = nil
}

var errStopped = errors.New("reply: the reader was stopped")

// reading reads by a function.
type reading func(b []byte) (int, error)

func (f reading) Read(b []byte) (int, error) { return f(b) }

// decode runs the decoder of a coding over the pieces. Where there is nothing of one it hands over to the writer, for the next one.
func (r *Reader) decode(yield func(struct{}) bool) {
	decoded, err := coding.NewReader(r.encoding, reading(func(b []byte) (int, error) {
		for len(r.rest) == 0 {
			if r.ended {
				return 0, io.EOF
			}
			if !yield(struct{}{}) {
				return 0, errStopped
			}
		}
		n := copy(b, r.rest)
		r.rest = r.rest[n:]
		return n, nil
	}))
	for buffer := make([]byte, 32<<10); err == nil; {
		var n int
		n, err = decoded.Read(buffer)
		r.read(buffer[:n])
	}
	r.damaged = !errors.Is(err, io.EOF)
	for !r.ended && yield(struct{}{}) { // what comes behind the end, or behind damage, is not read
		r.rest = nil
	}
}

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

// hold keeps the beginning of a line until the rest arrives.
func (e *events) hold(p []byte) {
	if e.line = append(e.line, p...); e.size+len(e.line) > maxEvent {
		e.over, e.line = true, e.line[:1] // it is no blank line
	}
}

// endLine takes a whole line of a stream: a field of the event, or its end.
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

// dispatch emits the event that a blank line ends. One without data is none.
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
