package durable

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// Use is a note that this process uses some names. A process that removes things reads it (removal.go); no process waits
// for it.
type Use struct {
	path string
	stop chan struct{}
	done sync.WaitGroup
}

// useSuffix ends the names of notes.
const useSuffix = ".use"

// useBeat is how often a note is rewritten, which renews its date.
const useBeat = 10 * time.Minute

// NoteUse leaves a note in dir, a directory below root, that this process uses names, until Close. Where it cannot write,
// it leaves none: see Written.
func NoteUse(root, dir string, names []string) *Use {
	u := &Use{path: filepath.Join(dir, newOwner().fileName()+useSuffix), stop: make(chan struct{})}
	note := []byte(strings.Join(names, "\n") + "\n")
	if WriteSmall(root, u.path, note, os.O_EXCL) != nil {
		u.path = ""
		return u
	}
	u.done.Go(func() {
		t := time.NewTicker(useBeat)
		defer t.Stop()
		for {
			select {
			case <-u.stop:
				return
			case <-t.C:
				_ = WriteSmall(root, u.path, note, 0)
			}
		}
	})
	return u
}

// Written reports whether the note was left.
func (u *Use) Written() bool { return u.path != "" }

// Close removes the note.
func (u *Use) Close() {
	close(u.stop)
	u.done.Wait()
	if u.path != "" {
		_ = os.Remove(u.path)
	}
}

// InUse reads the notes in a directory. users says for each name which processes use it, in words. Notes of processes that
// have ended do not count: left lists them.
func InUse(dir string, now time.Time) (users map[string]string, left []Leftover, err error) {
	users = map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	for _, e := range entries {
		name, ours := strings.CutSuffix(e.Name(), useSuffix)
		who, parsed := parseOwner(name)
		if !ours || !parsed {
			continue
		}
		path := filepath.Join(dir, e.Name())
		info, err := os.Lstat(path)
		if isGone(err) || err == nil && !info.Mode().IsRegular() {
			continue // this package makes no links or pipes
		}
		if err != nil {
			return nil, nil, err
		}
		if who.leftBehind(now.Sub(info.ModTime()), useBeat) {
			left = append(left, Leftover{Path: path, Bytes: info.Size(), Owner: who.describe()})
			continue
		}
		data, err := readSmall(path)
		if err != nil && !isGone(err) {
			return nil, nil, err
		}
		for used := range strings.Lines(string(data)) {
			used = strings.TrimSuffix(used, "\n")
			switch others := users[used]; {
			case others == "":
				users[used] = who.describe()
			case !slices.Contains(strings.Split(others, ", "), who.describe()):
				users[used] = others + ", " + who.describe()
			}
		}
	}
	return users, left, nil
}

// maxSmall bounds a note, in bytes.
const maxSmall = 1 << 20

// readSmall reads a note. A file that is not regular, or too large to be a note, counts as empty.
func readSmall(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|noFollow, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxSmall {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, maxSmall))
}
