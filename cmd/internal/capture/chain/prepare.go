package chain

import (
	"slices"
	"sort"

	"github.com/zeebo/xxh3"

	"github.com/agentx/agentx/cmd/internal/capture/canon"
	"github.com/agentx/agentx/cmd/internal/capture/journal"
)

// Prepared is a stream that is cut into blocks, ready to be applied.
type Prepared struct {
	stand
	from     uint32  // the node behind which it is new
	added    []added // segments behind it
	keys     []short // blocks that end in them
	digests  []short // of the segments behind a node, or of all
	toolsEnd short   // digest of the segments up to the tools' end
	tokens   uint32
}

// added is a segment that was not known.
type added struct {
	digest    short
	last      digest
	tail      []uint32 // the tokens behind the last whole block
	tokens    uint32
	keys      int // how many blocks end in it and the added segments before it
	kinds     journal.Kinds
	assistant bool
}

// Tokens returns how many tokens the stream has.
func (p *Prepared) Tokens() int { return int(p.tokens) }

// Size returns how many bytes of memory the stream takes until it is applied.
func (p *Prepared) Size() int {
	const short, token, segment = 16, 4, 96
	size := short*(cap(p.keys)+cap(p.digests)) + segment*cap(p.added)
	for i := range p.added {
		size += token * cap(p.added[i].tail)
	}
	return size
}

// erase overwrites digests and tokens, which the tree has by now.
func (p *Prepared) erase() {
	clear(p.keys[:cap(p.keys)])
	for i := range p.added {
		clear(p.added[i].tail)
	}
	clear(p.added[:cap(p.added)])
	clear(p.digests[:cap(p.digests)])
	p.keys, p.added, p.digests = nil, nil, nil
}

// Prepare tokenizes the segments of a prompt that the session has not had, and cuts them into blocks. The error of a prompt
// that names an unknown response, or one with other tools or instructions, is a *canon.Error of reason journal.HoleUnhashable. A response
// is known once it was remembered.
func (t *Tree) Prepare(p *canon.Prompt) (*Prepared, error) { return t.prepare(p, short{}) }

// prepare is Prepare for a prompt that lacks the segments of its tools, which are known by their digest.
func (t *Tree) prepare(p *canon.Prompt, tools short) (*Prepared, error) {
	c, start, err := t.cutter(tools)
	if err != nil {
		return nil, err
	}
	defer c.erase()
	if p.Previous != "" {
		return t.prepareFurther(c, start.digest, p)
	}
	digests := c.signer.chain(start.digest, p.Segments)
	r := &Prepared{stand: stand{head: start.digest}, toolsEnd: start.digest}
	if p.Head > 0 {
		r.head = digests[p.Head-1]
	}
	if p.Tools > 0 {
		r.toolsEnd = digests[p.Tools-1]
	}
	if err := t.cut(c, r, start.node, digests, p.Segments); err != nil {
		return nil, err
	}
	r.tools = t.tokensAt(r, start.node, digests[:p.Tools])
	r.systems = t.tokensAt(r, start.node, digests[:p.System]) - r.tools
	return r, nil
}

// Place is the end of a segment behind others. The zero value is before all segments.
type Place struct{ segment short }

// PrepareBehind is Prepare for a prompt of which the first segments are those of one that was applied, up to a place of that: segments are
// those behind it. It also returns the place of each segment, for prompts that begin with this one. The request that comes of it does not
// say how many tokens are of tools and of the system prompt.
func (t *Tree) PrepareBehind(at Place, segments []canon.Segment) (*Prepared, []Place, error) {
	c, start, err := t.cutter(at.segment)
	if err != nil {
		return nil, nil, err
	}
	defer c.erase()
	digests := c.signer.chain(start.digest, segments)
	r := &Prepared{}
	if err := t.cut(c, r, start.node, digests, segments); err != nil {
		return nil, nil, err
	}
	places := make([]Place, len(digests))
	for k, d := range digests {
		places[k].segment = d
	}
	return r, places, nil
}

// prepareFurther prepares a prompt that goes on behind a response.
func (t *Tree) prepareFurther(c *cutter, start short, p *canon.Prompt) (*Prepared, error) {
	head, _ := c.signer.headOf(start, p)
	t.mu.Lock()
	known, found := t.responses[c.signer.response(p.Previous)]
	t.mu.Unlock()
	if !found {
		return nil, &canon.Error{Reason: journal.HoleUnhashable, Problem: "the prompt continues a response that this session has not seen"}
	}
	if known.head != head {
		return nil, &canon.Error{Reason: journal.HoleUnhashable, Problem: "the prompt continues a response that had other tools or instructions"}
	}
	return t.behind(c, known, p.Segments[p.Head:])
}

// PrepareOutput tokenizes the output of the response to a request that was applied.
func (t *Tree) PrepareOutput(q int, output *canon.Prompt) (*Prepared, error) {
	c, _, err := t.cutter(short{})
	if err != nil {
		return nil, err
	}
	defer c.erase()
	t.mu.Lock()
	i, found := t.index(q)
	var asked stand
	if found {
		asked = t.requests[i].stand
	}
	t.mu.Unlock()
	if !found {
		return nil, errNoRequest
	}
	return t.behind(c, asked, output.Segments)
}

// behind prepares segments behind a request or a response that is known.
func (t *Tree) behind(c *cutter, known stand, segments []canon.Segment) (*Prepared, error) {
	t.mu.Lock()
	if t.erased {
		t.mu.Unlock()
		return nil, ErrErased
	}
	before, assistant := t.segments.keys[known.node], t.nodes[known.node].assistant
	t.mu.Unlock()
	segments = following(segments, assistant)
	r := &Prepared{stand: known}
	return r, t.cut(c, r, known.node, c.signer.chain(before, segments), segments)
}

// following returns segments as they stand behind another segment: if that is the assistant's, a first segment that is a call of
// the assistant has no role of its own.
func following(segments []canon.Segment, assistant bool) []canon.Segment {
	if !assistant || len(segments) == 0 || !segments[0].Follows {
		return segments
	}
	segments = append([]canon.Segment(nil), segments...)
	segments[0].Parts = segments[0].Parts[1:]
	return segments
}

// cut cuts the segments behind a node into blocks, those that the tree does not have.
func (t *Tree) cut(c *cutter, r *Prepared, before uint32, digests []short, segments []canon.Segment) error {
	if err := t.resume(c, r, before, digests); err != nil {
		return err
	}
	c.segments(r, segments[len(segments)-len(r.added):])
	r.digests = digests
	return nil
}

// resume looks up the segments behind a node that the tree has. It leaves the others in added, and puts the cutter where
// they begin. If the tree has a segment, it has those before it.
func (t *Tree) resume(c *cutter, r *Prepared, before uint32, digests []short) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.erased {
		return ErrErased
	}
	known := sort.Search(len(digests), func(i int) bool { _, found := t.segments.find(digests[i]); return !found })
	r.from = before
	if known > 0 {
		r.from, _ = t.segments.find(digests[known-1])
	}
	n := &t.nodes[r.from]
	c.last, c.tokens = n.last, n.tokens
	c.block = append(c.block[:0], n.tail...)
	r.tokens = n.tokens
	for _, d := range digests[known:] {
		r.added = append(r.added, added{digest: d})
	}
	return nil
}

// tokensAt returns how many tokens a prompt has up to the last of its first segments, or up to a node if these are none.
func (t *Tree) tokensAt(r *Prepared, before uint32, first []short) uint32 {
	known := len(r.digests) - len(r.added)
	if len(first) > known {
		return r.added[len(first)-1-known].tokens
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.erased {
		return 0
	}
	if len(first) > 0 {
		before, _ = t.segments.find(first[len(first)-1])
	}
	return t.nodes[before].tokens
}

// headOf returns the digest of the tools and the system prompt of a prompt, and that of its tools.
func (s *signer) headOf(start short, p *canon.Prompt) (head, tools short) {
	head, tools = start, start
	digests := s.chain(start, p.Segments[:p.Head])
	if p.Head > 0 {
		head = digests[p.Head-1]
	}
	if p.Tools > 0 {
		tools = digests[p.Tools-1]
	}
	return head, tools
}

// chain returns the digests of segments behind others.
func (s *signer) chain(before short, segments []canon.Segment) []short {
	digests := make([]short, 0, len(segments))
	for i := range segments {
		before = s.segment(before, segments[i].Parts)
		digests = append(digests, before)
	}
	return digests
}

// Reading is a body that is read, and what is known of it.
type Reading struct {
	tree   *Tree
	format canon.Format
	text   []byte
	repeated
	like *outside // of a body with the same tools
}

// Begin looks for the beginning of a body among those that the session has had, byte for byte. The body must not change while the reading is
// in use.
func (t *Tree) Begin(format canon.Format, body []byte) *Reading {
	return &Reading{tree: t, format: format, text: body, repeated: t.recognize(format, body)}
}

// Of reports whether the reading is by the memory of a session.
func (r *Reading) Of(t *Tree) bool { return r.tree == t }

// Found reports whether the session has had the beginning of the messages of the body.
func (r *Reading) Found() bool { return r.before != nil }

// Options is canon.ParseOptions of the body, but looks at nothing that the session has had.
func (r *Reading) Options() (*canon.Prompt, error) { return canon.ParseOptions(r.format, r.text, r) }

// Read is canon.Parse and Prepare of the body. Messages and tools that the session has had with the same bytes are not parsed again, so that a
// body costs what it adds. The prompt lacks what is not parsed: segments, and ids of results. One that names a response is parsed as a whole
// and not prepared: the response may become known before its turn comes.
func (r *Reading) Read() (*canon.Prompt, *Prepared, error) {
	prompt, prepared, err := r.read()
	if err != nil && r.before != nil {
		r.repeated = repeated{} // its messages stand somewhere else, or behind another head
		return r.read()
	}
	return prompt, prepared, err
}

// Read is Begin and Reading.Read.
func (t *Tree) Read(format canon.Format, body []byte) (*canon.Prompt, *Prepared, error) {
	return t.Begin(format, body).Read()
}

// read parses a body behind the messages that are known, prepares the rest, and keeps both for the next body.
func (r *Reading) read() (*canon.Prompt, *Prepared, error) {
	prompt, err := canon.ParseBehind(r.format, r.text, r)
	if err != nil {
		return nil, nil, err
	}
	if prompt.Previous != "" {
		if r.before != nil {
			return nil, nil, errOtherHead
		}
		prompt, err = canon.Parse(r.format, r.text)
		return prompt, nil, err
	}
	var tools short
	if prompt.KnownTools {
		tools = r.like.toolsEnd
	}
	var prepared *Prepared
	if r.before != nil {
		prepared, err = r.prepareBehind(prompt, tools)
	} else {
		prepared, err = r.tree.prepare(prompt, tools)
	}
	if err != nil {
		return nil, nil, err
	}
	r.see(prompt, prepared)
	return prompt, prepared, nil
}

// Messages returns what the session has had behind the bracket of a list of messages.
func (r *Reading) Messages(start int) (canon.Prefix, bool) {
	if r.before == nil || start != r.start {
		return canon.Prefix{}, false
	}
	return canon.Prefix{Bytes: r.last.end, Role: r.last.role, Media: r.last.media}, true
}

// Tools returns the length of a list of tools that the session has had.
func (r *Reading) Tools(text []byte) int {
	t := r.tree
	t.marks.RLock()
	defer t.marks.RUnlock()
	size := 0
	var digest rawDigest
	for _, s := range t.latest() {
		if s.toolsSize == 0 || s.toolsSize > len(text) {
			continue
		}
		if s.toolsSize != size {
			size = s.toolsSize
			digest = xxh3.Hash128Seed(text[:size], t.raw)
		}
		if digest == s.toolsText && t.has(s.toolsEnd) {
			r.like = new(s.outside)
			return size
		}
	}
	return 0
}

// prepareBehind prepares a prompt whose first messages are known. The error is errOtherHead if these had another head, or stand
// somewhere else.
func (r *Reading) prepareBehind(p *canon.Prompt, tools short) (*Prepared, error) {
	t := r.tree
	c, start, err := t.cutter(tools)
	if err != nil {
		return nil, err
	}
	defer c.erase()
	head, toolsEnd := c.signer.headOf(start.digest, p)
	t.mu.Lock()
	at, found := t.segments.find(r.last.segment)
	t.mu.Unlock()
	if !found || head != r.head || p.Prefix.Bytes == 0 {
		return nil, errOtherHead
	}
	segments := p.Segments[p.Head:]
	prepared := &Prepared{stand: stand{head: head, tools: r.tools, systems: r.systems}, toolsEnd: toolsEnd}
	return prepared, t.cut(c, prepared, at, c.signer.chain(r.last.segment, segments), segments)
}

// see keeps the messages and the tools of a prompt, to recognize them in the next one. Messages up to the system prompt's last come with
// the first that is none of it.
func (r *Reading) see(p *canon.Prompt, prepared *Prepared) {
	t := r.tree
	t.marks.RLock()
	defer t.marks.RUnlock()
	s := &seen{marks: r.known, outside: outside{format: r.format, start: p.ListStart, stand: prepared.stand}}
	switch {
	case p.ToolsText == nil:
	case p.KnownTools:
		s.toolsText, s.toolsSize, s.toolsEnd = r.like.toolsText, r.like.toolsSize, r.like.toolsEnd
	case p.Tools > 0:
		s.toolsText, s.toolsSize, s.toolsEnd = xxh3.Hash128Seed(p.ToolsText, t.raw), len(p.ToolsText), prepared.toolsEnd
	}
	from, first := p.Prefix.Bytes, len(p.Segments)-len(prepared.digests) // the first segment that has a digest
	for _, e := range p.Elements {
		if p.Prefix.Bytes == 0 && e.Segments <= p.System {
			continue
		}
		s.marks = append(s.marks, mark{
			digest: xxh3.Hash128Seed(p.List[from:e.End], t.raw), segment: prepared.digests[e.Segments-1-first],
			end: e.End, media: e.Media, role: e.Role,
		})
		from = e.End
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.erased || len(s.marks) == 0 {
		return
	}
	// The body that it continues is not needed any more, except for a rewind far back.
	if r.before != nil && 2*len(r.known) >= len(r.before.marks) {
		t.seen = slices.DeleteFunc(t.seen, func(other *seen) bool { return other == r.before })
	}
	t.seen = slices.Insert(t.seen, 0, s)
	t.seen = t.seen[:min(len(t.seen), maxSeen)]
}

// maxSeen bounds the bodies whose messages a tree recognizes: those of as many agents that take turns.
const maxSeen = 8

// seen is a body that the session has had: where its messages end, and its tools. It does not change.
type seen struct {
	outside
	marks []mark
}

// outside is what is known of a body beside its messages.
type outside struct {
	format    canon.Format
	start     int // of the list of messages, behind its bracket
	stand         // of its head; its node is of no use
	toolsText rawDigest
	toolsSize int // of the text of the tools, 0 for none that can be recognized
	toolsEnd  short
}

// mark is the end of a message.
type mark struct {
	digest  rawDigest // of the bytes from the mark before
	segment short     // of the segments up to here
	end     int       // behind the bracket of the list
	media   int
	role    uint32
}

// rawDigest is a digest of bytes of a body, by a key that is drawn for the tree.
type rawDigest = xxh3.Uint128

// repeated is the beginning of the messages of a body that a session has had before.
type repeated struct {
	outside       // of the body that has it
	before  *seen // that body; nil if nothing is repeated
	known   []mark
	last    mark // of them
}

// recognize returns the longest beginning of the messages of a body that the session has had.
func (t *Tree) recognize(format canon.Format, text []byte) (r repeated) {
	t.marks.RLock()
	defer t.marks.RUnlock()
	for _, s := range t.latest() {
		if s.format == format {
			if marks := s.match(&r, text, t.raw); len(marks) > len(r.known) {
				r.before, r.known = s, marks
			}
		}
	}
	// A request that was dropped, or is not applied yet, has no segments in the tree.
	for len(r.known) > 0 && !t.has(r.known[len(r.known)-1].segment) {
		r.known = r.known[:len(r.known)-1]
	}
	if len(r.known) == 0 {
		return repeated{}
	}
	r.known = slices.Clip(r.known)
	r.outside, r.last = r.before.outside, r.known[len(r.known)-1]
	return r
}

// latest returns the bodies that are kept, the latest first.
func (t *Tree) latest() []*seen {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.seen)
}

// has reports whether the tree has a segment.
func (t *Tree) has(segment short) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, found := t.segments.find(segment)
	return found
}

// match returns the first marks of a body that a text has, or none if these are surely not more than the best so far.
func (s *seen) match(best *repeated, text []byte, key uint64) []mark {
	same := 0
	if best.before != nil && best.before.start == s.start {
		for same < min(len(s.marks), len(best.known)) && s.marks[same].digest == best.known[same].digest && s.marks[same].end == best.known[same].end {
			same++
		}
		if same < len(best.known) { // the text has another message here
			return nil
		}
	}
	from := s.start
	if same > 0 {
		from += s.marks[same-1].end
	}
	for i := same; i < len(s.marks); i++ {
		m := &s.marks[i]
		if s.start+m.end > len(text) || xxh3.Hash128Seed(text[from:s.start+m.end], key) != m.digest {
			return s.marks[:i:i]
		}
		from = s.start + m.end
	}
	return s.marks
}
