package mmapcache

import (
	"fmt"
	"io"
	"math"
	"strconv"
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
	bounds := make([]int, 1, n+1) // token boundaries in raw
	for k, id := range c.Tokens {
		b, ok := c.Bytes(id)
		if !ok {
			return nil, fmt.Errorf("token %d (byte offset %d): id %d is not in the tokenizer's vocabulary", k, 4*k, id)
		}
		raw = append(raw, b...)
		bounds = append(bounds, len(raw))
		text.data = AppendEscaped(text.data, b)
		ids.data = append(strconv.AppendUint(ids.data, uint64(id), 10), ',')
		if len(text.data) > math.MaxUint32 || len(ids.data) > math.MaxUint32 {
			return nil, fmt.Errorf("corpus of %d tokens: more than 4 GiB of text", len(c.Tokens))
		}
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
