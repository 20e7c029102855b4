package mmapcache

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/agentx/agentx/manifest"
)

// RenderedTrace is one trace ready to be sent in one encoding: its plan, and where every block and filler lies in that
// encoding of the prompt corpus. It is read-only, may be shared between goroutines, and is valid until its Cache is
// closed.
type RenderedTrace struct {
	*Plan
	cache       *Cache
	shard       *shard
	start       float64              // of the trace in its recording, milliseconds; NaN: unknown
	encoding    Encoding             // of the prompt corpus
	form        Form                 // of recorded messages
	starts      []uint32             // first byte of every window: of the blocks, then of the turns' fillers, then of heads
	ends        []uint64             // bytes of the windows before window i; one more than windows
	heads       map[[2]uint32]uint32 // number of the window of a head, by block and tokens
	tools       map[int32]int32      // turn, by the segment that begins its tool result
	needsDecode []byte               // 1 for every window whose bytes cannot be copied as they are; nil: none
}

// Render locates the blocks of trace i in one encoding of the prompt corpus. It costs some nanoseconds per block.
func (c *Cache) Render(i int, encoding Encoding) (t *RenderedTrace, err error) {
	err = c.Guard(func() error {
		t, err = c.render(i, encoding)
		return err
	})
	return t, err
}

// render is Render without a guard against files that are cut.
func (c *Cache) render(i int, encoding Encoding) (*RenderedTrace, error) {
	if !c.prompts {
		return nil, errors.New("the cache was opened without prompts: want one of Open")
	}
	form := ChatForm
	if !c.HasTexts() {
		if err := encoding.validate(); err != nil {
			return nil, err
		}
	} else if encoding != ChatMessages && encoding != AnthropicMessages {
		return nil, fmt.Errorf("encoding %d: want %d (messages of chat completions) or %d (of Anthropic's form) for recorded messages", encoding, ChatMessages, AnthropicMessages)
	} else {
		form, encoding = Form(encoding-ChatMessages), Text
	}
	shard, tables, k, err := c.tablesOf(i)
	if err != nil {
		return nil, err
	}
	p := tables.Plan(k)
	windows := int(p.Trace.Blocks) + len(p.Turns)
	t := &RenderedTrace{
		Plan: p, cache: c, shard: shard, start: tables.Traces.late.at(k), encoding: encoding, form: form,
		starts: make([]uint32, 0, windows), ends: make([]uint64, 1, windows+1), heads: map[[2]uint32]uint32{},
	}
	for k, r := range p.Tools {
		if k == 0 {
			t.tools = map[int32]int32{}
		}
		t.tools[r.Segment] = int32(r.Turn)
	}
	if encoding == Text && c.splits.notEmpty {
		t.needsDecode = make([]byte, 0, windows)
	}
	return t, t.locateAll()
}

// locateAll locates every block, filler and head.
func (t *RenderedTrace) locateAll() error {
	for b := range t.Trace.Blocks {
		if err := t.locate(t.shard.blockStart(&t.Trace, b), t.Trace.BlockSize); err != nil {
			return err
		}
	}
	for k := range uint32(len(t.Turns)) {
		if t.cache.HasTexts() {
			break // turns of recorded messages have no filler
		}
		if err := t.locate(t.shard.fillerStart(&t.Trace, k), t.cache.fillerTokens(t.Plan, k)); err != nil {
			return err
		}
	}
	for _, s := range t.Segments {
		head := [2]uint32{s.First, s.Count}
		if _, known := t.heads[head]; known || s.Flags&(Head|Prefix) == 0 {
			continue
		}
		t.heads[head] = uint32(len(t.starts))
		start := s.First
		if s.Flags&Head != 0 {
			start = t.shard.blockStart(&t.Trace, s.First)
		}
		if err := t.locate(start, s.Count); err != nil {
			return err
		}
	}
	return nil
}

// locate notes where the window of n tokens from token start on lies, and whether it needs decoding. An empty window does: the
// windows on both sides of it touch.
func (t *RenderedTrace) locate(start, n uint32) error {
	if int(start) >= t.cache.CorpusTokens() {
		path := filepath.Join(t.cache.Root, PlacementKind, t.shard.Starts.Key, placementFile)
		return fmt.Errorf("%s: %w: start %d out of range [0,%d)", path, manifest.ErrDamaged, start, t.cache.CorpusTokens())
	}
	r := &t.cache.renderings[t.encoding]
	size, ok := r.window(start, n)
	if !ok {
		return fmt.Errorf("%s: %w: offsets of tokens %d to %d decrease", t.cache.offsetsPath(t.encoding), manifest.ErrDamaged, start, uint64(start)+uint64(n))
	}
	t.starts, t.ends = append(t.starts, r.offsets[start]), append(t.ends, t.ends[len(t.starts)]+size)
	if t.needsDecode != nil {
		decode := size == 0 || t.cache.splits.needsDecode(start, n, t.cache.CorpusTokens())
		t.needsDecode = append(t.needsDecode, byte(count(decode)))
	}
	return nil
}

// windows returns the number of the first window of a segment, and how many it has.
func (t *RenderedTrace) windows(s *Segment) (first, n uint32) {
	switch {
	case s.Flags&Filler != 0:
		return t.Trace.Blocks + s.First, 1
	case s.Flags&(Head|Prefix) != 0:
		return t.heads[[2]uint32{s.First, s.Count}], 1
	}
	return s.First, s.Count
}

// size returns the bytes of n windows.
func (t *RenderedTrace) size(first, n uint32) uint64 { return t.ends[first+n] - t.ends[first] }

// tokens returns the tokens of a segment.
func (t *RenderedTrace) tokens(s *Segment) int {
	switch {
	case s.Flags&Filler != 0:
		return int(t.cache.fillerTokens(t.Plan, s.First))
	case s.Flags&(Head|Prefix|Recorded) != 0:
		return int(s.Count)
	}
	return int(s.Count) * int(t.Trace.BlockSize)
}

// fillerTokens returns how many tokens of filler a turn has.
func (c *Cache) fillerTokens(p *Plan, turn uint32) uint32 {
	n := p.Turns[turn].FillerTokens(p.Trace.BlockSize)
	if c.Facts.Rules.ShortFiller {
		n = min(n, uint32(c.CorpusTokens()))
	}
	return n
}

// cleanRun returns how many of n windows can be copied as they are, before one that cannot.
func (t *RenderedTrace) cleanRun(first, n uint32) uint32 {
	if at := bytes.IndexByte(t.needsDecode[first:first+n], 1); at >= 0 {
		return uint32(at)
	}
	return n
}

// rendering is the prompt corpus in one encoding.
type rendering struct {
	data    []byte
	offsets []uint32 // first byte of token i; one more than tokens
}

// window returns the size in bytes of n tokens from token start on, taken modulo the length of the corpus. It is not ok
// where the offsets do not ascend.
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

// append appends size bytes from byte at on, taken modulo the length of the rendering.
func (r *rendering) append(dst []byte, at, size uint64) []byte {
	for total := uint64(len(r.data)); size > 0; at = 0 {
		n := min(size, total-at)
		dst = append(dst, r.data[at:at+n]...)
		size -= n
	}
	return dst
}

// Window is a stretch of the prompt corpus, which is taken modulo its length: what a block, the head of a block or a filler stands
// for.
type Window struct{ Start, Tokens uint32 }

// recordedWindow is the bit of Window.Start of a recorded message, whose number stands below it: no place in the corpus.
const recordedWindow = 1 << 31

// AppendWindows appends the windows of a segment of the plan of trace i, in the order of its tokens. It reads mapped files: Guard
// makes an error of what cannot be read. A damaged cache may have windows that begin outside the corpus.
func (c *Cache) AppendWindows(dst []Window, i int, p *Plan, segment int) ([]Window, error) {
	shard, _, _, err := c.tablesOf(i)
	if err != nil {
		return dst, err
	}
	return c.appendWindows(dst, shard, p, &p.Segments[segment]), nil
}

// appendWindows is AppendWindows for a plan of a shard that is open.
func (c *Cache) appendWindows(dst []Window, shard *shard, p *Plan, s *Segment) []Window {
	switch {
	case s.Flags&Filler != 0:
		return append(dst, Window{shard.fillerStart(&p.Trace, s.First), c.fillerTokens(p, s.First)})
	case s.Flags&Head != 0:
		return append(dst, Window{shard.blockStart(&p.Trace, s.First), s.Count})
	case s.Flags&Prefix != 0:
		return append(dst, Window{s.First, s.Count})
	case s.Flags&Recorded != 0:
		return append(dst, Window{recordedWindow | s.First, s.Count})
	}
	for k := range s.Count {
		dst = append(dst, Window{shard.blockStart(&p.Trace, s.First+k), p.Trace.BlockSize})
	}
	return dst
}

// Sample returns the beginning of the prompt corpus in an encoding, as a message has it, and how many tokens that is: at
// most the given number, fewer where text cannot be cut there, and 0 where it cannot be cut at all.
func (c *Cache) Sample(encoding Encoding, most int) (piece []byte, tokens int, err error) {
	if err := encoding.validate(); err != nil {
		return nil, 0, err
	}
	err = c.Guard(func() error {
		for n := min(most, c.CorpusTokens()-1); n > 0; n-- {
			size, ok := c.renderings[encoding].window(0, uint32(n))
			if !ok || encoding == Text && c.splits.notEmpty && (size == 0 || c.splits.needsDecode(0, uint32(n), c.CorpusTokens())) {
				continue
			}
			piece, tokens = append(piece, c.renderings[encoding].data[:size]...), n
			return nil
		}
		return nil
	})
	return piece, tokens, err
}
