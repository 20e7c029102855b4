// Package tokenizer turns text into token ids, and ids back into bytes: byte-level BPE as tiktoken and Hugging Face's tokenizers
// define it. Two vocabularies are inside the binary; others are read from files.
//
//	t, err := tokenizer.Load("o200k_base")
//	ids := t.Encode("some text")
//	text, ok := t.Bytes(ids[0])
//
// A text is normalized if the tokenizer says so, cut into pieces by a pattern (pattern.go), and the bytes of each piece are merged into
// tokens (merge.go). Patterns are functions written by hand, so only those that are known can be used; a file with another one is
// refused. What a character is comes from package unicode: one that Unicode got later than that counts as none that is known.
package tokenizer

import (
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"unicode/utf8"

	"github.com/zeebo/xxh3"
)

// Tokenizer is a loaded tokenizer. Several goroutines may call its methods.
type Tokenizer struct {
	name    string
	digest  string
	pattern *pattern
	nfc     bool // texts are normalized to NFC
	added   addedTokens
	mergers sync.Pool // of *merger
}

// model is what turns a piece into tokens.
type model struct {
	vocabulary  *vocabulary
	byteIDs     [256]uint32    // by byte: the token that is this byte alone
	bytePairs   [256][256]pair // what two bytes become
	pairs       pairTable      // nil: two tokens merge if their bytes are a token, of the rank that is its id
	wholePieces bool           // a piece that is a token is that token, whatever its bytes merge to
}

func newTokenizer(name, digest string, p *pattern, m *model) *Tokenizer {
	t := &Tokenizer{name: name, digest: digest, pattern: p}
	t.mergers.New = func() any { return &merger{model: m} }
	t.added.model = m
	return t
}

// Name returns the name of a tokenizer inside the binary, or the path of a file.
func (t *Tokenizer) Name() string { return t.name }

// Digest returns the SHA-256 of the file of the tokenizer, in hexadecimal, which cache keys contain.
func (t *Tokenizer) Digest() string { return t.digest }

// Size returns a number above every id. Not every id below it need have a token.
func (t *Tokenizer) Size() int { return t.added.model.vocabulary.size() }

// Bytes returns the bytes of a token, which may end inside a character, or false for an unknown id. It does not allocate. The
// slice is part of the Tokenizer and must not be changed.
func (t *Tokenizer) Bytes(id uint32) ([]byte, bool) {
	v := t.added.model.vocabulary
	if int64(id) >= int64(v.size()) {
		return nil, false
	}
	b := v.bytes(id)
	return b, len(b) > 0
}

// Encode returns the token ids of text. The bytes of the ids, joined, are the text, if it is well-formed UTF-8 and the tokenizer does not
// normalize. In other text every byte that belongs to no character is encoded as U+FFFD.
//
// The two tokenizers inside the binary have no special tokens, such as <|endoftext|>: text that looks like one is encoded as ordinary
// text. Those of tokenizer.json files find their added tokens in the text, as Hugging Face's library does.
func (t *Tokenizer) Encode(text string) []uint32 {
	return t.AppendIDs(make([]uint32, 0, len(text)/3), text)
}

// AppendIDs appends the token ids of text to ids, as Encode returns them.
func (t *Tokenizer) AppendIDs(ids []uint32, text string) []uint32 {
	return t.appendIDs(ids, text, func(string, int, int) {})
}

// appendIDs calls each for every piece, with the numbers of the first token of the piece and of the one behind it.
func (t *Tokenizer) appendIDs(ids []uint32, text string, each func(piece string, first, behind int)) []uint32 {
	if !utf8.ValidString(text) {
		text = string([]rune(text))
	}
	m := t.mergers.Get().(*merger)
	defer t.mergers.Put(m)
	for part := range t.parts(text) {
		if part.isToken {
			ids = append(ids, part.token)
			continue
		}
		at := 0
		for piece := range t.pieces(part.text) {
			first := len(ids)
			ids = m.append(ids, part.text, at, at+len(piece))
			each(piece, first, len(ids))
			at += len(piece)
		}
	}
	return ids
}

// parts yields the added tokens of a text, and what is between them, normalized.
func (t *Tokenizer) parts(text string) func(yield func(textPart) bool) {
	return func(yield func(textPart) bool) {
		for raw := range t.added.split(text, t.added.raw) {
			if raw.isToken {
				if !yield(raw) {
					return
				}
				continue
			}
			if t.nfc {
				raw.text = nfc(raw.text)
			}
			for part := range t.added.split(raw.text, t.added.normalized) {
				if !yield(part) {
					return
				}
			}
		}
	}
}

// pieces yields the pieces of a text in turn, as the pattern cuts them. Tokens never cross their edges.
func (t *Tokenizer) pieces(text string) func(yield func(piece string) bool) {
	return func(yield func(piece string) bool) {
		s := newScanner(text)
		for from := 0; from < len(text); {
			end, whole := len(text), false
			if t.pattern.segment != nil {
				end, whole = t.pattern.segment(&s, from)
			}
			if whole {
				if !yield(text[from:end]) {
					return
				}
				from = end
				continue
			}
			segment := scanner{text[from:end], s.classes}
			for at := 0; at < len(segment.text); {
				next := t.pattern.next(&segment, at)
				if !yield(segment.text[at:next]) {
					return
				}
				at = next
			}
			from = end
		}
	}
}

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
