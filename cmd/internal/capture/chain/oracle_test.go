package chain

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"

	"github.com/agentx/agentx/cmd/internal/capture/canon"
	"github.com/agentx/agentx/internal/tokenizer"
)

// oracle numbers blocks without a memory of segments: it tokenizes every prompt as a whole.
type oracle struct {
	key       []byte
	tokenizer *tokenizer.Tokenizer
	size      int
	numbers   map[[32]byte]uint32
}

func newOracle(key digest, size int) *oracle {
	return &oracle{key[:], o200k(), size, map[[32]byte]uint32{}}
}

func (o *oracle) sign(parts ...[]byte) digest {
	h := hmac.New(sha256.New, o.key)
	for _, p := range parts {
		h.Write(p)
	}
	return digest(h.Sum(nil))
}

// stream returns all tokens of segments.
func (o *oracle) stream(segments []canon.Segment) (tokens []uint32) {
	for _, s := range segments {
		for _, p := range s.Parts {
			switch p.Kind {
			case canon.Structure:
				tokens = append(tokens, p.Token)
			case canon.PlainText:
				tokens = append(tokens, o.tokenizer.Encode(string(p.Data))...)
			case canon.TokenIDs:
				tokens = append(tokens, p.IDs...)
			case canon.MediaTokens:
				m := o.sign([]byte("med\x00"), p.Bytes())
				for j := range p.Count {
					tokens = append(tokens, 0xB0000000|binary.LittleEndian.Uint32(m[4*(j%8):])&0x0FFFFFFF)
				}
			}
		}
	}
	return tokens
}

// ids numbers the blocks of a stream.
func (o *oracle) ids(tokens []uint32) (ids []uint32) {
	root := []byte("root\x07\x00\x00\x00canon-1\x0a\x00\x00\x00o200k_base")
	last := o.sign(root, binary.LittleEndian.AppendUint32(nil, uint32(o.size)))
	for ; len(tokens) >= o.size; tokens = tokens[o.size:] {
		var block []byte
		for _, t := range tokens[:o.size] {
			block = binary.LittleEndian.AppendUint32(block, t)
		}
		last = o.sign([]byte("blk\x00"), last[:], block)
		n, found := o.numbers[last]
		if !found {
			n = uint32(len(o.numbers))
			o.numbers[last] = n
		}
		ids = append(ids, n)
	}
	return ids
}

// common counts equal elements at the beginning of two lists.
func common(a, b []uint32) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}
