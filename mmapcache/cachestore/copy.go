package cachestore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/mmapcache/internal/cachedir"
)

// CopyOptions say how to copy. The zero value waits without limit for other processes.
type CopyOptions struct {
	Wait    time.Duration // for each directory that another process makes; 0: as long as it takes; below 0: not at all
	Text    bool          // copy recorded messages, too; else a dataset of them is refused: ErrText
	Workers int           // how many parts are copied at once; 0: 8 of a dataset of shards, 1 of another

	// Copy calls one of these at a time. Each may be nil.
	OnWait   func(holder string, waited time.Duration) // about twice a second for each directory that Copy waits for
	Progress func(done, total int64)                   // in bytes, after every chunk, without what other processes make meanwhile
	Warn     func(format string, args ...any)
}

// ErrText is wrapped by the error about a dataset of recorded messages that is not to leave its cache root.
var ErrText = errors.New("its prompts are recorded text: a copy is as private as the log that they are of")

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

// copy is Copy from a source that is read through d.
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
	if !o.Text {
		if m, err := mmapcache.Lookup(from, mmapcache.DatasetKind, key); err == nil && m != nil && mmapcache.HasTexts(m) {
			return nil, fmt.Errorf("%s: %w", mmapcache.DatasetPath(from, key), ErrText)
		}
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

// directoryCopy is the copy of one directory.
type directoryCopy struct {
	*copier
	dir     mmapcache.Reference
	read    int64 // bytes of the files of the source
	written int64 // bytes, with manifest and provenance
}

// copyUnder copies a directory under a lease and publishes it.
func (c *directoryCopy) copyUnder(lease *Lease, m *manifest.Manifest) (err error) {
	ctx := lease.Context()
	if m == nil {
		if m, err = c.readSource(c.dir); err != nil {
			return err
		}
	}
	d, err := durable.NewDir(c.to, durable.OptionsOf(ctx))
	if err != nil {
		return fmt.Errorf("cache root %s: %w", c.to, err)
	}
	if c.o.Text && m.Kind != mmapcache.ArenasKind {
		err = os.Chmod(d.Path(""), 0o700) // as Builder.MakePrivate
	}
	if err == nil {
		err = c.copyFiles(ctx, d, m)
	}
	if err == nil {
		err = c.publish(ctx, d, m)
	}
	if err != nil { // where the lease is lost that is the cause, whatever err says
		if lost := d.Write("lost", nil); errors.Is(lost, ErrLost) {
			err = lost
		}
	}
	return err // Release removes the unpublished files
}

// publish makes a directory appear under its key. It replaces a damaged one.
func (c *directoryCopy) publish(ctx context.Context, d *durable.Dir, m *manifest.Manifest) error {
	parts, err := partsOf(m)
	if err != nil {
		return err
	}
	if err := each(ctx, len(parts), c.workers, func(_ context.Context, k int) error { return c.checkThere(parts[k]) }); err != nil {
		return err
	}
	existed, err := d.Publish(c.dir.Name())
	if err != nil || !existed {
		return err
	}
	existing, err := mmapcache.Lookup(c.to, m.Kind, m.Key)
	switch {
	case err == nil && existing != nil:
		return c.checkSame(existing, c.dir)
	case err == nil || errors.Is(err, manifest.ErrDamaged):
		return d.Replace(c.dir.Name())
	}
	return err
}

// checkThere returns an error where the target has lost a part that was there before.
func (c *copier) checkThere(part mmapcache.Reference) error {
	existing, err := mmapcache.Lookup(c.to, part.Kind, part.Key)
	if err == nil && (existing == nil || existing.Digest != part.Digest) {
		err = errors.New("it was removed or replaced meanwhile, perhaps by agentx cache rm")
	}
	if err != nil {
		return fmt.Errorf("part %s: %w: copy it again", filepath.Join(c.to, part.Kind, part.Key), err)
	}
	return nil
}

// copyFiles copies the files of a directory into the staging directory: those that the manifest lists, the provenance, the
// manifest.
func (c *directoryCopy) copyFiles(ctx context.Context, d *durable.Dir, m *manifest.Manifest) error {
	dir := filepath.Join(c.from, m.Kind, m.Key)
	for _, f := range m.Files {
		if err := c.copyFile(ctx, d, dir, f); err != nil {
			return err
		}
	}
	data, err := m.Encode() // the bytes it was read from: manifest.Decode accepts no others
	if err != nil {
		return err
	}
	for _, small := range []struct {
		name string
		data []byte
	}{{manifest.ProvenanceName, c.provenance(dir)}, {manifest.FileName, data}} {
		if small.data == nil {
			continue // a cache can be read without its provenance, and so can its copy
		}
		f := manifest.File{Name: small.name, Size: int64(len(small.data)), SHA256: manifest.Sum(small.data)}
		if err := c.write(ctx, d, filepath.Join(dir, f.Name), bytes.NewReader(small.data), f); err != nil {
			return err
		}
	}
	return nil
}

// provenance returns the bytes of the provenance of a directory, nil where they cannot be read whole.
func (c *copier) provenance(dir string) []byte {
	data, size, err := c.ReadProvenance(dir)
	if err != nil || size > int64(len(data)) {
		return nil
	}
	return data
}

// copyFile copies one file of the source.
func (c *directoryCopy) copyFile(ctx context.Context, d *durable.Dir, dir string, f manifest.File) error {
	in, err := c.openSource(filepath.Join(dir, f.Name), f.Size)
	if err != nil {
		return err
	}
	defer in.Close()
	return c.write(ctx, d, in.path, cachedir.ReaderFunc(func(p []byte) (int, error) {
		n, err := in.Read(p)
		c.read += int64(n)
		c.progress(int64(n))
		return n, err
	}), f)
}

// sourceFile is an open file of the source. After ESTALE it opens the file again, once: another host may have put a new
// file there under the same name.
type sourceFile struct {
	c        *copier
	path     string
	size     int64
	f        fs.File
	read     int64
	reopened bool
}

func (c *copier) openSource(path string, size int64) (*sourceFile, error) {
	f, err := c.openAt(path, size, 0)
	return &sourceFile{c: c, path: path, size: size, f: f}, err
}

func (s *sourceFile) Read(p []byte) (int, error) {
	n, err := s.f.Read(p)
	s.read += int64(n)
	if errors.Is(err, syscall.ESTALE) && !s.reopened {
		s.reopened = true
		var f fs.File
		if f, err = s.c.openAt(s.path, s.size, s.read); err == nil {
			_ = s.f.Close()
			s.f = f
		}
	}
	return n, err
}

func (s *sourceFile) Close() { _ = s.f.Close() }

// openAt opens a file of the source, which must have size bytes, and skips the first of them.
func (c *copier) openAt(path string, size, skip int64) (in fs.File, err error) {
	err = c.Reopen(path, func() error {
		f, n, err := c.Open(path)
		if err != nil {
			return err
		}
		if n != size {
			err = fmt.Errorf("%s: %w: %d bytes, the manifest says %d", path, manifest.ErrDamaged, n, size)
		} else {
			_, err = io.CopyN(io.Discard, f, skip)
		}
		if err != nil {
			return errors.Join(err, f.Close())
		}
		in = f
		return nil
	})
	return in, missingIsDamage(path, err)
}

// write writes a file of known size and digest into the staging directory. Path is where it comes from.
//
// It checks the digest twice. The first check covers the bytes that it reads: the source may be damaged, and the error then
// names the source. The second reads the synced file back from the target, which is another disk, often of another machine.
// The operating system may answer that read from memory, so the second check cannot find every fault of the disk.
func (c *directoryCopy) write(ctx context.Context, d *durable.Dir, path string, in io.Reader, f manifest.File) error {
	out, err := d.Create(f.Name)
	if err != nil {
		return err
	}
	buffer := c.buffers.Get().(*[chunk]byte)
	defer c.buffers.Put(buffer)
	sum := sha256.New()
	in = io.LimitReader(in, f.Size+1) // a file that grows must not fill the disk
	_, err = io.CopyBuffer(io.MultiWriter(out, sum), cachedir.ReaderFunc(func(p []byte) (int, error) {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		return in.Read(p)
	}), buffer[:])
	if err == nil {
		err = syncFile(ctx, out)
	}
	if err := errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("copy %s to %s: %w", path, out.Name(), err)
	}
	if hex.EncodeToString(sum.Sum(nil)) != f.SHA256 {
		return fmt.Errorf("%s: %w: content does not match its digest", path, manifest.ErrDamaged)
	}
	_, written, err := cachedir.HashFile(ctx, out.Name())
	if err == nil && written != f.SHA256 {
		err = fmt.Errorf("%w: it does not hold what was written", manifest.ErrDamaged)
	}
	if err != nil {
		return fmt.Errorf("copy %s to %s: %w", path, out.Name(), err)
	}
	c.written += f.Size
	return nil
}

// syncFile forces a file to disk, by the function of tests where the context has one.
func syncFile(ctx context.Context, f *os.File) error {
	if sync := durable.OptionsOf(ctx).Sync; sync != nil {
		return sync(f)
	}
	return f.Sync()
}

// openPlain opens a regular file and refuses a symbolic link: through a link, Copy could publish any file that its user
// can read.
func openPlain(path string) (fs.File, int64, error) {
	f, size, err := manifest.Open(path)
	if err != nil {
		return nil, 0, err
	}
	opened, err := f.Stat()
	if err == nil {
		var named fs.FileInfo
		if named, err = os.Lstat(path); err == nil && !os.SameFile(named, opened) {
			err = fmt.Errorf("%s: %w: leads to another file", path, manifest.ErrDamaged)
		}
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, size, nil
}
