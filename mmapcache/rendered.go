package mmapcache

import (
	"bytes"
	"fmt"
	"math"
	"path/filepath"

	"github.com/agentx/agentx/manifest"
)

// RenderedTrace is one trace made ready to be sent in one encoding: its plan, and where in the rendering every block and filler
// lies. It is read-only and may be shared between goroutines; it is valid until its cache is closed.
type RenderedTrace struct {
	*Plan
	cache    *Cache
	encoding Encoding
	at       []uint32           // byte start of every block, then of every turn's filler
	ends     []uint64           // bytes of all blocks up to and with this one
	fill     []uint64           // bytes of every turn's filler
	heads    map[[2]uint32]head // by block and tokens; read once, for what is mapped may change
	tools    map[int32]int32    // turn by the segment that begins its tool result
	rough    []byte             // 1 for every block, then filler, that needs the slow path; nil where none can
}

// head is the window of the first tokens of a block.
type head struct {
	size  uint64 // bytes
	rough bool   // it needs the slow path
}

// Render locates the blocks of trace i in one encoding of the prompt corpus. It costs some nanoseconds per block.
func (c *Cache) Render(i int, encoding Encoding) (t *RenderedTrace, err error) {
	err = c.Guard(func() error {
		t, err = c.render(i, encoding)
		return err
	})
	return t, err
}

func (c *Cache) render(i int, encoding Encoding) (*RenderedTrace, error) {
	p := c.Structure.Plan(i)
	blocks, turns := int(p.Trace.Blocks), len(p.Turns)
	t := &RenderedTrace{Plan: p, cache: c, encoding: encoding, at: make([]uint32, blocks+turns), ends: make([]uint64, blocks+1), fill: make([]uint64, turns)}
	for k, r := range p.Tools {
		if k == 0 {
			t.tools = map[int32]int32{}
		}
		t.tools[r.Segment] = int32(r.Turn)
	}
	if encoding == Text && c.edges.any {
		t.rough = make([]byte, blocks+turns)
	}
	for b := range blocks {
		size, err := t.place(b, c.placement.at(int(p.Trace.FirstBlock)+b), p.Trace.BlockSize)
		if err != nil {
			return nil, err
		}
		t.ends[b+1] = t.ends[b] + size
	}
	for k := range turns {
		size, err := t.place(blocks+k, t.fillerStart(uint32(k)), t.fillerLength(uint32(k)))
		if err != nil {
			return nil, err
		}
		t.fill[k] = size
	}
	for k := range p.Segments {
		if s := &p.Segments[k]; s.Part&Head != 0 {
			if err := t.placeHead(s); err != nil {
				return nil, err
			}
		}
	}
	return t, nil
}

// place notes where the window of n tokens from start on lies, and returns its size in bytes.
func (t *RenderedTrace) place(slot int, start, n uint32) (uint64, error) {
	corpus := uint32(t.cache.CorpusTokens())
	if err := t.inCorpus(start); err != nil {
		return 0, err
	}
	size, ok := t.cache.renderings[t.encoding].window(start, n)
	if t.rough != nil && (size == 0 || t.cache.edges.rough(start, n, int(corpus))) {
		t.rough[slot] = 1
	}
	if !ok {
		return 0, t.goesBack(start, n)
	}
	t.at[slot] = t.cache.renderings[t.encoding].offsets[start]
	return size, nil
}

// placeHead notes the window of a head.
func (t *RenderedTrace) placeHead(s *Segment) error {
	start := t.blockStart(s.First)
	if err := t.inCorpus(start); err != nil {
		return err
	}
	size, ok := t.cache.renderings[t.encoding].window(start, s.Count)
	if !ok {
		return t.goesBack(start, s.Count)
	}
	if t.heads == nil {
		t.heads = map[[2]uint32]head{}
	}
	t.heads[[2]uint32{s.First, s.Count}] = head{size, t.rough != nil && t.cache.edges.rough(start, s.Count, t.cache.CorpusTokens())}
	return nil
}

func (t *RenderedTrace) inCorpus(start uint32) error {
	if int(start) < t.cache.CorpusTokens() {
		return nil
	}
	path := filepath.Join(t.cache.partPath(PlacementKind), placementFile)
	return fmt.Errorf("%s: %w: start %d in a corpus of %d tokens", path, manifest.ErrDamaged, start, t.cache.CorpusTokens())
}

func (t *RenderedTrace) goesBack(start, n uint32) error {
	return fmt.Errorf("%s: %w: offsets of tokens %d to %d go back", t.cache.offsetsPath(t.encoding), manifest.ErrDamaged, start, uint64(start)+uint64(n))
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

// Prompt is what one turn sends: its messages in order. It is filled by RenderedTrace.Prompt and can be used again and again
// without allocating; it belongs to one goroutine.
type Prompt struct {
	Messages []Message
	Tokens   int // of all messages, as the plan intends
	tree     *RenderedTrace
	path     []int32 // segments from the root of the tree to the turn's last
	scratch  []byte
}

// Message is one message of a prompt.
type Message struct {
	Role     Role
	Size     int      // bytes of its content, in the encoding of the trace
	ToolTurn int32    // turn whose tool result it is, of an assistant's message that it asked for; None
	path     [2]int32 // its segments: path[lo:hi]
}

// Prompt fills p with the messages of a turn, counted within the trace.
func (t *RenderedTrace) Prompt(turn int, p *Prompt) {
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
			p.Messages = append(p.Messages, Message{Role: s.Role, ToolTurn: None, path: [2]int32{int32(k), int32(k)}})
			if turn, ok := t.tools[id]; ok {
				p.markTool(turn)
			}
		}
		m := &p.Messages[len(p.Messages)-1]
		m.path[1]++
		m.Size += int(t.size(s))
		p.Tokens += t.tokens(s)
	}
	if t.rough != nil {
		for k := range p.Messages {
			p.Messages[k].Size += p.replaced(&p.Messages[k])
		}
	}
}

// Guard is Cache.Guard of the cache that the prompt is read from.
func (p *Prompt) Guard(f func() error) error { return p.tree.cache.Guard(f) }

// markTool makes the last message the answer to a call of the one before it.
func (p *Prompt) markTool(turn int32) {
	n := len(p.Messages)
	p.Messages[n-1].ToolTurn = turn
	p.Messages[n-2].ToolTurn = turn
}

// size returns the bytes of a segment.
func (t *RenderedTrace) size(s *Segment) uint64 {
	switch {
	case s.Part&Filler != 0:
		return t.fill[s.First]
	case s.Part&Head != 0:
		return t.heads[[2]uint32{s.First, s.Count}].size
	}
	return t.ends[s.First+s.Count] - t.ends[s.First]
}

func (t *RenderedTrace) tokens(s *Segment) int {
	switch {
	case s.Part&Filler != 0:
		return int(t.fillerLength(s.First))
	case s.Part&Head != 0:
		return int(s.Count)
	}
	return int(s.Count) * int(t.Trace.BlockSize)
}

// fillerLength returns how many tokens of filler a turn has.
func (t *RenderedTrace) fillerLength(turn uint32) uint32 { return t.cache.fillerTokens(t.Plan, turn) }

func (c *Cache) fillerTokens(p *Plan, turn uint32) uint32 {
	n := p.Turns[turn].FillerTokens(p.Trace.BlockSize)
	if c.Facts.Rules.ShortFiller {
		n = min(n, uint32(c.CorpusTokens()))
	}
	return n
}

// fillerStart returns the start of a turn's filler, in tokens.
func (t *RenderedTrace) fillerStart(turn uint32) uint32 {
	return t.cache.placement.at(t.cache.Structure.Blocks() + int(t.Trace.FirstTurn) + int(turn))
}

// blockStart returns the start of a block, in tokens.
func (t *RenderedTrace) blockStart(block uint32) uint32 {
	return t.cache.placement.at(int(t.Trace.FirstBlock + block))
}

// windows returns the number of windows of a segment.
func (s *Segment) windows() uint32 {
	if s.Part&(Filler|Head) != 0 {
		return 1
	}
	return s.Count
}

// window returns where window k of a segment lies in the rendering, in bytes.
func (t *RenderedTrace) window(s *Segment, k uint32) (at, size uint64) {
	switch {
	case s.Part&Filler != 0:
		return uint64(t.at[t.Trace.Blocks+s.First]), t.fill[s.First]
	case s.Part&Head != 0:
		return uint64(t.at[s.First]), t.size(s)
	}
	b := s.First + k
	return uint64(t.at[b]), t.ends[b+1] - t.ends[b]
}

// smooth returns how many windows of a segment from number k on are not rough.
func (t *RenderedTrace) smooth(s *Segment, k uint32) uint32 {
	first, n := s.First+k, s.windows()-k
	switch {
	case s.Part&Filler != 0:
		first = t.Trace.Blocks + s.First
	case s.Part&Head != 0:
		if t.heads[[2]uint32{s.First, s.Count}].rough {
			return 0
		}
		return 1
	}
	if at := bytes.IndexByte(t.rough[first:first+n], 1); at >= 0 {
		return uint32(at)
	}
	return n
}

// The slow path. A window is rough if it begins or ends inside a character, or covers ill-formed bytes; any other begins
// and ends with a whole character and holds nothing but such. One without a byte counts as rough: what it stands between
// touches. So what is ill-formed in the text of a message never reaches beyond a group of rough windows side by side, and
// decoding every group as a whole, one U+FFFD for each maximal ill-formed subsequence, is decoding the message as a whole.

// replaced returns by how many bytes the replacements make a message longer than its windows (less than 0: shorter).
func (p *Prompt) replaced(m *Message) int {
	t, more := p.tree, 0
	group := p.scratch[:0]
	for _, id := range p.path[m.path[0]:m.path[1]] {
		s := &t.Segments[id]
		for k, n := uint32(0), s.windows(); k < n; k++ {
			smooth := t.smooth(s, k)
			if smooth > 0 && len(group) > 0 {
				more += validGrowth(group)
				group = group[:0]
			}
			if k += smooth; k < n {
				at, size := t.window(s, k)
				group = t.cache.renderings[t.encoding].append(group, at, size)
			}
		}
	}
	more += validGrowth(group)
	p.scratch = group[:0]
	return more
}

// Cursor is a place in a prompt: the next byte to append lies in message Message.
type Cursor struct {
	Message int
	segment int32  // within the message
	window  uint32 // within the segment
	group   []byte // rough windows that have been passed and not yet appended
}

// AppendContent appends the content of message k to dst: as Text what stands between the quotes of a JSON string, as
// IDs decimal ids, each with a comma after it.
func (p *Prompt) AppendContent(dst []byte, k int) []byte {
	dst, _ = p.AppendUpTo(dst, &Cursor{Message: k}, math.MaxInt)
	return dst
}

// AppendUpTo appends content of the message that the cursor stands in until dst holds limit bytes or more, or the
// message ends, which it reports. It does not allocate if dst has room for limit bytes and one window more, but for
// rough windows.
func (p *Prompt) AppendUpTo(dst []byte, c *Cursor, limit int) (_ []byte, ended bool) {
	t, m := p.tree, &p.Messages[c.Message]
	r := &t.cache.renderings[t.encoding]
	for path := p.path[m.path[0]:m.path[1]]; int(c.segment) < len(path); c.segment++ {
		s := &t.Segments[path[c.segment]]
		smooth := uint32(0) // windows before this one are not rough
		for n := s.windows(); c.window < n; c.window++ {
			if len(dst) >= limit {
				return dst, false
			}
			at, size := t.window(s, c.window)
			if t.rough != nil && c.window >= smooth {
				if smooth = c.window + t.smooth(s, c.window); smooth == c.window {
					c.group = r.append(c.group, at, size)
					continue
				}
				dst = appendValid(dst, c.group)
				c.group = c.group[:0]
			}
			if at+size <= uint64(len(r.data)) {
				dst = append(dst, r.data[at:at+size]...)
			} else {
				dst = r.append(dst, at, size)
			}
		}
		c.window = 0
	}
	dst = appendValid(dst, c.group)
	*c = Cursor{Message: c.Message + 1}
	return dst, true
}

// AppendTokenIDs appends the token ids of message k to dst: the slow, plain way, which tests hold the renderings against.
func (p *Prompt) AppendTokenIDs(dst []uint32, k int) []uint32 {
	t, m := p.tree, p.Messages[k]
	for _, id := range p.path[m.path[0]:m.path[1]] {
		s := t.Segments[id]
		if s.Part&Filler != 0 {
			dst = t.cache.appendTokens(dst, t.fillerStart(s.First), t.fillerLength(s.First))
			continue
		}
		if s.Part&Head != 0 {
			dst = t.cache.appendTokens(dst, t.blockStart(s.First), s.Count)
			continue
		}
		for b := s.First; b < s.First+s.Count; b++ {
			dst = t.cache.appendTokens(dst, t.blockStart(b), t.Trace.BlockSize)
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
