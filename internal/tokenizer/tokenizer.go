// Package tokenizer turns text into token ids, and ids back into bytes, with the vocabularies inside the binary. It reads
// neither the network nor the disk.
//
//	t, err := tokenizer.Load("o200k_base")
//	ids := t.Encode("some text")
//	text, ok := t.Bytes(ids[0])
//
// The library tiktoken-go encodes. Its types do not appear in this API. Bytes reads a table of this package, because it is
// called for every token of a corpus and must be cheap.
package tokenizer

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/pkoukk/tiktoken-go"
	"github.com/pkoukk/tiktoken-go-loader/assets"
)

// vocabulary pins one encoding: its file in the embedded assets, the digest and the number of tokens of that
// file, and the pattern that splits text into pieces within which bytes are merged. The digest does not cover the pattern,
// so a change of the pattern needs a new name.
type vocabulary struct {
	name    string
	file    string
	sha256  string
	size    int
	pattern string
}

// The patterns are those published for these encodings. Their branches are tried in order.
var vocabularies = []vocabulary{
	{
		name:   "cl100k_base",
		file:   "cl100k_base.tiktoken",
		sha256: "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
		size:   100256,
		pattern: `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}` +
			`| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
	},
	{
		name:   "o200k_base",
		file:   "o200k_base.tiktoken",
		sha256: "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
		size:   199998,
		pattern: `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?` +
			`|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?` +
			`|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`,
	},
}

// Names lists the encodings that Load knows, sorted.
func Names() []string {
	names := make([]string, len(vocabularies))
	for i, v := range vocabularies {
		names[i] = v.name
	}
	slices.Sort(names)
	return names
}

// Digest returns the SHA-256 of an encoding's vocabulary file, in hexadecimal, which cache keys contain. It is a constant:
// nothing is loaded. Load refuses a file with another digest.
func Digest(name string) (string, error) {
	v, err := find(name)
	if err != nil {
		return "", err
	}
	return v.sha256, nil
}

func find(name string) (*vocabulary, error) {
	for i := range vocabularies {
		if vocabularies[i].name == name {
			return &vocabularies[i], nil
		}
	}
	return nil, fmt.Errorf("tokenizer: unknown encoding %q (known: %s)", name, strings.Join(Names(), ", "))
}

// Tokenizer is one loaded encoding. Several goroutines may call its methods.
//
// It has no special tokens, such as <|endoftext|>: text that looks like one is encoded as ordinary text. Their ids are above
// Size in both encodings, and unknown to Bytes.
type Tokenizer struct {
	name string

	// The bytes of token i are text[offsets[i]:offsets[i+1]].
	text    []byte
	offsets []uint32

	encoder func() *tiktoken.Tiktoken
}

// Load loads an encoding. It compares the embedded vocabulary with its digest and builds the table of token bytes, which
// takes 15 ms and 2 MB for o200k_base. The first Encode builds the encoder, which takes 0.1 s and 20 MB. Nothing is shared
// between calls of Load, or kept when the Tokenizer is garbage.
func Load(name string) (*Tokenizer, error) {
	v, err := find(name)
	if err != nil {
		return nil, err
	}
	file, err := assets.Assets.ReadFile(v.file)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %w", err)
	}
	return v.load(file)
}

func (v *vocabulary) load(file []byte) (*Tokenizer, error) {
	if sum := sha256.Sum256(file); hex.EncodeToString(sum[:]) != v.sha256 {
		return nil, fmt.Errorf("tokenizer: %s: the vocabulary has SHA-256 %x, want %s", v.file, sum, v.sha256)
	}
	t := &Tokenizer{name: v.name}
	if err := t.parse(file, v.size); err != nil {
		return nil, fmt.Errorf("tokenizer: %s: %w", v.file, err)
	}
	t.encoder = sync.OnceValue(func() *tiktoken.Tiktoken { return t.newEncoder(v.pattern) })
	return t, nil
}

// parse reads a vocabulary file of size tokens. A line has the bytes of one token in base64, a space, and its id, which is
// the number of the line from 0.
func (t *Tokenizer) parse(file []byte, size int) error {
	t.text = make([]byte, 0, len(file)*3/4)
	t.offsets = append(make([]uint32, 0, size+1), 0)
	var want []byte
	for line := range bytes.Lines(file) {
		id := len(t.offsets) - 1
		token, rank, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(" "))
		if want = strconv.AppendInt(want[:0], int64(id), 10); !bytes.Equal(rank, want) {
			return fmt.Errorf("line %d holds id %q, want %d", id+1, rank, id)
		}
		text, err := base64.StdEncoding.AppendDecode(t.text, token)
		if err != nil {
			return fmt.Errorf("line %d: %w", id+1, err)
		}
		t.text = text
		t.offsets = append(t.offsets, uint32(len(text)))
	}
	if got := len(t.offsets) - 1; got != size {
		return fmt.Errorf("%d tokens, want %d", got, size)
	}
	t.text = slices.Clip(slices.Clone(t.text))
	return nil
}

// newEncoder builds the encoder of the library from the vocabulary. It does not use the library's GetEncoding, whose global
// loader reads the network unless it is replaced, and never frees what it has loaded.
func (t *Tokenizer) newEncoder(pattern string) *tiktoken.Tiktoken {
	ranks := make(map[string]int, t.Size())
	for id := range t.Size() {
		ranks[string(t.text[t.offsets[id]:t.offsets[id+1]])] = id
	}
	bpe, err := tiktoken.NewCoreBPE(ranks, nil, pattern)
	if err != nil {
		// Pattern and vocabulary are pinned, and the tests build both encoders.
		panic(fmt.Sprintf("tokenizer: %s: %v", t.name, err))
	}
	return tiktoken.NewTiktoken(bpe, &tiktoken.Encoding{Name: t.name}, nil)
}

// Size returns the number of tokens. Their ids are 0 to Size()-1.
func (t *Tokenizer) Size() int { return len(t.offsets) - 1 }

// Encode returns the token ids of text. The bytes of the ids, joined, are the text, if it is well-formed UTF-8. In other text
// every byte that belongs to no character is encoded as U+FFFD.
func (t *Tokenizer) Encode(text string) []uint32 {
	ids := make([]uint32, 0, len(text)/3)
	for text != "" {
		n := cut(text, pieceSize)
		for _, id := range t.encoder().EncodeOrdinary(text[:n]) {
			ids = append(ids, uint32(id))
		}
		text = text[n:]
	}
	return ids
}

// pieceSize is how many bytes of a text are encoded at a time. The library needs about 100 bytes of memory for each.
const pieceSize = 64 << 10

// cut returns a length at which text can be split without changing its ids, at least size if the text is that long. It cuts
// before a letter that follows a line feed. No branch of either pattern matches across such a place, or depends on what
// follows it.
func cut(text string, size int) int {
	for n := size; n < len(text); n++ {
		if text[n-1] == '\n' && (text[n]|0x20 >= 'a' && text[n]|0x20 <= 'z') {
			return n
		}
	}
	return len(text)
}

// Bytes returns the bytes of a token, which may end inside a character, or false for an unknown id. It does not allocate. The
// slice is part of the Tokenizer and must not be changed.
func (t *Tokenizer) Bytes(id uint32) ([]byte, bool) {
	if int64(id) >= int64(t.Size()) {
		return nil, false
	}
	from, to := t.offsets[id], t.offsets[id+1]
	return t.text[from:to:to], true
}
