package hub

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

// Export puts copies of the files of the snapshot into a directory, under their paths in the repository, and returns where
// they lie, in order. A copy is never another name of the blob: who edits it does not change the cache. What was there
// under these names is left if it has the content, and else replaced; a link in the directory that leads out of it is
// refused.
// progress is called with bytes that are in place, and those of all files; it may be nil.
func (s *Snapshot) Export(ctx context.Context, dir string, progress func(n, total int64)) (list []string, err error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	total := int64(0)
	for k := range s.Files {
		total += s.Files[k].Size
	}
	l := exporter{ctx, root, func(n int64) {
		if progress != nil {
			progress(n, total)
		}
	}, map[string]bool{}}
	for k := range s.Files {
		f := &s.Files[k]
		if err := l.put(f); err != nil {
			return nil, fmt.Errorf("%s in %s: %w", f.Path, dir, err)
		}
		list = append(list, filepath.Join(dir, filepath.FromSlash(f.Path)))
	}
	return list, nil
}

// exporter is one call of LayOut.
type exporter struct {
	ctx      context.Context
	root     *os.Root
	progress func(int64)
	swept    map[string]bool // directories
}

func (l *exporter) put(f *File) error {
	if err := l.ctx.Err(); err != nil {
		return err
	}
	from := f.kept
	if from == nil {
		own, err := f.open()
		if err != nil {
			return err
		}
		defer own.Close()
		from = own
	}
	above := path.Dir(f.Path)
	if err := l.root.MkdirAll(above, 0o777); err != nil {
		return err
	}
	l.sweep(above)
	if l.has(f, from) {
		l.progress(f.Size)
		return l.ctx.Err()
	}
	temp := path.Join(above, tempPrefix+rand.Text())
	if err := l.copy(f, from, temp); err != nil {
		return errors.Join(err, l.root.Remove(temp))
	}
	if err := l.root.Rename(temp, f.Path); err != nil {
		return errors.Join(err, l.root.Remove(temp))
	}
	return nil
}

// has reports whether the file is there, as a file of its own. What cannot be looked at is not.
func (l *exporter) has(f *File, from *os.File) bool {
	if info, err := l.root.Lstat(f.Path); err != nil || !info.Mode().IsRegular() || info.Size() != f.Size {
		return false
	}
	is, err := l.root.OpenFile(f.Path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer is.Close()
	info, err := is.Stat()
	blob, blobErr := from.Stat()
	if errors.Join(err, blobErr) != nil || !info.Mode().IsRegular() || os.SameFile(info, blob) {
		return false
	}
	sum := sha256.New()
	_, err = io.Copy(sum, ended{l.ctx, is})
	return err == nil && f.SHA256 == hex.EncodeToString(sum.Sum(nil))
}

// counting reports what is written.
type counting func(int64)

func (c counting) Write(p []byte) (int, error) {
	c(int64(len(p)))
	return len(p), nil
}

// copy writes the content of a file to another, and holds it against the digest on the way.
func (l *exporter) copy(f *File, from *os.File, to string) error {
	out, err := l.root.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	sums := newSums(entry{SHA256: f.SHA256})
	_, err = io.Copy(io.MultiWriter(out, sums, counting(l.progress)), ended{l.ctx, io.NewSectionReader(from, 0, f.Size)})
	if err == nil && sums.content() != f.SHA256 {
		err = fmt.Errorf("hash mismatch: its digest is %s, the hub names %s", sums.content(), f.SHA256)
	}
	if err == nil {
		err = l.ctx.Err()
	}
	if err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}

// Copies that are being written have names of their own. One that a killed run has left is nobody's after a day.
const (
	tempPrefix = ".agentx-"
	tempStale  = 24 * time.Hour
)

var tempForm = regexp.MustCompile(`^\.agentx-[A-Z2-7]{26}$`)

// sweep removes what killed runs have left in a directory. It is best effort.
func (l *exporter) sweep(dir string) {
	if l.swept[dir] {
		return
	}
	l.swept[dir] = true
	entries, _ := fs.ReadDir(l.root.FS(), dir)
	for _, e := range entries {
		if !tempForm.MatchString(e.Name()) {
			continue
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) >= tempStale {
			_ = l.root.Remove(path.Join(dir, e.Name()))
		}
	}
}

// checkExportDir refuses a directory in which the paths could not be laid out, as far as that is seen without writing there.
func checkExportDir(dir string, paths []string) error {
	refuse := func(try, format string, args ...any) error {
		return &Error{Class: ClassLocalDisk, Text: fmt.Sprintf(format, args...), Hint: try}
	}
	switch info, err := os.Stat(dir); {
	case errors.Is(err, fs.ErrNotExist):
		return nil // it is made
	case err != nil:
		return &Error{Class: ClassLocalDisk, Text: "the directory to copy to", Err: err, Hint: "another --dest"}
	case !info.IsDir():
		return refuse("another --dest: a directory, or one that is to be made", "%s, the directory to copy to, is a file", dir)
	}
	if err := writable(dir); err != nil {
		return &Error{Class: ClassLocalDisk, Text: "in " + dir + " nothing can be written", Err: err, Hint: "another --dest"}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return &Error{Class: ClassLocalDisk, Text: "the directory to copy to", Err: err, Hint: "another --dest"}
	}
	defer root.Close()
	for _, p := range paths {
		if info, err := root.Lstat(p); err == nil && info.IsDir() {
			return refuse("another --dest, or remove that directory", "%s is a directory, and in the way of the file %s", filepath.Join(dir, p), p)
		}
		for above := path.Dir(p); above != "."; above = path.Dir(above) {
			if info, err := root.Stat(above); err == nil && !info.IsDir() {
				return refuse("another --dest, or remove that file", "%s is a file, and in the way of the directory of %s", filepath.Join(dir, above), p)
			}
		}
	}
	return nil
}
