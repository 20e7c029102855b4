package tokenizer

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

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
	if first := slices.Min(slices.Collect(maps.Keys(added))); int(first) < m.vocabulary.size() || last >= MaxTokens-2 {
		return fmt.Errorf("the special tokens have ids from %d to %d: want %d to %d", first, last, m.vocabulary.size(), MaxTokens-3)
	}
	for id := uint32(m.vocabulary.size()); id <= last; id++ {
		if err := m.vocabulary.add([]byte(added[id])); err != nil {
			return err
		}
	}
	return nil
}
