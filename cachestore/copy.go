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
	"syscall"

	"github.com/agentx/agentx/internal/cachedir"
	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

// ErrSameRoot is returned by Copy when both roots are one directory.
var ErrSameRoot = errors.New("source and target are one directory")

// CopyOptions say how to copy.
type CopyOptions struct {
	Waiting  durable.Waiting               // for others that make the same in the target
	Durable  durable.Options               // faults for tests
	Progress func(done, total int64)       // bytes, after every chunk; what others make meanwhile is not done; may be nil
	Warn     func(format string, a ...any) // may be nil
}

// Copied is what Copy did.
type Copied struct {
	Key         string
	Path        string
	Bytes       int64                      // written
	Directories map[string]CopiedDirectory // by kind
}

// CopiedDirectory is one directory of a copied dataset.
type CopiedDirectory struct {
	Key string `json:"key"`
	Hit bool   `json:"hit"` // it was there
}

// Hit reports whether all was there.
func (c *Copied) Hit() bool {
	for _, d := range c.Directories {
		if !d.Hit {
			return false
		}
	}
	return true
}

// Copy copies a dataset and its parts from one cache root to another, the dataset last. What is there already in full
// size is left alone. Of several processes that copy, or build, the same into a root one does it, and the others wait.
// An error about a dataset that the source does not have wraps mmapcache.ErrNoCache.
//
// Every file is verified on arrival, before it can be seen under its name. An error about damage, of the source or on the
// way, wraps manifest.ErrDamaged and names the file; a directory that holds it is not published, and no dataset that
// names it. Parts that were published before it stay.
func Copy(ctx context.Context, from, to, key string, o CopyOptions) (*Copied, error) {
	return sourceDisk().copy(ctx, from, to, key, o)
}

// sourceDisk is the disk of a source.
func sourceDisk() disk {
	return disk{cachedir.Disk{Open: openPlain, Stat: os.Stat, ReadDir: os.ReadDir}}
}

func (d disk) copy(ctx context.Context, from, to, key string, o CopyOptions) (*Copied, error) {
	if SameDirectory(from, to) {
		return nil, fmt.Errorf("copy %s from %s to %s: %w", key, from, to, ErrSameRoot)
	}
	if o.Warn == nil {
		o.Warn = func(string, ...any) {}
	}
	c := copying{disk: d, from: from, to: to, o: o, buffer: make([]byte, chunk),
		copied: &Copied{Key: key, Path: mmapcache.DatasetPath(to, key), Directories: map[string]CopiedDirectory{}}}
	if err := CheckRoot(to); err != nil {
		return nil, err
	}
	if err := there(from, key); err != nil {
		return nil, err
	}
	defer Use(ctx, from, key).Close()
	if err := c.Steady(ctx, mmapcache.DatasetPath(from, key), func() error { return c.all(ctx, key) }); err != nil {
		return nil, err
	}
	dropReadme(to)
	Touch(to, key) // its provenance is as old as the source
	return c.copied, nil
}

// all copies what is not there yet.
func (c *copying) all(ctx context.Context, key string) error {
	list, err := c.plan(key)
	if err != nil {
		return err
	}
	var names []string
	for _, m := range list {
		names = append(names, m.Kind+"/"+m.Key)
	}
	defer NoteUse(ctx, c.to, names...).Close() // so that nobody removes a part before the dataset names it
	for _, m := range list {
		hit, err := c.directory(ctx, m)
		if err != nil {
			return err
		}
		if before, again := c.copied.Directories[m.Kind]; !again || before.Hit { // not one that was copied by an earlier look
			c.copied.Directories[m.Kind] = CopiedDirectory{m.Key, hit}
		}
	}
	return nil
}

// SameDirectory reports whether two paths lead to one directory.
func SameDirectory(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// chunk is how much is copied at a time, in bytes.
const chunk = 1 << 20

// copying is one run of Copy.
type copying struct {
	disk        // of the source
	from, to    string
	o           CopyOptions
	buffer      []byte
	done, total int64
	copied      *Copied
}

// plan reads the manifests of the source, parts first, and holds them against what the target has under their names.
func (c *copying) plan(key string) (list []*manifest.Manifest, err error) {
	c.done, c.total = 0, 0
	dataset, err := c.source(mmapcache.DatasetKind, key, "")
	if err != nil {
		return nil, err
	}
	for _, kind := range mmapcache.PartKinds() {
		part := dataset.Parts[kind]
		m, err := c.source(kind, part.Key, part.Digest)
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	list = append(list, dataset)
	for _, m := range list {
		there, err := mmapcache.Lookup(c.to, m.Kind, m.Key)
		if err != nil && !errors.Is(err, manifest.ErrDamaged) {
			return nil, err
		}
		if there == nil {
			c.total += m.Size()
		} else if err := c.same(there, m); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// source reads a manifest of the source. Digest, unless "", is the one that the dataset names.
func (c *copying) source(kind, key, digest string) (*manifest.Manifest, error) {
	m, err := c.readManifest(c.from, kind, key, digest)
	if err != nil {
		return nil, missing(filepath.Join(c.from, kind, key, manifest.FileName), err)
	}
	return m, mmapcache.CheckContents(c.from, m)
}

// missing turns an error that says that a file of the source is not there into one about damage.
func missing(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: %w: %w", path, manifest.ErrDamaged, cachedir.ErrMissing)
	}
	return err
}

// same returns an error if what the target has under a name is not what the source has.
func (c *copying) same(there, m *manifest.Manifest) error {
	if there.Digest == m.Digest {
		return nil
	}
	return fmt.Errorf("%s: holds another content than %s: one of them was made by a program with the same recipe and other results; remove it with agentx cache rm",
		filepath.Join(c.to, m.Kind, m.Key), filepath.Join(c.from, m.Kind, m.Key))
}

// directory finds a directory in the target, or copies it while others that want the same wait.
func (c *copying) directory(ctx context.Context, m *manifest.Manifest) (hit bool, err error) {
	begin := c.done
	for {
		lease, there, err := Claim(ctx, c.to, m.Kind, m.Key, false, c.o.Waiting, c.o.Durable)
		if err != nil {
			return false, err
		}
		if there != nil {
			return true, c.same(there, m)
		}
		c.done = begin
		written, err := c.copy(lease, m)
		if err := lease.Release(); err != nil {
			c.o.Warn("%v: others may wait for a while", err)
		}
		if err == nil {
			c.copied.Bytes += written
		}
		if !errors.Is(err, durable.ErrLost) || ctx.Err() != nil {
			return false, err
		}
		c.o.Warn("%v: waiting for that", err)
	}
}

// copy copies a directory under a lease and publishes it. It returns the bytes written.
func (c *copying) copy(lease *durable.Lease, m *manifest.Manifest) (written int64, err error) {
	opts := c.o.Durable
	opts.Lease = lease
	d, err := durable.NewDir(c.to, opts)
	if err != nil {
		return 0, fmt.Errorf("cache root %s: %w", c.to, err)
	}
	written, err = c.fill(lease.Context(), d, m)
	if err == nil {
		err = c.publish(d, m)
	}
	if err != nil { // whatever it says: when the lease is lost, that is why
		if lost := d.Write("lost", nil); errors.Is(lost, durable.ErrLost) {
			err = lost
		}
	}
	return written, err // what is left lies under the lease and goes with it
}

// fill copies the files of a directory into the staging directory: those of the manifest, provenance, manifest.
func (c *copying) fill(ctx context.Context, d *durable.Dir, m *manifest.Manifest) (written int64, err error) {
	dir := filepath.Join(c.from, m.Kind, m.Key)
	for _, f := range m.Files {
		if err := c.file(ctx, d, dir, f); err != nil {
			return 0, err
		}
		written += f.Size
	}
	// Who reads a cache does without the provenance, and so does its copy where there is none that can be read.
	own := map[string][]byte{manifest.ProvenanceName: c.provenance(dir)}
	if own[manifest.FileName], err = m.Encode(); err != nil { // the bytes it was read from: manifest.Decode accepts no others
		return 0, err
	}
	for _, name := range []string{manifest.ProvenanceName, manifest.FileName} {
		data := own[name]
		if data == nil {
			continue
		}
		f := manifest.File{Name: name, Size: int64(len(data)), SHA256: manifest.Sum(data)}
		if err := c.write(ctx, d, filepath.Join(dir, name), bytes.NewReader(data), f); err != nil {
			return 0, err
		}
		written += f.Size
	}
	return written, nil
}

// file copies one file of the source.
func (c *copying) file(ctx context.Context, d *durable.Dir, dir string, f manifest.File) error {
	path := filepath.Join(dir, f.Name)
	in, err := c.openAt(path, f.Size, 0)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }()
	read, once := int64(0), false
	return c.write(ctx, d, path, cachedir.ReaderFunc(func(p []byte) (int, error) {
		n, err := in.Read(p)
		read += int64(n)
		c.done += int64(n)
		if errors.Is(err, syscall.ESTALE) && !once { // by its name it may be there
			once = true
			var more fs.File
			if more, err = c.openAt(path, f.Size, read); err == nil {
				_ = in.Close()
				in = more
			}
		}
		if c.o.Progress != nil {
			c.o.Progress(c.done, c.total)
		}
		return n, err
	}), f)
}

// openAt opens a file of the source, which has so many bytes, behind the first of them.
func (c *copying) openAt(path string, size, from int64) (in fs.File, err error) {
	err = c.Reopen(path, func() error {
		f, n, err := c.Open(path)
		if err != nil {
			return err
		}
		if n != size {
			err = fmt.Errorf("%s: %w: %d bytes, the manifest says %d", path, manifest.ErrDamaged, n, size)
		} else {
			_, err = io.CopyN(io.Discard, f, from)
		}
		if err != nil {
			return errors.Join(err, f.Close())
		}
		in = f
		return nil
	})
	return in, missing(path, err)
}

// write writes a file of known size and digest into the staging directory. path is where it comes from.
//
// The digest is taken twice. Of what is read, for the source may be damaged, and then it is that which is named. And,
// once it is synced, of what lies in the target, which is another disk and often another machine, and is what others
// are going to read. The second is as good as the system is honest: it may answer from memory.
func (c *copying) write(ctx context.Context, d *durable.Dir, path string, in io.Reader, f manifest.File) error {
	out, err := d.Create(f.Name)
	if err != nil {
		return err
	}
	sum := sha256.New()
	in = io.LimitReader(in, f.Size+1) // a file that grows meanwhile fills no disk
	_, err = io.CopyBuffer(io.MultiWriter(out, sum), cachedir.ReaderFunc(func(p []byte) (int, error) {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		return in.Read(p)
	}), c.buffer)
	if err == nil {
		err = c.sync(out)
	}
	if err := errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("copy %s to %s: %w", path, out.Name(), err)
	}
	if hex.EncodeToString(sum.Sum(nil)) != f.SHA256 {
		return fmt.Errorf("%s: %w: content does not match its digest", path, manifest.ErrDamaged)
	}
	_, there, err := cachedir.HashFile(ctx, out.Name())
	if err == nil && there != f.SHA256 {
		err = fmt.Errorf("%w: it does not hold what was written", manifest.ErrDamaged)
	}
	if err != nil {
		return fmt.Errorf("copy %s to %s: %w", path, out.Name(), err)
	}
	return nil
}

func (c *copying) sync(f *os.File) error {
	if c.o.Durable.Sync != nil {
		return c.o.Durable.Sync(f)
	}
	return f.Sync()
}

// publish makes a directory appear under its key. What is damaged there is replaced.
func (c *copying) publish(d *durable.Dir, m *manifest.Manifest) error {
	for kind, part := range m.Parts {
		there, err := mmapcache.Lookup(c.to, kind, part.Key)
		if err == nil && (there == nil || there.Digest != part.Digest) {
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
	there, err := mmapcache.Lookup(c.to, m.Kind, m.Key)
	switch {
	case err == nil && there != nil:
		return c.same(there, m)
	case err == nil || errors.Is(err, manifest.ErrDamaged):
		return d.Replace(name)
	}
	return err
}

// openPlain opens a file of the source. A symbolic link is refused: it could lead to any file of the one who copies, who
// would hand it on.
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

// provenance returns the bytes of the provenance of a directory, nil where they cannot be read whole.
func (c *copying) provenance(dir string) []byte {
	data, size, err := c.ReadProvenance(dir)
	if err != nil || size > int64(len(data)) {
		return nil
	}
	return data
}
