package mmapcache

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/agentx/agentx/manifest"
)

// Cache is an open dataset: its tables and arenas, mapped read-only. It is safe for concurrent use until Close; what
// it returns lives as long.
type Cache struct {
	Root      string
	Manifest  *manifest.Manifest // of the dataset
	Structure *Structure
	Facts     StructureFacts
	Arenas    ArenaFacts

	maps   []*mapping
	starts startTable
	tokens []uint32
	forms  [2]rendering // by Form
	edges  edges
}

// Form is how a prompt goes on the wire.
type Form uint8

const (
	Text Form = iota // message texts, escaped for JSON
	IDs              // token ids in decimal, each followed by a comma
)

// rendering is the corpus in one form.
type rendering struct {
	data    []byte
	offsets []uint32 // of token i
}

// Open opens the dataset of the given key below a cache root. Sizes, headers, the digests of the tables and every index
// in them are checked here; starts and arenas by size here and by digest in Verify.
//
// An error about damage wraps manifest.ErrDamaged and names the file.
func Open(root, key string) (*Cache, error) {
	c := &Cache{Root: root, Structure: NewStructure()}
	if err := c.Guard(func() error { return c.open(key) }); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// OpenStructure opens the tables of a structure alone.
func OpenStructure(root, key string) (*Cache, error) {
	c := &Cache{Root: root, Structure: NewStructure()}
	err := c.Guard(func() error {
		m, err := readManifest(root, StructureKind, key, "")
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

// Close unmaps the cache.
func (c *Cache) Close() error {
	var errs []error
	for _, m := range c.maps {
		errs = append(errs, m.data.Unmap())
	}
	c.maps = nil
	return errors.Join(errs...)
}

func (c *Cache) open(key string) (err error) {
	if c.Manifest, err = readManifest(c.Root, DatasetKind, key, ""); err != nil {
		return err
	}
	for _, kind := range []string{StructureKind, StartsKind, ArenasKind} {
		part, ok := c.Manifest.Parts[kind]
		if !ok {
			return fmt.Errorf("%s: %w: names no %s", filepath.Join(c.Root, DatasetKind, key), manifest.ErrDamaged, kind)
		}
		m, err := readManifest(c.Root, kind, part.Key, part.Digest)
		if err != nil {
			return err
		}
		if err := c.openPart(m); err != nil {
			return err
		}
	}
	return c.checkLengths()
}

// readManifest reads the manifest of a directory and holds it against its name and, where given, its digest.
func readManifest(root, kind, key, digest string) (*manifest.Manifest, error) {
	dir := filepath.Join(root, kind, key)
	m, err := manifest.Read(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: there is no such %s: %w", dir, kind, err)
	}
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, manifest.FileName)
	switch {
	case m.Kind != kind || m.Key != key:
		return nil, fmt.Errorf("%s: %w: describes %s %s", path, manifest.ErrDamaged, m.Kind, m.Key)
	case digest != "" && m.Digest != digest:
		return nil, fmt.Errorf("%s: %w: not the manifest that the dataset names", path, manifest.ErrDamaged)
	}
	return m, nil
}

func (c *Cache) openPart(m *manifest.Manifest) error {
	dir := filepath.Join(c.Root, m.Kind, m.Key)
	files := map[string]*mapping{}
	for _, f := range m.Files {
		mp, err := openMapping(dir, f)
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s: %w: missing", filepath.Join(dir, f.Name), manifest.ErrDamaged)
		}
		if err != nil {
			return err
		}
		c.maps = append(c.maps, mp)
		files[f.Name] = mp
	}
	var err error
	switch m.Kind {
	case StructureKind:
		err = c.openStructure(m, files)
	case StartsKind:
		mp := files[startsFile]
		if mp == nil {
			return fmt.Errorf("%s: %w: not in the manifest", filepath.Join(dir, startsFile), manifest.ErrDamaged)
		}
		if c.starts, err = readStarts(mp.data); err != nil {
			return fmt.Errorf("%s: %w", mp.path, err)
		}
	case ArenasKind:
		err = c.openArenas(m, files)
	}
	return err
}

// flat returns the elements of a mapped flat file.
func flat[T uint8 | uint32](files map[string]*mapping, name, kind string) ([]T, error) {
	m := files[name]
	if m == nil {
		return nil, fmt.Errorf("%w: not in the manifest", manifest.ErrDamaged)
	}
	return readFlat[T](m.data, kind)
}

func (c *Cache) openStructure(m *manifest.Manifest, files map[string]*mapping) error {
	dir := filepath.Join(c.Root, m.Kind, m.Key)
	if err := decodeFacts(m, &c.Facts); err != nil {
		return err
	}
	s := c.Structure
	for name, read := range map[string]func([]byte) error{
		s.Traces.file: s.Traces.read, s.Sessions.file: s.Sessions.read, s.Turns.file: s.Turns.read,
		s.Segments.file: s.Segments.read, s.Runs.file: s.Runs.read, s.Tools.file: s.Tools.read,
	} {
		f, mp := files[name], files[name]
		if f == nil {
			return fmt.Errorf("%s: %w: not in the manifest", filepath.Join(dir, name), manifest.ErrDamaged)
		}
		entry, _ := m.File(name)
		if sum := sha256.Sum256(mp.data); hex.EncodeToString(sum[:]) != entry.SHA256 {
			return fmt.Errorf("%s: %w: content does not match its digest", mp.path, manifest.ErrDamaged)
		}
		if err := read(mp.data); err != nil {
			return fmt.Errorf("%s: %w", mp.path, err)
		}
	}
	if err := s.check(); err != nil {
		return fmt.Errorf("%s: %w: %v", dir, manifest.ErrDamaged, err)
	}
	return nil
}

func (c *Cache) openArenas(m *manifest.Manifest, files map[string]*mapping) (err error) {
	dir := filepath.Join(c.Root, m.Kind, m.Key)
	if err := decodeFacts(m, &c.Arenas); err != nil {
		return err
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
	bytes := func(kind string, to *[]byte) func(string) error {
		return func(name string) (err error) { *to, err = flat[uint8](files, name, kind); return err }
	}
	load("tokens.u32", words(kindTokens, &c.tokens))
	load("text.json", bytes(kindText, &c.forms[Text].data))
	load(textOffsetsFile, words(kindTextOffsets, &c.forms[Text].offsets))
	load("ids.txt", bytes(kindIDs, &c.forms[IDs].data))
	load(idOffsetsFile, words(kindIDOffsets, &c.forms[IDs].offsets))
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
	if want := s.Blocks() + s.Turns.Len(); c.starts.len() != want {
		return fmt.Errorf("%s: %w: %d starts for %d blocks and turns", c.partPath(StartsKind), manifest.ErrDamaged, c.starts.len(), want)
	}
	n := len(c.tokens)
	for form, r := range c.forms {
		if len(r.offsets) != n+1 || r.offsets[0] != 0 || int(r.offsets[n]) != len(r.data) {
			return fmt.Errorf("%s: %w: offsets, rendering and tokens do not agree", c.offsetsPath(Form(form)), manifest.ErrDamaged)
		}
	}
	if n == 0 || n != c.Arenas.Tokens {
		return fmt.Errorf("%s: %w: %d tokens, the manifest says %d", c.partPath(ArenasKind), manifest.ErrDamaged, n, c.Arenas.Tokens)
	}
	return nil
}

func (c *Cache) partPath(kind string) string {
	return filepath.Join(c.Root, kind, c.Manifest.Parts[kind].Key)
}

func (c *Cache) offsetsPath(form Form) string {
	return filepath.Join(c.partPath(ArenasKind), [...]string{Text: textOffsetsFile, IDs: idOffsetsFile}[form])
}

// Path returns the dataset's directory.
func (c *Cache) Path() string { return filepath.Join(c.Root, DatasetKind, c.Manifest.Key) }

// N returns the length of the prompt corpus, in tokens.
func (c *Cache) N() int { return len(c.tokens) }

// ReadProvenance reads where a directory of a cache came from.
func ReadProvenance(dir string) (p Provenance, err error) {
	data, err := os.ReadFile(filepath.Join(dir, manifest.ProvenanceName))
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

// bitSet returns the listed tokens or boundaries of a corpus of n tokens as a set.
func bitSet(n int, list []uint32) ([]uint64, error) {
	set := make([]uint64, n/64+1)
	for _, k := range list {
		if int(k) >= n {
			return nil, fmt.Errorf("%w: %d of %d tokens", manifest.ErrDamaged, k, n)
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
