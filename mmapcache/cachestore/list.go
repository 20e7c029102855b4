package cachestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/mmapcache/internal/cachedir"
)

// Entry is one directory of a cache root.
type Entry struct {
	Path       string     `json:"path"`
	Key        string     `json:"key"`
	Kind       string     `json:"kind"`
	Bytes      int64      `json:"bytes"`             // of its own files
	TotalBytes int64      `json:"bytes_with_parts"`  // of a dataset: with its parts, which other datasets may name too
	Shards     int        `json:"shards,omitempty"`  // of a dataset that is a list of shards: how many
	Created    *time.Time `json:"created"`           // nil where the provenance cannot be read
	LastUse    *time.Time `json:"used"`              // of a dataset, to the hour; nil: not recorded
	Pinned     bool       `json:"pinned"`            // of a part: a pinned dataset names it
	Unnamed    bool       `json:"unnamed,omitempty"` // of a part: no dataset names it
	Source     string     `json:"source"`            // first input file, and how many more
	InUse      string     `json:"in_use"`            // the processes that left a note of use; "": none
	Damaged    string     `json:"damaged,omitempty"` // what is wrong with the manifest

	Unreadable string `json:"unreadable,omitempty"` // why the manifest could not be read; damaged or not is unknown
}

// Overview is what a cache root holds, with its datasets alone one by one.
type Overview struct {
	Datasets []Entry
	Parts    Total // of all datasets, each counted once
	Unnamed  Total // those of them that no dataset names; none where a dataset cannot be read
}

// Total is a number of directories and their size.
type Total struct {
	Count int
	Bytes int64
}

func (t *Total) add(bytes int64) { t.Count, t.Bytes = t.Count+1, t.Bytes+bytes }

// List returns the directories of a cache root: datasets first, then by kind and age. It skips names that do not belong to
// a cache.
func List(root string) ([]Entry, error) { return realDisk().listRoot(root) }

// Manifests reads the manifests of one kind in a root, in the order of their keys. It leaves out those that cannot be read.
func Manifests(root, kind string) ([]*manifest.Manifest, error) {
	d := realDisk()
	keys, err := d.keysOf(root, kind)
	if err != nil {
		return nil, err
	}
	found := make([]*manifest.Manifest, len(keys))
	_ = each(context.Background(), len(keys), partsAtOnce, func(_ context.Context, k int) error { // never fails
		found[k], _ = d.ReadManifest(root, kind, keys[k], "")
		return nil
	})
	return slices.DeleteFunc(found, func(m *manifest.Manifest) bool { return m == nil }), nil
}

// Survey is List for datasets. Of parts it returns how many there are: it does not read their manifests.
func Survey(root string) (*Overview, error) {
	l := newLister(realDisk(), root)
	if err := l.addDatasets(); err != nil {
		return nil, err
	}
	o := &Overview{Datasets: l.list}
	for name, bytes := range l.sizes {
		o.Parts.add(bytes)
		if l.unnamed(name) {
			o.Unnamed.add(bytes)
		}
	}
	return o, nil
}

func (d disk) listRoot(root string) ([]Entry, error) {
	l := newLister(d, root)
	if err := l.addDatasets(); err != nil {
		return nil, err
	}
	for _, kind := range slices.Backward(mmapcache.PartKinds()) {
		from := len(l.list)
		for _, key := range l.keys[kind] {
			e, _, err := l.describe(kind, key)
			if err != nil {
				continue // removed since it was listed
			}
			name := kind + "/" + key
			e.Bytes = l.sizes[name]
			e.TotalBytes, e.Pinned, e.Unnamed = e.Bytes, l.pinned[name], l.unnamed(name)
			l.list = append(l.list, e)
		}
		sortEntries(l.list[from:])
	}
	return l.list, nil
}

// lister is one run of List or Survey.
type lister struct {
	disk
	root   string
	notes  *durable.Notes
	keys   map[string][]string // of parts, by kind
	sizes  map[string]int64    // of parts, by "kind/key"
	named  map[string]bool     // parts that a dataset names
	pinned map[string]bool     // parts that a pinned dataset names
	opaque bool                // the parts of a dataset are unknown
	list   []Entry
}

func newLister(d disk, root string) *lister {
	return &lister{
		disk: d, root: root, notes: readNotes(root), list: []Entry{},
		keys: map[string][]string{}, sizes: map[string]int64{}, named: map[string]bool{}, pinned: map[string]bool{},
	}
}

// addDatasets lists the datasets. It first takes the sizes of all parts.
func (l *lister) addDatasets() (err error) {
	for _, kind := range mmapcache.PartKinds() {
		keys, err := l.keysOf(l.root, kind)
		if err != nil {
			return err
		}
		l.keys[kind] = keys
		sizes := make([]int64, len(keys))
		_ = each(context.Background(), len(keys), partsAtOnce, func(_ context.Context, k int) error { // never fails
			sizes[k] = sizeOf(l.root, kind, keys[k])
			return nil
		})
		for k, key := range keys {
			l.sizes[kind+"/"+key] = sizes[k]
		}
	}
	keys, err := l.keysOf(l.root, mmapcache.DatasetKind)
	if err != nil {
		return err
	}
	for _, key := range keys {
		e, m, err := l.describe(mmapcache.DatasetKind, key)
		if err != nil {
			continue // removed since it was listed
		}
		l.addDatasetFields(&e, m)
		l.list = append(l.list, e)
	}
	sortEntries(l.list)
	return nil
}

// unnamed reports whether no dataset names a part.
func (l *lister) unnamed(name string) bool { return !l.opaque && !l.named[name] }

// sortEntries sorts by age, and puts those without a date first.
func sortEntries(list []Entry) {
	made := func(e Entry) (t time.Time) {
		if e.Created != nil {
			t = *e.Created
		}
		return t
	}
	slices.SortStableFunc(list, func(a, b Entry) int { return made(a).Compare(made(b)) })
}

// addDatasetFields adds what only a dataset has: total size, shards, last use, pin. The manifest is nil where it cannot be read.
func (l *lister) addDatasetFields(e *Entry, m *manifest.Manifest) {
	e.Bytes = sizeOf(l.root, e.Kind, e.Key)
	e.TotalBytes = e.Bytes
	e.LastUse = lastUse(l.root, e.Key)
	pin, err := readPin(l.root, e.Key)
	e.Pinned = pin != nil || err != nil
	if m == nil {
		l.opaque = true
		return
	}
	parts, err := mmapcache.PartsOf(m)
	if err != nil {
		l.opaque, e.Damaged = true, err.Error()
	}
	seen := map[string]bool{}
	for _, part := range parts {
		name := part.Name()
		if part.Kind == mmapcache.StructureKind && mmapcache.HasShards(m) {
			e.Shards++
		}
		if !seen[name] {
			e.TotalBytes += l.sizes[name]
		}
		seen[name], l.named[name] = true, true
		l.pinned[name] = l.pinned[name] || e.Pinned
	}
}

// describe returns the fields that every kind of directory has, and the manifest where it can be read. An error says that the
// directory is gone.
func (l *lister) describe(kind, key string) (e Entry, m *manifest.Manifest, err error) {
	e = Entry{Path: filepath.Join(l.root, kind, key), Key: key, Kind: kind, InUse: l.notes.Users(kind + "/" + key)}
	if m, err = l.ReadManifest(l.root, kind, key, ""); err == nil {
		err = mmapcache.CheckFormat(e.Path, m)
	}
	switch {
	case err == nil:
	case cachedir.IsMissing(err) && !l.Listed(e.Path):
		return e, nil, err
	case cachedir.IsDamage(err) && !errors.Is(err, syscall.ESTALE):
		e.Damaged = err.Error()
	default:
		e.Unreadable = err.Error()
	}
	if p, err := mmapcache.ReadProvenance(e.Path); err == nil {
		e.Created = &p.Created
		e.Source = p.FirstSource()
	}
	return e, m, nil
}

// sizeOf returns the bytes of the files of a directory, as far as they can be seen.
func sizeOf(root, kind, key string) (n int64) {
	entries, _ := os.ReadDir(filepath.Join(root, kind, key))
	for _, f := range entries {
		if info, err := f.Info(); err == nil {
			n += info.Size()
		}
	}
	return n
}

// Shards says what a root has of the shards of a dataset.
type Shards struct {
	Total      int   `json:"total"`
	Whole      int   `json:"whole"`
	Missing    int   `json:"missing"`
	Damaged    int   `json:"damaged"`
	Unreadable int   `json:"unreadable,omitempty"`
	Files      int   `json:"files"` // of the directories that are whole
	Bytes      int64 `json:"bytes"` // of these files, without manifests

	List []ShardInfo `json:"list,omitempty"` // in their order
}

// States of a shard. The worse one of its two directories counts.
const (
	ShardWhole      = "whole"      // both directories exist, and their files have their full size
	ShardMissing    = "missing"    // a directory does not exist
	ShardDamaged    = "damaged"    // a file is damaged or missing, or the dataset names another manifest
	ShardUnreadable = "unreadable" // a file cannot be reached: damaged or not is unknown
)

// ShardInfo says what a root has of one shard.
type ShardInfo struct {
	mmapcache.Shard
	Path  string `json:"path"`        // of the structure
	First int    `json:"first_trace"` // number of its first trace in the dataset
	State string `json:"state"`       // ShardWhole, ...
	Why   string `json:"why"`         // of a shard that is not whole, else ""
	Files int    `json:"files"`
	Bytes int64  `json:"bytes"`
}

// LookAtShards looks up the shards of a dataset, whose manifest it is given, and returns nil for a dataset that is no list of shards.
// It reads manifests and sizes, as an opening does, and none of the files. Errors about the manifest wrap manifest.ErrDamaged.
func LookAtShards(ctx context.Context, root string, dataset *manifest.Manifest) (*Shards, error) {
	if !mmapcache.HasShards(dataset) {
		return nil, nil
	}
	facts, err := mmapcache.DatasetFactsOf(dataset)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(mmapcache.DatasetPath(root, dataset.Key), manifest.FileName), err)
	}
	s := &Shards{Total: len(facts.Shards), List: make([]ShardInfo, len(facts.Shards))}
	first := 0
	for k, shard := range facts.Shards {
		s.List[k] = ShardInfo{Shard: shard, Path: filepath.Join(root, mmapcache.StructureKind, shard.Structure.Key), First: first, State: ShardWhole}
		first += shard.Traces
	}
	err = each(ctx, len(s.List), partsAtOnce, func(_ context.Context, k int) error {
		s.List[k].look(root)
		return nil
	})
	s.sum()
	return s, err
}

// sum counts the shards. One that the dataset names twice has its files once.
func (s *Shards) sum() {
	seen := map[mmapcache.Shard]bool{}
	for _, shard := range s.List {
		switch shard.State {
		case ShardWhole:
			s.Whole++
		case ShardMissing:
			s.Missing++
		case ShardDamaged:
			s.Damaged++
		case ShardUnreadable:
			s.Unreadable++
		}
		if !seen[shard.Shard] {
			seen[shard.Shard] = true
			s.Files += shard.Files
			s.Bytes += shard.Bytes
		}
	}
}

// look looks up the two directories of a shard.
func (s *ShardInfo) look(root string) {
	for _, part := range []mmapcache.Reference{{Kind: mmapcache.StructureKind, Part: s.Structure}, {Kind: mmapcache.PlacementKind, Part: s.Starts}} {
		m, err := mmapcache.Lookup(root, part.Kind, part.Key)
		if err == nil && m == nil {
			err = fmt.Errorf("%s: %w", filepath.Join(root, part.Kind, part.Key), mmapcache.ErrNoCache)
		} else if err == nil && m.Digest != part.Digest {
			err = fmt.Errorf("%s: %w: not the manifest that the dataset names", filepath.Join(root, part.Kind, part.Key, manifest.FileName), manifest.ErrDamaged)
		}
		if err == nil {
			s.Files += len(m.Files)
			s.Bytes += m.Size()
			continue
		}
		if s.State != ShardWhole && errors.Is(err, mmapcache.ErrNoCache) {
			continue // what is known of the structure is worse
		}
		s.Why = err.Error()
		switch {
		case errors.Is(err, mmapcache.ErrNoCache):
			s.State = ShardMissing
		case cachedir.IsDamage(err):
			s.State = ShardDamaged
		default:
			s.State = ShardUnreadable
		}
	}
}
