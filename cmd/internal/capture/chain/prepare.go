package chain

import (
	"sort"

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
