package mmapcache

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache/internal/cachedir"
)

// Shard is what the manifest of a dataset says about one of its shards: a structure and its starts. Traces are numbered
// through the shards in their order.
type Shard struct {
	Structure manifest.Part `json:"structure"`
	Starts    manifest.Part `json:"starts"`
	Traces    int           `json:"traces"` // may be 0: every row of the shard was skipped
	Sessions  int           `json:"sessions"`
	Turns     int           `json:"turns"`
	Blocks    int           `json:"blocks"`
}

// DatasetFacts is what the manifest of a dataset of shards says about it. The counts are those of all shards, and the numbers
// of files those of the whole input.
type DatasetFacts struct {
	StructureFacts
	Shards []Shard `json:"shards"`
}

// Reference names the directory of a part.
type Reference struct {
	Kind string
	manifest.Part
}

// Name returns "kind/key", the path of the directory below its root.
func (r Reference) Name() string { return r.Kind + "/" + r.Key }

// HasShards reports whether a dataset is a list of shards, by the version of its manifest, so that this is known in every format.
// Any other dataset is one structure and its starts.
func HasShards(dataset *manifest.Manifest) bool {
	return dataset.Kind == DatasetKind && dataset.Manifest == manifest.PartsInFacts
}

// PartsOf lists the directories that a dataset names, in the order in which they are published: structure and starts of each
// shard, and the arenas. It is empty for a manifest of another kind. Errors wrap ErrDamaged.
func PartsOf(dataset *manifest.Manifest) (list []Reference, err error) {
	if HasShards(dataset) {
		facts, err := DatasetFactsOf(dataset)
		if err != nil {
			return nil, err
		}
		for _, s := range facts.Shards {
			list = append(list, Reference{StructureKind, s.Structure}, Reference{PlacementKind, s.Starts})
		}
	}
	for _, kind := range PartKinds() {
		if part, ok := dataset.Parts[kind]; ok {
			list = append(list, Reference{kind, part})
		}
	}
	return list, nil
}

// DatasetFactsOf returns what the manifest of a dataset of shards says about it. Errors wrap ErrDamaged.
func DatasetFactsOf(m *manifest.Manifest) (f DatasetFacts, err error) {
	if err = decodeFacts(m, &f); err == nil {
		err = f.check(m)
	}
	if err != nil {
		return f, err
	}
	var sum Shard
	for k, s := range f.Shards {
		if !isName(s.Structure.Key) || !isName(s.Starts.Key) || min(s.Traces, s.Sessions, s.Turns, s.Blocks) < 0 {
			return f, fmt.Errorf("%s %s: %w: shard %d: a key is no plain name, or a count is negative", m.Kind, m.Key, manifest.ErrDamaged, k)
		}
		sum.Traces, sum.Sessions, sum.Turns, sum.Blocks = sum.Traces+s.Traces, sum.Sessions+s.Sessions, sum.Turns+s.Turns, sum.Blocks+s.Blocks
	}
	if f.Traces != sum.Traces || f.Sessions != sum.Sessions || f.Turns != sum.Turns || f.Blocks != sum.Blocks || sum.Traces == 0 {
		return f, fmt.Errorf("%s %s: %w: %d traces, %d sessions, %d turns, %d blocks, its shards have %d, %d, %d, %d", m.Kind, m.Key,
			manifest.ErrDamaged, f.Traces, f.Sessions, f.Turns, f.Blocks, sum.Traces, sum.Sessions, sum.Turns, sum.Blocks)
	}
	return f, nil
}

// isName reports whether a key is the name of a directory, which leads nowhere else.
func isName(key string) bool { return key != "" && key == filepath.Base(key) && key[0] != '.' }

// NameShards sets the facts of a dataset of shards. AddPart names its arenas.
func (b *Builder) NameShards(f DatasetFacts) error {
	b.manifest.Manifest = manifest.PartsInFacts
	return b.setFacts(f)
}

// namedKinds lists the kinds of part that a manifest names in its parts. Those of shards stand in the facts, which it checks.
// Errors wrap ErrDamaged.
func namedKinds(m *manifest.Manifest) (kinds []string, facts DatasetFacts, err error) {
	switch {
	case m.Kind != DatasetKind:
		return nil, facts, nil
	case HasShards(m):
		facts, err = DatasetFactsOf(m)
		return []string{ArenasKind}, facts, err
	}
	return PartKinds(), facts, nil
}

// SessionIDs returns the ids of the sessions of a structure, in order. It reads their table alone. Errors about damage wrap
// ErrDamaged.
func SessionIDs(root string, structure *manifest.Manifest) ([]string, error) {
	table := newTable[Session](sessionsFile)
	if err := realDisk().readTable(root, structure, table.asFile()); err != nil {
		return nil, err
	}
	ids := make([]string, table.Len())
	for k := range ids {
		ids[k] = table.At(k).ID
	}
	return ids, nil
}

// shard is a structure and its starts, opened when a trace of it is first asked for.
type shard struct {
	Shard
	firstTrace, firstSession int // as many traces and sessions have the shards before it

	tables atomic.Pointer[Structure] // nil: not in memory

	mu     sync.Mutex     // of what follows
	starts placementTable // written before tables are first set, and read after; none in a cache without prompts
	damage error          // found when it was opened
}

// setShards sets the shards of a cache, in their order.
func (c *Cache) setShards(list []Shard) {
	traces, sessions := 0, 0
	for _, s := range list {
		c.shards = append(c.shards, &shard{Shard: s, firstTrace: traces, firstSession: sessions})
		traces, sessions = traces+s.Traces, sessions+s.Sessions
	}
}

// setOnly gives a cache of one shard the tables of that, and what is said of them.
func (c *Cache) setOnly(s *Structure, facts StructureFacts) {
	c.Structure, c.Facts = s, facts
	only := c.shards[0]
	only.Traces, only.Sessions, only.Turns, only.Blocks = s.Traces.Len(), s.Sessions.Len(), s.Turns.Len(), s.Blocks()
}

// locate returns the shard of trace i, and its number there.
func (c *Cache) locate(i int) (s *shard, inShard int, err error) {
	if i < 0 || i >= c.Traces() {
		return nil, 0, fmt.Errorf("trace %d out of range [0,%d)", i, c.Traces())
	}
	s = c.shards[sort.Search(len(c.shards), func(k int) bool { return c.shards[k].firstTrace > i })-1]
	return s, i - s.firstTrace, nil
}

// tablesOf returns the tables of the shard of trace i, and the number of the trace in them.
func (c *Cache) tablesOf(i int) (s *shard, tables *Structure, inShard int, err error) {
	if s, inShard, err = c.locate(i); err == nil {
		tables, err = c.take(s)
	}
	return s, tables, inShard, err
}

// take returns the tables of a shard. It opens the shard unless it is open. What it says of a damaged shard stays.
func (c *Cache) take(s *shard) (tables *Structure, err error) {
	if tables = s.tables.Load(); tables != nil {
		return tables, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if tables = s.tables.Load(); tables != nil || s.damage != nil {
		return tables, s.damage
	}
	err = c.Guard(func() error { tables, err = c.openShard(s); return err })
	if err == nil {
		s.tables.Store(tables)
	} else if cachedir.IsDamage(err) {
		s.damage = err
	}
	return tables, err
}

// drop gives back the memory of the tables of a shard, which the next take reads again. Its starts stay mapped.
func (s *shard) drop() { s.tables.Store(nil) }

// openShard reads the tables of a shard and, in a cache with prompts, maps its starts.
func (c *Cache) openShard(s *shard) (*Structure, error) {
	m, err := c.readPart(StructureKind, s.Structure)
	if err != nil {
		return nil, err
	}
	tables, facts, err := c.readStructure(m)
	switch {
	case err != nil:
	case c.Manifest != nil && HasShards(c.Manifest):
		err = c.checkTables(s, tables, facts)
	default:
		c.setOnly(tables, facts)
	}
	if err != nil || !c.prompts || s.starts.packed != nil {
		return tables, err
	}
	if m, err = c.readPart(PlacementKind, s.Starts); err != nil {
		return nil, err
	}
	starts, err := c.openPlacement(m)
	if err != nil {
		return nil, err
	}
	if want := tables.Blocks() + tables.Turns.Len(); starts.len() != want {
		return nil, fmt.Errorf("%s: %w: %d starts for %d blocks and turns", filepath.Join(c.Root, PlacementKind, m.Key), manifest.ErrDamaged, starts.len(), want)
	}
	s.starts = starts
	return tables, nil
}

// checkTables compares the tables of a shard with what the dataset says of it.
func (c *Cache) checkTables(s *shard, tables *Structure, facts StructureFacts) error {
	dir := filepath.Join(c.Root, StructureKind, s.Structure.Key)
	if s.Traces != facts.Traces || s.Sessions != facts.Sessions || s.Turns != facts.Turns || s.Blocks != facts.Blocks {
		return fmt.Errorf("%s: %w: %d traces, %d sessions, %d turns, %d blocks, the dataset %s says %d, %d, %d, %d", dir, manifest.ErrDamaged,
			facts.Traces, facts.Sessions, facts.Turns, facts.Blocks, c.Manifest.Key, s.Traces, s.Sessions, s.Turns, s.Blocks)
	}
	for k := range facts.Traces {
		if t := tables.Traces.At(k); t.Scope == globalScope {
			return fmt.Errorf("%s: %w: trace %d %q has the scope global: a dataset of several shards has none of that", dir, manifest.ErrDamaged, k, t.ID)
		}
	}
	return nil
}

// manifestReaders is how many manifests are read at a time: more than there are cores, for file systems that answer late.
const manifestReaders = 16

// checkShards checks the manifests of all shards, and that the files that they list are there in full size. It returns the error of the
// first shard that has one.
func (c *Cache) checkShards() error {
	return c.eachAtOnce(manifestReaders, func(s *shard) error {
		err := c.checkPart(StructureKind, s.Structure)
		if err == nil && c.prompts {
			err = c.checkPart(PlacementKind, s.Starts)
		}
		return err
	})
}

// eachAtOnce calls f for every shard, several at a time. After an error it begins no other, and it returns that of the first shard that
// has one.
func (c *Cache) eachAtOnce(several int, f func(s *shard) error) error {
	errs := make([]error, len(c.shards))
	var next atomic.Int64
	var failed atomic.Bool
	var running sync.WaitGroup
	for range min(several, len(errs)) {
		running.Go(func() {
			for k := next.Add(1) - 1; k < int64(len(errs)) && !failed.Load(); k = next.Add(1) - 1 {
				if errs[k] = f(c.shards[k]); errs[k] != nil {
					failed.Store(true)
				}
			}
		})
	}
	running.Wait()
	return cmp.Or(errs...)
}

// checkPart checks the manifest of a part, and that its files have their sizes.
func (c *Cache) checkPart(kind string, p manifest.Part) error {
	m, err := c.readPart(kind, p)
	if err != nil {
		return err
	}
	dir := filepath.Join(c.Root, kind, p.Key) + string(filepath.Separator)
	for _, f := range m.Files {
		path := dir + f.Name
		info, err := c.disk.Find(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("%s: %w: %w", path, manifest.ErrDamaged, cachedir.ErrMissing)
		case err != nil:
			return err
		case !info.Mode().IsRegular() || info.Size() != f.Size:
			return fmt.Errorf("%s: %w: not a file of %d bytes", path, manifest.ErrDamaged, f.Size)
		}
	}
	return nil
}

// readPart reads the manifest of a part and checks what it lists.
func (c *Cache) readPart(kind string, p manifest.Part) (*manifest.Manifest, error) {
	m, err := c.disk.readManifest(c.Root, kind, p.Key, p.Digest)
	if err == nil {
		err = CheckContents(c.Root, m)
	}
	return m, err
}

// blockStart returns the token of the corpus at which a block of a trace begins.
func (s *shard) blockStart(t *Trace, block uint32) uint32 {
	return s.starts.at(int(t.FirstBlock + block))
}

// fillerStart returns the token of the corpus at which the filler of a turn begins: fillers follow the blocks of all traces.
func (s *shard) fillerStart(t *Trace, turn uint32) uint32 {
	return s.starts.at(s.Blocks + int(t.FirstTurn) + int(turn))
}
