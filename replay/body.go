package replay

import (
	"encoding/json"
	"io"
	"sync"

	"github.com/agentx/agentx/mmapcache"
)

// chunk is how much of a body is put together before it is written, bytes: large enough that a system call costs little
// beside it, small enough to stay in the cache and for thousands of requests at once.
const chunk = 64 << 10

// body streams one prompt from the mapped cache: windows are copied, and nothing else is done with them.
type body struct {
	prompt mmapcache.Prompt
	form   mmapcache.Encoding
	target Target // of the marker; the zero value as FirstTurnPrefix
	mark   string // in the body's form
	at     int    // the message that it stands before, -1: none
	tail   []byte // what follows the prompt
	size   int64
}

// bodies are used again: filling one allocates nothing once its slices have grown.
var bodies = sync.Pool{New: func() any { return new(body) }}

var chunks = sync.Pool{New: func() any { b := make([]byte, 0, chunk+8<<10); return &b }}

const (
	chatHead  = `{"messages":[`
	idsHead   = `{"prompt":[`
	separator = `,`
)

// fill makes the body of one turn.
func (b *body) fill(t *mmapcache.RenderedTrace, turn int, form mmapcache.Encoding, mark string, tail *tail, maxTokens int) {
	t.Prompt(turn, &b.prompt)
	b.form, b.mark, b.at = form, mark, b.target.at(b.prompt.Messages)
	if b.at < 0 {
		b.mark = ""
	}
	b.tail = tail.append(b.tail[:0], maxTokens)
	b.size = int64(len(b.tail)) + b.content()
}

// content returns the size of the prompt with its head.
func (b *body) content() int64 {
	n := int64(len(b.mark))
	for _, m := range b.prompt.Messages {
		n += int64(m.Size)
	}
	if b.form == mmapcache.IDs {
		return int64(len(idsHead)) + max(0, n-1) // without the last comma
	}
	for _, m := range b.prompt.Messages {
		n += int64(len(m.Opening()) + len(m.Closing()) + len(separator))
	}
	if len(b.prompt.Messages) > 0 {
		n -= int64(len(separator))
	}
	return int64(len(chatHead)) + n
}

// Size returns the number of bytes that WriteTo writes.
func (b *body) Size() int64 { return b.size }

// WriteTo writes the body from its beginning. A fault in the map of a file gives an error that names it.
func (b *body) WriteTo(w io.Writer) (n int64, err error) {
	err = b.prompt.Guard(func() (err error) {
		n, err = b.writeTo(w, chunk)
		return err
	})
	return n, err
}

// writeTo writes the body in pieces of about limit bytes, of which there are two at least.
func (b *body) writeTo(w io.Writer, limit int) (n int64, err error) {
	buf := chunks.Get().(*[]byte)
	defer chunks.Put(buf)
	out := sink{w: w, buf: (*buf)[:0], limit: limit}
	if b.form == mmapcache.IDs {
		b.writeIDs(&out)
	} else {
		b.writeChat(&out)
	}
	out.put(b.tail)
	out.flush()
	*buf = out.buf[:0]
	return out.n, out.err
}

func (b *body) writeChat(out *sink) {
	out.text(chatHead)
	var c mmapcache.Cursor
	for c.Message < len(b.prompt.Messages) && out.err == nil {
		m := b.prompt.Messages[c.Message]
		if c.Message > 0 {
			out.text(separator)
		}
		out.text(m.Opening())
		if c.Message == b.at {
			out.text(b.mark)
		}
		b.message(out, &c)
		out.text(m.Closing())
	}
}

func (b *body) writeIDs(out *sink) {
	out.text(idsHead)
	var c mmapcache.Cursor
	for c.Message < len(b.prompt.Messages) && out.err == nil {
		if c.Message == b.at {
			out.text(b.mark)
		}
		b.message(out, &c)
	}
	out.dropComma()
}

// message writes the message that the cursor stands in.
func (b *body) message(out *sink, c *mmapcache.Cursor) {
	for ended := false; !ended && out.err == nil; {
		out.buf, ended = b.prompt.AppendUpTo(out.buf, c, out.limit)
		if !ended {
			out.flushBut(1)
		}
	}
}

// sink gathers small pieces and writes large ones. It sticks to its first error.
type sink struct {
	w     io.Writer
	limit int // of buf, but for one window more
	buf   []byte
	n     int64
	err   error
}

func (s *sink) text(t string) { s.buf = append(s.buf, t...) }

func (s *sink) put(b []byte) { s.buf = append(s.buf, b...) }

func (s *sink) flush() { s.flushBut(0) }

// flushBut writes all but the last keep bytes, which may still be taken back.
func (s *sink) flushBut(keep int) {
	if s.err != nil || len(s.buf) <= keep {
		return
	}
	n, err := s.w.Write(s.buf[:len(s.buf)-keep])
	s.n += int64(n)
	s.err = err
	s.buf = append(s.buf[:0], s.buf[len(s.buf)-keep:]...)
}

// dropComma takes back the comma after the last token.
func (s *sink) dropComma() {
	if k := len(s.buf) - 1; k >= 0 && s.buf[k] == ',' {
		s.buf = s.buf[:k]
	}
}

// quote returns a name as JSON.
func quote(name string) []byte {
	q, _ := json.Marshal(name) // a string always marshals
	return q
}
