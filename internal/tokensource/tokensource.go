// Package tokensource finds the tokenizer that a user names: one inside the binary, a file, a directory, or that of a model of the
// Hugging Face hub.
//
//	s, err := tokensource.Resolve(ctx, "Qwen/Qwen3-0.6B", hub.Options{})
//	...
//	key := s.Digest // before anything is parsed
//	t, err := s.Load()
package tokensource

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/agentx/agentx/hfsource/hub"
	"github.com/agentx/agentx/internal/foreign"
	"github.com/agentx/agentx/internal/regular"
	"github.com/agentx/agentx/internal/suggest"
	"github.com/agentx/agentx/internal/tokenizer"
)

// Source is a tokenizer that is known by the digest of its files, and not yet loaded.
type Source struct {
	Name     string // as it was given
	Portable string // what finds the same files again: an absolute path, or the commit of a model
	Digest   string // of all that decides about the ids of a text, in hexadecimal, for cache keys

	load func() (*tokenizer.Tokenizer, error)
}

func newSource(name, portable, digest string, load func() (*tokenizer.Tokenizer, error)) *Source {
	return &Source{name, portable, digest, sync.OnceValues(load)}
}

// Load makes the tokenizer of the bytes that Digest is of, the first time that it is called.
func (s *Source) Load() (*tokenizer.Tokenizer, error) { return s.load() }

// Builtin reports whether the tokenizer is inside the binary.
func (s *Source) Builtin() bool { return slices.Contains(tokenizer.Names(), s.Name) }

// Resolve finds a tokenizer. In this order a name is
//
//   - one of tokenizer.Names;
//   - a path that exists: of a tokenizer.json, of a file of ranks (tiktoken), or of a directory with tokenizer.json, or with
//     tiktoken.model and tokenizer_config.json;
//   - PATTERN:PATH, a file of ranks with the name of its pattern;
//   - OWNER/NAME[@REVISION], a model of the hub, which hub.Fetch gets.
//
// Errors of the hub are *hub.Error.
func Resolve(ctx context.Context, name string, o hub.Options) (*Source, error) {
	if err := Check(name); err != nil {
		return nil, fmt.Errorf("tokenizer %s: %w", name, err)
	}
	if digest, err := tokenizer.Digest(name); err == nil {
		return newSource(name, name, digest, func() (*tokenizer.Tokenizer, error) { return tokenizer.Load(name) }), nil
	}
	pattern, path := cutPattern(name)
	if pattern != "" || exists(path) {
		return fromPath(name, pattern, path)
	}
	return fromHub(ctx, name, o)
}

// Check returns an error about a name that Resolve refuses whatever the hub has. It opens no file.
func Check(name string) error {
	if slices.Contains(tokenizer.Names(), name) {
		return nil
	}
	pattern, path := cutPattern(name)
	switch {
	case exists(path):
		return nil
	case pattern != "" || isPath(path):
		return errors.New("there is no such file or directory")
	case strings.Contains(name, "/"):
		_, err := hub.ParseModel(name)
		var invalid *hub.Error
		if errors.As(err, &invalid) {
			err = fmt.Errorf("there is no such file, and it is no model of the hub: %s", strings.TrimPrefix(invalid.Text, name+": "))
		}
		return err
	}
	return errUnknown(name)
}

// FromHub reports whether Resolve would ask the hub for a name.
func FromHub(name string) bool {
	pattern, path := cutPattern(name)
	_, err := hub.ParseModel(name)
	return pattern == "" && err == nil && !exists(path) && !isPath(path)
}

// errUnknown is the error about a name that no tokenizer has.
func errUnknown(name string) error {
	text := "want " + strings.Join(tokenizer.Names(), ", ") + ", the path of a tokenizer.json or of its directory, or OWNER/NAME of a model of the hub"
	if closest := suggest.Closest(name, tokenizer.Names()); closest != "" {
		text += "; did you mean " + closest + "?"
	}
	return errors.New(text)
}

// cutPattern splits PATTERN:PATH. A path that exists with its colon has no pattern.
func cutPattern(name string) (pattern, path string) {
	pattern, path, ok := strings.Cut(name, ":")
	if ok && slices.Contains(tokenizer.Patterns(), pattern) && !exists(name) {
		return pattern, path
	}
	return "", name
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// isPath reports whether a name can only be meant as a path.
func isPath(name string) bool {
	for _, prefix := range []string{".", "/", "~", "\\"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	for _, suffix := range []string{".json", ".tiktoken", ".model", "/"} {
		if strings.HasSuffix(name, suffix) {
			return true
		}
	}
	return strings.Count(name, "/") > 1 && !strings.HasPrefix(name, hub.Scheme) && !strings.Contains(name, "@")
}

// config is what tokenizer_config.json says about a file of ranks.
type config struct {
	Class   string                `json:"tokenizer_class"`
	AutoMap map[string]any        `json:"auto_map"`
	Added   map[string]addedToken `json:"added_tokens_decoder"`
}

type addedToken struct {
	Content string `json:"content"`
}

// reservedTokens is how many special tokens follow the ranks of Kimi. Those that tokenizer_config.json does not name have a name made
// of their id.
const reservedTokens = 256

// rankFile finds the pattern of a file of ranks: the user names it, tokenizer_config.json names the program that has it, or the file is
// one that is known.
func (c content) rankFile() (r tokenizer.Ranks, err error) {
	r = tokenizer.Ranks{File: c.ranks, Pattern: c.pattern}
	if r.Pattern != "" {
		return r, nil
	}
	if c.config != nil {
		if err := c.readConfig(&r); err != nil {
			return r, fmt.Errorf("%s: %w", configFile, err)
		}
	}
	if r.Pattern == "" {
		r.Pattern = r.KnownPattern()
	}
	if r.Pattern == "" {
		return r, fmt.Errorf("a file of ranks does not say how text is cut into pieces, and this one is not known: name the pattern, PATTERN:FILE with one of %s", strings.Join(tokenizer.Patterns(), ", "))
	}
	return r, nil
}

// readConfig reads the pattern and the special tokens. It knows Kimi's.
func (c content) readConfig(r *tokenizer.Ranks) error {
	var f config
	if err := json.Unmarshal(c.config, &f); err != nil {
		return err
	}
	auto, _ := json.Marshal(f.AutoMap["AutoTokenizer"]) // it was just parsed
	if f.Class != "TikTokenTokenizer" || !strings.Contains(string(auto), "tokenization_kimi.") {
		return nil
	}
	r.Pattern = "kimi"
	r.Added = map[uint32]string{}
	first := uint32(r.Size())
	for id := first; id < first+reservedTokens; id++ {
		r.Added[id] = fmt.Sprintf("<|reserved_token_%d|>", id)
	}
	for key, token := range f.Added {
		id, err := strconv.ParseUint(key, 10, 32)
		if err != nil || id < uint64(first) || id >= uint64(first)+reservedTokens || token.Content == "" {
			return fmt.Errorf("added_tokens_decoder: %q with content %q: want ids of %d to %d, and content", key, token.Content, first, first+reservedTokens-1)
		}
		r.Added[uint32(id)] = token.Content
	}
	return nil
}

// maxFile bounds a file of a tokenizer before it is read, in bytes.
const maxFile = tokenizer.MaxFile

// The names of the files in a directory of a model.
const (
	jsonFile   = "tokenizer.json"
	ranksFile  = "tiktoken.model"
	configFile = "tokenizer_config.json"
)

// content is the files of one tokenizer. Either ranks or json is nil.
type content struct {
	json    []byte
	ranks   []byte
	config  []byte // tokenizer_config.json beside ranks; may be nil
	pattern string // of ranks, as the user says; may be ""
}

// source makes the source of a content.
func (c content) source(name, portable string) (*Source, error) {
	if c.json != nil {
		sum := sha256.Sum256(c.json)
		return newSource(name, portable, hex.EncodeToString(sum[:]), func() (*tokenizer.Tokenizer, error) { return tokenizer.ParseJSON(name, c.json) }), nil
	}
	r, err := c.rankFile()
	if err != nil {
		return nil, fmt.Errorf("tokenizer %s: %w", name, err)
	}
	return newSource(name, portable, r.Digest(), func() (*tokenizer.Tokenizer, error) { return tokenizer.ParseRanks(name, r) }), nil
}

// fromPath reads a file or a directory.
func fromPath(name, pattern, path string) (*Source, error) {
	c := content{pattern: pattern}
	info, err := os.Stat(path)
	switch {
	case err != nil:
	case info.IsDir() && pattern == "":
		err = c.readDir(path)
	default:
		err = c.readFile(path)
	}
	if err != nil {
		return nil, fmt.Errorf("tokenizer %s: %w", name, err)
	}
	portable := path
	if abs, err := filepath.Abs(path); err == nil {
		portable = abs
	}
	if pattern != "" {
		portable = pattern + ":" + portable
	}
	return c.source(name, portable)
}

// readDir reads the files of a tokenizer in a directory.
func (c *content) readDir(dir string) (err error) {
	if exists(filepath.Join(dir, jsonFile)) {
		c.json, err = read(filepath.Join(dir, jsonFile))
		return err
	}
	if !exists(filepath.Join(dir, ranksFile)) {
		return fmt.Errorf("the directory has neither %s nor %s", jsonFile, ranksFile)
	}
	if c.ranks, err = read(filepath.Join(dir, ranksFile)); err != nil {
		return err
	}
	return c.readConfigIn(dir)
}

// readConfigIn reads tokenizer_config.json, if there is one.
func (c *content) readConfigIn(dir string) (err error) {
	c.config, err = read(filepath.Join(dir, configFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// readFile reads one file, whose content tells what it is.
func (c *content) readFile(path string) error {
	data, err := read(path)
	if err != nil {
		return err
	}
	isJSON := bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{"))
	switch {
	case isJSON && c.pattern != "":
		return fmt.Errorf("a tokenizer.json names its pattern itself: leave %s: out", c.pattern)
	case isJSON:
		c.json = data
	case tokenizer.LooksLikeRanks(data):
		if c.ranks = data; c.pattern == "" {
			return c.readConfigIn(filepath.Dir(path))
		}
	default:
		return errors.New("the file is neither a tokenizer.json nor a file of ranks (lines of base64 and a number); SentencePiece models are not read")
	}
	return nil
}

// read reads a file of a tokenizer. It refuses by name what no program takes for one.
func read(path string) ([]byte, error) {
	data, err := regular.Read(path, maxFile)
	if f := foreign.OfBytes(data[:min(len(data), foreign.HeadBytes)], path); f != nil && err == nil {
		return nil, f
	}
	return data, err
}

// readAll reads a file of a known size.
func readAll(path string, r io.Reader, size int64) ([]byte, error) {
	data := make([]byte, size)
	if n, err := io.ReadFull(r, data); err != nil {
		return nil, fmt.Errorf("%s: read %d of %d bytes: %w", path, n, size, err)
	}
	return data, nil
}

// fromHub fetches the tokenizer of a model.
func fromHub(ctx context.Context, name string, o hub.Options) (_ *Source, err error) {
	ref, err := hub.ParseModel(name)
	if err != nil {
		return nil, err
	}
	o.TrustCached, o.ExportDir = false, ""
	snapshot, err := hub.Fetch(ctx, ref, o)
	if err != nil {
		return nil, fmt.Errorf("tokenizer %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, snapshot.Close()) }()
	var c content
	into := map[string]*[]byte{jsonFile: &c.json, ranksFile: &c.ranks, configFile: &c.config}
	for k := range snapshot.Files {
		f := &snapshot.Files[k]
		r, err := f.Open()
		if err != nil {
			return nil, fmt.Errorf("tokenizer %s: %w", name, err)
		}
		if *into[f.Path], err = readAll(f.LocalPath, r, f.Size); err != nil {
			return nil, fmt.Errorf("tokenizer %s: %w", name, errors.Join(err, r.Close()))
		}
		if err := r.Close(); err != nil {
			return nil, fmt.Errorf("tokenizer %s: %w", name, err)
		}
	}
	return c.source(name, ref.Repo+"@"+snapshot.Commit)
}
