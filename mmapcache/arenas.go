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
	text, ids              []byte
	textOffsets, idOffsets []uint32
	splits, illFormed      []uint32
}

// render renders the corpus. It fails where a token is not in the vocabulary, or a rendering exceeds 4 GiB.
func (c PromptCorpus) render() (*arenas, error) {
	n := len(c.Tokens)
	r := &arenas{ // with the room that usual tokens take
		text: make([]byte, 0, 5*n), ids: make([]byte, 0, 7*n),
		textOffsets: make([]uint32, 1, n+1), idOffsets: make([]uint32, 1, n+1),
	}
	raw := make([]byte, 0, 5*n)
	bounds := make([]int, 1, n+1) // token boundaries in raw
	for k, id := range c.Tokens {
		b, ok := c.Bytes(id)
		if !ok {
			return nil, fmt.Errorf("token %d (byte offset %d): id %d is not in the tokenizer's vocabulary", k, 4*k, id)
		}
		raw = append(raw, b...)
		bounds = append(bounds, len(raw))
		r.text = appendEscaped(r.text, b)
		r.ids = append(strconv.AppendUint(r.ids, uint64(id), 10), ',')
		if len(r.text) > math.MaxUint32 || len(r.ids) > math.MaxUint32 {
			return nil, fmt.Errorf("corpus of %d tokens: more than 4 GiB of text", len(c.Tokens))
		}
		r.textOffsets = append(r.textOffsets, uint32(len(r.text)))
		r.idOffsets = append(r.idOffsets, uint32(len(r.ids)))
	}
	r.splits, r.illFormed = findSplits(raw, bounds)
	return r, nil
}

// Describe writes everything that a cache would hold of the corpus, for a digest.
func (c PromptCorpus) Describe(w io.Writer) error {
	r, err := c.render()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%q\n%q\n%v\n%v\n%v\n%v\n", r.text, r.ids, r.textOffsets, r.idOffsets, r.splits, r.illFormed)
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
	r, err := c.render()
	if err != nil {
		return err
	}
	if err := b.writeFiles([]file{
		{tokensFile, func(w io.Writer) error { return writeFlat(w, kindTokens, c.Tokens) }},
		{textFile, func(w io.Writer) error { return writeFlat(w, kindText, r.text) }},
		{textOffsetsFile, func(w io.Writer) error { return writeFlat(w, kindTextOffsets, r.textOffsets) }},
		{idsFile, func(w io.Writer) error { return writeFlat(w, kindIDs, r.ids) }},
		{idOffsetsFile, func(w io.Writer) error { return writeFlat(w, kindIDOffsets, r.idOffsets) }},
		{splitsFile, func(w io.Writer) error { return writeFlat(w, kindSplits, r.splits) }},
		{illFormedFile, func(w io.Writer) error { return writeFlat(w, kindIllFormed, r.illFormed) }},
	}); err != nil {
		return err
	}
	return b.setFacts(ArenaFacts{Tokens: len(c.Tokens), TextBytes: len(r.text), Splits: len(r.splits), IllFormed: len(r.illFormed), Marker: marker})
}
