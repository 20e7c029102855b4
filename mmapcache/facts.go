package mmapcache

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/agentx/agentx/manifest"
)

// FormatMooncake is how Generations names traces that were made of Mooncake rows.
const FormatMooncake = "mooncake"

// StructureFacts is what the manifest of a structure says about it.
type StructureFacts struct {
	Traces        int               `json:"traces"`
	Sessions      int               `json:"sessions"`
	Turns         int               `json:"turns"`
	Blocks        int               `json:"blocks"` // distinct ids of each trace, summed
	PromptTokens  int64             `json:"prompt_tokens"`
	OutputTokens  int64             `json:"output_tokens"`
	Skipped       []Skipped         `json:"skipped"`                // invalid traces, in order: the first MaxListed
	SkippedMore   int               `json:"skipped_more,omitempty"` // invalid traces beyond those
	Unknown       map[string]int    `json:"unknown"`                // how often each unknown key or type occurs, by name; at most MaxListed names
	UnknownMore   int               `json:"unknown_more,omitempty"` // how often all other names occur
	UnknownIn     map[string]string `json:"unknown_in"`             // id of the first trace that has it, by name
	Oddities      []Oddity          `json:"oddities,omitempty"`     // one of each kind
	Dropped       int               `json:"dropped"`                // subagents that precede every request
	Ambiguous     int               `json:"ambiguous"`              // markers whose clock was guessed
	MaxBlockSize  int               `json:"max_block_size"`
	MaxBlockTrace string            `json:"max_block_trace"` // id of the first trace that has it
	Seams         int               `json:"seams"`
	Unclassified  int               `json:"unclassified"` // requests without ids among side chains
	ChainBreaks   int               `json:"chain_breaks"` // times a block followed another one than where it first occurs
	Generations   map[string]int    `json:"generations"`  // traces by generation of the format
	Rules         TimeRules         `json:"rules"`
	Starts        int               `json:"recorded_starts,omitempty"` // traces with a recorded start

	// FilesWithoutChecksum are the numbers, from 1, of input files with traces that have no checksum in the file
	// itself.
	FilesWithoutChecksum []int `json:"unsummed,omitempty"`

	More bool `json:"more,omitempty"` // of a shard: its file goes on behind it
}

// MaxListed bounds the lists of a manifest.
const MaxListed = 1000

// AllSkipped returns how many traces were left out.
func (f StructureFacts) AllSkipped() int { return len(f.Skipped) + f.SkippedMore }

// Oddity is an unusual value that the conversion accepted as recorded.
type Oddity struct {
	Kind  string `json:"kind"`
	Count int    `json:"count"`
	Trace string `json:"trace"` // id of the first trace that has it
	First string `json:"first"` // where in that trace, and the value
}

// Skipped is an invalid trace that was left out.
type Skipped struct {
	File   int    `json:"file"`            // number of the input file, from 1
	Line   int    `json:"line"`            // from 1; 0 where the file is one value
	Where  string `json:"where,omitempty"` // path and line in this run; never in a manifest
	Reason string `json:"why"`
}

// ArenaFacts is what the manifest of arenas says about them.
type ArenaFacts struct {
	Tokens    int          `json:"tokens"`
	TextBytes int          `json:"text_bytes"` // escaped
	Splits    int          `json:"splits"`
	IllFormed int          `json:"ill_formed"`
	Marker    MarkerPieces `json:"marker"`
}

// PlacementFacts is what the manifest of a placement says about it.
type PlacementFacts struct {
	Windows int    `json:"windows,omitempty"` // blocks, their heads, and fillers, where they were placed by the edges of the corpus
	Inexact int    `json:"inexact,omitempty"` // those that were placed without, because no place has edges for them
	Why     string `json:"why,omitempty"`     // why the corpus has no edges at all
}

// PlacementFactsOf returns what the manifest of a placement says about it. Errors wrap ErrDamaged.
func PlacementFactsOf(m *manifest.Manifest) (f PlacementFacts, err error) {
	if err = decodeFacts(m, &f); err == nil && min(f.Inexact, f.Windows-f.Inexact) < 0 {
		err = fmt.Errorf("%s %s: %w: facts: %d of %d windows are inexact", m.Kind, m.Key, manifest.ErrDamaged, f.Inexact, f.Windows)
	}
	return f, err
}

// StructureFactsOf returns what the manifest of a structure says about it. Errors wrap ErrDamaged.
func StructureFactsOf(m *manifest.Manifest) (f StructureFacts, err error) {
	if err = decodeFacts(m, &f); err == nil {
		err = f.check(m)
	}
	return f, err
}

// check refuses counts that no structure has.
func (f *StructureFacts) check(m *manifest.Manifest) error {
	counts := []int{f.SkippedMore, f.UnknownMore, f.Traces, f.Sessions, f.Turns, f.Blocks, f.Dropped, f.Ambiguous, f.MaxBlockSize, f.Seams, f.Unclassified, f.ChainBreaks, f.Starts, int(f.PromptTokens)}
	for _, s := range f.Skipped {
		counts = append(counts, s.File-1, s.Line)
	}
	for _, n := range f.FilesWithoutChecksum {
		counts = append(counts, n-1)
	}
	for _, o := range f.Oddities {
		counts = append(counts, o.Count-1)
	}
	if slices.Min(counts) < 0 {
		return fmt.Errorf("%s %s: %w: facts: a count is negative, or the number of a file or line too small", m.Kind, m.Key, manifest.ErrDamaged)
	}
	return nil
}

// ArenaFactsOf returns what the manifest of arenas says about them. Errors wrap ErrDamaged.
func ArenaFactsOf(m *manifest.Manifest) (f ArenaFacts, err error) {
	err = decodeFacts(m, &f)
	return f, err
}

// decodeFacts decodes the facts of a manifest. Errors wrap ErrDamaged.
func decodeFacts(m *manifest.Manifest, to any) error {
	if string(m.Facts) == "null" {
		return fmt.Errorf("%s %s: %w: no facts", m.Kind, m.Key, manifest.ErrDamaged)
	}
	if err := json.Unmarshal(m.Facts, to); err != nil {
		return fmt.Errorf("%s %s: %w: facts: %v", m.Kind, m.Key, manifest.ErrDamaged, err)
	}
	return nil
}

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
