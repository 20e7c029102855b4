package mmapcache

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"time"

	"github.com/agentx/agentx/manifest"
)

// Provenance says where a directory of a cache came from. It is part of no key and no digest.
type Provenance struct {
	Created time.Time `json:"created"`
	Host    string    `json:"host"`
	Agentx  string    `json:"agentx"`            // version of the program
	Sources []Source  `json:"sources,omitempty"` // the input files, in order

	Datasets  json.RawMessage `json:"datasets,omitempty"`  // datasets of a hub that the sources belong to, as the reader of the input describes them
	Corpus    string          `json:"corpus,omitempty"`    // of arenas: name or path of the prompt corpus
	Tokenizer string          `json:"tokenizer,omitempty"` // of arenas
}

// Source is one input file.
type Source struct {
	Path   string `json:"path"`
	Size   int64  `json:"size"`   // bytes
	SHA256 string `json:"sha256"` // hex
}

// FirstSource names the first input file, and how many more there are; "" without any.
func (p Provenance) FirstSource() string {
	switch n := len(p.Sources); n {
	case 0:
		return ""
	case 1:
		return p.Sources[0].Path
	default:
		return fmt.Sprintf("%s and %d more", p.Sources[0].Path, n-1)
	}
}

// ReadProvenance reads the provenance of a directory of a cache.
func ReadProvenance(dir string) (Provenance, error) { return realDisk().readProvenance(dir) }

func (d disk) readProvenance(dir string) (p Provenance, err error) {
	data, _, err := d.ReadProvenance(dir)
	if err != nil {
		return p, err
	}
	if err := json.Unmarshal(data, &p); err != nil {
		return p, fmt.Errorf("%s: %w", filepath.Join(dir, manifest.ProvenanceName), err)
	}
	return p, nil
}
