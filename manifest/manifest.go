// Package manifest describes a directory of a cache: the pre-image that says what it was built from, the key, which is the
// hash of the pre-image, and the list of its files.
//
// New describes a directory before it is built, Encode writes its manifest, and Read reads and checks it. Differences and
// Nearest say in which fields two pre-images differ, for a program that explains a cache miss.
//
// # Format
//
// A directory of a cache has a file manifest.json, an object in indented JSON with sorted keys:
//
//	{
//	  "facts": {...},        counts of the content: a pure function of the key
//	  "files": [             every file of the directory, without this one and provenance.json, by name
//	    {"name": "starts.bin", "sha256": "...", "size": 1234}
//	  ],
//	  "key": "...",          SHA-256 of pre_image in canonical form, the directory's name
//	  "kind": "starts",      structure, starts, arenas or dataset
//	  "manifest": 1,         version of this file: 2 where the facts name parts, too
//	  "parts": {...},        of a dataset: kind -> {"digest": of that manifest, "key"}
//	  "pre_image": {...},    everything that could change a byte
//	  "digest": "..."
//	}
//
// The digest is the SHA-256, in hex, of all bytes before its line: the manifest vouches for the files, and the digest for
// the manifest. It is always the last member. Nothing in the file depends on when, where or by whom it was made. That is in
// provenance.json beside it, outside every key and digest.
//
// Canonical form of the pre-image: JSON with sorted keys, without white space, numbers as Go's encoding/json writes
// them, strings without HTML escaping.
//
// History: 1, the first; 2, a dataset may name parts in its facts.
package manifest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"

	"github.com/agentx/agentx/internal/bytefmt"
)

// Versions of the manifest file. A program that does not know a version cannot tell which parts such a dataset names, and so
// removes none.
const (
	Version      = 1
	PartsInFacts = 2 // of a dataset that names parts in its facts, too
)

// FileName is the name of the manifest in its directory.
const FileName = "manifest.json"

// ProvenanceName is the name of the file that says where a directory came from.
const ProvenanceName = "provenance.json"

// maxSize bounds a manifest, in bytes. Larger ones are neither written nor read.
const maxSize = 64 << 20

// File is one file of the directory.
type File struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"` // hex
}

// Part names one part of a dataset.
type Part struct {
	Key    string `json:"key"`
	Digest string `json:"digest"` // of its manifest
}

// Manifest describes one directory of a cache.
type Manifest struct {
	Manifest int             `json:"manifest"`
	Kind     string          `json:"kind"`
	Key      string          `json:"key"`
	PreImage json.RawMessage `json:"pre_image"`
	Files    []File          `json:"files"`
	Facts    json.RawMessage `json:"facts"`
	Parts    map[string]Part `json:"parts,omitempty"`

	Digest string `json:"-"` // of the manifest file; Encode and Decode set it
}

// Canonical returns v as JSON with sorted keys and no white space: the form that is hashed.
func Canonical(v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	tree, err := parse(raw)
	if err != nil {
		return nil, err
	}
	return compact(tree) // maps are written with sorted keys
}

// parse reads one JSON value. Numbers stay as written.
func parse(raw []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("more than one JSON value")
	}
	return v, nil
}

// compact writes a value as JSON without white space and without escapes for HTML.
func compact(v any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// Sum returns the SHA-256 of data in hex.
func Sum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// New returns a manifest of a kind for a pre-image, with its key.
func New(kind string, preImage any) (*Manifest, error) {
	canonical, err := Canonical(preImage)
	if err != nil {
		return nil, err
	}
	return &Manifest{Manifest: Version, Kind: kind, Key: Sum(canonical), PreImage: canonical}, nil
}

const digestLine = ",\n  \"digest\": \""

// Encode returns the bytes of the manifest file and sets Digest.
func (m *Manifest) Encode() ([]byte, error) {
	sort.Slice(m.Files, func(i, j int) bool { return m.Files[i].Name < m.Files[j].Name })
	canonical, err := Canonical(m)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, canonical, "", "  "); err != nil {
		return nil, err
	}
	out.Truncate(out.Len() - len("\n}"))
	m.Digest = Sum(out.Bytes())
	fmt.Fprintf(&out, "%s%s\"\n}\n", digestLine, m.Digest)
	if out.Len() > maxSize {
		return nil, fmt.Errorf("manifest of %d bytes, the limit is %d: convert fewer input files at a time", out.Len(), maxSize)
	}
	return out.Bytes(), nil
}

// Decode reads the bytes of a manifest file. It accepts only what Encode writes. Errors wrap ErrDamaged, except the one
// about another version of the file.
func Decode(data []byte) (*Manifest, error) {
	at := bytes.LastIndex(data, []byte(digestLine))
	if at < 0 {
		return nil, fmt.Errorf("%w: no digest at the end: was it cut off?", ErrDamaged)
	}
	body, sum := data[:at], Sum(data[:at])
	if string(data[at:]) != digestLine+sum+"\"\n}\n" {
		return nil, fmt.Errorf("%w: content does not match its digest", ErrDamaged)
	}
	m := &Manifest{Digest: sum}
	if !m.decode(body) || !known(m.Manifest) {
		var other struct { // another version may have another form
			Manifest int `json:"manifest"`
		}
		if json.Unmarshal(append(bytes.Clone(body), '}'), &other) == nil && !known(other.Manifest) {
			return nil, fmt.Errorf("manifest version %d: this agentx reads versions %d to %d: convert again, or use the agentx that made it", other.Manifest, Version, PartsInFacts)
		}
		return nil, fmt.Errorf("%w: not in the form that Encode writes", ErrDamaged)
	}
	if Sum(m.PreImage) != m.Key {
		return nil, fmt.Errorf("%w: key does not match its pre-image", ErrDamaged)
	}
	if err := m.checkNames(); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrDamaged, err)
	}
	return m, nil
}

func known(version int) bool { return version >= Version && version <= PartsInFacts }

// checkNames refuses a file or part whose name could lead outside of the directory, and a name that occurs twice.
func (m *Manifest) checkNames() error {
	seen := map[string]bool{FileName: true, ProvenanceName: true}
	for _, f := range m.Files {
		if !plain(f.Name) || f.Size < 0 || seen[f.Name] {
			return fmt.Errorf("file %q of %d bytes: want a plain name that occurs once, and 0 bytes or more", f.Name, f.Size)
		}
		seen[f.Name] = true
	}
	for kind, p := range m.Parts {
		if !plain(kind) || !plain(p.Key) {
			return fmt.Errorf("part %q with key %q: want plain names", kind, p.Key)
		}
	}
	return nil
}

// plain reports whether a name is that of a file in the directory itself, not hidden.
func plain(name string) bool {
	return name != "" && name == filepath.Base(name) && name[0] != '.' && !strings.Contains(name, "\x00")
}

// Open opens a file of a cache for reading and returns its size in bytes. It never waits: anything but a regular file, a
// pipe for example, gives an error that wraps ErrDamaged. The file is an *os.File.
func Open(path string) (fs.File, int64, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.EAGAIN) { // another process has a lease on the file, which it gives back soon
		f, err = os.Open(path)
	}
	switch {
	case errors.Is(err, syscall.ENXIO) || errors.Is(err, syscall.ENODEV) || errors.Is(err, syscall.ELOOP):
		return nil, 0, fmt.Errorf("%s: %w: not a regular file: %w", path, ErrDamaged, errors.Unwrap(err))
	case err != nil:
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: %w: not a regular file: %v", path, ErrDamaged, info.Mode())
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

// Read reads the manifest in dir. A missing one gives an error that matches fs.ErrNotExist.
func Read(dir string) (*Manifest, error) { return ReadThrough(Open, dir) }

// ReadThrough is Read with another Open, which may retry or fail.
func ReadThrough(open func(path string) (fs.File, int64, error), dir string) (*Manifest, error) {
	path := filepath.Join(dir, FileName)
	f, size, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > maxSize {
		return nil, fmt.Errorf("%s: %w: %d bytes, the limit is %d", path, ErrDamaged, size, maxSize)
	}
	data := make([]byte, size)
	if n, err := io.ReadFull(f, data); err == io.EOF || err == io.ErrUnexpectedEOF {
		data = data[:n] // cut meanwhile
	} else if err != nil {
		return nil, err
	}
	m, err := Decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// Size returns the size of all files of the manifest, in bytes, without the manifest itself.
func (m *Manifest) Size() (n int64) {
	for _, f := range m.Files {
		n += f.Size
	}
	return n
}

// File returns the entry of a file.
func (m *Manifest) File(name string) (File, bool) {
	for _, f := range m.Files {
		if f.Name == name {
			return f, true
		}
	}
	return File{}, false
}

// Clip shortens a long value for a manifest to about 400 bytes of its beginning and end.
func Clip(value string) string { return bytefmt.ClipTo(value, 400) }

// ErrDamaged is wrapped by errors about a manifest or file that is not what it was when it was written.
var ErrDamaged = errors.New("damaged")
