// Package manifest is the identity of a prepared cache: the description it was made from, the key that is the hash
// of that description, and the list of files that hold it.
//
// # Format
//
// A cache is a directory with a file manifest.json, an object in indented JSON with sorted keys:
//
//	{
//	  "facts": {...},        what the content is, counted: a pure function of the key
//	  "files": [             every file of the directory but this one and provenance.json, by name
//	    {"name": "starts.bin", "sha256": "...", "size": 1234}
//	  ],
//	  "key": "...",          SHA-256 of pre_image in canonical form, the directory's name
//	  "kind": "starts",      structure, starts, arenas or dataset
//	  "manifest": 1,         version of this file
//	  "parts": {...},        of a dataset: kind -> {"digest": of that manifest, "key"}
//	  "pre_image": {...},    everything that could change a byte
//	  "digest": "..."
//	}
//
// The digest is the SHA-256, in hex, of all bytes before its line: the manifest vouches for the files, and the
// digest for the manifest. It is always the last member. Nothing in the file depends on when, where or by whom it was made; that stands
// in provenance.json beside it, outside every key and digest.
//
// Canonical form of the pre-image: JSON with sorted keys, without white space, numbers as Go's encoding/json writes
// them, strings without HTML escaping.
//
// History: 1, the first.
package manifest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
)

// Version is that of the manifest file.
const Version = 1

// FileName is the name of the manifest in its directory.
const FileName = "manifest.json"

// ProvenanceName is the name of the file that says where a cache came from.
const ProvenanceName = "provenance.json"

// maxSize bounds a manifest before it is read, in bytes.
const maxSize = 64 << 20

// ErrDamaged is wrapped by errors about a manifest or file that is not what it was when it was written.
var ErrDamaged = errors.New("damaged")

// File is one file of a cache.
type File struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"` // hex
}

// Part is a reference from a dataset to one of its parts.
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

	Digest string `json:"-"` // of the manifest's own bytes, set by Encode and Decode
}

// Canonical returns v as JSON with sorted keys and no white space: the form that is hashed.
func Canonical(v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var tree any
	if err := d.Decode(&tree); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(tree); err != nil { // maps are written with sorted keys
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
	return out.Bytes(), nil
}

// Decode reads the bytes of a manifest file. It accepts nothing but what Encode wrote. Errors wrap ErrDamaged.
func Decode(data []byte) (*Manifest, error) {
	at := bytes.LastIndex(data, []byte(digestLine))
	if at < 0 {
		return nil, fmt.Errorf("%w: no digest at the end: cut off?", ErrDamaged)
	}
	sum := Sum(data[:at])
	if string(data[at:]) != digestLine+sum+"\"\n}\n" {
		return nil, fmt.Errorf("%w: content does not match its digest", ErrDamaged)
	}
	var m Manifest
	if err := json.Unmarshal(append(bytes.Clone(data[:at]), "\n}"...), &m); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrDamaged, err)
	}
	if m.Manifest != Version {
		return nil, fmt.Errorf("manifest version %d: this agentx reads version %d", m.Manifest, Version)
	}
	canonical, err := Canonical(m.PreImage)
	if err != nil || Sum(canonical) != m.Key {
		return nil, fmt.Errorf("%w: key does not match its pre-image", ErrDamaged)
	}
	for _, f := range m.Files {
		if f.Name == "" || f.Name != filepath.Base(f.Name) || strings.HasPrefix(f.Name, ".") || f.Size < 0 {
			return nil, fmt.Errorf("%w: bad file entry %q", ErrDamaged, f.Name)
		}
	}
	m.PreImage = canonical
	if again, err := m.Encode(); err != nil || !bytes.Equal(again, data) {
		return nil, fmt.Errorf("%w: not in the form in which manifests are written", ErrDamaged)
	}
	return &m, nil
}

// Read reads the manifest of the cache in dir. A missing one gives an error that matches fs.ErrNotExist.
func Read(dir string) (*Manifest, error) {
	path := filepath.Join(dir, FileName)
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxSize {
		return nil, fmt.Errorf("%s: %w: %d bytes", path, ErrDamaged, info.Size())
	}
	data, err := os.ReadFile(path)
	if err != nil {
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
