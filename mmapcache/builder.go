package mmapcache

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/manifest"
)

// Provenance says where a directory of a cache came from. It stands outside every key and digest.
type Provenance struct {
	Created time.Time `json:"created"`
	Host    string    `json:"host"`
	Agentx  string    `json:"agentx"`            // version of the program
	Sources []Source  `json:"sources,omitempty"` // the input, in order

	Datasets  json.RawMessage `json:"datasets,omitempty"`  // the datasets of a hub that sources are of, as the reader of the input describes them
	Corpus    string          `json:"corpus,omitempty"`    // of arenas: name or path of the prompt corpus
	Tokenizer string          `json:"tokenizer,omitempty"` // of arenas
}

// Source is one input file.
type Source struct {
	Path   string `json:"path"`
	Size   int64  `json:"size"` // bytes
	SHA256 string `json:"sha256"`
}

// Builder writes one directory of a cache, which appears whole or not at all.
type Builder struct {
	dir      *durable.Dir
	manifest *manifest.Manifest
	replace  bool
}

// NewBuilder begins a directory of the given kind for a pre-image, whose hash becomes its key. Under the context of a
// claim it can be published only while the claim is held.
func NewBuilder(ctx context.Context, root, kind string, preImage any) (*Builder, error) {
	m, err := manifest.New(kind, preImage)
	if err != nil {
		return nil, err
	}
	m.Facts = json.RawMessage("{}")
	dir, err := durable.NewDir(root, durable.OptionsOf(ctx))
	if err != nil {
		return nil, fmt.Errorf("cache root %s: %w", root, err)
	}
	return &Builder{dir: dir, manifest: m}, nil
}

// Key returns the directory's key.
func (b *Builder) Key() string { return b.manifest.Key }

// Replace makes Publish replace another content under the same key, which it refuses otherwise.
func (b *Builder) Replace() { b.replace = true }

// Discard removes what has been written. After Publish it does nothing. It is best effort: what it cannot remove is swept
// later, as what a killed build leaves.
func (b *Builder) Discard() { _ = b.dir.Discard() }

// file writes one file and notes its size and digest.
func (b *Builder) file(name string, write func(io.Writer) error) error {
	f, err := b.dir.Create(name)
	if err != nil {
		return err
	}
	sum := sha256.New()
	w := bufio.NewWriterSize(io.MultiWriter(f, sum), 1<<18)
	err = write(w)
	if err == nil {
		err = w.Flush()
	}
	var size int64
	info, statErr := f.Stat()
	if statErr == nil {
		size = info.Size()
	}
	if err := errors.Join(err, statErr, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", b.dir.Path(name), err)
	}
	b.manifest.Files = append(b.manifest.Files, manifest.File{Name: name, Size: size, SHA256: hex.EncodeToString(sum.Sum(nil))})
	return nil
}

func (b *Builder) facts(v any) (err error) {
	b.manifest.Facts, err = json.Marshal(v)
	return err
}

// StructureFacts is what the manifest of a structure says about it.
type StructureFacts struct {
	Traces               int               `json:"traces"`
	Sessions             int               `json:"sessions"`
	Turns                int               `json:"turns"`
	Blocks               int               `json:"blocks"` // distinct ids of each trace, summed
	PromptTokens         int64             `json:"prompt_tokens"`
	OutputTokens         int64             `json:"output_tokens"`
	Skipped              []Skipped         `json:"skipped"`                // traces left out as invalid, in order: the first MaxListed
	SkippedMore          int               `json:"skipped_more,omitempty"` // and how many more
	Unknown              map[string]int    `json:"unknown"`                // keys and types tolerated, by name: of the first MaxListed
	UnknownMore          int               `json:"unknown_more,omitempty"` // times others were met
	UnknownIn            map[string]string `json:"unknown_in"`             // id of the first trace that has it, by name
	Oddities             []Oddity          `json:"oddities,omitempty"`     // by kind
	Dropped              int               `json:"dropped"`                // subagents that stand before any request
	Ambiguous            int               `json:"ambiguous"`              // markers whose clock was guessed
	MaxBlockSize         int               `json:"max_block_size"`
	MaxBlockTrace        string            `json:"max_block_trace"` // id of the first trace that has it
	Seams                int               `json:"seams"`
	Unclassified         int               `json:"unclassified"` // requests without ids among side chains
	ChainBreaks          int               `json:"chain_breaks"` // times a block followed another one than where it was first seen
	Generations          map[string]int    `json:"generations"`  // traces by generation of the format
	Rules                TimeRules         `json:"rules"`
	FilesWithoutChecksum []int             `json:"unsummed,omitempty"` // numbers of input files, from 1, that gave traces and of which some has no checksum in the file itself
}

// MaxListed bounds the lists of a manifest.
const MaxListed = 1000

// AllSkipped returns how many traces were left out.
func (f StructureFacts) AllSkipped() int { return len(f.Skipped) + f.SkippedMore }

// Oddity is something that was taken as it stands, though it is rarely intended.
type Oddity struct {
	Kind  string `json:"kind"`
	Count int    `json:"count"`
	Trace string `json:"trace"` // id of the first that has it
	First string `json:"first"` // where in that, and what stands there
}

// Skipped is a trace that was left out.
type Skipped struct {
	File   int    `json:"file"`            // number of the input file, from 1
	Line   int    `json:"line"`            // from 1; 0 where the file is one value
	Where  string `json:"where,omitempty"` // path and line in this run; never in a manifest
	Reason string `json:"why"`
}

// BuildStructure writes the tables of a structure.
func (b *Builder) BuildStructure(s *Structure, facts StructureFacts) error {
	files := []struct {
		name  string
		write func(io.Writer) error
	}{
		{s.Traces.file, s.Traces.writeTo},
		{s.Sessions.file, s.Sessions.writeTo},
		{s.Turns.file, s.Turns.writeTo},
		{s.Segments.file, s.Segments.writeTo},
		{s.Runs.file, s.Runs.writeTo},
		{s.Tools.file, s.Tools.writeTo},
	}
	for _, f := range files {
		if err := b.file(f.name, f.write); err != nil {
			return err
		}
	}
	return b.facts(facts)
}

// Placement is a table of starts being filled, in any order and from several goroutines.
type Placement struct {
	b     *Builder
	f     *os.File
	n     int
	width int // bytes of one
}

// NewPlacement begins the table of starts of n blocks and fillers in a corpus of the given length.
func (b *Builder) NewPlacement(n, corpusTokens int) (*Placement, error) {
	f, err := b.dir.Create(placementFile)
	if err != nil {
		return nil, err
	}
	s := &Placement{b, f, n, startWidth(corpusTokens)}
	if _, err := f.WriteAt(flatHeader(kindPlacement, s.width, n), 0); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return s, nil
}

// Put stores the starts from index first on.
func (s *Placement) Put(first int, starts []uint32) error {
	packed := make([]byte, 0, 4*len(starts))
	for _, v := range starts {
		packed = binary.LittleEndian.AppendUint32(packed, v)[:len(packed)+s.width]
	}
	_, err := s.f.WriteAt(packed, int64(headerSize+s.width*first))
	return err
}

// Abort gives up a table that cannot be finished.
func (s *Placement) Abort() { _ = s.f.Close() } // its directory will be discarded

// Close ends the table once all of it has been put, and reads it back for its digest.
func (s *Placement) Close(ctx context.Context) error {
	size := int64(headerSize + s.width*s.n)
	sum := sha256.New()
	n, err := io.Copy(sum, io.NewSectionReader(s.f, 0, size))
	if err == nil && n != size {
		err = fmt.Errorf("%d of %d bytes written", n, size)
	}
	if err := errors.Join(err, s.f.Close(), ctx.Err()); err != nil {
		return fmt.Errorf("write %s: %w", s.b.dir.Path(placementFile), err)
	}
	s.b.manifest.Files = append(s.b.manifest.Files, manifest.File{Name: placementFile, Size: size, SHA256: hex.EncodeToString(sum.Sum(nil))})
	return nil
}

// AddPart joins a dataset with one of its parts.
func (b *Builder) AddPart(part *manifest.Manifest) {
	if b.manifest.Parts == nil {
		b.manifest.Parts = map[string]manifest.Part{}
	}
	b.manifest.Parts[part.Kind] = manifest.Part{Key: part.Key, Digest: part.Digest}
}

// Publish makes the directory appear under its key and returns its manifest. One that is there already is kept if
// its manifest is the same and its files are what that says, for names mean content; a damaged one is replaced. The
// context ends the look at what is there.
func (b *Builder) Publish(ctx context.Context, p Provenance) (*manifest.Manifest, error) {
	where, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return nil, err
	}
	if err := b.dir.Write(manifest.ProvenanceName, append(where, '\n')); err != nil {
		return nil, err
	}
	m := b.manifest
	data, err := m.Encode()
	if err != nil {
		return nil, err
	}
	if err := b.dir.Write(manifest.FileName, data); err != nil {
		return nil, err
	}
	name, root := m.Kind+"/"+m.Key, b.dir.Root()
	existed, err := b.dir.Publish(name)
	if err != nil || !existed {
		return m, err
	}
	there, err := Lookup(root, m.Kind, m.Key)
	switch {
	case err != nil && !errors.Is(err, manifest.ErrDamaged): // nothing is known of what is there
		return nil, err
	case err == nil && there != nil && there.Digest != m.Digest && b.replace:
	case err == nil && there != nil && there.Digest != m.Digest:
		return nil, fmt.Errorf("%s: made again, its content is another: the cache was made by a program with the same recipe and other results: agentx convert --force replaces it", filepath.Join(root, m.Kind, m.Key))
	case err == nil && there != nil:
		v := Verification{}
		if err := v.directory(ctx, root, there); err != nil {
			return nil, err
		}
		if len(v.Damages) == 0 {
			return there, b.dir.Discard()
		}
	}
	return m, b.dir.Replace(name)
}

// Lookup returns the manifest of a directory of a cache whose files are there in full size, nil where there is none.
// An error about damage wraps manifest.ErrDamaged.
func Lookup(root, kind, key string) (*manifest.Manifest, error) {
	return realDisk().lookup(root, kind, key)
}

// StructureFactsOf returns what the manifest of a structure says about it.
func StructureFactsOf(m *manifest.Manifest) (f StructureFacts, err error) {
	if err = decodeFacts(m, &f); err != nil {
		return f, err
	}
	counts := []int{f.SkippedMore, f.UnknownMore, f.Traces, f.Sessions, f.Turns, f.Blocks, f.Dropped, f.Ambiguous, f.MaxBlockSize, f.Seams, f.Unclassified, f.ChainBreaks, int(f.PromptTokens)}
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
		return f, fmt.Errorf("%s %s: %w: facts: a count below 0", m.Kind, m.Key, manifest.ErrDamaged)
	}
	return f, nil
}

// ArenaFactsOf returns what the manifest of arenas says about them.
func ArenaFactsOf(m *manifest.Manifest) (f ArenaFacts, err error) {
	err = decodeFacts(m, &f)
	return f, err
}

func decodeFacts(m *manifest.Manifest, to any) error {
	if string(m.Facts) == "null" {
		return fmt.Errorf("%s %s: %w: it has no facts", m.Kind, m.Key, manifest.ErrDamaged)
	}
	if err := json.Unmarshal(m.Facts, to); err != nil {
		return fmt.Errorf("%s %s: %w: facts: %v", m.Kind, m.Key, manifest.ErrDamaged, err)
	}
	return nil
}
