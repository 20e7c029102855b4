package cachestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/agentx/agentx/internal/cachedir"
	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

// CopyOptions say how to copy. The zero value waits without limit for other processes.
type CopyOptions struct {
	Wait     time.Duration                             // for each directory that another process makes; 0: as long as it takes; below 0: not at all
	OnWait   func(holder string, waited time.Duration) // called about twice a second while Copy waits; may be nil
	Progress func(done, total int64)                   // in bytes, after every chunk, without what other processes make meanwhile; may be nil
	Warn     func(format string, args ...any)          // may be nil
}

// Validate reports the option that is out of range. Every value is allowed today.
func (o CopyOptions) Validate() error { return nil }

// CopyResult is what Copy did.
type CopyResult struct {
	Key         string
	Path        string
	Bytes       int64                      // written
	Directories map[string]CopiedDirectory // by kind
}

// CopiedDirectory is one directory of a copied dataset.
type CopiedDirectory struct {
	Key string `json:"key"`
	Hit bool   `json:"hit"` // it existed before
}

// Hit reports whether all directories existed before.
func (r *CopyResult) Hit() bool {
	for _, d := range r.Directories {
		if !d.Hit {
			return false
		}
	}
	return true
}

// Copy copies a dataset and its parts from one cache root to another, the dataset last. It leaves alone what exists in the
// target in full size. If several processes copy or build the same directory, one does it and the others wait. An error
// about a dataset that the source does not have wraps mmapcache.ErrNoCache.
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
	if o.Warn == nil {
		o.Warn = func(string, ...any) {}
	}
	if err := CheckRoot(to); err != nil {
		return nil, err
	}
	if err := checkExists(from, key); err != nil {
		return nil, err
	}
	defer NoteDataset(ctx, from, key).Close()
	Touch(from, key)
	c := copier{disk: d, from: from, to: to, o: o, buffer: make([]byte, chunk),
		result: &CopyResult{Key: key, Path: mmapcache.DatasetPath(to, key), Directories: map[string]CopiedDirectory{}}}
	if err := c.RetryMissing(ctx, mmapcache.DatasetPath(from, key), func() error { return c.copyAll(ctx, key) }); err != nil {
		return nil, err
	}
	writeReadme(to)
	Touch(to, key) // its provenance is as old as the source
	return c.result, nil
}

// chunk is how much is copied at a time, in bytes.
const chunk = 1 << 20

// copier is one run of Copy.
type copier struct {
	disk        // of the source
	from, to    string
	o           CopyOptions
	buffer      []byte
	done, total int64
	result      *CopyResult
}

// copyAll copies what does not exist in the target.
func (c *copier) copyAll(ctx context.Context, key string) error {
	list, err := c.plan(key)
	if err != nil {
		return err
	}
	var names []string
	for _, m := range list {
		names = append(names, m.Kind+"/"+m.Key)
	}
	defer NoteUse(ctx, c.to, names...).Close() // so that no process removes a part before the dataset names it
	for _, m := range list {
		hit, err := c.copyDirectory(ctx, m)
		if err != nil {
			return err
		}
		if before, known := c.result.Directories[m.Kind]; !known || before.Hit { // not one that an earlier attempt copied
			c.result.Directories[m.Kind] = CopiedDirectory{m.Key, hit}
		}
	}
	return nil
}

// plan reads the manifests of the source, parts first, and compares them with those of the target.
func (c *copier) plan(key string) (list []*manifest.Manifest, err error) {
	c.done, c.total = 0, 0
	dataset, err := c.readSource(mmapcache.DatasetKind, key, "")
	if err != nil {
		return nil, err
	}
	for _, kind := range mmapcache.PartKinds() {
		part := dataset.Parts[kind]
		m, err := c.readSource(kind, part.Key, part.Digest)
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	list = append(list, dataset)
	for _, m := range list {
		existing, err := mmapcache.Lookup(c.to, m.Kind, m.Key)
		if err != nil && !errors.Is(err, manifest.ErrDamaged) {
			return nil, err
		}
		if existing == nil {
			c.total += m.Size()
		} else if err := c.checkSame(existing, m); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// readSource reads a manifest of the source. Digest, unless "", is the one that the dataset names.
func (c *copier) readSource(kind, key, digest string) (*manifest.Manifest, error) {
	m, err := c.readManifest(c.from, kind, key, digest)
	if err != nil {
		return nil, missingIsDamage(filepath.Join(c.from, kind, key, manifest.FileName), err)
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
func (c *copier) checkSame(existing, m *manifest.Manifest) error {
	if existing.Digest == m.Digest {
		return nil
	}
	return fmt.Errorf("%s: content differs from %s under the same key, because the programs that made them differ: remove one with agentx cache rm",
		filepath.Join(c.to, m.Kind, m.Key), filepath.Join(c.from, m.Kind, m.Key))
}

// copyDirectory finds a directory in the target, or copies it while other processes that want the same wait.
func (c *copier) copyDirectory(ctx context.Context, m *manifest.Manifest) (hit bool, err error) {
	begin := c.done
	for {
		lease, existing, err := Claim(ctx, c.to, m.Kind, m.Key, ClaimOptions{Wait: c.o.Wait, OnWait: c.o.OnWait})
		if err != nil {
			return false, err
		}
		if existing != nil {
			return true, c.checkSame(existing, m)
		}
		c.done = begin
		written, err := c.copyUnder(lease, m)
		if err := lease.Release(); err != nil {
			c.o.Warn("%v: other processes may wait until the lease expires", err)
		}
		if err == nil {
			c.result.Bytes += written
		}
		if !errors.Is(err, ErrLost) || ctx.Err() != nil {
			return false, err
		}
		c.o.Warn("%v: waiting for it", err)
	}
}

// copyUnder copies a directory under a lease and publishes it. It returns the bytes written.
func (c *copier) copyUnder(lease *Lease, m *manifest.Manifest) (written int64, err error) {
	ctx := lease.Context()
	d, err := durable.NewDir(c.to, durable.OptionsOf(ctx))
	if err != nil {
		return 0, fmt.Errorf("cache root %s: %w", c.to, err)
	}
	written, err = c.copyFiles(ctx, d, m)
	if err == nil {
		err = c.publish(d, m)
	}
	if err != nil { // where the lease is lost that is the cause, whatever err says
		if lost := d.Write("lost", nil); errors.Is(lost, ErrLost) {
			err = lost
		}
	}
	return written, err // Release removes the unpublished files
}

// publish makes a directory appear under its key. It replaces a damaged one.
func (c *copier) publish(d *durable.Dir, m *manifest.Manifest) error {
	for kind, part := range m.Parts {
		existing, err := mmapcache.Lookup(c.to, kind, part.Key)
		if err == nil && (existing == nil || existing.Digest != part.Digest) {
			err = errors.New("it was removed or replaced meanwhile, perhaps by agentx cache rm")
		}
		if err != nil {
			return fmt.Errorf("part %s: %w: copy it again", filepath.Join(c.to, kind, part.Key), err)
		}
	}
	name := m.Kind + "/" + m.Key
	existed, err := d.Publish(name)
	if err != nil || !existed {
		return err
	}
	existing, err := mmapcache.Lookup(c.to, m.Kind, m.Key)
	switch {
	case err == nil && existing != nil:
		return c.checkSame(existing, m)
	case err == nil || errors.Is(err, manifest.ErrDamaged):
		return d.Replace(name)
	}
	return err
}
