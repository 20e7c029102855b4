package tokenizer

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// builtin pins one encoding: its file of tiktoken, the digest and the number of tokens of that file, the pattern that splits text into
// pieces, and the packed tokens with a digest of them. The digests do not cover the pattern, so a change of the pattern needs a new name.
type builtin struct {
	name    string
	file    string
	sha256  string
	size    int
	pattern string
	packed  []byte
	tokens  string
}

var builtins = []builtin{
	{"cl100k_base", "cl100k_base.tiktoken", "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7", 100256, "cl100k",
		cl100k, "18288f996f452d44e0e65996176591a4b712a3eb1b42afd6f0511e735c099480"},
	{"o200k_base", "o200k_base.tiktoken", "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d", 199998, "o200k",
		o200k, "440741350e7cfa1c0f4869ce742d1b043550adbda5187adcac9e787edac6fba9"},
}

// A packed file has, compressed by zstd, a byte for the length of each token, then the bytes of all tokens, both by rank. That is a quarter
// of the file of tiktoken.
var (
	//go:embed packed/cl100k_base.zst
	cl100k []byte
	//go:embed packed/o200k_base.zst
	o200k []byte
)

// Names lists the encodings that Load knows, sorted.
func Names() []string {
	names := make([]string, len(builtins))
	for i, b := range builtins {
		names[i] = b.name
	}
	slices.Sort(names)
	return names
}

// Digest returns the SHA-256 of the vocabulary file of an encoding that Load knows, in hexadecimal, which cache keys contain. It is a
// constant: nothing is loaded. Load refuses a file with another digest.
func Digest(name string) (string, error) {
	b, err := find(name)
	if err != nil {
		return "", err
	}
	return b.sha256, nil
}

func find(name string) (*builtin, error) {
	for i := range builtins {
		if builtins[i].name == name {
			return &builtins[i], nil
		}
	}
	return nil, fmt.Errorf("tokenizer: unknown encoding %q (known: %s)", name, strings.Join(Names(), ", "))
}

// Load loads an encoding inside the binary. It compares the unpacked vocabulary with its digest and builds its tables, which takes 30 ms
// and 8 MB for o200k_base. It reads neither the network nor the disk.
func Load(name string) (*Tokenizer, error) {
	b, err := find(name)
	if err != nil {
		return nil, err
	}
	v, err := b.unpack()
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %s: %w", b.file, err)
	}
	m, err := newModel(v)
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %s: %w", b.file, err)
	}
	return newTokenizer(b.name, b.sha256, patternNamed(b.pattern), m), nil
}

// unpack returns the tokens of an encoding.
func (b *builtin) unpack() (*vocabulary, error) {
	reader, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	all, err := reader.DecodeAll(b.packed, make([]byte, 0, 9*b.size))
	if err != nil {
		return nil, err
	}
	if digest := digestOf(all); digest != b.tokens {
		return nil, fmt.Errorf("the vocabulary has SHA-256 %s, want %s", digest, b.tokens)
	}
	v := newVocabulary(b.size, 0)
	v.text = all[b.size:]
	for id, length := range all[:b.size] {
		v.offsets = append(v.offsets, v.offsets[id]+uint32(length))
	}
	return v, nil
}

// RanksFile returns the vocabulary of an encoding that Load knows, as a file of tiktoken, and the address where tiktoken has it.
func RanksFile(name string) (file []byte, address string, err error) {
	b, err := find(name)
	if err != nil {
		return nil, "", err
	}
	v, err := b.unpack()
	if err != nil {
		return nil, "", fmt.Errorf("tokenizer: %s: %w", b.file, err)
	}
	for id := range v.size() {
		file = base64.StdEncoding.AppendEncode(file, v.bytes(uint32(id)))
		file = append(strconv.AppendInt(append(file, ' '), int64(id), 10), '\n')
	}
	return file, "https://openaipublic.blob.core.windows.net/encodings/" + b.file, nil
}

// parseRanks reads a tiktoken file of size tokens; 0: any number. A line has the bytes of one token in base64, a space, and its id, which is
// the number of the line from 0. The ids are the ranks, too.
func parseRanks(file []byte, size int) (*model, error) {
	v := newVocabulary(min(max(size, bytes.Count(file, []byte("\n"))), MaxTokens), len(file)*3/4)
	var want, token []byte
	for line := range bytes.Lines(file) {
		id := v.size()
		text, rank, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(" "))
		if want = strconv.AppendInt(want[:0], int64(id), 10); !bytes.Equal(rank, want) {
			return nil, fmt.Errorf("line %d holds id %q, want %d", id+1, cut(rank), id)
		}
		var err error
		if token, err = base64.StdEncoding.AppendDecode(token[:0], text); err != nil {
			return nil, fmt.Errorf("line %d: %w", id+1, err)
		}
		if len(token) == 0 {
			return nil, fmt.Errorf("line %d: a token without bytes", id+1)
		}
		if err := v.add(token); err != nil {
			return nil, fmt.Errorf("line %d: %w", id+1, err)
		}
	}
	if size != 0 && v.size() != size {
		return nil, fmt.Errorf("%d tokens, want %d", v.size(), size)
	}
	return newModel(v)
}

// newModel returns the model of a vocabulary whose ids are the ranks.
func newModel(v *vocabulary) (*model, error) {
	m := &model{vocabulary: v}
	if err := v.index(); err != nil {
		return nil, err
	}
	return m, m.findBytes()
}

// findBytes finds the tokens of the single bytes, and what two of them become. The error says that one is missing: then not every
// text can be encoded.
func (m *model) findBytes() error {
	for b := range 256 {
		id, ok := m.vocabulary.find(string([]byte{byte(b)}))
		if !ok {
			return fmt.Errorf("no token is the byte 0x%02x: want a vocabulary of bytes", b)
		}
		m.byteIDs[b] = id
	}
	for a := range 256 {
		for b := range 256 {
			m.bytePairs[a][b] = pair{rank: none}
		}
	}
	if m.pairs != nil {
		return nil
	}
	for id := range uint32(m.vocabulary.size()) {
		if t := m.vocabulary.bytes(id); len(t) == 2 {
			m.bytePairs[t[0]][t[1]] = pair{id, id}
		}
	}
	return nil
}

// cut returns the beginning of a text that an error quotes.
func cut[T ~string | ~[]byte](text T) T { return text[:min(len(text), 80)] }
