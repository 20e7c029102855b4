package mmapcache

import (
	"fmt"
	"math"
	"path/filepath"

	"github.com/agentx/agentx/manifest"
)

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
