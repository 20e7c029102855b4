package mmapcache

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/agentx/agentx/internal/cachedir"
	"github.com/agentx/agentx/manifest"
)

// Cache is an open dataset: its tables in memory, starts and arenas mapped read-only. It is safe for concurrent use until Close; what
// it returns lives as long.
type Cache struct {
	Root      string
	Manifest  *manifest.Manifest // of the dataset
	Structure *Structure
	Facts     StructureFacts
	Arenas    ArenaFacts

	disk       disk
	maps       []*mapping
	placement  placementTable
	tokens     []uint32
	renderings [2]rendering // by Encoding
	edges      edges
}

// Encoding is how a prompt goes on the wire.
type Encoding uint8

const (
	Text Encoding = iota // message texts, escaped for JSON
	IDs                  // token ids in decimal, each followed by a comma
)

// rendering is the corpus in one encoding.
type rendering struct {
	data    []byte
	offsets []uint32 // of token i
}

// Open opens the dataset of the given key below a cache root. Sizes, headers, the digests of the tables and every index
// in them are checked here; starts and arenas by size here and by digest in Verify.
//
// An error about damage wraps manifest.ErrDamaged and names the file.
func Open(root, key string) (*Cache, error) { return realDisk().openDataset(root, key) }

func (d disk) openDataset(root, key string) (*Cache, error) {
	c := newCache(root, d)
	if err := c.Guard(func() error { return c.open(key) }); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// OpenStructure opens the tables of a structure alone.
func OpenStructure(root, key string) (*Cache, error) {
	c := newCache(root, realDisk())
	err := c.Guard(func() error {
		m, err := c.disk.readManifest(root, StructureKind, key, "")
		if err != nil {
			return err
		}
		return c.openPart(m)
	})
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func newCache(root string, d disk) *Cache {
	return &Cache{Root: root, Structure: NewStructure(), disk: d}
}

// Close unmaps the cache.
func (c *Cache) Close() error {
	var errs []error
	for _, m := range c.maps {
		errs = append(errs, m.data.Unmap())
	}
	c.maps = nil
	return errors.Join(errs...)
}

func (c *Cache) open(key string) error {
	dataset, err := c.disk.readManifest(c.Root, DatasetKind, key, "")
	if err != nil {
		return err
	}
	if err := CheckContents(c.Root, dataset); err != nil {
		return err
	}
	var parts []*manifest.Manifest
	for _, kind := range PartKinds() {
		part := dataset.Parts[kind]
		m, err := c.disk.readManifest(c.Root, kind, part.Key, part.Digest)
		if err != nil {
			return err
		}
		parts = append(parts, m)
	}
	return c.openParts(dataset, parts)
}

// openParts opens the parts of a dataset, in the order of PartKinds.
func (c *Cache) openParts(dataset *manifest.Manifest, parts []*manifest.Manifest) error {
	c.Manifest = dataset
	for _, m := range parts {
		if err := c.openPart(m); err != nil {
			return err
		}
	}
	return c.checkLengths()
}

// Kinds lists the kinds of directory, parts first.
func Kinds() []string { return append(PartKinds(), DatasetKind) }

// DatasetPath returns the directory of a dataset.
func DatasetPath(root, key string) string { return filepath.Join(root, DatasetKind, key) }

// ErrNoCache is wrapped by errors about a dataset or part that does not exist.
var ErrNoCache = cachedir.ErrNoCache

// PartKinds lists the kinds of a dataset's parts.
func PartKinds() []string { return []string{StructureKind, PlacementKind, ArenasKind} }

// contents are the files of a directory of each kind, beside its manifest and provenance, by name.
var contents = map[string][]string{
	StructureKind: {"blocks.arrow", "segments.arrow", "sessions.arrow", "tools.arrow", "traces.arrow", "turns.arrow"},
	PlacementKind: {placementFile},
	ArenasKind:    {idOffsetsFile, "ids.txt", illFormedFile, splitsFile, "text.json", textOffsetsFile, "tokens.u32"},
	DatasetKind:   {},
}

// CheckContents holds what a manifest lists against what a directory of its kind has. Errors wrap manifest.ErrDamaged.
func CheckContents(root string, m *manifest.Manifest) error {
	dir := filepath.Join(root, m.Kind, m.Key)
	wanted := contents[m.Kind]
	for _, f := range m.Files {
		if !slices.Contains(wanted, f.Name) {
			return fmt.Errorf("%s: %w: no file of a cache's %s", filepath.Join(dir, f.Name), manifest.ErrDamaged, m.Kind)
		}
	}
	for _, name := range wanted {
		if _, ok := m.File(name); !ok {
			return fmt.Errorf("%s: %w: not in the manifest", filepath.Join(dir, name), manifest.ErrDamaged)
		}
	}
	parts := 0
	if m.Kind == DatasetKind {
		for _, kind := range PartKinds() {
			if _, ok := m.Parts[kind]; !ok {
				return fmt.Errorf("%s: %w: names no %s", dir, manifest.ErrDamaged, kind)
			}
		}
		parts = len(PartKinds())
	}
	if len(m.Parts) != parts {
		return fmt.Errorf("%s: %w: names %d parts, want %d", dir, manifest.ErrDamaged, len(m.Parts), parts)
	}
	return checkNamed(dir, m)
}

// checkNamed holds the parts that a dataset names against those that its key is made of. Errors wrap manifest.ErrDamaged.
func checkNamed(dir string, m *manifest.Manifest) error {
	if m.Kind != DatasetKind {
		return nil
	}
	var image map[string]any
	if json.Unmarshal(m.PreImage, &image) != nil {
		return nil // of another format, which has other rules
	}
	for kind, part := range m.Parts {
		if key, ok := image[kind]; ok && key != part.Key {
			return fmt.Errorf("%s: %w: names %s %s, and its key is made of %v", dir, manifest.ErrDamaged, kind, part.Key, key)
		}
	}
	return nil
}

func (c *Cache) openPart(m *manifest.Manifest) error {
	if err := CheckContents(c.Root, m); err != nil {
		return err
	}
	if m.Kind == StructureKind {
		return c.openStructure(m)
	}
	dir := filepath.Join(c.Root, m.Kind, m.Key)
	files := map[string]*mapping{}
	for _, f := range m.Files {
		mp, err := c.disk.openMapping(dir, f)
		if err != nil {
			return err
		}
		c.maps = append(c.maps, mp)
		files[f.Name] = mp
	}
	var err error
	switch m.Kind {
	case PlacementKind:
		mp := files[placementFile]
		if c.placement, err = readPlacement(mp.data); err != nil {
			return fmt.Errorf("%s: %w", mp.path, err)
		}
	case ArenasKind:
		err = c.openArenas(m, files)
	}
	return err
}

// flat returns the elements of a mapped flat file.
func flat[T uint8 | uint32](files map[string]*mapping, name, kind string) ([]T, error) {
	return readFlat[T](files[name].data, kind)
}

// openStructure reads the tables. They are held against their digests as they lie in memory: who writes over the files
// later, as cp and rsync do, changes nothing here.
func (c *Cache) openStructure(m *manifest.Manifest) error {
	dir := filepath.Join(c.Root, m.Kind, m.Key)
	if err := decodeFacts(m, &c.Facts); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(dir, manifest.FileName), err)
	}
	s := c.Structure
	for name, read := range map[string]func([]byte) error{
		s.Traces.file: s.Traces.read, s.Sessions.file: s.Sessions.read, s.Turns.file: s.Turns.read,
		s.Segments.file: s.Segments.read, s.Runs.file: s.Runs.read, s.Tools.file: s.Tools.read,
	} {
		entry, _ := m.File(name)
		data, err := c.disk.load(dir, entry)
		if err != nil {
			return err
		}
		if manifest.Sum(data) != entry.SHA256 {
			return fmt.Errorf("%s: %w: content does not match its digest", filepath.Join(dir, name), manifest.ErrDamaged)
		}
		if err := read(data); err != nil {
			return fmt.Errorf("%s: %w", filepath.Join(dir, name), err)
		}
	}
	if err := s.check(); err != nil {
		return fmt.Errorf("%s: %w: %v", dir, manifest.ErrDamaged, err)
	}
	f := c.Facts
	if f.Traces != s.Traces.Len() || f.Sessions != s.Sessions.Len() || f.Turns != s.Turns.Len() || f.Blocks != s.Blocks() {
		return fmt.Errorf("%s: %w: facts speak of %d traces, %d sessions, %d turns, %d blocks; the tables hold %d, %d, %d, %d", filepath.Join(dir, manifest.FileName),
			manifest.ErrDamaged, f.Traces, f.Sessions, f.Turns, f.Blocks, s.Traces.Len(), s.Sessions.Len(), s.Turns.Len(), s.Blocks())
	}
	return nil
}

func (c *Cache) openArenas(m *manifest.Manifest, files map[string]*mapping) (err error) {
	dir := filepath.Join(c.Root, m.Kind, m.Key)
	if err := decodeFacts(m, &c.Arenas); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(dir, manifest.FileName), err)
	}
	var splits, illFormed []uint32
	load := func(name string, get func(name string) error) {
		if err != nil {
			return
		}
		if err = get(name); err != nil {
			err = fmt.Errorf("%s: %w", filepath.Join(dir, name), err)
		}
	}
	words := func(kind string, to *[]uint32) func(string) error {
		return func(name string) (err error) { *to, err = flat[uint32](files, name, kind); return err }
	}
	text := func(kind string, to *[]byte) func(string) error {
		return func(name string) (err error) { *to, err = flat[uint8](files, name, kind); return err }
	}
	load("tokens.u32", words(kindTokens, &c.tokens))
	load("text.json", text(kindText, &c.renderings[Text].data))
	load(textOffsetsFile, words(kindTextOffsets, &c.renderings[Text].offsets))
	load("ids.txt", text(kindIDs, &c.renderings[IDs].data))
	load(idOffsetsFile, words(kindIDOffsets, &c.renderings[IDs].offsets))
	load(splitsFile, words(kindSplits, &splits))
	load(splitsFile, func(string) (err error) { c.edges.split, err = bitSet(len(c.tokens), splits); return err })
	load(illFormedFile, words(kindIllFormed, &illFormed))
	load(illFormedFile, func(string) (err error) { c.edges.illForm, err = bitSet(len(c.tokens), illFormed); return err })
	c.edges.any = len(splits)+len(illFormed) > 0
	return err
}

// checkLengths holds the parts against each other.
func (c *Cache) checkLengths() error {
	s := c.Structure
	if want := s.Blocks() + s.Turns.Len(); c.placement.len() != want {
		return fmt.Errorf("%s: %w: %d starts for %d blocks and turns", c.partPath(PlacementKind), manifest.ErrDamaged, c.placement.len(), want)
	}
	n := len(c.tokens)
	for encoding, r := range c.renderings {
		if len(r.offsets) != n+1 || r.offsets[0] != 0 || int(r.offsets[n]) != len(r.data) {
			return fmt.Errorf("%s: %w: offsets, rendering and tokens do not agree", c.offsetsPath(Encoding(encoding)), manifest.ErrDamaged)
		}
	}
	if n == 0 || n > math.MaxUint32 || n != c.Arenas.Tokens {
		return fmt.Errorf("%s: %w: %d tokens, the manifest says %d", c.partPath(ArenasKind), manifest.ErrDamaged, n, c.Arenas.Tokens)
	}
	return nil
}

func (c *Cache) partPath(kind string) string {
	return filepath.Join(c.Root, kind, c.Manifest.Parts[kind].Key)
}

func (c *Cache) offsetsPath(encoding Encoding) string {
	return filepath.Join(c.partPath(ArenasKind), [...]string{Text: textOffsetsFile, IDs: idOffsetsFile}[encoding])
}

// Path returns the dataset's directory.
func (c *Cache) Path() string { return filepath.Join(c.Root, DatasetKind, c.Manifest.Key) }

// CorpusTokens returns the length of the prompt corpus, in tokens.
func (c *Cache) CorpusTokens() int { return len(c.tokens) }

// ReadProvenance reads where a directory of a cache came from.
func ReadProvenance(dir string) (Provenance, error) { return realDisk().readProvenance(dir) }

// disk is how the files of a cache are reached, with the format that this program reads.
type disk struct{ cachedir.Disk }

func realDisk() disk { return disk{cachedir.Real()} }

// readManifest reads the manifest of a directory and holds it against its name, the format that this program reads and,
// where given, its digest. A missing one gives an error that matches fs.ErrNotExist.
func readManifest(root, kind, key, digest string) (*manifest.Manifest, error) {
	return realDisk().readManifest(root, kind, key, digest)
}

func (d disk) readManifest(root, kind, key, digest string) (*manifest.Manifest, error) {
	m, err := d.ReadManifest(root, kind, key, digest)
	if err == nil {
		err = CheckFormat(filepath.Join(root, kind, key), m)
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// CheckFormat refuses a directory of another format, which is not damage. A pre-image that names none is accepted.
func CheckFormat(dir string, m *manifest.Manifest) error {
	if f := formatOf(m.PreImage); f != "" && f != strconv.Itoa(Format) {
		return fmt.Errorf("%s: made in cache format %s: this agentx reads format %d: convert again, or use the agentx that made it", dir, f, Format)
	}
	return nil
}

// formatOf returns the member "format" of a pre-image as it stands, "" where there is none. It reads no further: a long
// list of inputs stands behind.
func formatOf(preImage []byte) string {
	d := json.NewDecoder(bytes.NewReader(preImage))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return ""
	}
	for d.More() {
		name, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			return ""
		}
		if name == "format" {
			return string(value)
		}
	}
	return ""
}

// lookup is Lookup.
func (d disk) lookup(root, kind, key string) (*manifest.Manifest, error) {
	dir := filepath.Join(root, kind, key)
	m, err := d.readManifest(root, kind, key, "")
	if errors.Is(err, fs.ErrNotExist) {
		if d.Listed(dir) {
			return nil, fmt.Errorf("%s: %w: no manifest", dir, manifest.ErrDamaged)
		}
		return nil, nil
	}
	if errors.Is(err, syscall.ENOTDIR) {
		return nil, fmt.Errorf("%s: %w: no directory", dir, manifest.ErrDamaged)
	}
	if err != nil {
		return nil, err
	}
	if err := checkNamed(dir, m); err != nil {
		return nil, err
	}
	for _, f := range m.Files {
		path := filepath.Join(dir, f.Name)
		var info fs.FileInfo
		err := cachedir.RetryStale(func() (err error) { info, err = d.Stat(path); return err })
		switch {
		case errors.Is(err, fs.ErrNotExist) && !d.Listed(dir): // removed since
			return nil, nil
		case err != nil && !cachedir.IsDamage(err):
			return nil, err
		case err != nil || !info.Mode().IsRegular() || info.Size() != f.Size:
			return nil, fmt.Errorf("%s: %w: missing or not of its size", path, manifest.ErrDamaged)
		}
	}
	return m, nil
}

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

// edges knows the places in the corpus where a window cannot be cut or pasted as text without looking at its
// neighbours: boundaries inside characters, and tokens with ill-formed bytes. One bit each.
type edges struct {
	any            bool
	split, illForm []uint64
}

// bitSet returns the tokens or boundaries of a corpus of n tokens, listed in ascending order, as a set.
func bitSet(n int, list []uint32) ([]uint64, error) {
	set := make([]uint64, n/64+1)
	for i, k := range list {
		if int(k) >= n || i > 0 && k <= list[i-1] {
			return nil, fmt.Errorf("%w: %d of %d tokens, or out of order", manifest.ErrDamaged, k, n)
		}
		set[k/64] |= 1 << (k % 64)
	}
	return set, nil
}

// rough reports whether a window needs the slow path. It may wrap around the end of the corpus of n tokens.
func (e *edges) rough(start, length uint32, n int) bool {
	if !e.any || length == 0 {
		return false
	}
	from, end := uint64(start), uint64(start)+uint64(length)
	corpus := uint64(n)
	if hasBit(e.split, from) || hasBit(e.split, end%corpus) {
		return true
	}
	if end <= corpus {
		return anyBit(e.illForm, from, end)
	}
	return anyBit(e.illForm, from, corpus) || anyBit(e.illForm, 0, min(end-corpus, from))
}

func hasBit(set []uint64, k uint64) bool { return set[k/64]&(1<<(k%64)) != 0 }

// anyBit reports whether a bit in [from, to) is set.
func anyBit(set []uint64, from, to uint64) bool {
	if from >= to {
		return false
	}
	first, last := from/64, (to-1)/64
	head, tail := ^uint64(0)<<(from%64), ^uint64(0)>>(63-(to-1)%64)
	if first == last {
		return set[first]&head&tail != 0
	}
	if set[first]&head != 0 || set[last]&tail != 0 {
		return true
	}
	for _, w := range set[first+1 : last] {
		if w != 0 {
			return true
		}
	}
	return false
}
