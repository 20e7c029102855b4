package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// File is a single file under construction. It appears whole under its path, or not at all.
type File struct {
	path string
	file *os.File // under a temporary name in the same directory; nil after Publish or Discard
	opts Options
}

// errDirectory means that a directory stands where a file is to appear.
var errDirectory = errors.New("a directory is in the way: remove it, or write to another directory")

// CheckFile returns an error that wraps errDirectory if a directory keeps a file from appearing under path.
func CheckFile(path string) error {
	if info, err := os.Lstat(path); err == nil && info.IsDir() {
		return &fs.PathError{Op: "create", Path: path, Err: errDirectory}
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

// isGone reports whether an error says that a file or directory no longer exists: on NFS also by the name of a handle.
func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESTALE) }

// rename is os.Rename for a file system that may lose the answer: it then finds the rename already done.
func rename(from, to string) error {
	was, statErr := os.Lstat(from)
	err := move(from, to)
	if err != nil && isGone(err) && statErr == nil {
		if now, statErr := os.Lstat(to); statErr == nil && os.SameFile(was, now) {
			return nil
		}
	}
	return err
}

// removeThrough renames a directory into another one, so that its old name is free at once, and removes it there. A missing
// directory is no error.
func removeThrough(path, into string, opts Options) error {
	trash := filepath.Join(into, newOwner().fileName())
	err := opts.step("rename", path)
	if err == nil {
		err = rename(path, trash)
	}
	switch {
	case isGone(err):
		return nil
	case errors.Is(err, syscall.EXDEV):
		trash = path // of a lower layer of overlayfs: no live process has made it there
	case err != nil:
		return asForeign(path, err)
	}
	return asForeign(trash, removeAll(trash)) // the owner of a sticky directory may rename what others have in it, and no more
}

// removeAll removes a directory and what is in it. It tries several times, because a slow process may still write into its
// claim. Files .nfs*, which an NFS client keeps while a process on it has the removed file open, may stay: Sweep removes
// them when that process has ended.
func removeAll(path string) (err error) {
	for range 10 {
		if err = os.RemoveAll(path); err == nil || hasOnlyNFSFiles(path) {
			return nil
		}
		if !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	return err
}

// hasOnlyNFSFiles reports whether a directory holds files that an NFS client keeps, and no others.
func hasOnlyNFSFiles(path string) bool {
	files := 0
	err := filepath.WalkDir(path, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			if files++; !strings.HasPrefix(e.Name(), ".nfs") {
				return fs.ErrExist
			}
		}
		return err
	})
	return err == nil && files > 0
}

// everybody is the permission of all users of a machine to write.
const everybody fs.FileMode = 0o002

// ModeBelow returns the mode of a new directory or file in a directory: as open to group and others as that, but never writable for
// everybody. In a sticky directory such as /tmp, where users remove nothing of each other, only its owner may write it.
func ModeBelow(above, mode fs.FileMode) fs.FileMode {
	open := above.Perm() & 0o077 &^ everybody
	if above&fs.ModeSticky != 0 {
		open &^= 0o020
	}
	if !mode.IsDir() {
		open &= 0o066
	}
	return mode&^0o077 | open // the owner's bits, and setgid, stay
}

// rootMode returns the mode of a new root, or a directory above it, which the umask has decided. In a sticky directory only its owner
// may write it.
func rootMode(above, mode fs.FileMode) fs.FileMode {
	if above&fs.ModeSticky != 0 {
		mode &^= 0o022
	}
	return mode
}

// sharedMode returns the mode of a new directory in which all users of a root have entries. Where everybody may write, it is sticky.
func sharedMode(root, mode fs.FileMode) fs.FileMode {
	mode = mode&^0o077 | root.Perm()&0o077 | root&fs.ModeSticky
	if mode&everybody != 0 {
		mode |= fs.ModeSticky
	}
	return mode
}

// matchMode gives a directory or file that was just created its mode below the directory above it. It follows no link, which could
// lead to any file of the user. Errors are ignored: another process may have created it meanwhile.
func matchMode(above, path string) { setMode(above, path, ModeBelow) }

// shareMode is matchMode for a directory in which all users of a root have entries.
func shareMode(root, path string) { setMode(root, path, sharedMode) }

// setMode gives a path the mode that wanted derives from that of the directory above and from its own.
func setMode(above, path string, wanted func(above, mode fs.FileMode) fs.FileMode) {
	f, err := os.OpenFile(path, os.O_RDONLY|noFollow, 0)
	if err != nil {
		return
	}
	setFileMode(above, f, wanted)
	_ = f.Close()
}

// matchFileMode is matchMode for an open file.
func matchFileMode(above string, f *os.File) { setFileMode(above, f, ModeBelow) }

// setFileMode is setMode for an open file.
func setFileMode(above string, f *os.File, wanted func(above, mode fs.FileMode) fs.FileMode) {
	like, err := os.Stat(above)
	if err != nil {
		return
	}
	info, err := f.Stat()
	if err != nil || !info.IsDir() && !info.Mode().IsRegular() {
		return
	}
	if want := wanted(like.Mode(), info.Mode()); want != info.Mode() {
		_ = f.Chmod(want)
	}
}

// ForeignError says that something belongs to another user, who alone may replace or remove it.
type ForeignError struct {
	Path  string
	Owner string // in words
	Err   error  // what the system says; nil where nothing was tried
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s belongs to %s, who alone may replace or remove it", e.Path, e.Owner)
}

func (e *ForeignError) Unwrap() error { return e.Err }

// asForeign makes an error about permission that hit something of another user a *ForeignError. It returns any other error as it is.
func asForeign(path string, err error) error {
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	if owner := foreignOwner(path); owner != "" {
		return &ForeignError{path, owner, err}
	}
	return err
}

// CheckReplaceable returns a *ForeignError where this process may not take a directory away from its name, because it belongs to
// another user.
func CheckReplaceable(path string) error {
	if owner := foreignOwner(path); owner != "" && !mayTakeAway(path) {
		return &ForeignError{Path: path, Owner: owner}
	}
	return nil
}
