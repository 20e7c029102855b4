package chain

import (
	"slices"
	"sync"

	"github.com/agentx/agentx/cmd/internal/capture/canon"
)

// cutter tokenizes segments and cuts their tokens into blocks.
type cutter struct {
	signer    *signer
	tokenizer Tokenizer
	last      digest   // of the last whole block
	block     []uint32 // the tokens behind it; its capacity is a block's
	tokens    uint32
	keys      []short
	scratch   *[]uint32
}

// maxScratch bounds the tokens for which a scratch is kept.
const maxScratch = 1 << 16

// scratches have room for the tokens of a text. They are overwritten.
var scratches = sync.Pool{New: func() any { return new([]uint32) }}

// beginning is where segments begin: behind those that a digest is of.
type beginning struct {
	digest short
	node   uint32
}

// cutter returns a cutter with the key of the tree, and where a prompt begins whose tools are known by their digest; the zero value for
// no such tools.
func (t *Tree) cutter(tools short) (*cutter, beginning, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.erased {
		return nil, beginning{}, ErrErased
	}
	start := beginning{digest: t.segments.keys[0]}
	if tools != (short{}) {
		start.digest = tools
		start.node, _ = t.segments.find(tools)
	}
	return &cutter{
		signer: t.signer.clone(), tokenizer: t.options.Tokenizer, block: make([]uint32, 0, t.options.BlockSize), scratch: scratches.Get().(*[]uint32),
	}, start, nil
}

// erase overwrites the key and the tokens. The cutter cannot be used again.
func (c *cutter) erase() {
	c.signer.erase()
	clear(c.block[:cap(c.block)])
	clear(c.last[:])
	if cap(*c.scratch) <= maxScratch {
		scratches.Put(c.scratch)
	}
	c.scratch = nil
}

// segments cuts the segments that are new, and completes what r has of them.
func (c *cutter) segments(r *Prepared, segments []canon.Segment) {
	for i := range segments {
		s := &segments[i]
		for j := range s.Parts {
			c.part(&s.Parts[j])
		}
		a := &r.added[i]
		a.last, a.tokens, a.keys, a.kinds, a.assistant = c.last, c.tokens, len(c.keys), s.Kinds, s.Role == canon.RoleAssistant
		a.tail = slices.Clone(c.block)
	}
	r.keys, r.tokens = c.keys, c.tokens
}

// part adds the tokens of a part.
func (c *cutter) part(p *canon.Part) {
	switch p.Kind {
	case canon.Structure:
		c.token(p.Token)
	case canon.PlainText:
		*c.scratch = c.tokenizer.AppendIDs((*c.scratch)[:0], string(p.Data))
		c.add(*c.scratch)
		clear(*c.scratch)
	case canon.TokenIDs:
		c.add(p.IDs)
	case canon.MediaTokens:
		m := c.signer.media(p.Bytes())
		for j := range p.Count {
			c.token(mediaToken(m, j))
		}
	}
}

// add adds tokens.
func (c *cutter) add(tokens []uint32) {
	for len(tokens) > 0 {
		n := min(len(tokens), cap(c.block)-len(c.block))
		c.block = append(c.block, tokens[:n]...)
		c.tokens += uint32(n)
		tokens = tokens[n:]
		c.seal()
	}
}

func (c *cutter) token(t uint32) {
	c.block = append(c.block, t)
	c.tokens++
	c.seal()
}

// seal ends the block if it is whole.
func (c *cutter) seal() {
	if len(c.block) == cap(c.block) {
		c.last = c.signer.block(c.last, c.block)
		c.keys = append(c.keys, shorten(c.last))
		c.block = c.block[:0]
	}
}
