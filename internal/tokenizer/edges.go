package tokenizer

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Edges say where windows of a tokenized text may begin and end, so that windows joined in any order encode to their tokens
// again: doc/spec/reconstruction.md 2.8.
//
// A window begins with a piece that is a blank and what is no white space, in one piece. It ends with a piece, but not behind the second
// of two pieces of white space side by side. Proof, for every pattern: a piece matches a blank behind its first character only
// if it is white space. So only white space at the end of a window could take the blank of the next one. It takes all white space but
// the last character, because something else follows: what it would be at the end of a text. The second condition makes it that in the
// text, too. All other pieces end where they would at the end of a text, and no pattern looks behind.
type Edges struct {
	Starts []uint64 // bit k: a window may begin with token k
	Ends   []uint64 // bit k: a window may end before token k; there is one for the end of the text
	Flaws  []uint32 // tokens that the text does not encode to, ascending; no window may contain one
}

// Edges returns the edges of the text that the tokens are. encoded says that they are what the text encodes to, which is
// checked otherwise. An error says why windows of the text need not encode to their tokens anywhere.
func (t *Tokenizer) Edges(tokens []uint32, encoded bool) (*Edges, error) {
	text, bounds, err := t.join(tokens)
	if err != nil {
		return nil, err
	}
	m, at := newEdgeMarker(len(tokens)), tokenBounds{bounds: bounds}
	for part := range t.parts(text) {
		if part.isToken {
			b, _ := t.Bytes(part.token)
			m.token(at.pass(len(b)))
			continue
		}
		for piece := range t.pieces(part.text) {
			first := at.token()
			m.piece(piece, first, at.pass(len(piece)))
		}
	}
	e := m.Edges
	if !encoded {
		e.Flaws = flaws(tokens, t.Encode(text), bounds, t)
	}
	return e, nil
}

// EncodeEdges returns the ids of a text, as Encode does, and what Edges returns of them: nil where only a look at the ids tells, because
// the tokenizer normalizes or has added tokens.
func (t *Tokenizer) EncodeEdges(text string) ([]uint32, *Edges) {
	if t.nfc || t.added.raw != nil || t.added.normalized != nil {
		return t.Encode(text), nil
	}
	m := newEdgeMarker(len(text)) // a token has a byte at least
	ids := t.appendIDs(make([]uint32, 0, len(text)/3), text, m.piece)
	words := len(ids)/64 + 1
	return ids, &Edges{Starts: slices.Clone(m.Starts[:words]), Ends: slices.Clone(m.Ends[:words])}
}

// join returns the text of tokens, and the byte at which each begins.
func (t *Tokenizer) join(tokens []uint32) (text string, bounds []int, err error) {
	var b strings.Builder
	b.Grow(5 * len(tokens))
	bounds = make([]int, 0, len(tokens)+1)
	for _, id := range tokens {
		token, ok := t.Bytes(id)
		if !ok {
			return "", nil, fmt.Errorf("id %d is not in the vocabulary", id)
		}
		bounds = append(bounds, b.Len())
		b.Write(token)
	}
	text = b.String()
	switch {
	case !utf8.ValidString(text):
		return "", nil, errors.New("its tokens are not well-formed UTF-8")
	case t.nfc && !norm.NFC.IsNormalString(text):
		return "", nil, errors.New("its tokens are not in normal form C, which the tokenizer makes of a text")
	}
	for _, f := range []*tokenFinder{t.added.raw, t.added.normalized} {
		if token := f.withBlank(); token != "" {
			return "", nil, fmt.Errorf("the added token %q has a blank, so it may arise where two windows meet", token)
		}
	}
	return text, append(bounds, len(text)), nil
}

// withBlank returns the first token that has a blank, "" if there is none.
func (f *tokenFinder) withBlank() string {
	if f == nil {
		return ""
	}
	for _, token := range f.tokens {
		if strings.Contains(token.content, " ") {
			return token.content
		}
	}
	return ""
}

// tokenBounds passes over a text, and finds the tokens that begin where it is.
type tokenBounds struct {
	bounds []int
	next   int // the first token that begins at the byte at or behind it
	at     int // byte
}

// pass passes over n bytes, and returns the token that begins behind them.
func (b *tokenBounds) pass(n int) int {
	b.at += n
	for b.bounds[b.next] < b.at {
		b.next++
	}
	return b.token()
}

// token returns the token that begins here; -1 where none does.
func (b *tokenBounds) token() int {
	if b.bounds[b.next] == b.at {
		return b.next
	}
	return -1
}

// edgeMarker marks the edges of a text, piece by piece.
type edgeMarker struct {
	*Edges
	classes *[unicode.MaxRune + 1]class
	white   bool // the piece before is white space that does not end a line
}

// newEdgeMarker returns a marker of a text of at most n tokens.
func newEdgeMarker(n int) *edgeMarker {
	return &edgeMarker{Edges: &Edges{Starts: make([]uint64, n/64+1), Ends: make([]uint64, n/64+1)}, classes: classes()}
}

// piece marks the edges of the next piece. first and behind are the tokens that begin with it and behind it; -1 where none does.
func (m *edgeMarker) piece(piece string, first, behind int) {
	if piece[0] == ' ' && len(piece) > 1 {
		if r, _ := utf8.DecodeRuneInString(piece[1:]); m.classes[r]&space == 0 {
			setBit(m.Starts, first)
		}
	}
	last := rune(piece[len(piece)-1])
	if last >= utf8.RuneSelf {
		last, _ = utf8.DecodeLastRuneInString(piece)
	}
	white := m.classes[last]&(space|newline) == space
	if !white || !m.white {
		setBit(m.Ends, behind)
	}
	m.white = white
}

// token marks the edge behind an added token.
func (m *edgeMarker) token(behind int) {
	setBit(m.Ends, behind)
	m.white = false
}

// setBit sets the bit of a token; -1 is none.
func setBit(set []uint64, token int) {
	if token >= 0 {
		set[token/64] |= 1 << (token % 64)
	}
}

// flaws lists the tokens that differ from those that their text encodes to.
func flaws(tokens, encoded []uint32, bounds []int, t *Tokenizer) (list []uint32) {
	k, j, at := 0, 0, 0 // at: the byte at which encoded[j] begins
	for k < len(tokens) {
		if bounds[k] == at && tokens[k] == encoded[j] {
			k, j, at = k+1, j+1, bounds[k+1]
			continue
		}
		// Both lists go on to the next byte at which a token of each begins.
		for first := true; first || bounds[k] != at; first = false {
			if bounds[k] <= at {
				list = append(list, uint32(k))
				k++
			}
			for at < bounds[k] {
				b, _ := t.Bytes(encoded[j])
				at += len(b)
				j++
			}
		}
	}
	return slices.Clip(list)
}
