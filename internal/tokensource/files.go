package tokensource

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/agentx/agentx/hfsource/hub"
	"github.com/agentx/agentx/internal/foreign"
	"github.com/agentx/agentx/internal/regular"
	"github.com/agentx/agentx/internal/tokenizer"
)

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
