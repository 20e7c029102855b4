package tokenizer

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"

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

// object reads an object with a function that reads the value of each key. It refuses a key that is there twice, and names the key in
// errors.
func object(l *jsonlex.Lexer, member func(key string) error) error {
	seen := map[string]bool{}
	return l.Object(func(key []byte) error {
		k := string(key)
		if seen[k] {
			return fmt.Errorf("the key %q is there twice", cut(k))
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

func (f *jsonFile) readVocabulary(l *jsonlex.Lexer) error {
	f.vocabulary = make(map[string]uint32, 1<<17)
	return l.Object(func(key []byte) error {
		token := string(key)
		id, err := l.Natural(MaxTokens - 3)
		if err != nil {
			return fmt.Errorf("token %q: %w", cut(token), err)
		}
		if len(f.vocabulary) == MaxTokens {
			return fmt.Errorf("more than %d tokens", MaxTokens)
		}
		if _, twice := f.vocabulary[token]; twice {
			return fmt.Errorf("token %q is there twice", cut(token))
		}
		f.vocabulary[token] = uint32(id)
		return nil
	})
}

// readMerge reads a merge: two tokens in a list, or in a string with a blank between them.
func (f *jsonFile) readMerge(l *jsonlex.Lexer) error {
	var merge [2]string
	n := len(f.merges)
	if n == MaxTokens {
		return fmt.Errorf("more than %d merges", MaxTokens)
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

func (f *jsonFile) readAdded(l *jsonlex.Lexer) error {
	var t addedToken
	id := uint64(MaxTokens)
	if len(f.added) == MaxTokens {
		return fmt.Errorf("more than %d tokens", MaxTokens)
	}
	err := object(l, func(key string) (err error) {
		switch key {
		case "id":
			id, err = l.Natural(MaxTokens - 3)
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
	if err == nil && (t.content == "" || id == MaxTokens) {
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
			return fmt.Errorf("%q behind ByteLevel is not known", cut(p.kind))
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
