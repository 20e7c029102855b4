package tokenizer

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/zeebo/xxh3"
)

// maxTokens bounds the ids of a vocabulary. The largest in use have 262,144.
const maxTokens = 1 << idBits

// maxTokenBytes bounds the bytes of all tokens of a vocabulary.
const maxTokenBytes = 64 << 20

// vocabulary has the bytes of each token, and finds the token that has given bytes.
type vocabulary struct {
	// The bytes of token i are text[offsets[i]:offsets[i+1]]; an id without a token has none.
	text    []byte
	offsets []uint32

	// slots is a hash table with open addressing, a power of 2 in size: the high bits of a hash and the id plus 1; 0: free.
	slots []uint32
}

const idBits = 20

// add appends the token with the next id. Without bytes the id has no token.
func (v *vocabulary) add(token []byte) error {
	if len(v.offsets) > maxTokens-2 {
		return fmt.Errorf("more than %d tokens", maxTokens-2)
	}
	if len(v.text)+len(token) > maxTokenBytes {
		return fmt.Errorf("tokens of more than %d bytes together", maxTokenBytes)
	}
	v.text = append(v.text, token...)
	v.offsets = append(v.offsets, uint32(len(v.text)))
	return nil
}

func newVocabulary(tokens, size int) *vocabulary {
	return &vocabulary{text: make([]byte, 0, size), offsets: append(make([]uint32, 0, tokens+1), 0)}
}

func (v *vocabulary) size() int { return len(v.offsets) - 1 }

func (v *vocabulary) bytes(id uint32) []byte {
	from, to := v.offsets[id], v.offsets[id+1]
	return v.text[from:to:to]
}

// errTwice is about a token that two ids have.
var errTwice = errors.New("the same token")

// index makes every token with bytes known to find, but those that were added. The error says that two tokens have the same bytes.
func (v *vocabulary) index(added map[uint32]string) error {
	v.slots = make([]uint32, 1<<bits.Len(uint(2*v.size())))
	for id := range uint32(v.size()) {
		token := v.bytes(id)
		if _, is := added[id]; is || len(token) == 0 {
			continue
		}
		hash := xxh3.Hash(token)
		slot := v.slot(hash, token)
		if v.slots[slot] != 0 {
			return fmt.Errorf("ids %d and %d are %w: %q", v.slots[slot]&(1<<idBits-1)-1, id, errTwice, token)
		}
		v.slots[slot] = uint32(hash>>44)<<idBits | (id + 1)
	}
	return nil
}

// slot returns the slot that holds a token, or the free one where it belongs.
func (v *vocabulary) slot(hash uint64, token []byte) int {
	tag, mask := uint32(hash>>44)<<idBits, len(v.slots)-1
	for k := int(hash) & mask; ; k = (k + 1) & mask {
		entry := v.slots[k]
		if entry == 0 {
			return k
		}
		if entry&^(1<<idBits-1) == tag {
			if id := entry&(1<<idBits-1) - 1; string(v.bytes(id)) == string(token) {
				return k
			}
		}
	}
}

// find returns the token with the given bytes.
func (v *vocabulary) find(token string) (id uint32, ok bool) {
	hash := xxh3.HashString(token)
	tag, mask := uint32(hash>>44)<<idBits, len(v.slots)-1
	for k := int(hash) & mask; ; k = (k + 1) & mask {
		entry := v.slots[k]
		if entry == 0 {
			return 0, false
		}
		if entry&^(1<<idBits-1) == tag {
			if id := entry&(1<<idBits-1) - 1; string(v.bytes(id)) == token {
				return id, true
			}
		}
	}
}

// pairTable says what two tokens side by side become, and which pair comes first. It is a hash table with open addressing.
type pairTable []pairEntry // a power of 2 in size

type pairEntry struct {
	key uint64 // of the first id and, plus 1, the second; 0: free
	pair
}

// pair is a merge.
type pair struct{ rank, id uint32 }

func newPairTable(merges int) pairTable {
	t := make(pairTable, 1<<bits.Len(uint(merges+merges/2)))
	for k := range t {
		t[k].rank = none
	}
	return t
}

// entry returns the entry of a pair, or the free one where it belongs.
func (t pairTable) entry(key uint64) *pairEntry {
	mask := len(t) - 1
	k := int(key*0x9e3779b97f4a7c15>>33) & mask
	for t[k].key != 0 && t[k].key != key {
		k = (k + 1) & mask
	}
	return &t[k]
}

// set adds a merge. Of two of the same tokens the last counts, as in Hugging Face's library.
func (t pairTable) set(a, b uint32, merge pair) {
	key := uint64(a)<<32 | uint64(b+1)
	*t.entry(key) = pairEntry{key, merge}
}

// find returns a merge; its rank is none if there is none of these tokens.
func (t pairTable) find(a, b uint32) pair {
	return t.entry(uint64(a)<<32 | uint64(b+1)).pair
}
