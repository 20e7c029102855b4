package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

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
