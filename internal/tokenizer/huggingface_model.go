package tokenizer

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// tokenizer makes a tokenizer of what a file says.
func (f *jsonFile) tokenizer(name, digest string) (*Tokenizer, error) {
	p := patternOf(f.expressions)
	switch {
	case f.vocabulary == nil:
		return nil, errors.New("model: there is no vocab")
	case !f.byteLevel:
		return nil, errors.New("pre_tokenizer: there is no ByteLevel: only byte-level BPE is known")
	case p == nil:
		return nil, errPattern(f.expressions)
	}
	if err := f.numberAdded(); err != nil {
		return nil, err
	}
	m, err := f.model()
	if err != nil {
		return nil, err
	}
	t := newTokenizer(name, digest, p, m)
	t.nfc = f.nfc
	var raw, normalized []addedToken
	for _, a := range f.added {
		if !a.normalized {
			raw = append(raw, a)
			continue
		}
		if f.nfc {
			a.content = nfc(a.content)
		}
		normalized = append(normalized, a)
	}
	t.added.raw, t.added.normalized = newFinder(raw), newFinder(normalized)
	return t, nil
}

// maxQuoted is how much of an expression an error prints.
const maxQuoted = 1000

// errPattern is about expressions that are not known. It prints them.
func errPattern(expressions []string) error {
	list := make([]string, len(expressions))
	for k, e := range expressions {
		list[k] = strconv.Quote(e)
		if len(list[k]) > maxQuoted {
			list[k] = list[k][:maxQuoted] + "..."
		}
	}
	return fmt.Errorf("pre_tokenizer: the pattern is not known (known: those of %s): %s", strings.Join(Patterns(), ", "), strings.Join(list[:min(len(list), 10)], " and "))
}

// numberAdded gives added tokens the ids that Hugging Face's library gives them, which are those of the file where it has no gaps: that
// of the model for a token of the model, and the next free one for others.
func (f *jsonFile) numberAdded() error {
	last, seen := uint32(0), map[string]bool{}
	for k := range f.added {
		a := &f.added[k]
		if seen[a.content] {
			return fmt.Errorf("added_tokens: token %d (%q) is there twice", k, cut(a.content))
		}
		seen[a.content] = true
		if id, ok := f.vocabulary[a.content]; ok {
			a.id = id
		} else {
			a.id = max(uint32(len(f.vocabulary)), last+1)
		}
		last = max(last, a.id)
	}
	return nil
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
		if content, ok := added[id]; ok {
			if content != token {
				return nil, fmt.Errorf("added token %q: id %d belongs to the token %q of the model", cut(content), id, cut(token))
			}
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
	for a := range 256 {
		for b := range 256 {
			m.bytePairs[a][b] = m.pairs.find(m.byteIDs[a], m.byteIDs[b])
		}
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
