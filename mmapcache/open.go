package mmapcache

import (
	"fmt"
	"math"
	"path/filepath"

	"github.com/agentx/agentx/manifest"
)

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

// openParts opens the parts of a dataset and checks them against each other.
func (c *Cache) openParts(dataset *manifest.Manifest, parts []*manifest.Manifest) error {
	c.Manifest = dataset
	for _, m := range parts {
		if err := c.openPart(m); err != nil {
			return err
		}
	}
	return c.checkLengths()
}

func (c *Cache) openPart(m *manifest.Manifest) error {
	if err := CheckContents(c.Root, m); err != nil {
		return err
	}
	switch m.Kind {
	case StructureKind:
		return c.openStructure(m)
	case PlacementKind:
		return c.openPlacement(m)
	}
	return c.openArenas(m)
}

// openStructure reads the tables into memory and checks their digests there. A program that overwrites the files later,
// as cp and rsync do, changes nothing here.
func (c *Cache) openStructure(m *manifest.Manifest) error {
	dir := filepath.Join(c.Root, m.Kind, m.Key)
	if err := decodeFacts(m, &c.Facts); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(dir, manifest.FileName), err)
	}
	s := c.Structure
	for _, t := range s.files() {
		entry, _ := m.File(t.name)
		data, err := c.disk.load(dir, entry)
		if err != nil {
			return err
		}
		if manifest.Sum(data) != entry.SHA256 {
			return fmt.Errorf("%s: %w: content does not match its digest", filepath.Join(dir, t.name), manifest.ErrDamaged)
		}
		if err := t.read(data); err != nil {
			return fmt.Errorf("%s: %w", filepath.Join(dir, t.name), err)
		}
	}
	if err := s.check(); err != nil {
		return fmt.Errorf("%s: %w: %v", dir, manifest.ErrDamaged, err)
	}
	f := c.Facts
	if f.Traces != s.Traces.Len() || f.Sessions != s.Sessions.Len() || f.Turns != s.Turns.Len() || f.Blocks != s.Blocks() {
		return fmt.Errorf("%s: %w: the facts count %d traces, %d sessions, %d turns, %d blocks; the tables hold %d, %d, %d, %d", filepath.Join(dir, manifest.FileName),
			manifest.ErrDamaged, f.Traces, f.Sessions, f.Turns, f.Blocks, s.Traces.Len(), s.Sessions.Len(), s.Turns.Len(), s.Blocks())
	}
	if n := s.RecordedStarts(); f.Starts != n {
		return fmt.Errorf("%s: %w: the facts count %d recorded starts, the tables hold %d", filepath.Join(dir, manifest.FileName), manifest.ErrDamaged, f.Starts, n)
	}
	return nil
}

// mapFiles maps the files of a part, by name.
func (c *Cache) mapFiles(m *manifest.Manifest) (map[string]*mapping, error) {
	files := map[string]*mapping{}
	for _, f := range m.Files {
		mapped, err := c.disk.openMapping(filepath.Join(c.Root, m.Kind, m.Key), f)
		if err != nil {
			return nil, err
		}
		c.maps = append(c.maps, mapped)
		files[f.Name] = mapped
	}
	return files, nil
}

func (c *Cache) openPlacement(m *manifest.Manifest) error {
	files, err := c.mapFiles(m)
	if err != nil {
		return err
	}
	mapped := files[placementFile]
	if c.placement, err = readPlacement(mapped.data); err != nil {
		return fmt.Errorf("%s: %w", mapped.path, err)
	}
	return nil
}

func (c *Cache) openArenas(m *manifest.Manifest) error {
	if err := decodeFacts(m, &c.Arenas); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(c.Root, m.Kind, m.Key, manifest.FileName), err)
	}
	files, err := c.mapFiles(m)
	if err != nil {
		return err
	}
	var splits, illFormed []uint32
	text, ids := &c.renderings[Text], &c.renderings[IDs]
	for _, f := range []struct {
		name string
		read func(data []byte) error
	}{
		{tokensFile, readFlatInto(&c.tokens, kindTokens)},
		{textFile, readFlatInto(&text.data, kindText)},
		{textOffsetsFile, readFlatInto(&text.offsets, kindTextOffsets)},
		{idsFile, readFlatInto(&ids.data, kindIDs)},
		{idOffsetsFile, readFlatInto(&ids.offsets, kindIDOffsets)},
		{splitsFile, readFlatInto(&splits, kindSplits)},
		{splitsFile, func([]byte) (err error) { c.splits.inCharacter, err = bitSet(len(c.tokens), splits); return err }},
		{illFormedFile, readFlatInto(&illFormed, kindIllFormed)},
		{illFormedFile, func([]byte) (err error) { c.splits.illFormed, err = bitSet(len(c.tokens), illFormed); return err }},
	} {
		if err := f.read(files[f.name].data); err != nil {
			return fmt.Errorf("%s: %w", files[f.name].path, err)
		}
	}
	c.splits.notEmpty = len(splits)+len(illFormed) > 0
	return nil
}

// checkLengths checks that the parts have the lengths that the others give them.
func (c *Cache) checkLengths() error {
	s := c.Structure
	if want := s.Blocks() + s.Turns.Len(); c.placement.len() != want {
		return fmt.Errorf("%s: %w: %d starts for %d blocks and turns", c.partPath(PlacementKind), manifest.ErrDamaged, c.placement.len(), want)
	}
	n := len(c.tokens)
	for encoding, r := range c.renderings {
		if len(r.offsets) != n+1 || r.offsets[0] != 0 || int(r.offsets[n]) != len(r.data) {
			return fmt.Errorf("%s: %w: %d offsets for %d tokens, or they do not span the %d bytes of the rendering", c.offsetsPath(Encoding(encoding)), manifest.ErrDamaged, len(r.offsets), n, len(r.data))
		}
	}
	if n == 0 || n > math.MaxUint32 || n != c.Arenas.Tokens {
		return fmt.Errorf("%s: %w: %d tokens, the manifest says %d", c.partPath(ArenasKind), manifest.ErrDamaged, n, c.Arenas.Tokens)
	}
	return nil
}
