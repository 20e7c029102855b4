package mmapcache

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"strconv"
	"unicode/utf8"
)

// Files of the arenas that errors name in more than one place.
const (
	textOffsetsFile = "text.off.u32"
	idOffsetsFile   = "ids.off.u32"
	splitsFile      = "splits.u32"
	illFormedFile   = "illformed.u32"
)

// PromptCorpus is a tokenized text from which blocks and fillers are cut.
type PromptCorpus struct {
	Tokens []uint32
	Bytes  func(id uint32) ([]byte, bool) // bytes of a token; false where the vocabulary has no such id
}

// renderings are the corpus in the forms that go on the wire, and what a reader needs to cut them.
type renderings struct {
	text, ids             []byte
	textOffsets, idOffset []uint32
	splits, illFormed     []uint32
}

// render renders a corpus. It fails where a token is not in the vocabulary, or a rendering is larger than an offset.
func (c PromptCorpus) render() (*renderings, error) {
	r := &renderings{textOffsets: []uint32{0}, idOffset: []uint32{0}}
	var raw []byte
	bounds := make([]int, 1, len(c.Tokens)+1) // token boundaries in raw
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
		r.idOffset = append(r.idOffset, uint32(len(r.ids)))
	}
	r.findSplits(raw, bounds)
	return r, nil
}

// Describe writes everything that a cache would hold of a corpus, for a digest.
func (c PromptCorpus) Describe(w io.Writer) error {
	r, err := c.render()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%q\n%q\n%v\n%v\n%v\n%v\n", r.text, r.ids, r.textOffsets, r.idOffset, r.splits, r.illFormed)
	return err
}

// findSplits notes the boundaries inside characters and the tokens with ill-formed bytes.
func (r *renderings) findSplits(raw []byte, bounds []int) {
	next := 1 // boundary
	for at := 0; at < len(raw); {
		bad := illFormed(raw[at:])
		n := bad
		if bad == 0 {
			_, n = utf8.DecodeRune(raw[at:])
		}
		for bounds[next] <= at {
			next++
		}
		// Token next-1 holds byte at; boundaries before at+n lie inside this piece.
		for k := next; ; k++ {
			if bad > 0 {
				if last := len(r.illFormed) - 1; last < 0 || r.illFormed[last] != uint32(k-1) {
					r.illFormed = append(r.illFormed, uint32(k-1))
				}
			}
			if bounds[k] >= at+n {
				break
			}
			if bad == 0 {
				r.splits = append(r.splits, uint32(k))
			}
		}
		at += n
	}
}

// appendEscaped appends b as part of a JSON string: quotes, backslashes and control characters escaped, all else as it is.
func appendEscaped(dst, b []byte) []byte {
	const hex = "0123456789abcdef"
	for _, c := range b {
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c >= 0x20:
			dst = append(dst, c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c == '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return dst
}

// appendUnescaped appends what appendEscaped made text of. dst may be the beginning of text. It is not ok where text ends
// inside an escape.
func appendUnescaped(dst, text []byte) (_ []byte, ok bool) {
	for len(text) > 0 {
		k := bytes.IndexByte(text, '\\')
		if k < 0 {
			return append(dst, text...), true
		}
		dst = append(dst, text[:k]...)
		if text = text[k:]; len(text) < 2 || text[1] == 'u' && len(text) < 6 {
			return dst, false
		}
		c, n := text[1], 2
		switch c {
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'u':
			c, n = hexDigit(text[4])<<4|hexDigit(text[5]), 6
		}
		dst = append(dst, c)
		text = text[n:]
	}
	return dst, true
}

func hexDigit(c byte) byte {
	if c >= 'a' {
		return c - 'a' + 10
	}
	return c - '0'
}

// MarkerPieces are the token ids of the parts of a cache-bust marker, each encoded by itself: players do not tokenize,
// and put a marker together from them.
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

// ArenaFacts is what the manifest of arenas says about them.
type ArenaFacts struct {
	Tokens    int          `json:"tokens"`
	TextBytes int          `json:"text_bytes"` // escaped
	Splits    int          `json:"splits"`
	IllFormed int          `json:"ill_formed"`
	Marker    MarkerPieces `json:"marker"`
}

// BuildArenas writes the renderings of a corpus.
func (b *Builder) BuildArenas(c PromptCorpus, marker MarkerPieces) error {
	r, err := c.render()
	if err != nil {
		return err
	}
	files := []struct {
		name  string
		write func(io.Writer) error
	}{
		{"tokens.u32", func(w io.Writer) error { return writeFlat(w, kindTokens, c.Tokens) }},
		{"text.json", func(w io.Writer) error { return writeFlat(w, kindText, r.text) }},
		{textOffsetsFile, func(w io.Writer) error { return writeFlat(w, kindTextOffsets, r.textOffsets) }},
		{"ids.txt", func(w io.Writer) error { return writeFlat(w, kindIDs, r.ids) }},
		{idOffsetsFile, func(w io.Writer) error { return writeFlat(w, kindIDOffsets, r.idOffset) }},
		{splitsFile, func(w io.Writer) error { return writeFlat(w, kindSplits, r.splits) }},
		{illFormedFile, func(w io.Writer) error { return writeFlat(w, kindIllFormed, r.illFormed) }},
	}
	for _, f := range files {
		if err := b.file(f.name, f.write); err != nil {
			return err
		}
	}
	return b.facts(ArenaFacts{Tokens: len(c.Tokens), TextBytes: len(r.text), Splits: len(r.splits), IllFormed: len(r.illFormed), Marker: marker})
}
