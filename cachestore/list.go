package cachestore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/agentx/agentx/internal/cachedir"
	"github.com/agentx/agentx/mmapcache"
)

// Entry is one directory of a cache root.
type Entry struct {
	Path       string     `json:"path"`
	Key        string     `json:"key"`
	Kind       string     `json:"kind"`
	Bytes      int64      `json:"bytes"`             // of its own files
	TotalBytes int64      `json:"bytes_with_parts"`  // of a dataset: with its parts, which other datasets may name too
	Created    *time.Time `json:"created"`           // nil where the provenance cannot be read
	LastUse    *time.Time `json:"used"`              // of a dataset, to the hour; nil: not recorded
	Pinned     bool       `json:"pinned"`            // of a part: a pinned dataset names it
	Source     string     `json:"source"`            // first input file, and how many more
	InUse      string     `json:"in_use"`            // the processes that left a note of use; "": none
	Damaged    string     `json:"damaged,omitempty"` // what is wrong with the manifest

	Unreadable string `json:"unreadable,omitempty"` // why the manifest could not be read; damaged or not is unknown
}

// List returns the directories of a cache root: datasets first, then by kind and age. It skips names that do not belong to
// a cache.
func List(root string) ([]Entry, error) { return realDisk().listRoot(root) }

func (d disk) listRoot(root string) ([]Entry, error) {
	l := lister{disk: d, root: root, users: users(root), pinned: map[string]bool{}, list: []Entry{}}
	for _, kind := range slices.Backward(mmapcache.Kinds()) { // datasets first: they say which parts are pinned
		if err := l.add(kind); err != nil {
			return nil, err
		}
	}
	return l.list, nil
}

// lister is one run of List.
type lister struct {
	disk
	root   string
	users  map[string]string // by "kind/key"
	pinned map[string]bool   // parts that a pinned dataset names, by "kind/key"
	list   []Entry
}

// add lists the directories of a kind, oldest first, and before them those without a date.
func (l *lister) add(kind string) error {
	keys, err := l.keysOf(l.root, kind)
	if err != nil {
		return err
	}
	from := len(l.list)
	for _, key := range keys {
		e, err := l.describe(l.root, kind, key)
		if err != nil {
			continue // removed since it was listed
		}
		name := e.Kind + "/" + e.Key
		e.InUse, e.TotalBytes, e.Pinned = l.users[name], e.Bytes, l.pinned[name]
		if kind == mmapcache.DatasetKind {
			l.addDatasetFields(&e)
		}
		l.list = append(l.list, e)
	}
	slices.SortStableFunc(l.list[from:], func(a, b Entry) int { return compareTimes(a.Created, b.Created) })
	return nil
}

func compareTimes(a, b *time.Time) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return -1
	case b == nil:
		return 1
	}
	return a.Compare(*b)
}

// addDatasetFields adds what only a dataset has: total size, last use, pin.
func (l *lister) addDatasetFields(e *Entry) {
	if n, err := Size(l.root, e.Key); err == nil {
		e.TotalBytes = n
	}
	e.LastUse = lastUse(l.root, e.Key)
	pin, err := readPin(l.root, e.Key)
	e.Pinned = pin != nil || err != nil
	if !e.Pinned {
		return
	}
	if m, err := realDisk().ReadManifest(l.root, e.Kind, e.Key, ""); err == nil {
		for _, name := range partNames(m) {
			l.pinned[name] = true
		}
	}
}

// describe returns the fields that every kind of directory has. An error says that the directory is gone.
func (d disk) describe(root, kind, key string) (Entry, error) {
	e := Entry{Path: filepath.Join(root, kind, key), Key: key, Kind: kind, Bytes: sizeOf(root, kind, key)}
	switch _, err := d.readManifest(root, kind, key, ""); {
	case err == nil:
	case cachedir.IsMissing(err) && !d.Listed(e.Path):
		return e, err
	case cachedir.IsDamage(err) && !errors.Is(err, syscall.ESTALE):
		e.Damaged = err.Error()
	default:
		e.Unreadable = err.Error()
	}
	if p, err := mmapcache.ReadProvenance(e.Path); err == nil {
		e.Created = &p.Created
		if len(p.Sources) > 0 {
			e.Source = p.Sources[0].Path
		}
		if n := len(p.Sources) - 1; n > 0 {
			e.Source += fmt.Sprintf(" and %d more", n)
		}
	}
	return e, nil
}

// sizeOf returns the bytes of the files of a directory, as far as they can be seen.
func sizeOf(root, kind, key string) (n int64) {
	entries, _ := os.ReadDir(filepath.Join(root, kind, key))
	for _, f := range entries {
		if info, err := f.Info(); err == nil {
			n += info.Size()
		}
	}
	return n
}
