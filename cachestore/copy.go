package cachestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/agentx/agentx/internal/cachedir"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

// CopyOptions say how to copy. The zero value waits without limit for other processes.
type CopyOptions struct {
	Wait    time.Duration // for each directory that another process makes; 0: as long as it takes; below 0: not at all
	Workers int           // how many parts are copied at once; 0: 8 of a dataset of shards, 1 of another

	// Copy calls one of these at a time. Each may be nil.
	OnWait   func(holder string, waited time.Duration) // about twice a second for each directory that Copy waits for
	Progress func(done, total int64)                   // in bytes, after every chunk, without what other processes make meanwhile
	Warn     func(format string, args ...any)
}

// Validate reports the option that is out of range.
func (o CopyOptions) Validate() error {
	if o.Workers < 0 {
		return fmt.Errorf("copy workers %d: want 0 or more", o.Workers)
	}
	return nil
}

// CopyResult is what Copy did.
type CopyResult struct {
	Key         string
	Path        string
	Bytes       int64              // written
	Directories map[string]PartHit // by kind; of a dataset of shards its arenas and itself
	Shards      *ShardCount        // of a dataset of shards; nil for another
}

// PartHit says whether a directory of a dataset was found.
type PartHit struct {
	Key string `json:"key"`
	Hit bool   `json:"hit"` // it existed before
}

// ShardCount says how many shards a dataset has, and of how many both directories existed before.
type ShardCount struct {
	Total int `json:"total"`
	Found int `json:"found"`
}

// Hit reports whether all directories existed before.
func (r *CopyResult) Hit() bool {
	for _, d := range r.Directories {
		if !d.Hit {
			return false
		}
	}
	return r.Shards == nil || r.Shards.Found == r.Shards.Total
}

// Copy copies a dataset and its parts from one cache root to another, the dataset last. It leaves alone what exists in the
// target in full size, such as the shards that an interrupted copy has published. If several processes copy or build the same
// directory, one does it and the others wait. An error about a dataset that the source does not have wraps
// mmapcache.ErrNoCache.
//
// Copy verifies every file on arrival, before it can be seen under its name. An error about damage, of the source or on
// the way, wraps manifest.ErrDamaged and names the file. Copy then publishes neither that directory nor the dataset; parts
// that it published before stay.
func Copy(ctx context.Context, from, to, key string, o CopyOptions) (*CopyResult, error) {
	return sourceDisk().copy(ctx, from, to, key, o)
}

// sourceDisk is the disk of a source: it follows no symbolic links.
func sourceDisk() disk {
	return disk{cachedir.Disk{Open: openPlain, Stat: os.Stat, ReadDir: os.ReadDir}}
}

func (d disk) copy(ctx context.Context, from, to, key string, o CopyOptions) (*CopyResult, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	if SameDirectory(from, to) {
		return nil, fmt.Errorf("copy %s from %s to %s: %w", key, from, to, ErrSameRoot)
	}
	if err := CheckRoot(to); err != nil {
		return nil, err
	}
	if err := checkExists(from, key); err != nil {
		return nil, err
	}
	defer NoteDataset(ctx, from, key).Close()
	Touch(from, key)
	c := copier{disk: d, from: from, to: to, o: o, copied: map[string]bool{}, result: &CopyResult{Key: key, Path: mmapcache.DatasetPath(to, key)}}
	c.buffers.New = func() any { return new([chunk]byte) }
	if err := c.RetryMissing(ctx, mmapcache.DatasetPath(from, key), func() error { return c.copyAll(ctx, key) }); err != nil {
		return nil, ExplainFullDisk(to, err)
	}
	writeReadme(to)
	Touch(to, key) // its provenance is as old as the source
	return c.result, nil
}

// chunk is how much is copied at a time, in bytes.
const chunk = 1 << 20

// copier is one run of Copy. It keeps of each directory no more than what its dataset says about it.
type copier struct {
	disk     // of the source
	from, to string
	o        CopyOptions
	workers  int
	buffers  sync.Pool // of *[chunk]byte

	mu          sync.Mutex // of what follows, and for calls of the functions of the options
	done, total int64
	copied      map[string]bool // "kind/key" of what this run has copied, also in an attempt that failed later
	result      *CopyResult
}

// copyAll copies what does not exist in the target.
func (c *copier) copyAll(ctx context.Context, key string) error {
	dataset, err := c.readSource(mmapcache.Reference{Kind: mmapcache.DatasetKind, Part: manifest.Part{Key: key}})
	if err != nil {
		return err
	}
	list, err := partsOf(dataset)
	if err != nil {
		return err
	}
	if c.workers = c.o.Workers; c.workers == 0 {
		if c.workers = 1; mmapcache.HasShards(dataset) {
			c.workers = partsAtOnce
		}
	}
	defer NoteUse(ctx, c.to, namesOf(dataset)...).Close() // what exists then stays, and so does a part that no dataset names yet
	list = append(list, mmapcache.Reference{Kind: mmapcache.DatasetKind, Part: manifest.Part{Key: key, Digest: dataset.Digest}})
	missing, err := c.missing(ctx, list)
	if err != nil {
		return err
	}
	parts := len(missing)
	if parts > 0 && missing[parts-1].Kind == mmapcache.DatasetKind {
		parts--
	}
	err = each(ctx, parts, c.workers, func(ctx context.Context, k int) error { return c.copyDirectory(ctx, missing[k], nil) })
	if err == nil && parts < len(missing) {
		err = c.copyDirectory(ctx, missing[parts], dataset)
	}
	if err != nil {
		return err
	}
	return c.fillResult(dataset)
}

// missing lists the directories that the target lacks, and adds up their sizes. It returns an error where the target has other
// content than the source.
func (c *copier) missing(ctx context.Context, list []mmapcache.Reference) (missing []mmapcache.Reference, err error) {
	sizes := make([]int64, len(list)) // -1: it exists
	err = each(ctx, len(list), c.workers, func(_ context.Context, k int) error {
		existing, err := mmapcache.Lookup(c.to, list[k].Kind, list[k].Key)
		switch {
		case err != nil && !errors.Is(err, manifest.ErrDamaged):
			return err
		case existing != nil:
			sizes[k] = -1
			return c.checkSame(existing, list[k])
		}
		m, err := c.readSource(list[k])
		if err == nil {
			sizes[k] = m.Size()
		}
		return err
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done, c.total = 0, 0
	for k, r := range list {
		if sizes[k] >= 0 {
			missing = append(missing, r)
			c.total += sizes[k]
		}
	}
	return missing, err
}

// fillResult says of each directory whether it existed before.
func (c *copier) fillResult(dataset *manifest.Manifest) error {
	r := c.result
	r.Directories = map[string]PartHit{mmapcache.DatasetKind: {dataset.Key, !c.copied[mmapcache.DatasetKind+"/"+dataset.Key]}}
	for kind, part := range dataset.Parts {
		r.Directories[kind] = PartHit{part.Key, !c.copied[kind+"/"+part.Key]}
	}
	if !mmapcache.HasShards(dataset) {
		return nil
	}
	facts, err := mmapcache.DatasetFactsOf(dataset)
	r.Shards = &ShardCount{Total: len(facts.Shards)}
	for _, s := range facts.Shards {
		if !c.copied[mmapcache.StructureKind+"/"+s.Structure.Key] && !c.copied[mmapcache.PlacementKind+"/"+s.Starts.Key] {
			r.Shards.Found++
		}
	}
	return err
}

// readSource reads a manifest of the source. A digest of the reference, unless "", is the one that the dataset names.
func (c *copier) readSource(r mmapcache.Reference) (*manifest.Manifest, error) {
	m, err := c.readManifest(c.from, r.Kind, r.Key, r.Digest)
	if err != nil {
		return nil, missingIsDamage(filepath.Join(c.from, r.Kind, r.Key, manifest.FileName), err)
	}
	return m, mmapcache.CheckContents(c.from, m)
}

// missingIsDamage turns an error about a file of the source that does not exist into one about damage.
func missingIsDamage(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w: %w", path, manifest.ErrDamaged, cachedir.ErrMissing)
	}
	return err
}

// checkSame returns an error if the target has other content under a key than the source.
func (c *copier) checkSame(existing *manifest.Manifest, source mmapcache.Reference) error {
	if existing.Digest == source.Digest {
		return nil
	}
	return fmt.Errorf("%s: content differs from %s under the same key, because the programs that made them differ: remove one with agentx cache rm",
		filepath.Join(c.to, source.Kind, source.Key), filepath.Join(c.from, source.Kind, source.Key))
}

// copyDirectory copies a directory while other processes that want the same wait, or waits for one that makes it. The manifest is
// read where it is nil.
func (c *copier) copyDirectory(ctx context.Context, r mmapcache.Reference, m *manifest.Manifest) error {
	for {
		lease, existing, err := Claim(ctx, c.to, r.Kind, r.Key, ClaimOptions{Wait: c.o.Wait, OnWait: c.onWait})
		if err != nil {
			return err
		}
		if existing != nil {
			return c.checkSame(existing, r)
		}
		d := &directoryCopy{copier: c, dir: r}
		err = d.copyUnder(lease, m)
		if err := lease.Release(); err != nil {
			c.warn("%v: other processes may wait until the lease expires", err)
		}
		if err == nil {
			c.mu.Lock()
			c.result.Bytes += d.written
			c.copied[r.Name()] = true
			c.mu.Unlock()
		}
		if !errors.Is(err, ErrLost) || ctx.Err() != nil {
			return err
		}
		c.warn("%v: waiting for it", err)
		c.progress(-d.read)
	}
}

// progress adds to the bytes that were read.
func (c *copier) progress(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.done += n
	if n > 0 && c.o.Progress != nil {
		c.o.Progress(c.done, c.total)
	}
}

func (c *copier) onWait(holder string, waited time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.o.OnWait != nil {
		c.o.OnWait(holder, waited)
	}
}

func (c *copier) warn(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.o.Warn != nil {
		c.o.Warn(format, args...)
	}
}
