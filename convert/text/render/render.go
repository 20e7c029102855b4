// Package render writes the messages of a text.Dataset in the form of each API, as pieces of text that bodies are made of, and its
// sessions as plans of a cache: doc/spec/text.md 11.
//
//	w, err := builder.NewTexts()
//	r := render.New(dataset, sizes, w)
//	for _, t := range dataset.Traces {
//		plan, err := r.Plan(t)
//		...
//	}
//
// Each distinct text is written once; messages that have the same pieces are one. Calls of tools are named call_1, call_2 ... in the order
// of a trace, because servers want calls and results to match; ids of the log go nowhere.
package render

import (
	"encoding/binary"
	"slices"
	"strconv"

	"github.com/zeebo/xxh3"

	"github.com/agentx/agentx/convert/text"
	"github.com/agentx/agentx/mmapcache"
)

// Writer takes texts and messages, whose lists it may not keep: *mmapcache.TextsWriter.
type Writer interface {
	Write(b []byte) (mmapcache.Piece, error)
	Message(role mmapcache.Role, lead uint8, chat, anthropic []mmapcache.Piece) (number uint32, err error)
}

// Renderer writes messages. It belongs to one goroutine.
type Renderer struct {
	data    *text.Dataset
	sizes   *text.Sizes
	w       Writer
	filler  uint32                        // token of the corpus at which fillers begin
	escaped []mmapcache.Piece             // by text; N is 0: not written yet
	raw     map[text.Text]mmapcache.Piece // texts that are JSON, as they are
	stretch map[string]mmapcache.Piece    // stretches between texts
	known   map[xxh3.Uint128]uint32       // messages, by their pieces
	bytes   []uint32                      // of a message in the form of chat
	trie    map[segmentKey]int32          // of prompts of all traces, for the hits of an unlimited prefix cache
	err     error

	buf, key        []byte
	chat, anthropic pieces
}

// segmentKey finds a segment, or a node of the trie, behind its parent.
type segmentKey uint64

func keyOf(parent int32, s *mmapcache.Segment) segmentKey {
	key := segmentKey(parent+1) << 33
	if s.Flags&mmapcache.Prefix != 0 { // all begin at one token
		return key | 1<<32 | segmentKey(s.Count)
	}
	return key | segmentKey(s.First)
}

// New returns a renderer. Fillers begin at a token of the prompt corpus.
func New(d *text.Dataset, s *text.Sizes, w Writer, filler uint32) *Renderer {
	r := &Renderer{data: d, sizes: s, w: w, filler: filler, escaped: make([]mmapcache.Piece, d.Store.Count()), raw: map[text.Text]mmapcache.Piece{},
		stretch: map[string]mmapcache.Piece{}, known: map[xxh3.Uint128]uint32{}, trie: map[segmentKey]int32{}}
	r.chat.r, r.anthropic.r = r, r
	return r
}

// begin returns the two forms of a message, both empty.
func (r *Renderer) begin() (chat, anthropic *pieces) {
	for _, p := range [...]*pieces{&r.chat, &r.anthropic} {
		p.list, p.open, p.lead = p.list[:0], p.open[:0], false
	}
	return &r.chat, &r.anthropic
}

// pieces collects a message in one form.
type pieces struct {
	r    *Renderer
	list []mmapcache.Piece
	open []byte // a stretch that is not written yet
	lead bool   // the first piece ends where the first text begins
}

// put appends what stands between texts.
func (p *pieces) put(parts ...string) {
	for _, s := range parts {
		p.open = append(p.open, s...)
	}
}

func (p *pieces) flush() {
	if len(p.open) > 0 {
		p.list = append(p.list, p.r.written(p.open))
		p.open = p.open[:0]
	}
}

// text appends a text, escaped.
func (p *pieces) text(t text.Text) {
	if t == 0 {
		return
	}
	p.flush()
	p.list = append(p.list, p.r.escape(t))
}

// json appends a text that is JSON, as it is.
func (p *pieces) json(t text.Text) {
	p.flush()
	p.list = append(p.list, p.r.rawText(t))
}

// leads notes that a text of a message begins here, if it is its first.
func (p *pieces) leads() {
	if len(p.list) == 0 {
		p.lead = true
		p.flush()
	}
}

func (r *Renderer) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// written returns the piece of a stretch, which it writes once.
func (r *Renderer) written(b []byte) mmapcache.Piece {
	p, ok := r.stretch[string(b)]
	if !ok {
		var err error
		if p, err = r.w.Write(b); err != nil {
			r.fail(err)
		}
		r.stretch[string(b)] = p
	}
	return p
}

// read returns the bytes of a text, until the next call.
func (r *Renderer) read(t text.Text) []byte {
	b, err := r.data.Store.Append(r.buf[:0], t)
	if err != nil {
		r.fail(err)
	}
	r.buf = b
	return b
}

// escape returns the piece of a text as it stands between the quotes of a JSON string.
func (r *Renderer) escape(t text.Text) mmapcache.Piece {
	if r.escaped[t].N == 0 {
		b := r.read(t)
		n := len(b)
		b = mmapcache.AppendEscaped(b, b[:n])
		r.buf = b
		p, err := r.w.Write(b[n:])
		if err != nil {
			r.fail(err)
		}
		r.escaped[t] = p
	}
	return r.escaped[t]
}

// rawText returns the piece of a text as it is. One without quotes, backslashes and control characters is that of escape.
func (r *Renderer) rawText(t text.Text) mmapcache.Piece {
	p, ok := r.raw[t]
	if !ok {
		var err error
		if p, err = r.w.Write(r.read(t)); err != nil {
			r.fail(err)
		}
		r.raw[t] = p
	}
	return p
}

// number returns the number of a message of these pieces, which it writes once.
func (r *Renderer) number(role mmapcache.Role, chat, anthropic *pieces) uint32 {
	chat.flush()
	anthropic.flush()
	key := append(r.key[:0], byte(role))
	for _, list := range [...][]mmapcache.Piece{chat.list, anthropic.list} {
		key = binary.LittleEndian.AppendUint32(key, uint32(len(list)))
		for _, p := range list {
			key = binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint64(key, p.At), p.N)
		}
	}
	r.key = key
	digest := xxh3.Hash128(key)
	n, ok := r.known[digest]
	if ok {
		return n
	}
	lead := uint8(0)
	for f, p := range [...]*pieces{mmapcache.ChatForm: chat, mmapcache.AnthropicForm: anthropic} {
		if p.lead {
			lead |= 1 << f
		}
	}
	n, err := r.w.Message(role, lead, chat.list, anthropic.list)
	if err != nil {
		r.fail(err)
	}
	r.known[digest] = n
	size := uint32(0)
	for _, p := range chat.list {
		size += p.N
	}
	r.bytes = append(r.bytes, size)
	return n
}

// calls are the names of the calls of tools of a trace, and which of them have no result yet.
type calls struct {
	numbers map[text.Text]int // by id of the log
	last    int
	waiting map[int32][]int // behind a message, by its last node: its calls
}

// callName is how calls and results name each other.
func callName(n int) string { return "call_" + strconv.Itoa(n) }

// abortedResult stands for the result of a call that has none. shortTokens is about how many tokens such a message has.
const (
	abortedResult = "aborted"
	shortTokens   = 5
)

// entry is a message in the texts of a cache.
type entry struct {
	number  uint32
	role    mmapcache.Role
	answers bool // it has results of the calls before it
	aborted int  // of them, those that stand for calls without one
}

// message writes a message that ends with a node, behind a message that ends with the node before.
func (r *Renderer) message(c *calls, before, node int32, m *text.Message, apart bool) entry {
	waiting := slices.Clone(c.waiting[before])
	numbers := make([]int, len(m.Parts)) // of a call, or of the one that a result answers; 0: none
	e := entry{role: roleOf(m)}
	var own []int
	for k := range m.Parts {
		switch p := &m.Parts[k]; {
		case p.Kind == text.Call && m.Role == text.Assistant:
			n := c.numbers[p.ID]
			if n == 0 || p.ID == 0 {
				c.last++
				n = c.last
				c.numbers[p.ID] = n
			}
			numbers[k] = n
			own = append(own, n)
		case p.Kind == text.Result:
			at := -1
			if p.ID != 0 {
				at = slices.Index(waiting, c.numbers[p.ID])
			} else if len(waiting) > 0 {
				at = 0
			}
			if at < 0 || m.Role == text.Assistant {
				if m.Raw == 0 {
					r.data.Warn("result_without_call")
				}
				continue
			}
			numbers[k], e.answers = waiting[at], true
			waiting = slices.Delete(waiting, at, at+1)
		}
	}
	if len(own) > 0 {
		c.waiting[node] = own
	}
	if !e.answers || m.Raw != 0 {
		waiting = nil
	}
	e.aborted = len(waiting)
	r.countAborted(waiting)
	chat, anthropic := r.begin()
	if m.Raw != 0 {
		chat.json(m.Raw)
	} else {
		chat.chatMessage(m, numbers, waiting)
	}
	if apart {
		anthropic.blocks(m, numbers, waiting, false)
	} else {
		anthropic.anthropicMessage(m, numbers, waiting)
	}
	e.number = r.number(e.role, chat, anthropic)
	return e
}

// aborted writes a message of the results of calls that have none.
func (r *Renderer) aborted(calls []int) entry {
	r.countAborted(calls)
	chat, anthropic := r.begin()
	m := &text.Message{Role: text.Tool}
	chat.chatMessage(m, nil, calls)
	anthropic.anthropicMessage(m, nil, calls)
	return entry{number: r.number(mmapcache.ToolRole, chat, anthropic), role: mmapcache.ToolRole, aborted: len(calls)}
}

// user writes the message of a user who said nothing.
func (r *Renderer) user() entry {
	chat, anthropic := r.begin()
	for _, p := range [...]*pieces{chat, anthropic} {
		p.put(`{"role":"user","content":"`)
		p.leads()
		p.put(`continue"}`)
	}
	return entry{number: r.number(mmapcache.User, chat, anthropic), role: mmapcache.User}
}

func (r *Renderer) countAborted(calls []int) {
	for range calls {
		r.data.Warn("call_without_result")
	}
}

// hasResults reports whether a message has results of calls.
func hasResults(m *text.Message) bool {
	return (m.Role == text.Tool || m.Role == text.User) && slices.ContainsFunc(m.Parts, func(p text.Part) bool { return p.Kind == text.Result })
}

// roleOf returns the role of a message in a cache. One of a user that has results alone is of a tool: no marker stands there.
func roleOf(m *text.Message) mmapcache.Role {
	switch m.Role {
	case text.System:
		return mmapcache.System
	case text.Developer:
		return mmapcache.Developer
	case text.Assistant:
		return mmapcache.Assistant
	case text.Tool:
		return mmapcache.ToolRole
	case text.OtherRole:
		return mmapcache.OtherRole
	}
	if len(m.Parts) > 0 && !slices.ContainsFunc(m.Parts, func(p text.Part) bool { return p.Kind != text.Result }) {
		return mmapcache.ToolRole
	}
	return mmapcache.User
}
