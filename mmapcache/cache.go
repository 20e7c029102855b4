package mmapcache

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"

	"github.com/agentx/agentx/manifest"
)

// Cache is an open dataset: its tables in memory, its placement and arenas mapped read-only. The shards of a large dataset are opened when
// their traces are first asked for. It may be used by several goroutines until Close. Slices that it returns are views of the mapped files and valid until Close.
type Cache struct {
	Root      string
	Manifest  *manifest.Manifest // of the dataset; nil after OpenStructure
	Structure *Structure         // of a cache of one shard; nil for several. Trace, Plan and EachShard read any cache
	Facts     StructureFacts     // of all shards
	Arenas    ArenaFacts

	disk    disk
	shards  []*shard
	prompts bool // starts and arenas are open, or to be opened
	maps    maps
	arenas                 // views of the mapped files
	texts   *recordedTexts // of a dataset of logs; else nil
	splits  splitMap
}

// Encoding is how the content of a prompt goes on the wire.
type Encoding uint8

// The encodings.
const (
	Text Encoding = iota // text, escaped as in a JSON string
	IDs                  // token ids in decimal, each followed by a comma

	// Of datasets of logs: recorded messages in the form of an API.
	ChatMessages
	AnthropicMessages
)

func (e Encoding) validate() error {
	if e > IDs {
		return fmt.Errorf("encoding %d: want %d (text) or %d (ids)", e, Text, IDs)
	}
	return nil
}

// TextEncoding returns the encoding in which people read the prompts of the cache.
func (c *Cache) TextEncoding() Encoding {
	if c.HasTexts() {
		return ChatMessages
	}
	return Text
}

// Open opens the dataset of a key below a cache root. It checks sizes, headers, the digests of the tables and every index
// in them. Of the mapped files it checks the size; Verify checks their digests. Of a dataset of several shards it checks the manifests and
// the sizes of files: the rest is checked when a trace of the shard is first asked for.
//
// An error about damage wraps ErrDamaged and names the file.
func Open(root, key string) (*Cache, error) { return realDisk().openDataset(root, key) }

func (d disk) openDataset(root, key string) (*Cache, error) {
	return d.openWith(root, func(c *Cache) error { return c.open(key) })
}

// OpenStructure opens the tables of a structure alone: traces, sessions and turns, without prompts.
func OpenStructure(root, key string) (*Cache, error) {
	return realDisk().openWith(root, func(c *Cache) error {
		c.setShards([]Shard{{Structure: manifest.Part{Key: key}}})
		_, err := c.take(c.shards[0])
		return err
	})
}

// OpenTables opens of a dataset the tables alone. It reads none of what placement and arenas hold.
func OpenTables(root, key string) (*Cache, error) {
	return realDisk().openWith(root, func(c *Cache) error { return c.openShards(key) })
}

// OpenCorpus returns the tokens of the prompt corpus of arenas.
func OpenCorpus(root, key string) (tokens []uint32, err error) {
	d := realDisk()
	c, err := d.openWith(root, func(c *Cache) error {
		m, err := c.readPart(ArenasKind, manifest.Part{Key: key})
		if err != nil {
			return err
		}
		return c.mapArenas(m)
	})
	if err != nil {
		return nil, err
	}
	err = c.Guard(func() error {
		tokens = slices.Clone(c.tokens)
		return nil
	})
	return tokens, errors.Join(err, c.Close())
}

// openWith returns a cache that open has filled, or closes it.
func (d disk) openWith(root string, open func(*Cache) error) (*Cache, error) {
	c := newCache(root, d)
	if err := c.Guard(func() error { return open(c) }); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func newCache(root string, d disk) *Cache { return &Cache{Root: root, disk: d} }

// CacheOf returns a cache of tables that are in no file, without prompts.
func CacheOf(s *Structure, facts StructureFacts) *Cache {
	c := newCache("", realDisk())
	c.setShards([]Shard{{}})
	c.shards[0].tables.Store(s)
	c.setOnly(s, facts)
	return c
}

// Close unmaps the files. Nothing that the cache has returned may be used afterwards.
func (c *Cache) Close() error { return c.maps.close() }

// Path returns the directory of the dataset.
func (c *Cache) Path() string { return DatasetPath(c.Root, c.Manifest.Key) }

// arenasPath returns the directory of the arenas.
func (c *Cache) arenasPath() string {
	return filepath.Join(c.Root, ArenasKind, c.Manifest.Parts[ArenasKind].Key)
}

func (c *Cache) offsetsPath(encoding Encoding) string {
	return filepath.Join(c.arenasPath(), [...]string{Text: textOffsetsFile, IDs: idOffsetsFile}[encoding])
}

// CorpusTokens returns the length of the prompt corpus, in tokens.
func (c *Cache) CorpusTokens() int { return len(c.tokens) }

// open opens the dataset of a key.
func (c *Cache) open(key string) error {
	c.prompts = true
	if err := c.openShards(key); err != nil {
		return err
	}
	if HasTexts(c.Manifest) {
		if err := c.checkTexts(); err != nil {
			return err
		}
	}
	return c.openArenas()
}

// openShards opens the only shard of a dataset. Those of a list it checks as far as their manifests: take opens them.
func (c *Cache) openShards(key string) (err error) {
	if c.Manifest, err = c.disk.readManifest(c.Root, DatasetKind, key, ""); err != nil {
		return err
	}
	facts, err := checkContents(c.Root, c.Manifest)
	if err != nil {
		return err
	}
	if HasShards(c.Manifest) {
		c.Facts = facts.StructureFacts
		c.setShards(facts.Shards)
		return c.checkShards()
	}
	c.setShards([]Shard{{Structure: c.Manifest.Parts[StructureKind], Starts: c.Manifest.Parts[PlacementKind]}})
	_, err = c.take(c.shards[0])
	return err
}

// readStructure reads the tables into memory and checks their digests there. A program that overwrites the files later,
// as cp and rsync do, changes nothing here.
func (c *Cache) readStructure(m *manifest.Manifest) (s *Structure, f StructureFacts, err error) {
	dir := filepath.Join(c.Root, m.Kind, m.Key)
	if err := decodeFacts(m, &f); err != nil {
		return nil, f, fmt.Errorf("%s: %w", filepath.Join(dir, manifest.FileName), err)
	}
	s = NewStructure()
	for _, t := range s.files() {
		if err := c.disk.readTable(c.Root, m, t); err != nil {
			return nil, f, err
		}
	}
	if err := s.check(); err != nil {
		return nil, f, fmt.Errorf("%s: %w: %v", dir, manifest.ErrDamaged, err)
	}
	if f.Traces != s.Traces.Len() || f.Sessions != s.Sessions.Len() || f.Turns != s.Turns.Len() || f.Blocks != s.Blocks() {
		return nil, f, fmt.Errorf("%s: %w: the facts count %d traces, %d sessions, %d turns, %d blocks; the tables hold %d, %d, %d, %d", filepath.Join(dir, manifest.FileName),
			manifest.ErrDamaged, f.Traces, f.Sessions, f.Turns, f.Blocks, s.Traces.Len(), s.Sessions.Len(), s.Turns.Len(), s.Blocks())
	}
	if n := s.RecordedStarts(); f.Starts != n {
		return nil, f, fmt.Errorf("%s: %w: the facts count %d recorded starts, the tables hold %d", filepath.Join(dir, manifest.FileName), manifest.ErrDamaged, f.Starts, n)
	}
	return s, f, nil
}

// readTable reads a table into memory, and checks its digest there.
func (d disk) readTable(root string, m *manifest.Manifest, t file) error {
	dir := filepath.Join(root, m.Kind, m.Key)
	entry, _ := m.File(t.name)
	data, err := d.load(dir, entry)
	if err != nil {
		return err
	}
	err = fmt.Errorf("%w: content does not match its digest", manifest.ErrDamaged)
	if manifest.Sum(data) == entry.SHA256 {
		err = t.read(data)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", filepath.Join(dir, t.name), err)
	}
	return err
}

// mapFiles maps the files of a part, by name.
func (c *Cache) mapFiles(m *manifest.Manifest) (map[string]*mapping, error) {
	files := map[string]*mapping{}
	for _, f := range m.Files {
		mapped, err := c.disk.openMapping(filepath.Join(c.Root, m.Kind, m.Key), f)
		if err != nil {
			return nil, err
		}
		c.maps.add(mapped)
		files[f.Name] = mapped
	}
	return files, nil
}

// openPlacement maps the starts of a shard.
func (c *Cache) openPlacement(m *manifest.Manifest) (t placementTable, err error) {
	files, err := c.mapFiles(m)
	if err != nil {
		return t, err
	}
	mapped := files[placementFile]
	if t, err = readPlacement(mapped.data); err != nil {
		return t, fmt.Errorf("%s: %w", mapped.path, err)
	}
	return t, nil
}

// openArenas opens the arenas of the dataset.
func (c *Cache) openArenas() error {
	m, err := c.readPart(ArenasKind, c.Manifest.Parts[ArenasKind])
	if err == nil {
		err = c.mapArenas(m)
	}
	if err == nil {
		err = c.checkLengths()
	}
	return err
}

// mapArenas maps the arenas and reads where their text can be cut.
func (c *Cache) mapArenas(m *manifest.Manifest) error {
	if err := decodeFacts(m, &c.Arenas); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(c.Root, m.Kind, m.Key, manifest.FileName), err)
	}
	files, err := c.mapFiles(m)
	if err != nil {
		return err
	}
	for _, f := range c.arenas.files() {
		if err := f.read(files[f.name].data); err != nil {
			return fmt.Errorf("%s: %w", files[f.name].path, err)
		}
	}
	c.splits.notEmpty = len(c.cuts)+len(c.illFormed) > 0
	if c.splits.inCharacter, err = bitSet(len(c.tokens), c.cuts); err != nil {
		return fmt.Errorf("%s: %w", files[splitsFile].path, err)
	}
	if c.splits.illFormed, err = bitSet(len(c.tokens), c.illFormed); err != nil {
		return fmt.Errorf("%s: %w", files[illFormedFile].path, err)
	}
	return nil
}

// checkLengths checks that the arenas have the lengths that they give each other.
func (c *Cache) checkLengths() error {
	n := len(c.tokens)
	for encoding, r := range c.renderings {
		if len(r.offsets) != n+1 || r.offsets[0] != 0 || int(r.offsets[n]) != len(r.data) {
			return fmt.Errorf("%s: %w: %d offsets for %d tokens, or they do not span the %d bytes of the rendering", c.offsetsPath(Encoding(encoding)), manifest.ErrDamaged, len(r.offsets), n, len(r.data))
		}
	}
	if n == 0 || n > math.MaxUint32 || n != c.Arenas.Tokens {
		return fmt.Errorf("%s: %w: %d tokens, the manifest says %d", c.arenasPath(), manifest.ErrDamaged, n, c.Arenas.Tokens)
	}
	return nil
}

// Traces returns how many traces the cache has, in all shards. They are numbered from 0, through the shards.
func (c *Cache) Traces() int {
	if len(c.shards) == 0 {
		return 0
	}
	last := c.shards[len(c.shards)-1]
	return last.firstTrace + last.Traces
}

// Trace returns the row of trace i. What it says of other rows counts in the tables of its shard.
func (c *Cache) Trace(i int) (t Trace, err error) {
	_, tables, k, err := c.tablesOf(i)
	if err == nil {
		t = tables.Traces.At(k)
	}
	return t, err
}

// Plan returns the plan of trace i.
func (c *Cache) Plan(i int) (*Plan, error) {
	_, tables, k, err := c.tablesOf(i)
	if err != nil {
		return nil, err
	}
	return tables.Plan(k), nil
}

// FirstSession returns the number of the first session of trace i among those of all traces.
func (c *Cache) FirstSession(i int) (int, error) {
	s, tables, k, err := c.tablesOf(i)
	if err != nil {
		return 0, err
	}
	return s.firstSession + int(tables.Traces.At(k).FirstSession), nil
}

// RecordedStart is Structure.RecordedStart of trace i.
func (c *Cache) RecordedStart(i int) (ms float64, ok bool, err error) {
	_, tables, k, err := c.tablesOf(i)
	if err == nil {
		ms, ok = tables.RecordedStart(k)
	}
	return ms, ok, err
}

// RecordedStarts returns how many traces have a recorded start.
func (c *Cache) RecordedStarts() int { return c.Facts.Starts }

// RenderedBytes returns about how many bytes of memory trace i takes once it is rendered. It opens no shard: of one that is not
// open, each trace is taken to be like the mean.
func (c *Cache) RenderedBytes(i int) int64 {
	s, k, err := c.locate(i)
	if err != nil {
		return 0
	}
	if tables := s.tables.Load(); tables != nil {
		t := tables.Traces.At(k)
		return 2048 + 400*int64(t.Turns) + 300*int64(t.Sessions) + 16*int64(t.Blocks) + 80*int64(t.Segments) + 40*int64(t.Runs)
	}
	return 2048 + (800*int64(s.Turns)+300*int64(s.Sessions)+16*int64(s.Blocks))/int64(s.Traces)
}

// EachShard calls visit for the tables of each shard in turn; first is the number of their first trace. It is the way to read
// all traces: it opens one shard at a time, and gives back the memory of those that it has opened. It stops at the first error,
// of which it does not return fs.SkipAll.
func (c *Cache) EachShard(visit func(first int, s *Structure) error) error {
	for _, s := range c.shards {
		open := s.tables.Load() != nil
		tables, err := c.take(s)
		if err == nil {
			err = visit(s.firstTrace, tables)
		}
		if !open {
			s.drop()
		}
		if err == fs.SkipAll {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// MaxRecordedStart bounds recorded starts, in milliseconds: 292 years, so that an int64 of nanoseconds holds each.
const MaxRecordedStart = 9.2e12

// RecordedStart returns when the first turn of a trace began, in milliseconds from 0 of its recording, as the recording has
// it: from 0 to MaxRecordedStart. It returns false where the format of the trace has no such time, and for caches made before the column.
//
// It is no field of Trace because a plan begins with its trace: times of turns count from another 0, that of the trace's
// own file, and do not depend on it.
func (s *Structure) RecordedStart(trace int) (ms float64, ok bool) {
	ms = s.Traces.late.at(trace)
	return ms, !math.IsNaN(ms)
}

// SetRecordedStart stores the recorded start of a trace that has been appended.
func (s *Structure) SetRecordedStart(trace int, ms float64) {
	s.Traces.late.set(trace, ms)
}

// RecordedStarts returns how many traces have a recorded start.
func (s *Structure) RecordedStarts() (n int) {
	for i := range s.Traces.Len() {
		if _, ok := s.RecordedStart(i); ok {
			n++
		}
	}
	return n
}

// checkRecordedStart refuses a start beyond the bounds.
func (s *Structure) checkRecordedStart(trace int) error {
	if ms, ok := s.RecordedStart(trace); ok && !(ms >= 0 && ms <= MaxRecordedStart) {
		return fmt.Errorf("recorded start %g ms out of range [0,%g]", ms, float64(MaxRecordedStart))
	}
	return nil
}
