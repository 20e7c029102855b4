package chain

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"

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

// clone returns a signer for another goroutine.
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

// sign returns the digest of what was appended to message.
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

func (s *signer) finish() digest {
	s.stream.Sum(s.sum[:0])
	return s.seal()
}

// seal is the outer half of an HMAC.
func (s *signer) seal() digest { return sha256.Sum256(append(s.outer[:sha256.BlockSize], s.sum[:]...)) }

// root returns what is before the first block.
func (s *signer) root(tokenizer string, blockSize int) digest {
	m := append(s.message(), "root"...)
	for _, text := range [...]string{canon.Version, tokenizer} {
		m = binary.LittleEndian.AppendUint32(m, uint32(len(text)))
		m = append(m, text...)
	}
	return s.sign(binary.LittleEndian.AppendUint32(m, uint32(blockSize)))
}

// raw returns the key of the digests of bytes.
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

// mediaToken returns token j of media.
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
