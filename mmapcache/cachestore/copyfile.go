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

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/mmapcache/internal/cachedir"
)

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
	err = c.copyFiles(ctx, d, m)
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
