package tokenizer

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/agentx/agentx/internal/jsonlex"
)

// maxDepth bounds how deep the values of a tokenizer.json are nested.
const maxDepth = 64

// ParseJSON makes a tokenizer of the text of a tokenizer.json, the file of Hugging Face's tokenizers. It takes byte-level BPE with a known
// pattern, without a normalizer or with NFC; everything else that changes the ids of a text is an error that names it. name stands in
// errors, and is that of the tokenizer.
func ParseJSON(name string, text []byte) (*Tokenizer, error) {
	l := jsonlex.New(text)
	l.MaxDepth = maxDepth
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
	kind        string // of the model
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
	return l.Object(func(key []byte) error {
		var err error
		switch k := string(key); k {
		case "model":
			err = f.readModel(l)
		case "added_tokens":
			err = l.Array(func() error { return f.readAdded(l) })
		case "normalizer":
			err = f.readNormalizer(l)
		case "pre_tokenizer":
			err = f.readPreTokenizer(l)
		default: // truncation, padding, post_processor, decoder: none changes the ids of a text without special tokens
			err = l.Skip()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", cut(key), err)
		}
		return nil
	})
}

// readModel reads the vocabulary and its merges.
func (f *jsonFile) readModel(l *jsonlex.Lexer) error {
	return l.Object(func(key []byte) (err error) {
		switch k := string(key); k {
		case "type":
			f.kind, err = l.Text()
		case "vocab":
			if l.Kind() != jsonlex.Object {
				return errors.New("vocab: want an object: only byte-level BPE is known")
			}
			err = f.readVocabulary(l)
		case "merges":
			err = l.Array(func() error { return f.readMerge(l) })
		case "ignore_merges":
			f.wholePieces, err = l.Bool()
		case "byte_fallback", "fuse_unk":
			var on bool
			if on, err = l.Bool(); on {
				err = fmt.Errorf("%s is true: want false", k)
			}
		case "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix":
			err = f.readUnused(l, k)
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
	if l.Kind() == jsonlex.String {
		if text, err := l.Text(); err != nil || text == "" {
			return err
		}
	}
	return fmt.Errorf("%s is set: want null", key)
}

func (f *jsonFile) readVocabulary(l *jsonlex.Lexer) error {
	f.vocabulary = make(map[string]uint32, 1<<17)
	return l.Object(func(key []byte) error {
		token := string(key)
		id, err := l.Natural(MaxTokens - 3)
		if err != nil {
			return fmt.Errorf("token %q: %w", cut(token), err)
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
	err := l.Object(func(key []byte) (err error) {
		switch k := string(key); k {
		case "id":
			id, err = l.Natural(MaxTokens - 3)
		case "content":
			t.content, err = l.Text()
		case "normalized":
			t.normalized, err = l.Bool()
		case "single_word", "lstrip", "rstrip":
			var on bool
			if on, err = l.Bool(); on {
				err = fmt.Errorf("token %q: %s is true, which is not known: want false", cut(t.content), k)
			}
		default:
			err = l.Skip()
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case t.content == "" || id == MaxTokens:
		return fmt.Errorf("token %d: want id and content", len(f.added))
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
	err := l.Object(func(key []byte) (err error) {
		switch string(key) {
		case "type":
			p.kind, err = l.Text()
		case list:
			sequence = true
			err = l.Array(func() error { return f.readParts(l, list, each) })
		case "pattern":
			err = l.Object(func(key []byte) (err error) {
				p.expression, err = l.Text()
				p.exact = string(key) != "Regex"
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
	if err != nil || sequence {
		return err
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
		case p.kind == "Split":
			return fmt.Errorf("a Split with behavior %q, invert %t is not known: want Isolated patterns", cut(p.behavior), p.invert)
		default:
			return fmt.Errorf("%q is not known: want Split and ByteLevel", cut(p.kind))
		}
		return nil
	})
}
