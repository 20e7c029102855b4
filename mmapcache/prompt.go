package mmapcache

import (
	"fmt"
	"math"
	"slices"
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
		m.Size += int(t.size(s))
		p.Tokens += t.tokens(s)
	}
	if t.needsDecode == nil {
		return
	}
	for k := range p.Messages {
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
		s := &t.Segments[id]
		for k, n := uint32(0), s.windows(); k < n; k++ {
			clean := t.cleanRun(s, k)
			if clean > 0 && len(run) > 0 {
				more += validGrowth(run)
				run = run[:0]
			}
			if k += clean; k < n {
				at, size := t.window(s, k)
				run = t.cache.renderings[t.encoding].append(run, at, size)
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
	window  uint32 // within the segment
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
	t, m := p.trace, &p.Messages[c.Message]
	r := &t.cache.renderings[t.encoding]
	for path := p.segments(m); int(c.segment) < len(path); c.segment++ {
		s := &t.Segments[path[c.segment]]
		clean := uint32(0) // windows before this one can be copied as they are
		for n := s.windows(); c.window < n; c.window++ {
			if len(dst) >= limit {
				return dst, false
			}
			at, size := t.window(s, c.window)
			if t.needsDecode != nil && c.window >= clean {
				if clean = c.window + t.cleanRun(s, c.window); clean == c.window {
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
// Text.
func (p *Prompt) AppendText(dst []byte, k int) []byte {
	dst, _ = appendUnescaped(dst, p.AppendContent(nil, k))
	return dst
}

// AppendTokenIDs appends the token ids of message k, in any encoding. It is slow: a replay sends AppendContent of IDs.
func (p *Prompt) AppendTokenIDs(dst []uint32, k int) []uint32 {
	t := p.trace
	for _, id := range p.segments(&p.Messages[k]) {
		s := t.Segments[id]
		switch {
		case s.Flags&Filler != 0:
			dst = t.cache.appendTokens(dst, t.shard.fillerStart(&t.Trace, s.First), t.cache.fillerTokens(t.Plan, s.First))
		case s.Flags&Head != 0:
			dst = t.cache.appendTokens(dst, t.shard.blockStart(&t.Trace, s.First), s.Count)
		default:
			for b := s.First; b < s.First+s.Count; b++ {
				dst = t.cache.appendTokens(dst, t.shard.blockStart(&t.Trace, b), t.Trace.BlockSize)
			}
		}
	}
	return dst
}

// appendTokens appends n tokens of the corpus from token start on, taken modulo its length.
func (c *Cache) appendTokens(dst []uint32, start, n uint32) []uint32 {
	for k := range uint64(n) {
		dst = append(dst, c.tokens[(uint64(start)+k)%uint64(len(c.tokens))])
	}
	return dst
}
