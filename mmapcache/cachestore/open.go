package cachestore

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/mmapcache/internal/cachedir"
)

// Dataset is an open dataset that is noted as in use until Close.
type Dataset struct {
	*mmapcache.Cache
	use *Use
}

// Close closes the dataset and removes the note.
func (d *Dataset) Close() error {
	defer d.use.Close()
	return d.Cache.Close()
}

// Open opens a dataset, notes it as in use until Close, and records the use. It waits for a dataset that another process
// is replacing. An error about a dataset that does not exist wraps mmapcache.ErrNoCache.
func Open(ctx context.Context, root, key string) (*Dataset, error) {
	return realDisk().openDataset(ctx, root, key, mmapcache.Open)
}

// OpenTables is Open for the tables of a dataset alone; mmapcache.OpenTables says what that leaves out.
func OpenTables(ctx context.Context, root, key string) (*Dataset, error) {
	return realDisk().openDataset(ctx, root, key, mmapcache.OpenTables)
}

// OpenStructure opens a structure, which no dataset need name, and notes it as in use until Close.
func OpenStructure(ctx context.Context, root, key string) (dataset *Dataset, err error) {
	path := filepath.Join(root, mmapcache.StructureKind, key)
	err = realDisk().RetryMissing(ctx, path, func() error {
		use := NoteUse(ctx, root, mmapcache.StructureKind+"/"+key)
		cache, err := mmapcache.OpenStructure(root, key)
		if err != nil {
			use.Close()
			return err
		}
		dataset = &Dataset{cache, use}
		return nil
	})
	return dataset, err
}

// openDataset opens a dataset with open. If the dataset was replaced between the note and the opening, openDataset notes
// its new parts and opens it again.
func (d disk) openDataset(ctx context.Context, root, key string, open func(root, key string) (*mmapcache.Cache, error)) (dataset *Dataset, err error) {
	Touch(root, key)
	path := mmapcache.DatasetPath(root, key)
	err = d.RetryMissing(ctx, path, func() error {
		use, noted := d.noteDataset(ctx, root, key)
		cache, err := open(root, key)
		if err == nil && noted == cache.Manifest.Digest {
			dataset = &Dataset{cache, use}
			return nil
		}
		if err == nil {
			err = errors.Join(fmt.Errorf("%s: %w: missing when it was noted as in use", path, cachedir.ErrMissing), cache.Close())
		}
		use.Close()
		return err
	})
	return dataset, err
}

// minPrefix is the shortest prefix of a key that names a dataset or part, in characters.
const minPrefix = 8

// Name is a directory of a cache root.
type Name struct{ Root, Kind, Key string }

// Find returns what a user names: by the path of its directory, or by a unique prefix of its key in a root. It finds datasets, or where
// kinds are given directories of these. An error about one that does not exist wraps mmapcache.ErrNoCache.
func Find(root, name string, kinds ...string) (Name, error) {
	return realDisk().find(root, name, kinds...)
}

func (d disk) find(root, name string, kinds ...string) (Name, error) {
	if len(kinds) == 0 {
		kinds = []string{mmapcache.DatasetKind}
	}
	abs, err := filepath.Abs(name)
	if err != nil {
		return Name{}, err
	}
	if kind := filepath.Base(filepath.Dir(abs)); slices.Contains(kinds, kind) && isKey(filepath.Base(abs)) {
		info, err := d.Find(abs)
		if err == nil && info.IsDir() {
			return Name{filepath.Dir(filepath.Dir(abs)), kind, filepath.Base(abs)}, nil
		}
		if err != nil && !cachedir.IsAbsent(err) {
			return Name{}, fmt.Errorf("cache %s: %w", name, err)
		}
		if strings.ContainsRune(name, filepath.Separator) {
			return Name{}, fmt.Errorf("cache %s: %w there", name, mmapcache.ErrNoCache)
		}
	}
	if len(name) < minPrefix || strings.ContainsRune(name, filepath.Separator) {
		return Name{}, fmt.Errorf("cache %s: %w: want the path that convert printed or %d characters or more of its key", name, mmapcache.ErrNoCache, minPrefix)
	}
	kind, key, err := d.findPrefix(root, name, kinds)
	return Name{root, kind, key}, err
}

// findPrefix finds the one directory of a root whose key begins with a prefix.
func (d disk) findPrefix(root, prefix string, kinds []string) (kind, key string, err error) {
	for _, k := range kinds {
		keys, err := d.keysOf(root, k)
		if err != nil {
			return "", "", fmt.Errorf("cache %s: %w", prefix, err)
		}
		for _, candidate := range keys {
			if !strings.HasPrefix(candidate, prefix) {
				continue
			}
			if key != "" {
				return "", "", fmt.Errorf("cache %s: more than one key in %s begins with it: give more of its characters", prefix, root)
			}
			kind, key = k, candidate
		}
	}
	if key == "" {
		return "", "", fmt.Errorf("cache %s: %w in %s", prefix, mmapcache.ErrNoCache, root)
	}
	return kind, key, nil
}

// IsCachePath reports whether a path has the form ROOT/KIND/KEY of a directory of a root, whether or not it exists.
func IsCachePath(path string) bool {
	path = filepath.Clean(path)
	return slices.Contains(mmapcache.Kinds(), filepath.Base(filepath.Dir(path))) && isKey(filepath.Base(path))
}

// Directory is one directory of a described dataset.
type Directory struct {
	Path       string                `json:"path"`
	Manifest   *manifest.Manifest    `json:"manifest"`
	Provenance *mmapcache.Provenance `json:"provenance"` // nil where it cannot be read
}

// Info describes a dataset and its parts.
type Info struct {
	Key         string      `json:"key"`
	LastUse     *time.Time  `json:"used"`             // to the hour; nil: not recorded
	Pin         *PinInfo    `json:"pin"`              // nil: not pinned
	InUse       string      `json:"in_use"`           // the processes that left a note of use; "": none
	Directories []Directory `json:"directories"`      // the dataset, then its parts; of a dataset of shards the dataset and the arenas
	Shards      *Shards     `json:"shards,omitempty"` // nil, unless the caller has set it to what LookAtShards returns
}

// Describe reads the manifests of a dataset and its parts, without those of shards. It waits for a dataset that another process is
// replacing.
func Describe(root, key string) (*Info, error) {
	info := &Info{Key: key, LastUse: lastUse(root, key)}
	var err error
	if info.Pin, err = readPin(root, key); err != nil {
		return nil, err
	}
	info.InUse = readNotes(root).Users(mmapcache.DatasetKind + "/" + key)
	d := realDisk()
	return info, d.RetryMissing(context.Background(), mmapcache.DatasetPath(root, key), func() (err error) {
		info.Directories, err = d.directories(root, key)
		return err
	})
}

// directories reads the manifest and the provenance of a dataset and of its parts.
func (d disk) directories(root, key string) ([]Directory, error) {
	dataset, err := d.directory(root, mmapcache.DatasetKind, manifest.Part{Key: key})
	if err != nil {
		return nil, err
	}
	list := []Directory{dataset}
	for _, kind := range mmapcache.AllPartKinds() {
		named, ok := dataset.Manifest.Parts[kind]
		if !ok && (mmapcache.HasShards(dataset.Manifest) || mmapcache.HasTexts(dataset.Manifest) || kind == mmapcache.TextsKind) {
			continue
		}
		part, err := d.directory(root, kind, named)
		if err != nil {
			return list, err
		}
		list = append(list, part)
	}
	return list, nil
}

// directory reads the manifest and, if it can, the provenance of a directory.
func (d disk) directory(root, kind string, part manifest.Part) (Directory, error) {
	m, err := d.readManifest(root, kind, part.Key, part.Digest)
	if err != nil {
		return Directory{}, err
	}
	dir := Directory{Path: filepath.Join(root, kind, part.Key), Manifest: m}
	if p, err := mmapcache.ReadProvenance(dir.Path); err == nil {
		dir.Provenance = &p
	}
	return dir, nil
}

// Size returns the bytes on disk of a dataset and its parts, manifests included.
func Size(root, key string) (n int64, err error) {
	m, err := realDisk().readManifest(root, mmapcache.DatasetKind, key, "")
	if err != nil {
		return 0, err
	}
	parts, err := partsOf(m)
	if err != nil {
		return 0, err
	}
	var sum atomic.Int64
	sum.Add(sizeOf(root, mmapcache.DatasetKind, key))
	err = each(context.Background(), len(parts), partsAtOnce, func(_ context.Context, k int) error {
		sum.Add(sizeOf(root, parts[k].Kind, parts[k].Key))
		return nil
	})
	return sum.Load(), err
}

// partsOf lists the parts that a dataset names, each once, in the order in which they are published. It is empty for a manifest of
// another kind. Errors wrap manifest.ErrDamaged.
func partsOf(dataset *manifest.Manifest) (parts []mmapcache.Reference, err error) {
	all, err := mmapcache.PartsOf(dataset)
	if err != nil {
		return nil, err
	}
	seen := make(map[mmapcache.Reference]bool, len(all))
	for _, part := range all {
		if !seen[part] {
			seen[part] = true
			parts = append(parts, part)
		}
	}
	return parts, nil
}

// namesOf lists a dataset and its parts, each "kind/key". Of a dataset whose parts cannot be told it lists the dataset alone.
func namesOf(dataset *manifest.Manifest) []string {
	names := []string{mmapcache.DatasetKind + "/" + dataset.Key}
	parts, _ := partsOf(dataset)
	for _, part := range parts {
		names = append(names, part.Name())
	}
	return names
}

// partsAtOnce is how many parts of a dataset of shards are read or copied at once: most of the time passes in waiting for disks
// and other machines.
const partsAtOnce = 8

// each calls f for 0 to n-1, at most some at once. After an error it calls f for no more, and ends the context of those that run.
func each(ctx context.Context, n, atOnce int, f func(ctx context.Context, k int) error) error {
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for k := range n {
		group.Go(func() error {
			if inner.Err() != nil {
				return nil // the context has ended, or another call has failed
			}
			return f(inner, k)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return context.Cause(ctx)
}
