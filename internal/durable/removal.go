package durable

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A process that removes something while others may begin to use it holds a lease. It writes a marker, which names what it
// is about to remove, and then reads the notes of use (use.go): of several things it marks all before it reads. A process that begins to use something leaves its note, and
// then reads the markers. So one of the two sees the other, and the remover never has to move a directory away and back.
//
// A marker is an empty file in the directory of the lease's holder, into which the holder also renames what it removes. So
// the marker goes with the lease: a process that waits for the marker of a killed or stopped one takes the lease over, and
// that one can then remove nothing.

// markSuffix ends the names of markers.
const markSuffix = ".removing"

// markName is the name of the marker of a slash-separated name.
func markName(name string) string { return strings.ReplaceAll(name, "/", "-") + markSuffix }

// Removal removes directories below a root: Remove takes them away, and Finish removes what was taken away. So no process
// opens one that is half removed. Finish first syncs each directory that something was renamed away from, once: a directory that loses
// files has lost its name, or its seal, on disk, too.
//
// A process that is killed in between leaves what it has renamed away in its lease, or without one in the staging directory, whose
// next holder or Sweep removes it.
type Removal struct {
	opts  Options
	root  string
	taken []*aside
}

// Removal begins a removal, of nothing yet.
func (o Options) Removal(root string) *Removal { return &Removal{opts: o, root: root} }

// Remove takes directories away, and returns by name why they stay, nil for those that it took. Once all their markers exist it calls inUse, which may be nil,
// with all that have one: it returns by name why a directory stays. The error about a directory that another user alone may remove is a
// *ForeignError. What is left when the context ends stays, with its error.
//
// Markers need the lease of the options. A process that has lost the lease can remove nothing. Without a lease, or on a full
// disk, where no marker can be made, Remove takes the directories away, calls inUse once more, and puts back those that are in
// use. Meanwhile a sweep on another machine may remove them as leftovers.
func (r *Removal) Remove(ctx context.Context, names []string, inUse func(names []string) map[string]error) (failed map[string]error) {
	failed = map[string]error{}
	into, marks, unmarked := map[string]string{}, map[string]string{}, map[string]*aside{}
	for _, name := range names {
		into[name], marks[name], failed[name] = r.opts.mark(r.root, name)
	}
	r.check(names, inUse, failed)
	for _, name := range names {
		if failed[name] == nil {
			failed[name] = ctx.Err()
		}
		if failed[name] == nil {
			a, err := r.opts.takeAway("remove", r.path(name), into[name])
			switch failed[name] = asForeign(r.path(name), r.opts.Lease.asLost(err)); {
			case err != nil:
			case marks[name] == "":
				unmarked[name] = a
			default:
				a.name, r.taken = name, append(r.taken, a)
			}
		}
		if marks[name] != "" {
			_ = os.Remove(marks[name]) // if this fails, it goes with the lease
		}
	}
	r.check(slices.Sorted(maps.Keys(unmarked)), inUse, failed)
	for name, a := range unmarked {
		if failed[name] != nil {
			failed[name] = a.putBack(failed[name])
		} else {
			a.name, r.taken = name, append(r.taken, a)
		}
	}
	return failed
}

func (r *Removal) path(name string) string { return filepath.Join(r.root, filepath.FromSlash(name)) }

// check notes which of the names that have not failed are in use.
func (r *Removal) check(names []string, inUse func(names []string) map[string]error, failed map[string]error) {
	var asked []string
	for _, name := range names {
		if failed[name] == nil {
			failed[name] = r.opts.step("check", r.path(name))
		}
		if failed[name] == nil {
			asked = append(asked, name)
		}
	}
	if inUse != nil && len(asked) > 0 {
		maps.Copy(failed, inUse(asked))
	}
}

// Finish removes what was taken away, and returns the errors by name. It puts back what may not have lost its name on disk.
func (r *Removal) Finish() (failed map[string]error) {
	failed = map[string]error{}
	synced := map[string]error{}
	for _, a := range r.taken {
		from := a.from()
		if _, ok := synced[from]; !ok {
			synced[from] = r.opts.sync(from)
		}
		err := synced[from]
		if a.inPlace != nil && isGone(err) {
			err = nil // another process has removed it
		}
		if err != nil {
			err = a.putBack(err)
		} else if err = r.opts.step("delete", a.to); err == nil {
			err = a.remove()
		}
		if err != nil {
			failed[a.name] = err
		}
	}
	r.taken = nil
	return failed
}

// mark makes the marker of a name under the lease, and returns the directory into which to rename the name. Without a
// lease, and on a full disk, mark is "".
func (o Options) mark(root, name string) (into, mark string, err error) {
	staging := filepath.Join(root, StagingDir)
	if o.Lease == nil {
		return staging, "", o.mkdirShared(root, staging)
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

// AwaitRemoval waits until no process is about to remove one of names under the named lease: each then exists or is
// removed. Call it after leaving a note of use. If the remover was killed, or is silent, AwaitRemoval takes the lease over,
// so that the remover can remove nothing more.
func AwaitRemoval(ctx context.Context, root, lease string, names []string) error {
	marks := map[string]bool{}
	for _, name := range names {
		marks[markName(name)] = true
	}
	l, err := Acquire(ctx, root, lease, func() (bool, error) {
		marked, err := isMarked(root, lease, marks)
		return !marked, err
	}, Waiting{})
	if err != nil || l == nil {
		return err
	}
	return l.Release() // the process that made the marker has lost the lease
}

// isMarked reports whether a holder of a lease has made one of the markers, by name, or may have. It looks again when something
// moves while it reads, because markers move when a lease is taken over.
func isMarked(root, lease string, marks map[string]bool) (found bool, err error) {
	for range 10 {
		moved := false
		if found, moved, err = findMarks(root, lease, marks); err != nil || found || !moved {
			return found, err
		}
	}
	return true, nil
}

// findMarks looks for the markers once. moved says that something disappeared while it read.
func findMarks(root, lease string, marks map[string]bool) (found, moved bool, err error) {
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
			found = found || err == nil && marks[e.Name()]
			return err
		})
		if err != nil || found {
			return found, moved, err
		}
	}
	return false, moved, nil
}

// Leftover is something below a root that a process left before it ended.
type Leftover struct {
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
	Owner string `json:"owner"`
}

// Sweep removes from the staging directory of a root what killed processes have left, and returns it; with dryRun it only
// returns it. now is the time by the clock of the file system (FilesystemTime), which dates the files.
//
// What a dead process of this machine has left goes at once; what a process of this host has left before its last boot,
// after three heartbeats of silence; what a process of another machine, or an unknown one, has left, after an hour. Names
// that this package does not write stay, and what another user alone may remove. Sweep continues after an error, and returns all
// errors at the end.
func Sweep(root string, now time.Time, dryRun bool) (list []Leftover, err error) {
	dir := filepath.Join(root, StagingDir)
	if info, err := os.Lstat(dir); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("%s: not a directory: nothing is swept, and no link is followed", dir)
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var failed []error
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		owned, ours := ownedAt(path, e)
		who, left := allLeftBehind(owned, now)
		if !ours || !left {
			continue
		}
		l := Leftover{Path: path, Bytes: size(path), Owner: who.describe()}
		if !dryRun {
			err := removeOwned(dir, path, owned)
			if foreign := (*ForeignError)(nil); errors.As(err, &foreign) {
				continue
			}
			if err != nil {
				failed = append(failed, err)
				continue
			}
		}
		list = append(list, l)
	}
	return list, errors.Join(failed...)
}

// ownedAt returns what an owner has made at a path of the staging directory: the path, or the holders of a claim. It is not
// ours if this package does not write such names.
func ownedAt(path string, e fs.DirEntry) (owned []string, ours bool) {
	if _, ok := parseOwner(e.Name()); ok && e.IsDir() {
		return []string{path}, true
	}
	if !isClaim(e.Name()) {
		return nil, false
	}
	if !e.IsDir() {
		return []string{path}, true // in the way of a claim
	}
	inside, err := os.ReadDir(path)
	for _, holder := range inside {
		if _, ok := parseOwner(holder.Name()); !ok {
			return nil, false
		}
		owned = append(owned, filepath.Join(path, holder.Name()))
	}
	return owned, err == nil
}

// allLeftBehind reports whether the owners of all paths are gone, and returns one of them. A claim without a holder was left
// by a process that was killed while it released the lease.
func allLeftBehind(owned []string, now time.Time) (who owner, left bool) {
	for _, path := range owned {
		info, err := os.Lstat(path)
		who, _ = parseOwner(filepath.Base(path))
		if err != nil || !who.leftBehind(now.Sub(info.ModTime()), DefaultHeartbeat) {
			return who, false
		}
	}
	return who, true
}

// removeOwned removes what was left at a path of the staging directory.
func removeOwned(dir, path string, owned []string) error {
	for _, o := range owned {
		if err := removeThrough(o, dir, Options{}); err != nil {
			return err
		}
	}
	if err := os.Remove(path); err != nil && !isGone(err) && !errors.Is(err, fs.ErrExist) { // a claim that another process holds now
		return err
	}
	return nil
}

// isClaim reports whether a name in the staging directory is NAME.GENERATION.
func isClaim(name string) bool {
	dot := strings.LastIndexByte(name, '.')
	return dot > 0 && len(name)-dot == 7 && strings.Trim(name[dot+1:], "0123456789") == ""
}

// size returns the bytes of the files below a path, as far as they can be seen.
func size(path string) (n int64) {
	_ = filepath.WalkDir(path, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			if info, err := e.Info(); err == nil {
				n += info.Size()
			}
		}
		return nil
	})
	return n
}

// FilesystemTime returns the time by the clock of a root's file system, which dates the files in it.
func FilesystemTime(root string) (time.Time, error) {
	d, err := NewDir(root, Options{})
	if err != nil {
		return time.Time{}, err
	}
	info, err := os.Stat(d.path)
	if err := errors.Join(err, d.Discard()); err != nil {
		return time.Time{}, err
	}
	return info.ModTime(), nil
}
