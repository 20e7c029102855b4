package mmapcache

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/bits"
	"strconv"
	"unicode/utf8"

	"github.com/agentx/agentx/manifest"
)

// Files of the arenas.
const (
	tokensFile      = "tokens.u32"
	textFile        = "text.json"
	textOffsetsFile = "text.off.u32"
	idsFile         = "ids.txt"
	idOffsetsFile   = "ids.off.u32"
	splitsFile      = "splits.u32"
	illFormedFile   = "illformed.u32"
)

// PromptCorpus is a tokenized text from which blocks and fillers are cut.
type PromptCorpus struct {
	Tokens []uint32
	Bytes  func(id uint32) ([]byte, bool) // bytes of a token; false where the vocabulary has no such id
}

// arenas is a prompt corpus in every encoding, with what a reader needs to cut it.
type arenas struct {
	tokens     []uint32
	renderings [2]rendering // by Encoding
	cuts       []uint32     // token boundaries inside a character
	illFormed  []uint32     // tokens
}

// files lists the files of the arenas, in the order in which they are written.
func (a *arenas) files() []file {
	text, ids := &a.renderings[Text], &a.renderings[IDs]
	return []file{
		flatFile(tokensFile, kindTokens, &a.tokens),
		flatFile(textFile, kindText, &text.data),
		flatFile(textOffsetsFile, kindTextOffsets, &text.offsets),
		flatFile(idsFile, kindIDs, &ids.data),
		flatFile(idOffsetsFile, kindIDOffsets, &ids.offsets),
		flatFile(splitsFile, kindSplits, &a.cuts),
		flatFile(illFormedFile, kindIllFormed, &a.illFormed),
	}
}

// render renders the corpus. It fails where a token is not in the vocabulary, or a rendering exceeds 4 GiB.
func (c PromptCorpus) render() (*arenas, error) {
	n := len(c.Tokens)
	text := rendering{make([]byte, 0, 5*n), make([]uint32, 1, n+1)} // with the room that usual tokens take
	ids := rendering{make([]byte, 0, 7*n), make([]uint32, 1, n+1)}
	raw := make([]byte, 0, 5*n)
	bounds := make([]uint32, 1, n+1) // token boundaries in raw, which is no longer than the text
	for k, id := range c.Tokens {
		b, ok := c.Bytes(id)
		if !ok {
			return nil, fmt.Errorf("token %d (byte offset %d): id %d is not in the tokenizer's vocabulary", k, 4*k, id)
		}
		raw = append(raw, b...)
		text.data = AppendEscaped(text.data, b)
		ids.data = append(strconv.AppendUint(ids.data, uint64(id), 10), ',')
		if len(text.data) > math.MaxUint32 || len(ids.data) > math.MaxUint32 {
			return nil, fmt.Errorf("corpus of %d tokens: more than 4 GiB of text", len(c.Tokens))
		}
		bounds = append(bounds, uint32(len(raw)))
		text.offsets = append(text.offsets, uint32(len(text.data)))
		ids.offsets = append(ids.offsets, uint32(len(ids.data)))
	}
	a := &arenas{tokens: c.Tokens, renderings: [...]rendering{Text: text, IDs: ids}}
	a.cuts, a.illFormed = findSplits(raw, bounds)
	return a, nil
}

// Describe writes everything that a cache would hold of the corpus, for a digest.
func (c PromptCorpus) Describe(w io.Writer) error {
	a, err := c.render()
	if err != nil {
		return err
	}
	text, ids := a.renderings[Text], a.renderings[IDs]
	_, err = fmt.Fprintf(w, "%q\n%q\n%v\n%v\n%v\n%v\n", text.data, ids.data, text.offsets, ids.offsets, a.cuts, a.illFormed)
	return err
}

// MarkerPieces are the token ids of the parts of a cache-bust marker, each encoded by itself. A replay joins
// them and does not tokenize.
type MarkerPieces struct {
	Open     []uint32     `json:"open"`     // "[rid:"
	Hex      [16][]uint32 `json:"hex"`      // "0" to "f"
	Close    []uint32     `json:"close"`    // "]"
	Newlines []uint32     `json:"newlines"` // two newlines
}

// NewMarkerPieces encodes the pieces.
func NewMarkerPieces(encode func(string) []uint32) (m MarkerPieces) {
	m.Open, m.Close, m.Newlines = encode("[rid:"), encode("]"), encode("\n\n")
	for k := range m.Hex {
		m.Hex[k] = encode(strconv.FormatInt(int64(k), 16))
	}
	return m
}

// BuildArenas renders a corpus and writes it in every encoding.
func (b *Builder) BuildArenas(c PromptCorpus, marker MarkerPieces) error {
	a, err := c.render()
	if err != nil {
		return err
	}
	if err := b.writeFiles(a.files()); err != nil {
		return err
	}
	return b.setFacts(ArenaFacts{Tokens: len(c.Tokens), TextBytes: len(a.renderings[Text].data), Splits: len(a.cuts), IllFormed: len(a.illFormed), Marker: marker})
}

// splitMap says where a cut of the corpus as text depends on the bytes beside the cut. It has one bit for every token and
// one for the boundary before it.
type splitMap struct {
	notEmpty    bool
	inCharacter []uint64 // boundaries inside a character
	illFormed   []uint64 // tokens with ill-formed bytes
}

// bitSet returns a set of k in [0,n), listed in ascending order.
func bitSet(n int, list []uint32) ([]uint64, error) {
	set := make([]uint64, n/64+1)
	for i, k := range list {
		if int(k) >= n || i > 0 && k <= list[i-1] {
			return nil, fmt.Errorf("%w: entry %d: token %d is out of range [0,%d) or not above the one before", manifest.ErrDamaged, i, k, n)
		}
		set[k/64] |= 1 << (k % 64)
	}
	return set, nil
}

// needsDecode reports whether a window begins or ends inside a character or covers ill-formed bytes. It may wrap around
// the end of the corpus of n tokens.
func (m *splitMap) needsDecode(start, length uint32, n int) bool {
	if !m.notEmpty || length == 0 {
		return false
	}
	from, end := uint64(start), uint64(start)+uint64(length)
	corpus := uint64(n)
	if hasBit(m.inCharacter, from) || hasBit(m.inCharacter, end%corpus) {
		return true
	}
	if end <= corpus {
		return anyBit(m.illFormed, from, end)
	}
	return anyBit(m.illFormed, from, corpus) || anyBit(m.illFormed, 0, min(end-corpus, from))
}

func hasBit(set []uint64, k uint64) bool { return set[k/64]&(1<<(k%64)) != 0 }

// anyBit reports whether a bit in [from, to) is set.
func anyBit(set []uint64, from, to uint64) bool {
	if from >= to {
		return false
	}
	first, last := from/64, (to-1)/64
	head, tail := ^uint64(0)<<(from%64), ^uint64(0)>>(63-(to-1)%64)
	if first == last {
		return set[first]&head&tail != 0
	}
	if set[first]&head != 0 || set[last]&tail != 0 {
		return true
	}
	for _, w := range set[first+1 : last] {
		if w != 0 {
			return true
		}
	}
	return false
}

// findSplits lists the boundaries inside characters and the tokens with ill-formed bytes of a text, both ascending.
// bounds are the token boundaries in text: token k is text[bounds[k]:bounds[k+1]].
func findSplits(text []byte, bounds []uint32) (splits, ill []uint32) {
	next := 1 // boundary
	for at := afterASCII(text, 0); at < len(text); at = afterASCII(text, at) {
		bad := illFormed(text[at:])
		n := bad
		if bad == 0 {
			_, n = utf8.DecodeRune(text[at:])
		}
		for int(bounds[next]) <= at {
			next++
		}
		// Token next-1 holds byte at. Boundaries before at+n lie inside this character or ill-formed sequence.
		for k := next; ; k++ {
			if bad > 0 && (len(ill) == 0 || ill[len(ill)-1] != uint32(k-1)) {
				ill = append(ill, uint32(k-1))
			}
			if int(bounds[k]) >= at+n {
				break
			}
			if bad == 0 {
				splits = append(splits, uint32(k))
			}
		}
		at += n
	}
	return splits, ill
}

// afterASCII returns the first byte from at on that is not ASCII, or the length of the text.
func afterASCII(text []byte, at int) int {
	for ; at+8 <= len(text); at += 8 {
		if high := binary.LittleEndian.Uint64(text[at:]) & 0x8080808080808080; high != 0 {
			return at + bits.TrailingZeros64(high)/8
		}
	}
	for at < len(text) && text[at] < utf8.RuneSelf {
		at++
	}
	return at
}
