package mmapcache

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"
)

// Prompt is what one turn sends: its messages in order. RenderedTrace.Prompt fills it. Filled again and again it
// allocates nothing once its slices have grown. It belongs to one goroutine.
type Prompt struct {
	Messages []Message
	Tokens   int // of all messages, as the plan intends

	trace   *RenderedTrace
	path    []int32 // segments, from the first of the prompt to the turn's last
	scratch []byte
}

// Message is one message of a prompt.
type Message struct {
	Role     Role
	Size     int      // bytes of its content, in the encoding of the trace
	ToolTurn int32    // turn that brings the result of the tool call that the message makes or answers; None: no call
	path     [2]int32 // its segments are path[lo:hi] of the prompt
	recorded uint32   // 1 + its number among recorded messages; 0: it is none
}

// MessageKind says what a message is to a tool call.
type MessageKind uint8

// The kinds of a message.
const (
	TextMessage       MessageKind = iota // neither of the others
	ToolCallMessage                      // of the assistant: it calls a tool
	ToolResultMessage                    // the answer to the call of the message before it
)

// Kind returns what the message is to a tool call. The two messages of one call have the same CallID.
func (m *Message) Kind() MessageKind {
	switch {
	case m.ToolTurn != None && m.Role == Assistant:
		return ToolCallMessage
	case m.ToolTurn != None && m.Role == User:
		return ToolResultMessage
	}
	return TextMessage
}

// CallID names the tool call that the message makes or answers. A text message has none.
func (m *Message) CallID() string { return fmt.Sprintf("call_turn_%d", m.ToolTurn) }

// Prompt fills p with the messages of a turn, counted within the trace.
func (t *RenderedTrace) Prompt(turn int, p *Prompt) {
	p.trace, p.Tokens, p.path, p.Messages = t, 0, p.path[:0], p.Messages[:0]
	for s := t.Turns[turn].Last; s != None; s = t.Segments[s].Parent {
		p.path = append(p.path, s)
	}
	slices.Reverse(p.path)
	for k, id := range p.path {
		s := &t.Segments[id]
		if s.Flags&Continues == 0 {
			p.Messages = append(p.Messages, Message{Role: s.Role, ToolTurn: None, path: [2]int32{int32(k), int32(k)}})
			if turn, ok := t.tools[id]; ok { // answers a call of the message before it
				n := len(p.Messages)
				p.Messages[n-1].ToolTurn, p.Messages[n-2].ToolTurn = turn, turn
			}
		}
		m := &p.Messages[len(p.Messages)-1]
		m.path[1]++
		if s.Flags&Recorded != 0 {
			m.recorded = s.First + 1
			_, _, size := t.cache.texts.messages[s.First].in(t.form)
			m.Size, p.Tokens = int(size), p.Tokens+int(s.Count)
			continue
		}
		m.Size += int(t.size(t.windows(s)))
		p.Tokens += t.tokens(s)
	}
	if t.needsDecode == nil {
		return
	}
	for k := range p.Messages {
		if p.Messages[k].Recorded() {
			continue
		}
		p.Messages[k].Size += p.decodedGrowth(&p.Messages[k])
	}
}

// segments returns the segments of a message.
func (p *Prompt) segments(m *Message) []int32 { return p.path[m.path[0]:m.path[1]] }

// Guard is Cache.Guard of the cache that the prompt is read from.
func (p *Prompt) Guard(f func() error) error { return p.trace.cache.Guard(f) }

// Windows are copied as they are, but for those that need decoding: a window that begins or ends inside a character or
// covers ill-formed bytes, and an empty one, because the windows on both sides of it touch. Any other begins and ends
// with a whole character and is well-formed. So ill-formed bytes of a message never reach beyond a run of adjacent
// windows that need decoding. Decoding each such run as a whole, one U+FFFD for each maximal ill-formed subsequence,
// gives what decoding the whole message gives.

// decodedGrowth returns by how many bytes decoding makes a message longer than its windows; below 0, shorter.
func (p *Prompt) decodedGrowth(m *Message) int {
	t, more := p.trace, 0
	run := p.scratch[:0]
	for _, id := range p.segments(m) {
		first, n := t.windows(&t.Segments[id])
		for end := first + n; first < end; first++ {
			clean := t.cleanRun(first, end-first)
			if clean > 0 && len(run) > 0 {
				more += validGrowth(run)
				run = run[:0]
			}
			if first += clean; first < end {
				run = t.cache.renderings[t.encoding].append(run, uint64(t.starts[first]), t.size(first, 1))
			}
		}
	}
	more += validGrowth(run)
	p.scratch = run[:0]
	return more
}

// Cursor is a place in a prompt: the next byte to append lies in message Message.
type Cursor struct {
	Message int
	segment int32  // within the message
	window  uint32 // within the segment; of a recorded message its piece
	offset  uint32 // within the piece
	run     []byte // windows that need decoding, passed and not yet appended
}

// AppendContent appends the content of message k to dst. In Text that is what stands between the quotes of a JSON
// string; in IDs, decimal ids with a comma after each.
func (p *Prompt) AppendContent(dst []byte, k int) []byte {
	dst, _ = p.AppendUpTo(dst, &Cursor{Message: k}, math.MaxInt)
	return dst
}

// AppendUpTo appends content of the message at the cursor until dst holds limit bytes or more. It reports the end of the
// message, after which the cursor stands before the next one. If dst has room for limit bytes and one window more, it
// allocates only to decode windows.
func (p *Prompt) AppendUpTo(dst []byte, c *Cursor, limit int) (_ []byte, ended bool) {
	if p.Messages[c.Message].Recorded() {
		return p.appendRecorded(dst, c, limit, false)
	}
	t, m := p.trace, &p.Messages[c.Message]
	r := &t.cache.renderings[t.encoding]
	for path := p.segments(m); int(c.segment) < len(path); c.segment++ {
		first, n := t.windows(&t.Segments[path[c.segment]])
		clean := uint32(0) // windows before this one can be copied as they are
		for ; c.window < n; c.window++ {
			if len(dst) >= limit {
				return dst, false
			}
			k := first + c.window
			at, size := uint64(t.starts[k]), t.ends[k+1]-t.ends[k]
			if t.needsDecode != nil && c.window >= clean {
				if clean = c.window + t.cleanRun(k, n-c.window); clean == c.window {
					c.run = r.append(c.run, at, size)
					continue
				}
				dst = appendValid(dst, c.run)
				c.run = c.run[:0]
			}
			if at+size <= uint64(len(r.data)) {
				dst = append(dst, r.data[at:at+size]...)
			} else {
				dst = r.append(dst, at, size)
			}
		}
		c.window = 0
	}
	dst = appendValid(dst, c.run)
	*c = Cursor{Message: c.Message + 1}
	return dst, true
}

// AppendText appends the content of message k as plain UTF-8, without the escapes of JSON. The encoding of the trace is
// Text. Of a recorded message it appends the JSON.
func (p *Prompt) AppendText(dst []byte, k int) []byte {
	if p.Messages[k].Recorded() {
		return p.AppendContent(dst, k)
	}
	dst, _ = appendUnescaped(dst, p.AppendContent(nil, k))
	return dst
}

// AppendTokenIDs appends the token ids of message k, in any encoding. It is slow: a replay sends AppendContent of IDs.
func (p *Prompt) AppendTokenIDs(dst []uint32, k int) []uint32 {
	t := p.trace
	for _, id := range p.segments(&p.Messages[k]) {
		for _, w := range t.cache.appendWindows(nil, t.shard, t.Plan, &t.Segments[id]) {
			for k := range uint64(w.Tokens) {
				dst = append(dst, t.cache.tokens[(uint64(w.Start)+k)%uint64(len(t.cache.tokens))])
			}
		}
	}
	return dst
}

// escapes has the letter of the escape of a byte in a JSON string, u for one by its number; 0 is a byte that stands for itself.
var escapes = [256]byte{'"': '"', '\\': '\\', '\n': 'n', '\r': 'r', '\t': 't'}

func init() {
	for c := range 0x20 {
		if escapes[c] == 0 {
			escapes[c] = 'u'
		}
	}
}

// AppendEscaped appends b as part of a JSON string: it escapes quotes, backslashes and control characters.
func AppendEscaped(dst, b []byte) []byte {
	const hex = "0123456789abcdef"
	from := 0
	for k, c := range b {
		e := escapes[c]
		if e == 0 {
			continue
		}
		dst = append(append(dst, b[from:k]...), '\\', e)
		if e == 'u' {
			dst = append(dst, '0', '0', hex[c>>4], hex[c&15])
		}
		from = k + 1
	}
	return append(dst, b[from:]...)
}

// appendUnescaped appends text without the escapes of AppendEscaped. dst may be the beginning of text. It is not ok where
// text ends inside an escape.
func appendUnescaped(dst, text []byte) (_ []byte, ok bool) {
	for len(text) > 0 {
		k := bytes.IndexByte(text, '\\')
		if k < 0 {
			return append(dst, text...), true
		}
		dst = append(dst, text[:k]...)
		if text = text[k:]; len(text) < 2 || text[1] == 'u' && len(text) < 6 {
			return dst, false
		}
		c, n := text[1], 2
		switch c {
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'u':
			c, n = hexDigit(text[4])<<4|hexDigit(text[5]), 6
		}
		dst = append(dst, c)
		text = text[n:]
	}
	return dst, true
}

func hexDigit(c byte) byte {
	if c >= 'a' {
		return c - 'a' + 10
	}
	return c - '0'
}

// replacement is U+FFFD in UTF-8.
const replacement = "\uFFFD"

// illFormed returns the length of the maximal ill-formed subsequence that b begins with, 0 if b begins with a whole
// character. A decoder replaces such a subsequence, the longest start of a character or one byte, by one U+FFFD.
func illFormed(b []byte) int {
	if b[0] < utf8.RuneSelf {
		return 0
	}
	if r, n := utf8.DecodeRune(b); r != utf8.RuneError || n > 1 {
		return 0
	}
	// The second byte has a narrower range after some first bytes (Unicode, table 3-7); the others are 80 to BF.
	need, low, high := 0, byte(0x80), byte(0xBF)
	switch c := b[0]; {
	case c >= 0xC2 && c <= 0xDF:
		need = 1
	case c >= 0xE0 && c <= 0xEF:
		need = 2
		if c == 0xE0 {
			low = 0xA0
		} else if c == 0xED {
			high = 0x9F
		}
	case c >= 0xF0 && c <= 0xF4:
		need = 3
		if c == 0xF0 {
			low = 0x90
		} else if c == 0xF4 {
			high = 0x8F
		}
	}
	n := 1
	for ; n <= need && n < len(b) && b[n] >= low && b[n] <= high; n++ {
		low, high = 0x80, 0xBF
	}
	return n
}

// appendValid appends raw to dst with one U+FFFD for every maximal ill-formed subsequence. JSON escapes are ASCII and stay
// as they are, so that escaping before or after gives the same.
func appendValid(dst, raw []byte) []byte {
	for len(raw) > 0 {
		if n := illFormed(raw); n > 0 {
			dst = append(dst, replacement...)
			raw = raw[n:]
			continue
		}
		_, n := utf8.DecodeRune(raw)
		dst = append(dst, raw[:n]...)
		raw = raw[n:]
	}
	return dst
}

// validGrowth returns by how many bytes appendValid makes raw longer; below 0, shorter.
func validGrowth(raw []byte) (more int) {
	for len(raw) > 0 {
		if n := illFormed(raw); n > 0 {
			more += len(replacement) - n
			raw = raw[n:]
			continue
		}
		_, n := utf8.DecodeRune(raw)
		raw = raw[n:]
	}
	return more
}
