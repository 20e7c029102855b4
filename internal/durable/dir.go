package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// StagingDir is the directory below a root in which unfinished directories are written.
const StagingDir = ".staging"

// Dir is a directory under construction.
type Dir struct {
	root string // the final name lies below it
	path string // the staging directory
	opts Options
}

// NewDir creates a staging directory below root, and root itself if it is missing. Its name tells host, boot and process
// apart: no two builders share one, and a person, or Sweep, can tell which process made it.
func NewDir(root string, opts Options) (*Dir, error) {
	root = filepath.Clean(root)
	staging := filepath.Join(root, StagingDir)
	if l := opts.Lease; l != nil && l.root != root {
		return nil, fmt.Errorf("%s: the lease on %s is for %s", root, l.name, l.root)
	} else if l != nil {
		staging = l.path
	} else if err := opts.mkdirShared(root, staging); err != nil {
		return nil, err
	}
	d := &Dir{root: root, path: filepath.Join(staging, newOwner().fileName()), opts: opts}
	if err := opts.step("mkdir", d.path); err != nil {
		return nil, err
	}
	if err := os.Mkdir(d.path, 0o777); err != nil {
		return nil, opts.Lease.asLost(err)
	}
	matchMode(staging, d.path)
	return d, nil
}

// Path returns the path of a file inside the staging directory.
func (d *Dir) Path(name string) string { return filepath.Join(d.path, name) }

// Create creates a file in the directory, for reading and writing. The caller closes it before Publish.
func (d *Dir) Create(name string) (*os.File, error) {
	if err := d.opts.step("create", d.Path(name)); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(d.Path(name), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return nil, d.opts.Lease.asLost(err)
	}
	matchFileMode(d.path, f)
	return f, nil
}

// Write writes a whole small file.
func (d *Dir) Write(name string, data []byte) error {
	f, err := d.Create(name)
	if err != nil {
		return err
	}
	err = d.opts.step("write", d.Path(name))
	if err == nil {
		_, err = f.Write(data)
	}
	return errors.Join(err, f.Close())
}

// Root returns the directory below which the final name lies.
func (d *Dir) Root() string { return d.root }

// Publish makes the directory appear as name, a slash-separated path below the root. If the name is taken, existed is
// true, the existing directory stays as it is, and the staging directory is left for Replace or Discard. Either way the
// name is on disk when Publish returns.
func (d *Dir) Publish(name string) (existed bool, err error) {
	final := filepath.Join(d.root, filepath.FromSlash(name))
	parent := filepath.Dir(final)
	if err := d.opts.mkdirShared(d.root, parent); err != nil {
		return false, err
	}
	if err := d.syncAll(); err != nil {
		return false, d.opts.Lease.asLost(err)
	}
	if err := d.opts.step("rename", final); err != nil {
		return false, err
	}
	if err := rename(d.path, final); err != nil {
		// EEXIST or ENOTEMPTY: a directory of that name. ENOTDIR: a file, but on Windows also a missing path.
		if isGone(err) || !errors.Is(err, fs.ErrExist) && !errors.Is(err, syscall.ENOTDIR) {
			return false, d.opts.Lease.asLost(err)
		}
		existed = true // perhaps by a builder that has not synced it yet
	}
	for dir := parent; ; dir = filepath.Dir(dir) {
		if err := d.opts.sync(dir); err != nil {
			return false, err
		}
		if dir == d.root || len(dir) <= len(d.root) {
			return existed, nil
		}
	}
}

// Replace is Publish for a name that may hold a damaged directory, or a file, which it takes away and then removes. It removes it first
// where it lies still there without its seal. Readers that have its files open keep them. What it takes away goes to a place beside the
// staging directory, so that a process that has lost the lease can take nothing. The error about a directory that another user alone may
// remove is a *ForeignError.
func (d *Dir) Replace(name string) error {
	final := filepath.Join(d.root, filepath.FromSlash(name))
	old, err := d.opts.takeAway("replace", final, filepath.Dir(d.path))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := d.opts.Lease.asLost(err); errors.Is(err, ErrLost) {
			return err
		}
		old = &aside{}
	case err != nil:
		return asForeign(final, err)
	case old.inPlace != nil:
		if err := d.opts.sync(final); err != nil && !isGone(err) {
			return old.putBack(err)
		}
		if err := old.remove(); err != nil {
			return err
		}
		old = &aside{}
	}
	_, err = d.Publish(name)
	return errors.Join(err, old.remove())
}

// Discard removes the staging directory. After Publish it does nothing.
func (d *Dir) Discard() error { return removeAll(d.path) }

// syncAll forces the files of the staging directory, and then the directory, to disk.
func (d *Dir) syncAll() error {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := d.opts.sync(d.Path(e.Name())); err != nil {
			return err
		}
	}
	return d.opts.sync(d.path)
}

// WriteSmall writes a small file in root or in a directory below it, which it creates if it is missing. It overwrites an
// existing file in place, so that no reader finds it empty, and follows no link. It syncs only the directories that it
// creates. flag is added to those of os.OpenFile; with os.O_EXCL nothing is left of a file that could not be
// written whole.
func WriteSmall(root, path string, data []byte, flag int) error {
	return Options{}.writeSmall(root, path, data, flag)
}

func (o Options) writeSmall(root, path string, data []byte, flag int) error {
	dir := filepath.Dir(path)
	if err := o.mkdirShared(root, dir); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|noFollow|flag, 0o666)
	if err != nil {
		return err
	}
	matchFileMode(dir, f)
	if info, statErr := f.Stat(); statErr != nil || !info.Mode().IsRegular() {
		return errors.Join(statErr, fmt.Errorf("%s: not a regular file", path), f.Close())
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Close())
	if err != nil && flag&os.O_EXCL != 0 {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// Seal is the file of a directory without which nobody takes the directory for whole.
const Seal = "manifest.json"

// aside is a directory that was taken away from its name and not removed yet: by one rename, or in its place.
//
// Some file systems rename no directory: overlayfs refuses it, with EXDEV, for one of a lower layer, such as a cache that came with an
// image. There the seal alone is renamed away. What is left counts as damaged until it is removed, or built again.
type aside struct {
	name, path string
	to         string   // where the directory lies, or its seal
	inPlace    *os.Root // the directory, from which the seal was taken; else nil
}

// takeAway takes a directory, or a file in its place, away from its name, into another directory.
func (o Options) takeAway(step, path, into string) (*aside, error) {
	a := &aside{path: path, to: filepath.Join(into, newOwner().fileName())}
	err := o.step(step, path)
	if err == nil {
		err = rename(path, a.to)
	}
	if !errors.Is(err, syscall.EXDEV) {
		return a, err
	}
	// Whatever stands under the name later is another directory: this process must remove nothing of it.
	if a.inPlace, err = os.OpenRoot(path); err != nil {
		return nil, err
	}
	if err = rename(filepath.Join(path, Seal), a.to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(err, a.inPlace.Close())
	}
	if _, err := os.Lstat(into); err != nil { // the lease is lost, and not the seal missing
		return nil, errors.Join(err, a.inPlace.Close())
	}
	return a, nil
}

// from returns the directory that must be synced before the directory may lose its files.
func (a *aside) from() string {
	if a.inPlace != nil {
		return a.path
	}
	return filepath.Dir(a.path)
}

// remove removes the directory.
func (a *aside) remove() error {
	if a.inPlace == nil {
		return removeAll(a.to)
	}
	list, err := fs.ReadDir(a.inPlace.FS(), ".")
	if isGone(err) {
		err = nil // another process has removed it
	}
	for _, e := range list {
		err = errors.Join(err, a.inPlace.RemoveAll(e.Name()))
	}
	if err = errors.Join(err, a.inPlace.Close(), removeAll(a.to)); err != nil {
		return err
	}
	err = os.Remove(a.path)
	if _, sealErr := os.Lstat(filepath.Join(a.path, Seal)); isGone(err) || sealErr == nil { // another process has removed it, or built it again
		return nil
	}
	return err
}

// putBack puts a directory back that must stay, and returns why. If it cannot, the error says where it, or its seal, lies.
func (a *aside) putBack(why error) error {
	back := func() error { return rename(a.to, a.path) }
	if a.inPlace != nil {
		_ = a.inPlace.Close()
		if _, err := os.Lstat(a.to); err != nil {
			return why // it had no seal
		}
		back = func() error { // a rename would overwrite the seal of one that was built again
			return errors.Join(os.Link(a.to, filepath.Join(a.path, Seal)), os.Remove(a.to))
		}
	}
	if err := back(); err != nil && !errors.Is(err, fs.ErrExist) { // EEXIST: it was built again
		return fmt.Errorf("%w, and could not be put back: %w: it lies in %s", why, err, a.to)
	}
	return why
}
