package durable

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// File is a single file under construction. It appears whole under its path, or not at all.
type File struct {
	path string
	file *os.File // under a temporary name in the same directory; nil after Publish or Discard
	opts Options
}

// ErrDirectory means that a directory stands where a file is to appear.
var ErrDirectory = errors.New("a directory is in the way: remove it, or write to another directory (--out)")

// CheckFile returns an error that wraps ErrDirectory if a directory keeps a file from appearing under path.
func CheckFile(path string) error {
	if info, err := os.Lstat(path); err == nil && info.IsDir() {
		return &fs.PathError{Op: "create", Path: path, Err: ErrDirectory}
	}
	return nil
}

// NewFile creates a file that will appear under path. The caller calls Publish or Discard.
func NewFile(path string, opts Options) (*File, error) {
	if err := CheckFile(path); err != nil {
		return nil, err
	}
	if err := opts.step("create", path); err != nil {
		return nil, err
	}
	f, err := createTemp(path)
	if err != nil {
		return nil, err
	}
	return &File{path, f, opts}, nil
}

// createTemp creates the temporary file of path. Unlike os.CreateTemp, it leaves permissions to the umask, as for directories.
func createTemp(path string) (*os.File, error) {
	name := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".")
	for tries := 0; ; tries++ {
		f, err := os.OpenFile(name+strconv.FormatUint(uint64(rand.Uint32()), 10), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) || tries == 1000 {
			return f, err
		}
	}
}

// Write appends to the file.
func (f *File) Write(p []byte) (int, error) { return f.file.Write(p) }

// Publish syncs the file and renames it to its path, where it replaces an existing file. After an error there is no file.
func (f *File) Publish() error {
	name := f.file.Name()
	err := f.file.Close()
	if err == nil {
		err = f.opts.sync(name)
	}
	if err == nil {
		err = f.opts.step("rename", f.path)
	}
	if err == nil {
		err = move(name, f.path)
	}
	f.file = nil
	if err != nil {
		return errors.Join(err, os.Remove(name))
	}
	return f.opts.sync(filepath.Dir(f.path))
}

// Discard removes the file. It does nothing after Publish.
func (f *File) Discard() error {
	if f.file == nil {
		return nil
	}
	err := errors.Join(f.file.Close(), os.Remove(f.file.Name()))
	f.file = nil
	return err
}

// RemoveUnfinished removes what processes that were killed before Publish have left in a directory of the files whose names are given. No
// other process may be writing these.
func RemoveUnfinished(dir string, named func(name string) bool) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, e := range entries {
		hidden, ok := strings.CutPrefix(e.Name(), ".")
		dot := strings.LastIndexByte(hidden, '.')
		if ok && dot >= 0 && dot+1 < len(hidden) && strings.Trim(hidden[dot+1:], "0123456789") == "" && named(hidden[:dot]) {
			errs = append(errs, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	return errors.Join(errs...)
}

// WriteFile makes a single file appear whole under path. It replaces an existing file. The umask decides who may read it.
func WriteFile(path string, data []byte) error { return Options{}.WriteFile(path, data) }

// WriteFile is the function of that name, with options.
func (o Options) WriteFile(path string, data []byte) error {
	f, err := NewFile(path, o)
	return f.fill(data, err)
}

// WriteShared is WriteFile below a root: the file is as open as the directory that it is in, whatever the umask.
func WriteShared(path string, data []byte) error {
	f, err := NewFile(path, Options{})
	if err == nil {
		matchFileMode(filepath.Dir(path), f.file)
	}
	return f.fill(data, err)
}

// fill writes and publishes a file that NewFile has created, unless it returned an error.
func (f *File) fill(data []byte, err error) error {
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		return errors.Join(err, f.Discard())
	}
	return f.Publish()
}
