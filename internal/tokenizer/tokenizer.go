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
	"sync"
	"unicode/utf8"
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
			ids = m.append(ids, part.text, at, at+len(piece))
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
