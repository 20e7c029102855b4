package mmapcache

import (
	"fmt"
	"math"
	"path/filepath"

	"github.com/agentx/agentx/manifest"
)

// Tree is one trace made ready to be sent in one form: its plan, and where in the rendering every block and filler
// lies. It is read-only and may be shared between goroutines; it is valid until its cache is closed.
type Tree struct {
	*Plan
	cache *Cache
	form  Form
	at    []uint32 // byte start of every block, then of every turn's filler
	ends  []uint64 // bytes of all blocks up to and with this one
	fill  []uint64 // bytes of every turn's filler
	rough []bool   // blocks, then fillers, that need the slow path; nil where none does
}

// Tree loads trace i for a form. It costs some nanoseconds per block.
func (c *Cache) Tree(i int, form Form) (t *Tree, err error) {
	err = c.Guard(func() error {
		t, err = c.tree(i, form)
		return err
	})
	return t, err
}

func (c *Cache) tree(i int, form Form) (*Tree, error) {
	p := c.Structure.Plan(i)
	blocks, turns := int(p.Trace.Blocks), len(p.Turns)
	t := &Tree{Plan: p, cache: c, form: form, at: make([]uint32, blocks+turns), ends: make([]uint64, blocks+1), fill: make([]uint64, turns)}
	if form == Text && c.edges.any {
		t.rough = make([]bool, blocks+turns)
	}
	for b := range blocks {
		size, err := t.place(b, c.starts.at(int(p.Trace.FirstBlock)+b), p.Trace.BlockSize)
		if err != nil {
			return nil, err
		}
		t.ends[b+1] = t.ends[b] + size
	}
	for k := range turns {
		if n := p.Turns[k].FillerTokens(p.Trace.BlockSize); n > 0 {
			size, err := t.place(blocks+k, t.fillerStart(uint32(k)), n)
			if err != nil {
				return nil, err
			}
			t.fill[k] = size
		}
	}
	return t, nil
}

// place notes where the window of n tokens from start on lies, and returns its size in bytes.
func (t *Tree) place(slot int, start, n uint32) (uint64, error) {
	corpus := uint32(t.cache.N())
	if start >= corpus {
		path := filepath.Join(t.cache.partPath(StartsKind), startsFile)
		return 0, fmt.Errorf("%s: %w: start %d in a corpus of %d tokens", path, manifest.ErrDamaged, start, corpus)
	}
	if t.rough != nil {
		t.rough[slot] = t.cache.edges.rough(start, n, int(corpus))
	}
	size, ok := t.cache.forms[t.form].window(start, n)
	if !ok {
		return 0, fmt.Errorf("%s: %w: offsets of tokens %d to %d go back", t.cache.partPath(ArenasKind), manifest.ErrDamaged, start, uint64(start)+uint64(n))
	}
	t.at[slot] = t.cache.forms[t.form].offsets[start]
	return size, nil
}

// window returns the size in bytes of n tokens from start on, taken modulo the length of the corpus.
func (r *rendering) window(start, n uint32) (size uint64, ok bool) {
	corpus := uint32(len(r.offsets) - 1)
	total := uint64(len(r.data))
	size = total * uint64(n/corpus)
	from, end := uint64(r.offsets[start]), uint64(start)+uint64(n%corpus)
	if end <= uint64(corpus) {
		to := uint64(r.offsets[end])
		return size + to - from, from <= to && to <= total
	}
	rest := uint64(r.offsets[end-uint64(corpus)])
	return size + total - from + rest, from <= total && rest <= total
}

// append appends size bytes from at on, taken modulo the length of the rendering.
func (r *rendering) append(dst []byte, at, size uint64) []byte {
	for total := uint64(len(r.data)); size > 0; at = 0 {
		n := min(size, total-at)
		dst = append(dst, r.data[at:at+n]...)
		size -= n
	}
	return dst
}

// Prompt is what one turn sends: its messages in order. It is filled by Tree.Prompt and can be used again and again
// without allocating; it belongs to one goroutine.
type Prompt struct {
	Messages []Message
	Tokens   int // of all messages, as the plan intends
	tree     *Tree
	path     []int32 // segments from the root of the tree to the turn's last
	scratch  []byte
}

// Message is one message of a prompt.
type Message struct {
	Role Role
	Size int // bytes of its content, in the form of the tree
	slow bool
	path [2]int32 // its segments: path[lo:hi]
}

// Prompt fills p with the messages of a turn, counted within the trace.
func (t *Tree) Prompt(turn int, p *Prompt) {
	p.tree, p.Tokens, p.path, p.Messages = t, 0, p.path[:0], p.Messages[:0]
	for s := t.Turns[turn].Last; s != None; s = t.Segments[s].Parent {
		p.path = append(p.path, s)
	}
	for i, j := 0, len(p.path)-1; i < j; i, j = i+1, j-1 {
		p.path[i], p.path[j] = p.path[j], p.path[i]
	}
	for k, id := range p.path {
		s := &t.Segments[id]
		if s.Part&Continues == 0 {
			p.Messages = append(p.Messages, Message{Role: s.Role, path: [2]int32{int32(k), int32(k)}})
		}
		m := &p.Messages[len(p.Messages)-1]
		m.path[1]++
		m.Size += int(t.size(s))
		p.Tokens += t.tokens(s)
	}
	if t.rough != nil {
		p.findSlow()
	}
}

// size returns the bytes of a segment.
func (t *Tree) size(s *Segment) uint64 {
	if s.Part&Filler == 0 {
		return t.ends[s.First+s.Count] - t.ends[s.First]
	}
	return t.fill[s.First]
}

func (t *Tree) tokens(s *Segment) int {
	if s.Part&Filler == 0 {
		return int(s.Count) * int(t.Trace.BlockSize)
	}
	return int(s.Count)
}

// fillerStart returns the start of a turn's filler, in tokens.
func (t *Tree) fillerStart(turn uint32) uint32 {
	return t.cache.starts.at(t.cache.Structure.Blocks() + int(t.Trace.FirstTurn) + int(turn))
}

// findSlow marks the messages in which a window begins or ends inside a character or covers ill-formed bytes, and
// corrects their sizes.
func (p *Prompt) findSlow() {
	for k := range p.Messages {
		m := &p.Messages[k]
		for _, id := range p.path[m.path[0]:m.path[1]] {
			if m.slow = p.tree.isRough(&p.tree.Segments[id]); m.slow {
				p.scratch = p.appendSlow(p.scratch[:0], m)
				m.Size = len(p.scratch)
				break
			}
		}
	}
}

func (t *Tree) isRough(s *Segment) bool {
	if s.Part&Filler != 0 {
		return t.rough[int(t.Trace.Blocks)+int(s.First)]
	}
	for _, r := range t.rough[s.First : s.First+s.Count] {
		if r {
			return true
		}
	}
	return false
}

// Cursor is a place in a prompt: the next byte to append lies in message Message.
type Cursor struct {
	Message int
	segment int32  // within the message
	block   uint32 // within the segment
}

// Append appends the content of message k to dst: in the form Text what stands between the quotes of a JSON string, in
// the form IDs decimal ids, each with a comma after it.
func (p *Prompt) Append(dst []byte, k int) []byte {
	dst, _ = p.AppendSome(dst, &Cursor{Message: k}, math.MaxInt)
	return dst
}

// AppendSome appends content of the message that the cursor stands in until dst holds limit bytes or more, or the
// message ends, which it reports. It does not allocate if dst has room for limit bytes and one window more, but for
// messages on the slow path, which are appended whole.
func (p *Prompt) AppendSome(dst []byte, c *Cursor, limit int) (_ []byte, ended bool) {
	m := &p.Messages[c.Message]
	if m.slow {
		dst, ended = p.appendSlow(dst, m), true
	} else {
		dst, ended = p.appendParts(dst, m, c, limit)
	}
	if ended {
		*c = Cursor{Message: c.Message + 1}
	}
	return dst, ended
}

func (p *Prompt) appendParts(dst []byte, m *Message, c *Cursor, limit int) (_ []byte, ended bool) {
	t := p.tree
	r := &t.cache.forms[t.form]
	for path := p.path[m.path[0]:m.path[1]]; int(c.segment) < len(path); c.segment++ {
		s := &t.Segments[path[c.segment]]
		if s.Part&Filler != 0 {
			if len(dst) >= limit {
				return dst, false
			}
			dst = r.append(dst, uint64(t.at[t.Trace.Blocks+s.First]), t.size(s))
			continue
		}
		for ; c.block < s.Count; c.block++ {
			if len(dst) >= limit {
				return dst, false
			}
			b := s.First + c.block
			at, size := uint64(t.at[b]), t.ends[b+1]-t.ends[b]
			if at+size <= uint64(len(r.data)) {
				dst = append(dst, r.data[at:at+size]...)
			} else {
				dst = r.append(dst, at, size)
			}
		}
		c.block = 0
	}
	return dst, true
}

// appendSlow appends the content of a message decoded as a whole: one U+FFFD for every maximal ill-formed subsequence,
// wherever the windows meet.
func (p *Prompt) appendSlow(dst []byte, m *Message) []byte {
	raw, _ := p.appendParts(nil, m, &Cursor{}, math.MaxInt)
	return appendValid(dst, raw)
}

// TokenIDs appends the token ids of message k to dst: the slow, plain way, which tests hold the renderings against.
func (p *Prompt) TokenIDs(dst []uint32, k int) []uint32 {
	t, m := p.tree, p.Messages[k]
	for _, id := range p.path[m.path[0]:m.path[1]] {
		s := t.Segments[id]
		if s.Part&Filler != 0 {
			dst = t.cache.appendTokens(dst, t.fillerStart(s.First), s.Count)
			continue
		}
		for b := s.First; b < s.First+s.Count; b++ {
			dst = t.cache.appendTokens(dst, t.cache.starts.at(int(t.Trace.FirstBlock+b)), t.Trace.BlockSize)
		}
	}
	return dst
}

func (c *Cache) appendTokens(dst []uint32, start, n uint32) []uint32 {
	for k := range uint64(n) {
		dst = append(dst, c.tokens[(uint64(start)+k)%uint64(len(c.tokens))])
	}
	return dst
}
