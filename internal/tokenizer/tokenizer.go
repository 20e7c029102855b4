// Package tokenizer turns text into token ids and ids back into bytes, for the vocabularies that are shipped inside the
// binary. It never touches the network or the disk.
//
// A library does the encoding; nothing of it shows outside this package. The bytes of a token come from a table of
// our own, because that is what fills arenas and it has to be cheap.
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

// A vocabulary is what is pinned about one encoding: where its file lies in the embedded assets, the digest and the
// number of tokens of that file, and the pattern that cuts text into the pieces within which bytes are merged.
// The pattern is not in the file, so a change of it needs a new name.
type vocabulary struct {
	name    string
	file    string
	sha256  string
	size    int
	pattern string
}

// The patterns stand in the order in which their branches are tried; both are as published for these encodings.
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

// Digest returns the SHA-256 of the encoding's vocabulary file in hexadecimal: what a cache key holds of a
// tokenizer. It is a constant; nothing is loaded, and Load refuses a file that does not have it.
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

// A Tokenizer is one loaded encoding. All methods may be called concurrently.
//
// Special tokens (<|endoftext|> and the like) are not part of it: text that looks like one is encoded as ordinary
// text, and their ids count as ids the vocabulary does not have. They lie above Size in both encodings.
type Tokenizer struct {
	name string

	// The bytes of token i are text[offsets[i]:offsets[i+1]].
	text    []byte
	offsets []uint32

	encoder func() *tiktoken.Tiktoken
}

// Load checks the embedded vocabulary of the named encoding against its digest and builds the table of token bytes
// (o200k_base: 15 ms, 2 MB). The encoder proper is dearer (0.1 s, 20 MB) and is built by the first Encode, so that whoever
// only turns ids into bytes does not pay for it. Each call loads afresh and nothing global is kept: the
// memory goes when the Tokenizer does.
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

// parse reads a vocabulary file: one token per line, its bytes in base64, a space and its id, which is the number of
// the line counted from 0.
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

// newEncoder hands the vocabulary to the library. Its own way in, GetEncoding, is avoided: it goes through a global
// loader that fetches from the network unless replaced, and keeps what it loads for ever.
func (t *Tokenizer) newEncoder(pattern string) *tiktoken.Tiktoken {
	ranks := make(map[string]int, t.Size())
	for id := range t.Size() {
		ranks[string(t.text[t.offsets[id]:t.offsets[id+1]])] = id
	}
	bpe, err := tiktoken.NewCoreBPE(ranks, nil, pattern)
	if err != nil {
		// Neither the pattern nor the vocabulary can be other than what the tests saw.
		panic(fmt.Sprintf("tokenizer: %s: %v", t.name, err))
	}
	return tiktoken.NewTiktoken(bpe, &tiktoken.Encoding{Name: t.name}, nil)
}

// Name returns the name of the encoding, as given to Load.
func (t *Tokenizer) Name() string { return t.name }

// Size returns the number of tokens; they have the ids 0 to Size()-1 without holes.
func (t *Tokenizer) Size() int { return len(t.offsets) - 1 }

// Encode returns the ids of text, special tokens never among them. The bytes of the ids, joined, are text again if it
// is well-formed UTF-8; of other text each byte that belongs to no character is encoded as U+FFFD.
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

// The library holds about 100 bytes for each byte of a text it encodes. Pieces of this size keep that to a few megabytes.
const pieceSize = 64 << 10

// cut returns a length, at least size if the text is that long, at which text can be divided without a change of ids:
// in front of a letter that follows a line feed. No branch of either pattern matches across such a place, or looks at what
// lies beyond it.
func cut(text string, size int) int {
	for n := size; n < len(text); n++ {
		if text[n-1] == '\n' && (text[n]|0x20 >= 'a' && text[n]|0x20 <= 'z') {
			return n
		}
	}
	return len(text)
}

// Bytes returns the bytes of one token, or false where the vocabulary has no such id. A token need not be a whole
// character. The slice points into the Tokenizer and must not be changed; the call neither allocates nor searches.
func (t *Tokenizer) Bytes(id uint32) ([]byte, bool) {
	if int64(id) >= int64(t.Size()) {
		return nil, false
	}
	from, to := t.offsets[id], t.offsets[id+1]
	return t.text[from:to:to], true
}
