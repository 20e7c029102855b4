package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

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
