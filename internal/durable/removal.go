package durable

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Who removes something while others may begin to use it holds a lease. It writes a marker, which says what it is about to
// remove, and then reads the notes of use (use.go). Who uses something leaves its note, and then reads the markers. So one
// of the two sees the other, and nothing is out of its place for a moment only.
//
// A marker is an empty file in the directory of the lease's holder, into which it also renames what it removes. So it is
// gone with the lease: who waits for the marker of a killed or stopped process takes the lease over, and that process
// can remove nothing any more.

// markSuffix ends the names of markers.
const markSuffix = ".removing"

// markName is the name of the marker of a slash-separated name.
func markName(name string) string { return strings.ReplaceAll(name, "/", "-") + markSuffix }

// Remove removes the directory name below root: it is renamed away first, so that nobody opens it half removed, and that
// is on disk before anything is removed for good. Once the marker is there inUse, if not nil, is asked, and an error keeps
// it in its place.
//
// The marker needs the lease of the options; a process that has lost it can remove nothing. Without a lease, or on a full
// disk, where no marker can be made, the directory is renamed away, inUse is asked once more, and it is put back if it is
// in use. A sweep on another machine may in that moment take it for left behind.
func (o Options) Remove(root, name string, inUse func() error) error {
	path := filepath.Join(root, filepath.FromSlash(name))
	check := func() error {
		if err := o.step("check", path); err != nil || inUse == nil {
			return err
		}
		return inUse()
	}
	into, mark, err := o.mark(root, name)
	if err != nil {
		return err
	}
	if mark != "" {
		defer os.Remove(mark) // with the lease, if not now
	}
	if err := check(); err != nil {
		return err
	}
	removed := filepath.Join(into, newOwner().fileName())
	if err := o.step("remove", path); err != nil {
		return err
	}
	if err := rename(path, removed); err != nil {
		return o.Lease.asLost(err)
	}
	if mark != "" {
		_ = os.Remove(mark) // nobody need wait for the rest
	} else if err := check(); err != nil {
		return putBack(removed, path, err)
	}
	if err := o.sync(filepath.Dir(path)); err != nil { // not on disk yet: nothing is removed for good
		return err
	}
	return removeAll(removed)
}

// mark makes the marker of a name under the lease, and says into which directory the name is to be renamed. Without a
// lease, and on a full disk, there is none.
func (o Options) mark(root, name string) (into, mark string, err error) {
	staging := filepath.Join(root, StagingDir)
	if o.Lease == nil {
		return staging, "", o.mkdirAll(root, staging)
	}
	mark = filepath.Join(o.Lease.path, markName(name))
	err = o.step("mark", mark)
	if err == nil {
		var f *os.File
		if f, err = os.OpenFile(mark, os.O_CREATE|os.O_WRONLY|noFollow, 0o666); err == nil {
			err = f.Close()
		}
	}
	if IsDiskFull(err) {
		return staging, "", nil
	}
	return o.Lease.path, mark, o.Lease.asLost(err)
}

// putBack puts back what is in use. What cannot be put back is left where it lies.
func putBack(removed, path string, used error) error {
	if err := rename(removed, path); err != nil && !errors.Is(err, fs.ErrExist) { // EEXIST: it was made anew
		return fmt.Errorf("%w, and could not be put back: %w: it lies in %s", used, err, removed)
	}
	return used
}

// AwaitRemoval waits until nobody is about to remove one of names under the lease of the given name: each is in its place
// then, or removed. It is called after a note of use was left. If the remover was killed, or is silent, it takes the lease
// over, so that nothing is removed any more.
func AwaitRemoval(ctx context.Context, root, lease string, names []string) error {
	l, err := Acquire(ctx, root, lease, func() (bool, error) {
		marked, err := isMarked(root, lease, names)
		return !marked, err
	}, Waiting{})
	if err != nil || l == nil {
		return err
	}
	return l.Release() // whose marker it was has lost the lease
}

// isMarked reports whether a holder of a lease has isMarked one of names, or may have: markers are moved when a lease is taken
// over, so what is gone when it is read is looked for again.
func isMarked(root, lease string, names []string) (found bool, err error) {
	for range 10 {
		moved := false
		if found, moved, err = findMarks(root, lease, names); err != nil || found || !moved {
			return found, err
		}
	}
	return true, nil
}

func findMarks(root, lease string, names []string) (found, moved bool, err error) {
	staging := filepath.Join(root, StagingDir)
	entries, err := os.ReadDir(staging)
	if err != nil {
		if isGone(err) {
			err = nil
		}
		return false, false, err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), lease+".") || !isClaim(e.Name()) || !e.IsDir() {
			continue
		}
		err = filepath.WalkDir(filepath.Join(staging, e.Name()), func(_ string, e fs.DirEntry, err error) error {
			if err != nil && isGone(err) {
				moved = true
				return nil
			}
			found = found || err == nil && slices.ContainsFunc(names, func(n string) bool { return e.Name() == markName(n) })
			return err
		})
		if err != nil || found {
			return found, moved, err
		}
	}
	return false, moved, nil
}
