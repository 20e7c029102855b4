package tokenizer

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/agentx/agentx/internal/jsonlex"
)

// Bounds of a tokenizer.json.
const (
	MaxFile  = 64 << 20 // bytes, also of a file of ranks
	maxDepth = 64       // of nested values
)

func errTooLong(name string, size int) error {
	return fmt.Errorf("tokenizer: %s: %d bytes: want at most %d", name, size, MaxFile)
}

// ParseJSON makes a tokenizer of the text of a tokenizer.json, the file of Hugging Face's tokenizers. It takes byte-level BPE with a known
// pattern, without a normalizer or with NFC; everything else that changes the ids of a text is an error that names it. name stands in
// errors, and is that of the tokenizer.
func ParseJSON(name string, text []byte) (*Tokenizer, error) {
	if len(text) > MaxFile {
		return nil, errTooLong(name, len(text))
	}
	l := jsonlex.New(text)
	l.MaxDepth, l.Strict = maxDepth, true
	var f jsonFile
	err := f.read(l)
	if err == nil {
		err = l.End()
	}
	var t *Tokenizer
	if err == nil {
		sum := sha256.Sum256(text)
		t, err = f.tokenizer(name, hex.EncodeToString(sum[:]))
	}
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %s: %w", name, err)
	}
	return t, nil
}

// jsonFile is what a tokenizer.json says.
type jsonFile struct {
	vocabulary  map[string]uint32
	merges      [][2]string
	wholePieces bool
	nfc         bool
	expressions []string
	byteLevel   bool
	added       []addedToken
}

type addedToken struct {
	id         uint32
	content    string
	normalized bool
}

func (f *jsonFile) read(l *jsonlex.Lexer) error {
	return object(l, func(key string) error {
		switch key {
		case "model":
			return f.readModel(l)
		case "added_tokens":
			return l.Array(func() error { return f.readAdded(l) })
		case "normalizer":
			return f.readNormalizer(l)
		case "pre_tokenizer":
			return f.readPreTokenizer(l)
		}
		return l.Skip() // truncation, padding, post_processor, decoder: none changes the ids of a text without special tokens
	})
}

// object reads an object with a function that reads the value of each key. It refuses a key that occurs twice, and names the key in
// errors.
func object(l *jsonlex.Lexer, member func(key string) error) error {
	seen := map[string]bool{}
	return l.Object(func(key []byte) error {
		k := string(key)
		if seen[k] {
			return fmt.Errorf("the key %q occurs twice", cut(k))
		}
		if len(seen) == maxKeys {
			return fmt.Errorf("more than %d keys", maxKeys)
		}
		seen[k] = true
		if err := member(k); err != nil {
			return fmt.Errorf("%s: %w", cut(k), err)
		}
		return nil
	})
}

// maxKeys bounds the keys of an object, which the vocabulary is not.
const maxKeys = 1000

// readModel reads the vocabulary and its merges.
func (f *jsonFile) readModel(l *jsonlex.Lexer) error {
	return object(l, func(key string) (err error) {
		switch key {
		case "type":
			var kind string
			if kind, err = l.Text(); err == nil && kind != "BPE" {
				err = fmt.Errorf("%q is not known: want BPE", cut(kind))
			}
		case "vocab":
			if l.Kind() != jsonlex.Object {
				return errors.New("want an object: only byte-level BPE is known")
			}
			err = f.readVocabulary(l)
		case "merges":
			err = l.Array(func() error { return f.readMerge(l) })
		case "ignore_merges":
			f.wholePieces, err = l.Bool()
		case "byte_fallback", "fuse_unk":
			var on bool
			if on, err = l.Bool(); on {
				err = errors.New("it is true: want false")
			}
		case "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix":
			err = f.readUnused(l, key)
		default:
			err = l.Skip()
		}
		return err
	})
}

// readUnused reads an option that byte-level BPE leaves empty. unk_token changes nothing, because every byte has a token.
func (f *jsonFile) readUnused(l *jsonlex.Lexer, key string) error {
	if l.Null() {
		return nil
	}
	if key == "unk_token" {
		return l.Skip()
	}
	if key == "dropout" { // none, in the words of some writers
		mark := l.Mark()
		text, err := l.Number()
		if p, no := strconv.ParseFloat(string(text), 64); err == nil && no == nil && p == 0 {
			return nil
		}
		l.Reset(mark)
	}
	if l.Kind() == jsonlex.String {
		if text, err := l.Text(); err != nil || text == "" {
			return err
		}
	}
	return errors.New("it is set: want null")
}

// readVocabulary reads the object from tokens to ids.
func (f *jsonFile) readVocabulary(l *jsonlex.Lexer) error {
	f.vocabulary = make(map[string]uint32, 1<<17)
	return l.Object(func(key []byte) error {
		token := string(key)
		id, err := l.Natural(maxTokens - 3)
		if err != nil {
			return fmt.Errorf("token %q: %w", cut(token), err)
		}
		if len(f.vocabulary) == maxTokens {
			return fmt.Errorf("more than %d tokens", maxTokens)
		}
		if _, twice := f.vocabulary[token]; twice {
			return fmt.Errorf("token %q occurs twice", cut(token))
		}
		f.vocabulary[token] = uint32(id)
		return nil
	})
}

// readMerge reads a merge: two tokens in a list, or in a string with a blank between them.
func (f *jsonFile) readMerge(l *jsonlex.Lexer) error {
	var merge [2]string
	n := len(f.merges)
	if n == maxTokens {
		return fmt.Errorf("more than %d merges", maxTokens)
	}
	if l.Kind() == jsonlex.String {
		text, err := l.Text()
		if err != nil {
			return err
		}
		a, b, ok := strings.Cut(text, " ")
		if !ok || strings.Contains(b, " ") {
			return fmt.Errorf("merge %d: %q: want two tokens with a blank between them", n, cut(text))
		}
		f.merges = append(f.merges, [2]string{a, b})
		return nil
	}
	count := 0
	err := l.Array(func() (err error) {
		if count == 2 {
			return fmt.Errorf("merge %d has more than two tokens", n)
		}
		merge[count], err = l.Text()
		count++
		return err
	})
	if err == nil && count != 2 {
		err = fmt.Errorf("merge %d has %d tokens, want 2", n, count)
	}
	f.merges = append(f.merges, merge)
	return err
}

// readAdded reads one added token, such as that which ends a text.
func (f *jsonFile) readAdded(l *jsonlex.Lexer) error {
	var t addedToken
	id := uint64(maxTokens)
	if len(f.added) == maxTokens {
		return fmt.Errorf("more than %d tokens", maxTokens)
	}
	err := object(l, func(key string) (err error) {
		switch key {
		case "id":
			id, err = l.Natural(maxTokens - 3)
		case "content":
			t.content, err = l.Text()
		case "normalized":
			t.normalized, err = l.Bool()
		case "single_word", "lstrip", "rstrip":
			var on bool
			if on, err = l.Bool(); on {
				err = errors.New("it is true, which is not known: want false")
			}
		default:
			err = l.Skip()
		}
		return err
	})
	if err == nil && (t.content == "" || id == maxTokens) {
		err = errors.New("want id and content")
	}
	if err != nil {
		return fmt.Errorf("token %d (%q): %w", len(f.added), cut(t.content), err)
	}
	t.id = uint32(id)
	f.added = append(f.added, t)
	return nil
}

// readNormalizer reads null, NFC, or an empty sequence.
func (f *jsonFile) readNormalizer(l *jsonlex.Lexer) error {
	if l.Null() {
		return nil
	}
	return f.readParts(l, "normalizers", func(p step) error {
		if p.kind != "NFC" {
			return fmt.Errorf("normalizer %q is not known: want none, or NFC", cut(p.kind))
		}
		f.nfc = true
		return nil
	})
}

// step is one step of a normalizer or a pre-tokenizer.
type step struct {
	kind, expression, behavior           string
	invert, prefixSpace, useRegex, exact bool
}

// readParts reads a step, or a sequence of them under a key, and calls each with every one.
func (f *jsonFile) readParts(l *jsonlex.Lexer, list string, each func(step) error) error {
	p := step{useRegex: true, prefixSpace: true}
	sequence := false
	err := object(l, func(key string) (err error) {
		switch key {
		case "type":
			p.kind, err = l.Text()
		case list:
			sequence = true
			err = l.Array(func() error { return f.readParts(l, list, each) })
		case "pattern":
			err = object(l, func(key string) (err error) {
				p.expression, err = l.Text()
				p.exact = key != "Regex"
				return err
			})
		case "behavior":
			p.behavior, err = l.Text()
		case "invert":
			p.invert, err = l.Bool()
		case "add_prefix_space":
			p.prefixSpace, err = l.Bool()
		case "use_regex":
			p.useRegex, err = l.Bool()
		default:
			err = l.Skip()
		}
		return err
	})
	switch {
	case err != nil || sequence && p.kind == "Sequence":
		return err
	case sequence:
		return fmt.Errorf("%q with %s: want a Sequence", cut(p.kind), list)
	}
	return each(p)
}

// readPreTokenizer reads the patterns, and ByteLevel behind them.
func (f *jsonFile) readPreTokenizer(l *jsonlex.Lexer) error {
	if l.Null() {
		return errors.New("there is none: want patterns and ByteLevel")
	}
	return f.readParts(l, "pretokenizers", func(p step) error {
		switch {
		case f.byteLevel:
			return fmt.Errorf("%q behind ByteLevel is not known: want ByteLevel as the last one", cut(p.kind))
		case p.kind == "Split" && !p.exact && p.behavior == "Isolated" && !p.invert:
			f.expressions = append(f.expressions, p.expression)
		case p.kind == "ByteLevel" && !p.prefixSpace && !p.useRegex:
			f.byteLevel = true
		case p.kind == "ByteLevel":
			return errors.New("a ByteLevel with add_prefix_space or use_regex is not known: want both false")
		case p.kind == "Split" && p.exact:
			return fmt.Errorf("a Split at a text, %q, is not known: want a Regex", cut(p.expression))
		case p.kind == "Split":
			return fmt.Errorf("a Split with behavior %q, invert %t is not known: want Isolated patterns", cut(p.behavior), p.invert)
		default:
			return fmt.Errorf("%q is not known: want Split and ByteLevel", cut(p.kind))
		}
		return nil
	})
}

// tokenizer makes a tokenizer of what a file says.
func (f *jsonFile) tokenizer(name, digest string) (*Tokenizer, error) {
	p := patternOf(f.expressions)
	switch {
	case f.vocabulary == nil:
		return nil, errors.New("model: vocab is missing")
	case !f.byteLevel:
		return nil, errors.New("pre_tokenizer: ByteLevel is missing: only byte-level BPE is known")
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
			return fmt.Errorf("added_tokens: token %d (%q) occurs twice", k, cut(a.content))
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

// modelOf makes the tables of a model from its tokens by id. It finds no added token: they are found before a text is cut.
func (f *jsonFile) modelOf(tokens []string, added map[uint32]string) (*model, error) {
	v := newVocabulary(len(tokens), 8*len(tokens))
	for id, token := range tokens {
		if content, ok := added[uint32(id)]; ok {
			token = content
		}
		if err := v.add([]byte(token)); err != nil {
			return nil, fmt.Errorf("model: %w", err)
		}
	}
	if err := v.index(added); err != nil {
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
	return m, nil
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

// addedTokens are tokens that are found in a text before it is cut into pieces.
type addedTokens struct {
	model           *model
	raw, normalized *tokenFinder // in the text as it is, and after it is normalized; nil: none
}

// tokenFinder finds added tokens in a text, the longest of those that begin at the first place where one does.
type tokenFinder struct {
	first   [256]bool    // by byte: some token begins with it
	tokens  []addedToken // sorted by content
	longest int          // number of bytes of the longest
}

// newFinder returns a finder of tokens, nil if there are none. Of two with the same content the first counts.
func newFinder(tokens []addedToken) *tokenFinder {
	if len(tokens) == 0 {
		return nil
	}
	f := &tokenFinder{tokens: slices.Clone(tokens)}
	slices.SortStableFunc(f.tokens, func(a, b addedToken) int { return strings.Compare(a.content, b.content) })
	f.tokens = slices.CompactFunc(f.tokens, func(a, b addedToken) bool { return a.content == b.content })
	for _, t := range f.tokens {
		f.first[t.content[0]] = true
		f.longest = max(f.longest, len(t.content))
	}
	return f
}

// textPart is a part of a text: an added token, or the text between two.
type textPart struct {
	text    string
	token   uint32
	isToken bool
}

// split yields the parts of a text in turn.
func (a *addedTokens) split(text string, f *tokenFinder) func(yield func(textPart) bool) {
	return func(yield func(textPart) bool) {
		from := 0
		for i := 0; f != nil && i < len(text); {
			if !f.first[text[i]] {
				i++
				continue
			}
			id, length := f.at(text[i:])
			if length == 0 {
				i++
				continue
			}
			if i > from && !yield(textPart{text: text[from:i]}) || !yield(textPart{token: id, isToken: true}) {
				return
			}
			i += length
			from = i
		}
		if from < len(text) {
			yield(textPart{text: text[from:]})
		}
	}
}

// at returns the longest token at the beginning of a text; its length is 0 if there is none. It narrows the sorted tokens down to those
// that begin as the text does, byte by byte.
func (f *tokenFinder) at(text string) (id uint32, length int) {
	from, to := 0, len(f.tokens)
	for n := 0; n < len(text); n++ {
		b := text[n]
		from += sort.Search(to-from, func(k int) bool { return f.tokens[from+k].content[n] >= b })
		to = from + sort.Search(to-from, func(k int) bool { return f.tokens[from+k].content[n] > b })
		if from == to {
			break
		}
		if len(f.tokens[from].content) == n+1 { // the shortest is the first
			id, length = f.tokens[from].id, n+1
			if from++; from == to {
				break
			}
		}
	}
	return id, length
}

// joiner is what package norm puts into runs of more than 30 marks, which Hugging Face's library does not.
const joiner = "\u034f"

// nfc normalizes a text to NFC.
func nfc(text string) string {
	if norm.NFC.IsNormalString(text) {
		return text
	}
	normal := norm.NFC.String(text)
	if strings.Count(normal, joiner) == strings.Count(text, joiner) {
		return normal
	}
	return compose(decompose(text))
}

// decompose returns the canonical decomposition of a text, with its marks in their order.
func decompose(text string) []rune {
	var list []rune
	for _, r := range text {
		if d := norm.NFC.PropertiesString(string(r)).Decomposition(); d != nil {
			list = append(list, []rune(string(d))...)
		} else {
			list = append(list, r)
		}
	}
	for from := 0; from < len(list); {
		to := from + 1
		if ccc(list[from]) != 0 {
			for to < len(list) && ccc(list[to]) != 0 {
				to++
			}
			slices.SortStableFunc(list[from:to], func(a, b rune) int { return int(ccc(a)) - int(ccc(b)) })
		}
		from = to
	}
	return list
}

// compose joins marks with the letters before them, where a character is both.
func compose(list []rune) string {
	var out []rune
	letter, last := -1, uint8(0) // the letter in out, and the class of the last mark behind it
	for _, r := range list {
		class := ccc(r)
		if letter >= 0 && (letter == len(out)-1 || last < class) {
			pair := norm.NFC.String(string([]rune{out[letter], r}))
			if both, size := utf8.DecodeRuneInString(pair); size == len(pair) {
				out[letter] = both
				continue
			}
		}
		out = append(out, r)
		last = class
		if class == 0 {
			letter = len(out) - 1
		}
	}
	return string(out)
}

// ccc is the canonical combining class of a character.
func ccc(r rune) uint8 { return norm.NFC.PropertiesString(string(r)).CCC() }
