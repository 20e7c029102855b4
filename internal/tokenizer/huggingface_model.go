package tokenizer

import (
	"errors"
	"fmt"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// tokenizer makes a tokenizer of what a file says.
func (f *jsonFile) tokenizer(name, digest string) (*Tokenizer, error) {
	p := patternOf(f.expressions)
	switch {
	case f.kind != "BPE" && f.kind != "":
		return nil, fmt.Errorf("model %q is not known: want BPE", cut(f.kind))
	case !f.byteLevel:
		return nil, errors.New("pre_tokenizer: there is no ByteLevel: only byte-level BPE is known")
	case p == nil:
		return nil, fmt.Errorf("pre_tokenizer: the pattern is not known: %q", f.expressions)
	}
	m, err := f.model()
	if err != nil {
		return nil, err
	}
	t := newTokenizer(name, digest, p, m)
	t.nfc = f.nfc
	for _, a := range f.added {
		finder := &t.added.raw
		if a.normalized {
			finder = &t.added.normalized
		}
		if *finder == nil {
			*finder = &tokenFinder{}
		}
		content := a.content
		if a.normalized && f.nfc {
			content = norm.NFC.String(content)
		}
		(*finder).add(content, a.id)
	}
	return t, nil
}

// model makes the vocabulary, with the added tokens, and the merges.
func (f *jsonFile) model() (*model, error) {
	size := 0
	for _, id := range f.vocabulary {
		size = max(size, int(id)+1)
	}
	added := map[uint32]string{}
	for _, a := range f.added {
		if other, twice := added[a.id]; twice {
			return nil, fmt.Errorf("added tokens %q and %q have id %d", cut(other), cut(a.content), a.id)
		}
		added[a.id] = a.content
		size = max(size, int(a.id)+1)
	}
	tokens := make([]string, size) // byte for byte
	for token, id := range f.vocabulary {
		if _, ok := added[id]; ok {
			continue
		}
		bytes, ok := bytesOf(token)
		switch {
		case !ok:
			return nil, fmt.Errorf("model: token %q (id %d) has characters that stand for no byte: only byte-level BPE is known", cut(token), id)
		case tokens[id] != "":
			return nil, fmt.Errorf("model: two tokens have id %d", id)
		}
		tokens[id] = bytes
	}
	return f.modelOf(tokens, added)
}

// modelOf makes the tables of a model from its tokens by id.
func (f *jsonFile) modelOf(tokens []string, added map[uint32]string) (*model, error) {
	v := newVocabulary(len(tokens), 8*len(tokens))
	for _, token := range tokens {
		if err := v.add([]byte(token)); err != nil {
			return nil, fmt.Errorf("model: %w", err)
		}
	}
	if err := v.index(); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	m := &model{vocabulary: v, wholePieces: f.wholePieces, pairs: newPairTable(len(f.merges))}
	if err := m.findBytes(); err != nil {
		return nil, fmt.Errorf("model: %w", err)
	}
	for rank, merge := range f.merges {
		a, okA := f.vocabulary[merge[0]]
		b, okB := f.vocabulary[merge[1]]
		id, ok := f.vocabulary[merge[0]+merge[1]]
		if !okA || !okB || !ok {
			return nil, fmt.Errorf("model: merge %d, of %q and %q: the vocabulary lacks a part of it, or what it makes", rank, cut(merge[0]), cut(merge[1]))
		}
		m.pairs.set(a, b, pair{uint32(rank), id})
	}
	if len(added) == 0 {
		return m, nil
	}
	return m, m.addTokens(added)
}

// addTokens gives the added tokens their bytes. The vocabulary does not find them: they are found before a text is cut.
func (m *model) addTokens(added map[uint32]string) error {
	old := m.vocabulary
	v := newVocabulary(old.size(), len(old.text))
	for id := range uint32(old.size()) {
		token := old.bytes(id)
		if content, ok := added[id]; ok {
			token = []byte(content)
		}
		if err := v.add(token); err != nil {
			return err
		}
	}
	v.slots = old.slots
	m.vocabulary = v
	return nil
}

// bytesOf returns the bytes that the characters of a token stand for: printable ones for themselves, others, from U+0100 on, for the bytes
// that are not printable, in their order.
func bytesOf(token string) (string, bool) {
	b := make([]byte, 0, len(token))
	for _, r := range token {
		if int(r) >= len(byteOf) || r == utf8.RuneError || byteOf[r] < 0 {
			return "", false
		}
		b = append(b, byte(byteOf[r]))
	}
	return string(b), len(b) > 0
}

// byteOf has the byte that a character stands for; -1: none.
var byteOf = func() (list [256 + 68]int16) {
	for i := range list {
		list[i] = -1
	}
	next := 256
	for b := range 256 {
		if b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae {
			list[b] = int16(b)
		} else {
			list[next] = int16(b)
			next++
		}
	}
	return list
}()
