package chain

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"slices"
	"sync"

	"github.com/agentx/agentx/cmd/internal/capture/canon"
)

// digest is an HMAC-SHA256.
type digest = [sha256.Size]byte

// short is as much of a digest as tells blocks and segments of a session apart.
type short [16]byte

func shorten(d digest) short { return short(d[:16]) }

// signer computes HMAC-SHA256 with one key, without allocations. Nobody but it holds the key, and erase overwrites it.
type signer struct {
	inner, outer []byte // the padded key; a message follows the inner one, a digest the outer one
	stream       hash.Hash
	sum          digest
	head         []byte // of a part that is written to the stream
}

// newSigner returns a signer with a key, which it copies.
func newSigner(key [sha256.Size]byte) *signer {
	s := &signer{inner: make([]byte, sha256.BlockSize, 1024), outer: make([]byte, sha256.BlockSize, sha256.BlockSize+sha256.Size), stream: sha256.New()}
	copy(s.inner, key[:])
	copy(s.outer, key[:])
	for i := range sha256.BlockSize {
		s.inner[i] ^= 0x36
		s.outer[i] ^= 0x5c
	}
	return s
}

// clone returns a copy of the signer, for another goroutine.
func (s *signer) clone() *signer {
	c := &signer{inner: make([]byte, len(s.inner), cap(s.inner)), outer: make([]byte, len(s.outer), cap(s.outer)), stream: sha256.New()}
	copy(c.inner, s.inner)
	copy(c.outer, s.outer)
	return c
}

// erase overwrites the key. The signer cannot be used again.
func (s *signer) erase() {
	clear(s.inner[:cap(s.inner)])
	clear(s.outer[:cap(s.outer)])
	s.stream.Reset()
	clear(s.sum[:])
	clear(s.head[:cap(s.head)])
}

// message returns the buffer of a message, behind the inner key.
func (s *signer) message() []byte { return s.inner[:sha256.BlockSize] }

// sign returns the HMAC of a message that was appended to what s.message returned.
func (s *signer) sign(message []byte) digest {
	s.inner = message
	s.sum = sha256.Sum256(message)
	return s.seal()
}

// begin and finish sign what is written to the stream between them.
func (s *signer) begin() {
	s.stream.Reset()
	s.stream.Write(s.inner[:sha256.BlockSize])
}

// finish returns the digest of what was written to the stream since begin.
func (s *signer) finish() digest {
	s.stream.Sum(s.sum[:0])
	return s.seal()
}

// seal returns an HMAC, whose inner half is in s.sum.
func (s *signer) seal() digest { return sha256.Sum256(append(s.outer[:sha256.BlockSize], s.sum[:]...)) }

// root returns the digest that stands before the first block of each stream: of the rules, the tokenizer and the block size.
func (s *signer) root(tokenizer string, blockSize int) digest {
	m := append(s.message(), "root"...)
	for _, text := range [...]string{canon.Version, tokenizer} {
		m = binary.LittleEndian.AppendUint32(m, uint32(len(text)))
		m = append(m, text...)
	}
	return s.sign(binary.LittleEndian.AppendUint32(m, uint32(blockSize)))
}

// raw returns a key, derived from the signer's, for fast digests of the bytes of bodies.
func (s *signer) raw() uint64 {
	d := s.sign(append(s.message(), "raw"...))
	return binary.LittleEndian.Uint64(d[:])
}

// block returns the digest of a block behind another one.
func (s *signer) block(before digest, tokens []uint32) digest {
	m := append(s.message(), "blk\x00"...)
	m = append(m, before[:]...)
	for _, t := range tokens {
		m = binary.LittleEndian.AppendUint32(m, t)
	}
	return s.sign(m)
}

// media returns the digest from which the tokens of media are taken.
func (s *signer) media(data []byte) digest {
	s.begin()
	s.head = append(s.head[:0], "med\x00"...)
	s.stream.Write(s.head)
	s.stream.Write(data)
	return s.finish()
}

// mediaToken returns token j of media whose digest is m: 28 of its bits.
func mediaToken(m digest, j int) uint32 {
	return canon.Media | binary.LittleEndian.Uint32(m[4*(j%8):])&canon.MediaBits
}

// response returns the digest of the id of a response.
func (s *signer) response(id string) short {
	s.begin()
	s.stream.Write([]byte("rsp\x00"))
	s.stream.Write([]byte(id))
	return shorten(s.finish())
}

// segment returns the digest of a segment behind others. Each part begins with its kind and its length, so that no two
// segments look alike.
func (s *signer) segment(before short, parts []canon.Part) short {
	s.begin()
	head := append(append(s.head[:0], "seg\x00"...), before[:]...)
	for _, p := range parts {
		head = append(head, byte(p.Kind))
		head = binary.LittleEndian.AppendUint32(head, p.Token)
		head = binary.LittleEndian.AppendUint32(head, uint32(len(p.Data)+4*len(p.IDs)))
		head = binary.LittleEndian.AppendUint32(head, uint32(p.Count))
		if p.Base64 {
			head[len(head)-1] |= 0x80 // a count is below 2^31
		}
		if len(p.Data) == 0 && len(p.IDs) == 0 {
			continue
		}
		s.stream.Write(head)
		s.stream.Write(p.Data)
		head = head[:0]
		for _, id := range p.IDs {
			head = binary.LittleEndian.AppendUint32(head, id)
		}
	}
	s.stream.Write(head)
	s.head = head
	return shorten(s.finish())
}

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

// part tokenizes a part of a segment and adds the tokens.
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

// add adds tokens to the block being filled, and seals each block that becomes whole.
func (c *cutter) add(tokens []uint32) {
	for len(tokens) > 0 {
		n := min(len(tokens), cap(c.block)-len(c.block))
		c.block = append(c.block, tokens[:n]...)
		c.tokens += uint32(n)
		tokens = tokens[n:]
		c.seal()
	}
}

// token adds one token to the block that is being filled.
func (c *cutter) token(t uint32) {
	c.block = append(c.block, t)
	c.tokens++
	c.seal()
}

// seal ends the block being filled if it is whole: its digest becomes a key.
func (c *cutter) seal() {
	if len(c.block) == cap(c.block) {
		c.last = c.signer.block(c.last, c.block)
		c.keys = append(c.keys, shorten(c.last))
		c.block = c.block[:0]
	}
}
