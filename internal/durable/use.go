package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Use is a note that this process has names in use. Nobody waits for it; who removes things looks for it.
type Use struct {
	path string
	stop chan struct{}
	done sync.WaitGroup
}

// useSuffix ends the names of notes.
const useSuffix = ".use"

// useBeat is how often a note is written anew while it is held.
const useBeat = 10 * time.Minute

// NoteUse leaves a note in dir, a directory below root, that this process uses names, until Close. It is best effort:
// where nothing can be written it does nothing.
func NoteUse(root, dir string, names []string) *Use {
	u := &Use{path: filepath.Join(dir, newOwner().String()+useSuffix), stop: make(chan struct{})}
	note := []byte(strings.Join(names, "\n") + "\n")
	if (Options{Sync: unsynced}).mkdirAll(root, dir) != nil || os.WriteFile(u.path, note, 0o666) != nil {
		u.path = ""
		return u
	}
	openLike(dir, u.path)
	u.done.Go(func() {
		t := time.NewTicker(useBeat)
		defer t.Stop()
		for {
			select {
			case <-u.stop:
				return
			case <-t.C:
				_ = os.WriteFile(u.path, note, 0o666)
			}
		}
	})
	return u
}

func unsynced(*os.File) error { return nil }

// Close takes the note away.
func (u *Use) Close() {
	close(u.stop)
	u.done.Wait()
	if u.path != "" {
		_ = os.Remove(u.path)
	}
}

// InUse reads the notes in a directory: who uses a name, for people. Notes that killed processes have left do not count;
// they are returned as left.
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
		info, err := os.Stat(path)
		if gone(err) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		if who.left(now.Sub(info.ModTime()), useBeat) {
			left = append(left, Leftover{Path: path, Bytes: info.Size(), Owner: who.text()})
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil && !gone(err) {
			return nil, nil, err
		}
		for used := range strings.Lines(string(data)) {
			users[strings.TrimSuffix(used, "\n")] = who.text()
		}
	}
	return users, left, nil
}
