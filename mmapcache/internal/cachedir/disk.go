// Package cachedir reads the directories of a cache root, ROOT/KIND/KEY, while other processes and machines may publish,
// replace and remove them.
//
// A network file system may answer from the memory of its client. So the methods of Disk look again after ESTALE, and where
// the directory above lists what seemed to be missing. RetryMissing waits for a directory that is being replaced.
package cachedir

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/manifest"
)

// Disk reads the files of a cache. Tests inject faults (package faultdisk).
type Disk struct {
	Open    func(path string) (fs.File, int64, error) // opens a regular file and returns its size, see manifest.Open
	Stat    func(path string) (fs.FileInfo, error)
	ReadDir func(dir string) ([]fs.DirEntry, error)

	Sleep     func(context.Context, time.Duration) error // nil: by the clock
	IsNetwork func(dir string) bool                      // on a network file system; nil: see IsLocal
}

// NewDisk returns the disk of the operating system, without faults.
func NewDisk() Disk { return Disk{Open: manifest.Open, Stat: os.Stat, ReadDir: os.ReadDir} }

// RetryStale calls f, and once more after ESTALE. On NFS that says that another host has replaced or removed what the
// name led to; the second call finds what is there now. After a second ESTALE nothing is there: the error matches
// fs.ErrNotExist.
func RetryStale(f func() error) error {
	err := f()
	if errors.Is(err, syscall.ESTALE) {
		err = f()
	}
	if errors.Is(err, syscall.ESTALE) {
		return fmt.Errorf("%w: %w", err, fs.ErrNotExist)
	}
	return err
}

// Listed reports whether the directory above a path lists it. An NFS client may remember for half a minute that a name was
// missing, but not once it has read the directory. If that itself is remembered as missing, Listed reads the one above.
func (d Disk) Listed(path string) bool {
	entries, _ := d.List(filepath.Dir(path)) // a directory that cannot be read lists nothing
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == filepath.Base(path) })
}

// List lists a directory, also one that the client remembers as missing.
func (d Disk) List(dir string) (list []fs.DirEntry, err error) {
	read := func() error {
		return RetryStale(func() (err error) { list, err = d.ReadDir(dir); return err })
	}
	if err = read(); errors.Is(err, fs.ErrNotExist) && filepath.Dir(dir) != dir && d.Listed(dir) {
		err = read()
	}
	return list, err
}

// Reopen is RetryStale for a file in a directory of a cache. If the file is missing, an NFS client may remember a directory
// that was replaced since. Reopen then reads the directories above and tries the file once more.
func (d Disk) Reopen(path string, f func() error) error {
	err := RetryStale(f)
	if errors.Is(err, fs.ErrNotExist) {
		_, _ = d.List(filepath.Dir(filepath.Dir(path))) // a directory that cannot be read lists nothing
		if d.Listed(path) {
			err = RetryStale(f)
		}
	}
	return err
}

// Find returns what is at a path, also if the client remembers it as missing.
func (d Disk) Find(path string) (info fs.FileInfo, err error) {
	stat := func() error {
		return RetryStale(func() (err error) { info, err = d.Stat(path); return err })
	}
	if err = stat(); errors.Is(err, fs.ErrNotExist) && d.Listed(path) {
		err = stat()
	}
	return info, err
}

// ReadManifest reads the manifest of a directory in any cache format. It compares kind and key with the name of the
// directory and, unless digest is "", the digest. An error about a missing manifest matches fs.ErrNotExist.
func (d Disk) ReadManifest(root, kind, key, digest string) (m *manifest.Manifest, err error) {
	dir := filepath.Join(root, kind, key)
	read := func() error {
		return RetryStale(func() (err error) { m, err = manifest.ReadThrough(d.Open, dir); return err })
	}
	if err = read(); errors.Is(err, fs.ErrNotExist) && d.Listed(dir) {
		err = read()
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: there is no such %s: %w", dir, kind, err)
	}
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, manifest.FileName)
	switch {
	case m.Kind != kind || m.Key != key:
		return nil, fmt.Errorf("%s: %w: describes %s %s", path, manifest.ErrDamaged, m.Kind, m.Key)
	case digest != "" && m.Digest != digest:
		return nil, fmt.Errorf("%s: %w: not the manifest that the dataset names", path, manifest.ErrDamaged)
	}
	return m, nil
}

// MaxProvenance is how much of a provenance is read, in bytes.
const MaxProvenance = 64 << 20

// ReadProvenance reads the provenance of a directory, at most MaxProvenance bytes of it. Size is that of the file.
func (d Disk) ReadProvenance(dir string) (data []byte, size int64, err error) {
	err = RetryStale(func() error {
		var f fs.File
		f, size, err = d.Open(filepath.Join(dir, manifest.ProvenanceName))
		if err != nil {
			return err
		}
		defer f.Close()
		data = make([]byte, min(size, MaxProvenance))
		_, err = io.ReadFull(f, data)
		return err
	})
	return data, size, err
}

// IsDamage reports whether an error says that a file is damaged, missing or not a regular file. Other errors say that it could
// not be reached.
func IsDamage(err error) bool {
	return errors.Is(err, manifest.ErrDamaged) || errors.Is(err, fs.ErrNotExist) ||
		errors.Is(err, syscall.EISDIR) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP)
}

// How long RetryMissing looks for something that is missing.
const (
	WaitReplaced = time.Second      // where it is gone: a process that replaces it puts the new one there
	WaitRemember = time.Minute      // on a network file system: its clients remember for so long that a name was missing
	WaitChanging = 10 * time.Second // where the directory was made again meanwhile
)

// ErrMissing is wrapped by the error about a directory that lacks a file, or is being renamed away.
var ErrMissing = errors.New("missing")

// ErrNoCache is wrapped by errors about a dataset or part that does not exist.
var ErrNoCache = errors.New("no such cache")

// ErrChanging is wrapped by the error about a directory that was made again and again while RetryMissing waited.
var ErrChanging = errors.New("it comes and goes: another process may be removing it")

// IsMissing reports whether an error says that a file or directory does not exist.
func IsMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrMissing)
}

// IsAbsent reports whether an error says that nothing is at a path. ESTALE does not say that.
func IsAbsent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESTALE)
}

// RetryMissing calls look, which reads a directory of a cache and the parts that it names, until nothing is missing. A file may be
// missing because another process removes or replaces the dataset at this moment, which is no damage. So an error is final
// only once the directory has not changed for as long as clients of the file system remember. An error about a directory
// that is gone wraps ErrNoCache.
func (d Disk) RetryMissing(ctx context.Context, dir string, look func() error) error {
	waited := time.Duration(0)
	var before fs.FileInfo
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := look()
		if !IsMissing(err) {
			return err
		}
		after := d.sight(dir)
		limit := WaitChanging
		switch {
		case after == nil:
			limit = WaitReplaced
			err = fmt.Errorf("cache %s: %w in %s: it has been removed", filepath.Base(dir), ErrNoCache, filepath.Dir(filepath.Dir(dir)))
		case before != nil && os.SameFile(before, after) && before.ModTime().Equal(after.ModTime()):
			if limit = WaitReplaced; d.remembers(dir) {
				limit = WaitRemember
			}
		default:
			err = fmt.Errorf("%s: %w", dir, ErrChanging)
		}
		if waited >= limit {
			return err
		}
		if err := d.wait(ctx, pause); err != nil {
			return err
		}
		waited += pause
		before = after
	}
}

// sight returns the directory that the server has now, not one that an NFS client remembers; nil: none.
func (d Disk) sight(dir string) fs.FileInfo {
	if !d.Listed(dir) {
		return nil
	}
	info, err := d.Find(dir)
	if err != nil {
		return nil
	}
	return info
}

// remembers reports whether clients of the file system may remember an old state of a directory.
func (d Disk) remembers(dir string) bool {
	if d.IsNetwork != nil {
		return d.IsNetwork(dir)
	}
	return !IsLocal(filepath.Dir(dir))
}

func (d Disk) wait(ctx context.Context, pause time.Duration) error {
	if d.Sleep != nil {
		return d.Sleep(ctx, pause)
	}
	return durable.Sleep(ctx, pause)
}

// HashFile returns the size of a file and its SHA-256 in hex.
func HashFile(ctx context.Context, path string) (int64, string, error) {
	f, _, err := manifest.Open(path)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	return new(Hasher).Hash(ctx, f)
}

// Hasher computes digests of many files with one buffer.
type Hasher struct {
	sum hash.Hash
	buf []byte
}

// Hash returns how many bytes a reader has, and their SHA-256 in hex.
func (h *Hasher) Hash(ctx context.Context, r io.Reader) (n int64, sum string, err error) {
	if h.buf == nil {
		h.sum, h.buf = sha256.New(), make([]byte, 32<<10)
	}
	h.sum.Reset()
	for {
		if err := ctx.Err(); err != nil {
			return n, "", err
		}
		k, err := r.Read(h.buf)
		_, _ = h.sum.Write(h.buf[:k]) // a hash never fails
		n += int64(k)
		if err == io.EOF {
			return n, hex.EncodeToString(h.sum.Sum(nil)), nil
		}
		if err != nil {
			return n, "", err
		}
	}
}

// ReaderFunc is a function as an io.Reader.
type ReaderFunc func([]byte) (int, error)

func (f ReaderFunc) Read(p []byte) (int, error) { return f(p) }
