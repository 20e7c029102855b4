package tokenizer

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
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

// find returns the vocabulary inside the binary that has a name.
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
	v := newVocabulary(min(max(size, bytes.Count(file, []byte("\n"))), maxTokens), len(file)*3/4)
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
	if err := v.index(nil); err != nil {
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

// Ranks is a file of tiktoken, and what that file does not say.
type Ranks struct {
	File    []byte            // lines of base64, a blank and an id
	Pattern string            // one of Patterns
	Added   map[uint32]string // special tokens, which are found in a text before it is cut
}

// knownRanks are files of ranks that models come with, besides those inside the binary: pattern by digest.
var knownRanks = map[string]string{
	"b6c497a7469b33ced9c38afb1ad6e47f03f5e5dc05f15930799210ec050c5103": "kimi",   // Kimi K2
	"82e9d31979e92ab929cd544440f129d9ecd797b69e327f80f17e1c50d5551b55": "cl100k", // Llama 3
}

// Patterns lists the names of the patterns that are known, sorted.
func Patterns() (names []string) {
	for _, p := range patterns {
		names = append(names, p.name)
	}
	slices.Sort(names)
	return names
}

// KnownPattern returns the pattern of a file that is known by its digest, "" for others.
func (r Ranks) KnownPattern() string {
	digest := digestOf(r.File)
	for _, b := range builtins {
		if b.sha256 == digest {
			return b.pattern
		}
	}
	return knownRanks[digest]
}

// Size returns how many tokens the file has: its lines.
func (r Ranks) Size() int {
	return bytes.Count(bytes.TrimSuffix(r.File, []byte("\n")), []byte("\n")) + 1
}

// Digest returns a digest of all that decides about the ids of a text. It is that of the file alone for the files inside the binary, with
// their pattern.
func (r Ranks) Digest() string {
	digest := digestOf(r.File)
	for _, b := range builtins {
		if b.sha256 == digest && b.pattern == r.Pattern && len(r.Added) == 0 {
			return digest
		}
	}
	all := []any{"tiktoken", digest, r.Pattern}
	for _, id := range slices.Sorted(maps.Keys(r.Added)) {
		all = append(all, id, r.Added[id])
	}
	text, err := json.Marshal(all)
	if err != nil {
		panic(err) // strings and numbers marshal
	}
	return digestOf(text)
}

func digestOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// LooksLikeRanks reports whether a file begins as one of ranks does.
func LooksLikeRanks(file []byte) bool {
	line, _, _ := bytes.Cut(file[:min(len(file), 4096)], []byte("\n"))
	token, rank, ok := bytes.Cut(line, []byte(" "))
	_, err := base64.StdEncoding.DecodeString(string(token))
	return ok && err == nil && string(rank) == "0"
}

// ParseRanks makes a tokenizer of a file of ranks. name stands in errors, and is that of the tokenizer.
func ParseRanks(name string, r Ranks) (*Tokenizer, error) {
	p := patternNamed(r.Pattern)
	if p == nil {
		return nil, fmt.Errorf("tokenizer: %s: pattern %q is not known: want one of %s", name, r.Pattern, strings.Join(Patterns(), ", "))
	}
	if len(r.File) > MaxFile {
		return nil, errTooLong(name, len(r.File))
	}
	m, err := parseRanks(r.File, 0)
	if err == nil && len(r.Added) > 0 {
		err = m.addBehind(r.Added)
	}
	if err != nil {
		return nil, fmt.Errorf("tokenizer: %s: %w", name, err)
	}
	t := newTokenizer(name, r.Digest(), p, m)
	var added []addedToken
	for id, token := range r.Added {
		added = append(added, addedToken{id: id, content: token})
	}
	t.added.raw = newFinder(added)
	return t, nil
}

// addBehind gives ids behind those of the ranks their bytes.
func (m *model) addBehind(added map[uint32]string) error {
	for id, content := range added {
		if content == "" {
			return fmt.Errorf("the special token %d has no content", id)
		}
	}
	last := slices.Max(slices.Collect(maps.Keys(added)))
	if first := slices.Min(slices.Collect(maps.Keys(added))); int(first) < m.vocabulary.size() || last >= maxTokens-2 {
		return fmt.Errorf("the special tokens have ids from %d to %d: want %d to %d", first, last, m.vocabulary.size(), maxTokens-3)
	}
	for id := uint32(m.vocabulary.size()); id <= last; id++ {
		if err := m.vocabulary.add([]byte(added[id])); err != nil {
			return err
		}
	}
	return nil
}
