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

// Leftover is something below a root that a process which is no more has left.
type Leftover struct {
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
	Owner string `json:"owner"`
}

// Sweep removes from the staging directory of a root what killed processes have left; with dryRun it only lists it. Now
// is the time by the clock of the file system (Now), for that is what dates the files. What a process of this machine
// has left goes at once; what one of this host from before its last boot has, after three heartbeats of silence; what
// one of another machine has, after an hour. Names that nobody here writes stay. What cannot be removed does not keep it
// from the rest.
func Sweep(root string, now time.Time, dryRun bool) (list []Leftover, err error) {
	dir := filepath.Join(root, StagingDir)
	if info, err := os.Lstat(dir); err == nil && !info.IsDir() {
		return nil, fmt.Errorf("%s: not a directory, and no link is followed: nothing is swept", dir)
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var failed []error
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		info, err := e.Info()
		if err != nil || !e.IsDir() {
			continue // it went away, or is not ours
		}
		who, ours := parseOwner(e.Name())
		if !ours {
			inside, err := os.ReadDir(path)
			if err != nil || !isClaim(e.Name()) {
				continue
			}
			names, strange := "", false
			for _, f := range inside {
				_, owned := parseOwner(f.Name())
				strange = strange || !owned && !strings.HasPrefix(f.Name(), "beat.")
				names += f.Name() + "\n"
			}
			if strange {
				continue // nobody here makes such
			}
			who, _ = holderOf(names) // without one it is anybody's
		}
		if !who.left(now.Sub(info.ModTime()), DefaultBeat) {
			continue
		}
		l := Leftover{Path: path, Bytes: size(path), Owner: who.text()}
		if !dryRun {
			if err := discard(root, path, Options{}); err != nil {
				failed = append(failed, err)
				continue
			}
		}
		list = append(list, l)
	}
	return list, errors.Join(failed...)
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

// Now returns the time by the clock of the file system of a root, which dates the files in it.
func Now(root string) (time.Time, error) {
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
