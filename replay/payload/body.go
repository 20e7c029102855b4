package payload

import (
	"io"
	"sync"

	"github.com/agentx/agentx/mmapcache"
)

// chunk is how much of a body is gathered before it is written, in bytes. A chunk is large enough to hide the cost of a
// system call, and small enough to stay in the processor's cache and to allocate for thousands of requests at a time.
const chunk = 64 << 10

// Body is the body of one request. It copies windows of the mapped files to the connection, and encodes nothing.
type Body struct {
	form     form
	prompt   mmapcache.Prompt
	lead     int    // messages that stand apart: members of the body and tools of recorded messages, and the system prompt of the Messages API
	marker   []byte // as it is written; empty: none
	markerAt int    // the message that the marker stands at, -1: none
	texts    bool   // the prompt has recorded messages
	after    bool   // the marker follows the content of that message, else it precedes it
	before   []byte // messages before those of the prompt, with a comma after each; see Behind
	tail     []byte // what follows the prompt
	size     int64
}

// bodies are reused: filling one allocates nothing once its slices have grown.
var bodies = sync.Pool{New: func() any { return new(Body) }}

var chunks = sync.Pool{New: func() any { b := make([]byte, 0, chunk+8<<10); return &b }}

// fill makes the body of one turn.
func (b *Body) fill(e *Encoder, t *mmapcache.RenderedTrace, turn int, m Marker, maxTokens int) {
	t.Prompt(turn, &b.prompt)
	messages := b.prompt.Messages
	b.form, b.marker, b.markerAt, b.after = e.form, b.marker[:0], e.marker.index(messages), e.marker.Place().After
	b.lead, b.before = 0, nil
	b.texts = e.cache.HasTexts()
	for b.lead < len(messages) && messages[b.lead].Role >= mmapcache.Tools {
		b.lead++
	}
	for apart := endpointTable[e.form.endpoint].apart; apart && b.lead < len(messages) && messages[b.lead].Role == mmapcache.System && (b.texts || b.lead == 0); {
		b.lead++
	}
	switch {
	case b.markerAt < 0:
	case messages[b.markerAt].Recorded() && !b.prompt.HasLead(b.markerAt) && b.markerAt >= b.lead: // a message of its own
		b.marker = append(b.marker, openings[0][mmapcache.User]...)
		b.marker = m.appendText(b.marker, b.after, "")
		b.marker = append(append(b.marker, closings[0]...), ',')
	case messages[b.markerAt].Recorded() && !b.prompt.HasLead(b.markerAt): // a block of its own
		b.marker = append(append(m.appendText(append(b.marker, partOpening...), b.after, ""), partClosing...), ',')
	case messages[b.markerAt].Recorded():
		b.marker = m.appendText(b.marker, b.after, newlines)
	case e.form.endpoint.Encoding() == mmapcache.IDs:
		b.marker = m.appendIDs(b.marker, &e.cache.Arenas.Marker, b.after)
	case e.form.parts && b.markerAt >= b.lead: // a part of its own; the system prompt that stands apart is edited
		b.marker = m.appendText(b.marker, b.after, partClosing+`,`+partOpening)
	default:
		b.marker = m.appendText(b.marker, b.after, newlines)
	}
	if b.tail = b.tail[:0]; maxTokens > 0 {
		b.tail = e.tail.append(b.tail, maxTokens)
	} else {
		b.tail = e.open.append(b.tail, unknownLength)
	}
	b.size = b.promptSize() + int64(len(b.tail))
}

// Release hands the body back for reuse. The body must not be used after that.
func (b *Body) Release() { bodies.Put(b) }

// promptSize returns the bytes in front of the tail.
func (b *Body) promptSize() int64 {
	n := int64(len(b.before) + len(b.marker))
	for k := range b.prompt.Messages {
		n += int64(b.prompt.Messages[k].Size)
	}
	e := &endpointTable[b.form.endpoint]
	if e.encoding == mmapcache.IDs {
		return int64(len(`{`)+len(e.head)) + max(0, n-1) // without the last comma
	}
	n += int64(len(`{`) + len(e.head))
	for k := range b.lead {
		opening, closing := b.around(k)
		n += int64(len(opening) + len(closing))
	}
	for k := b.lead; k < len(b.prompt.Messages); k++ {
		m := &b.prompt.Messages[k]
		n += int64(len(b.form.opening(m)) + len(b.form.closing(m)))
		if k > b.lead {
			n += int64(len(e.separator))
		}
	}
	return n
}

// around returns what stands around message k, which stands apart.
func (b *Body) around(k int) (opening, closing string) {
	messages := b.prompt.Messages
	if !b.texts {
		return b.form.system()
	}
	switch messages[k].Role {
	case mmapcache.Members:
		return ``, `,`
	case mmapcache.Tools:
		return `"tools":`, `,`
	}
	first, last := k == 0 || messages[k-1].Role != mmapcache.System, k+1 == b.lead
	return systemBlocks[index(messages[k].Recorded())][index(first)], systemBlockEnds[index(messages[k].Recorded())][index(last)]
}

// systemBlocks and systemBlockEnds stand around a message of the system prompt that is a list of blocks, by whether the message is
// recorded, and by whether it is the first, or the last. A recorded one is blocks already.
var (
	systemBlocks    = [2][2]string{{partOpening, `"system":[` + partOpening}, {``, `"system":[`}}
	systemBlockEnds = [2][2]string{{partClosing + `,`, partClosing + `],`}, {`,`, `],`}}
)

// Size returns the number of bytes that WriteTo writes.
func (b *Body) Size() int64 { return b.size }

// WriteTo writes the whole body; it can be called again for a second attempt. A page of the mapped files that cannot be
// read gives an error that names the file.
func (b *Body) WriteTo(w io.Writer) (n int64, err error) {
	err = b.prompt.Guard(func() (err error) {
		n, err = b.writeTo(w, chunk)
		return err
	})
	return n, err
}

// writeTo writes the body in pieces of about limit bytes; limit is at least 2.
func (b *Body) writeTo(w io.Writer, limit int) (n int64, err error) {
	buf := chunks.Get().(*[]byte)
	defer chunks.Put(buf)
	out := sink{w: w, buf: (*buf)[:0], limit: limit}
	out.text(`{`)
	var c mmapcache.Cursor
	for k := range b.lead {
		opening, closing := b.around(k)
		out.text(opening)
		b.writeContent(&out, &c)
		out.text(closing)
	}
	out.text(endpointTable[b.form.endpoint].head)
	out.pass(b.before)
	if b.form.endpoint.Encoding() == mmapcache.IDs {
		b.writeIDs(&out, &c)
	} else {
		b.writeMessages(&out, &c)
	}
	out.put(b.tail)
	out.flush()
	*buf = out.buf[:0]
	return out.n, out.err
}

// writeMessages writes the messages from the cursor on.
func (b *Body) writeMessages(out *sink, c *mmapcache.Cursor) {
	for c.Message < len(b.prompt.Messages) && out.err == nil {
		m := &b.prompt.Messages[c.Message]
		if c.Message > b.lead {
			out.text(endpointTable[b.form.endpoint].separator)
		}
		out.text(b.form.opening(m))
		b.writeContent(out, c)
		out.text(b.form.closing(m))
	}
}

// writeIDs writes the token ids of all messages.
func (b *Body) writeIDs(out *sink, c *mmapcache.Cursor) {
	for c.Message < len(b.prompt.Messages) && out.err == nil {
		b.writeContent(out, c)
	}
	out.dropComma()
}

// writeContent writes the content of the message at the cursor, and the marker if it stands there.
func (b *Body) writeContent(out *sink, c *mmapcache.Cursor) {
	message := c.Message
	if message == b.markerAt && !b.after {
		if b.prompt.HasLead(message) {
			out.buf = b.prompt.AppendLead(out.buf, c)
		}
		out.put(b.marker)
	}
	for ended := false; !ended && out.err == nil; {
		out.buf, ended = b.prompt.AppendUpTo(out.buf, c, out.limit)
		if !ended {
			out.flushBut(1)
		}
	}
	if message == b.markerAt && b.after {
		out.put(b.marker)
	}
}

// sink gathers small pieces and writes large ones. It keeps its first error.
type sink struct {
	w     io.Writer
	limit int // of buf, but for one window more
	buf   []byte
	n     int64
	err   error
}

func (s *sink) text(t string) { s.buf = append(s.buf, t...) }

func (s *sink) put(b []byte) { s.buf = append(s.buf, b...) }

// pass writes bytes that may be many without a copy.
func (s *sink) pass(b []byte) {
	if len(b) <= s.limit {
		s.put(b)
		return
	}
	s.flush()
	if s.err == nil {
		n, err := s.w.Write(b)
		s.n, s.err = s.n+int64(n), err
	}
}

func (s *sink) flush() { s.flushBut(0) }

// flushBut writes all but the last keep bytes, which dropComma may still remove.
func (s *sink) flushBut(keep int) {
	if s.err != nil || len(s.buf) <= keep {
		return
	}
	n, err := s.w.Write(s.buf[:len(s.buf)-keep])
	s.n += int64(n)
	s.err = err
	s.buf = append(s.buf[:0], s.buf[len(s.buf)-keep:]...)
}

// dropComma removes the comma after the last token.
func (s *sink) dropComma() {
	if k := len(s.buf) - 1; k >= 0 && s.buf[k] == ',' {
		s.buf = s.buf[:k]
	}
}
