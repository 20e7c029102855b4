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
// for it. Add may be called from several goroutines.
type Use struct {
	root, path string
	stop       chan struct{}
	done       sync.WaitGroup

	mu   sync.Mutex
	note []byte // a line for each name
}

// useSuffix ends the names of notes.
const useSuffix = ".use"

// useBeat is how often a note is rewritten, which renews its date.
const useBeat = 10 * time.Minute

// NoteUse leaves a note in dir, a directory below root, that this process uses names, until Close. Where it cannot write,
// it leaves none: see Written.
func NoteUse(root, dir string, names []string) *Use {
	u := &Use{root: root, path: filepath.Join(dir, newOwner().fileName()+useSuffix), stop: make(chan struct{}), note: linesOf(names)}
	if WriteSmall(root, u.path, u.note, os.O_EXCL) != nil {
		u.path = ""
		return u
	}
	u.done.Go(u.keepWriting)
	return u
}

func linesOf(names []string) []byte { return []byte(strings.Join(names, "\n") + "\n") }

// keepWriting rewrites the note until Close.
func (u *Use) keepWriting() {
	every(useBeat, u.stop, func() bool {
		u.mu.Lock()
		defer u.mu.Unlock()
		_ = WriteSmall(u.root, u.path, u.note, 0)
		return true
	})
}

// Add adds names to the note, at its end. It reports false where it could not write them.
func (u *Use) Add(names []string) bool {
	if !u.Written() {
		return false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	lines := linesOf(names)
	u.note = append(u.note, lines...)
	f, err := os.OpenFile(u.path, os.O_WRONLY|os.O_APPEND|noFollow, 0)
	if err != nil {
		return WriteSmall(u.root, u.path, u.note, 0) == nil // a person has removed it
	}
	_, err = f.Write(lines)
	return errors.Join(err, f.Close()) == nil
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

// Notes are the notes of use in a directory. They keep what they have read: a note only grows, at its end, so that its name and
// its size say what it holds.
type Notes struct {
	dir  string
	list []note // in the order of their names
}

// note is the note of one process.
type note struct {
	file  string
	size  int64 // of what was read, bytes
	who   string
	names map[string]bool
}

// NewNotes returns the notes in a directory, none of which it has read yet.
func NewNotes(dir string) *Notes { return &Notes{dir: dir} }

// Read reads the notes that exist now. Notes of processes that have ended do not count: left lists them. now is the time by the
// clock of the file system.
func (n *Notes) Read(now time.Time) (left []Leftover, err error) {
	entries, err := os.ReadDir(n.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	known := map[string]note{}
	for _, note := range n.list {
		known[note.file] = note
	}
	n.list = nil
	for _, e := range entries {
		name, ours := strings.CutSuffix(e.Name(), useSuffix)
		who, parsed := parseOwner(name)
		if !ours || !parsed {
			continue
		}
		path := filepath.Join(n.dir, e.Name())
		info, err := os.Lstat(path)
		if isGone(err) || err == nil && !info.Mode().IsRegular() {
			continue // this package makes no links or pipes
		}
		if err != nil {
			return nil, err
		}
		if who.leftBehind(now.Sub(info.ModTime()), useBeat) {
			left = append(left, Leftover{Path: path, Bytes: info.Size(), Owner: who.describe()})
			continue
		}
		read, err := readNote(path, known[e.Name()])
		if err != nil && !isGone(err) {
			return nil, err
		}
		read.file, read.who = e.Name(), who.describe()
		n.list = append(n.list, read)
	}
	return left, nil
}

// Users returns, in words, which processes use a name, "" for none.
func (n *Notes) Users(name string) string {
	var users []string
	for _, note := range n.list {
		if note.names[name] && !slices.Contains(users, note.who) {
			users = append(users, note.who)
		}
	}
	return strings.Join(users, ", ")
}

// maxNote bounds a note, in bytes. It is the bound of a manifest: the note of a dataset names its parts and is shorter.
const maxNote = 64 << 20

// readNote reads a note, unless it has the size of what is known of it. A file that is not regular, or too large to be a note,
// counts as empty.
func readNote(path string, known note) (note, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|noFollow, 0) // on NFS this asks the server for the size
	if err != nil {
		return note{}, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxNote {
		return note{}, err
	}
	if known.names != nil && info.Size() == known.size {
		return known, nil
	}
	data, err := io.ReadAll(io.LimitReader(f, maxNote))
	read := note{size: int64(len(data)), names: map[string]bool{}}
	for name := range strings.Lines(string(data)) {
		read.names[strings.TrimSuffix(name, "\n")] = true
	}
	return read, err
}
