package cachestore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"syscall"
	"time"

	"github.com/agentx/agentx/internal/cachedir"
	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

// minPrefix is the shortest prefix of a key that names a cache.
const minPrefix = 8

// Find returns root and key of the dataset that a user names: by the path of its directory, or by a unique prefix of
// its key in the cache root.
func Find(root, name string) (foundRoot, key string, err error) {
	return realDisk().findNamed(root, name)
}

func (d disk) findNamed(root, name string) (foundRoot, key string, err error) {
	foundRoot, _, key, err = d.findAmong(root, name, mmapcache.DatasetKind)
	return foundRoot, key, err
}

// FindAny is Find for datasets and parts, with the kind of what it has found.
func FindAny(root, name string) (foundRoot, kind, key string, err error) {
	return realDisk().findAmong(root, name, mmapcache.Kinds()...)
}

// findAmong finds a directory of one of some kinds.
func (d disk) findAmong(root, name string, kinds ...string) (foundRoot, kind, key string, err error) {
	abs, err := filepath.Abs(name)
	if err != nil {
		return "", "", "", err
	}
	if kind := filepath.Base(filepath.Dir(abs)); slices.Contains(kinds, kind) && isKey(filepath.Base(abs)) {
		info, err := d.Find(abs)
		if err == nil && info.IsDir() {
			return filepath.Dir(filepath.Dir(abs)), kind, filepath.Base(abs), nil
		}
		if err != nil && !cachedir.IsAbsent(err) {
			return "", "", "", fmt.Errorf("cache %s: %w", name, err)
		}
		if strings.ContainsRune(name, filepath.Separator) {
			return "", "", "", fmt.Errorf("cache %s: %w there", name, mmapcache.ErrNoCache)
		}
	}
	if len(name) < minPrefix || strings.ContainsRune(name, filepath.Separator) {
		return "", "", "", fmt.Errorf("cache %s: %w: want the path that convert printed or %d characters or more of its key", name, mmapcache.ErrNoCache, minPrefix)
	}
	for _, k := range kinds {
		entries, err := d.List(filepath.Join(root, k))
		if err != nil && !cachedir.IsAbsent(err) {
			return "", "", "", fmt.Errorf("cache %s: %w", name, err)
		}
		for _, e := range entries {
			if !isKey(e.Name()) || !strings.HasPrefix(e.Name(), name) {
				continue
			}
			if key != "" {
				return "", "", "", fmt.Errorf("cache %s: more than one key in %s begins so: write more of it", name, root)
			}
			kind, key = k, e.Name()
		}
	}
	if key == "" {
		return "", "", "", fmt.Errorf("cache %s: %w in %s", name, mmapcache.ErrNoCache, root)
	}
	return root, kind, key, nil
}

// Entry is one directory of a cache root.
type Entry struct {
	Path    string     `json:"path"`
	Key     string     `json:"key"`
	Kind    string     `json:"kind"`
	Bytes   int64      `json:"bytes"`             // of its own files
	Whole   int64      `json:"bytes_with_parts"`  // of a dataset with the parts that it names, which others may name, too
	Created *time.Time `json:"created"`           // nil where the provenance cannot be read
	Used    *time.Time `json:"used"`              // of a dataset, at most an hour old; nil: not recorded
	Pinned  bool       `json:"pinned"`            // of a part: a pinned dataset names it
	Source  string     `json:"source"`            // first input file, and how many more
	InUse   string     `json:"in_use"`            // by whom, as far as they could leave a note; "": nobody
	Damaged string     `json:"damaged,omitempty"` // what is wrong with the manifest

	Unreadable string `json:"unreadable,omitempty"` // why it could not be looked at: nothing is known of it
}

// List returns the directories of a cache root, datasets first, by kind and age. What is not called like a directory of a
// cache is somebody else's, and passed over.
func List(root string) ([]Entry, error) { return realDisk().listAll(root) }

func (d disk) listAll(root string) ([]Entry, error) {
	list := []Entry{}
	users, _, _ := durable.InUse(usesIn(root), time.Now()) // what cannot be read says nothing
	pinned := map[string]bool{}
	kinds := mmapcache.Kinds()
	for k := len(kinds) - 1; k >= 0; k-- {
		keys, err := d.keysIn(root, kinds[k])
		if err != nil {
			return nil, err
		}
		from := len(list)
		for _, key := range keys {
			e, err := d.describe(root, kinds[k], key)
			if err != nil {
				continue // it has been removed since it was listed
			}
			name := e.Kind + "/" + e.Key
			e.InUse, e.Whole = users[name], e.Bytes
			if e.Kind == mmapcache.DatasetKind {
				if n, err := Size(root, key); err == nil {
					e.Whole = n
				}
				e.Used = usedAt(root, key)
				pin, err := pinOf(root, key)
				e.Pinned = pin != nil || err != nil
				if m, err := realDisk().ReadManifest(root, e.Kind, key, ""); err == nil && e.Pinned {
					for kind, part := range m.Parts {
						pinned[kind+"/"+part.Key] = true
					}
				}
			} else {
				e.Pinned = pinned[name]
			}
			list = append(list, e)
		}
		part := list[from:]
		sort.SliceStable(part, func(i, j int) bool { // without a date first
			a, b := part[i].Created, part[j].Created
			return b != nil && (a == nil || a.Before(*b))
		})
	}
	return list, nil
}

// keysIn lists the keys of the directories of a kind, and of whatever else is in the place of one.
func keysIn(root, kind string) ([]string, error) { return realDisk().keysIn(root, kind) }

func (d disk) keysIn(root, kind string) (keys []string, err error) {
	entries, err := d.List(filepath.Join(root, kind))
	if err != nil && !cachedir.IsAbsent(err) {
		return nil, err
	}
	for _, e := range entries {
		if isKey(e.Name()) {
			keys = append(keys, e.Name())
		}
	}
	return keys, nil
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

// describe says what there is to say of a directory. An error is that it is no more.
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

// IsCachePath reports whether a path is called like a directory of a cache root, whether that is there or not.
func IsCachePath(path string) bool {
	path = filepath.Clean(path)
	return slices.Contains(mmapcache.Kinds(), filepath.Base(filepath.Dir(path))) && isKey(filepath.Base(path))
}

// Directory is one directory of a described cache.
type Directory struct {
	Path       string                `json:"path"`
	Manifest   *manifest.Manifest    `json:"manifest"`
	Provenance *mmapcache.Provenance `json:"provenance"` // nil where it cannot be read
}

// Info describes a dataset and its parts.
type Info struct {
	Key         string      `json:"key"`
	Used        *time.Time  `json:"used"`        // nil: not recorded
	Pin         *Pinned     `json:"pin"`         // nil: not pinned
	InUse       string      `json:"in_use"`      // by whom, as far as they could leave a note; "": nobody
	Directories []Directory `json:"directories"` // the dataset, then its parts
}

// Describe reads the manifests of a dataset and its parts.
func Describe(root, key string) (*Info, error) {
	info := &Info{Key: key, Used: usedAt(root, key)}
	var err error
	if info.Pin, err = pinOf(root, key); err != nil {
		return nil, err
	}
	users, _, _ := durable.InUse(usesIn(root), time.Now()) // what cannot be read says nothing
	info.InUse = users[mmapcache.DatasetKind+"/"+key]
	add := func(kind, key, digest string) (*manifest.Manifest, error) {
		m, err := readManifest(root, kind, key, digest)
		if err != nil {
			return nil, err
		}
		d := Directory{Path: filepath.Join(root, kind, key), Manifest: m}
		if p, err := mmapcache.ReadProvenance(d.Path); err == nil {
			d.Provenance = &p
		}
		info.Directories = append(info.Directories, d)
		return m, nil
	}
	return info, realDisk().Steady(context.Background(), mmapcache.DatasetPath(root, key), func() error {
		info.Directories = nil
		m, err := add(mmapcache.DatasetKind, key, "")
		for _, kind := range mmapcache.PartKinds() {
			if err == nil {
				_, err = add(kind, m.Parts[kind].Key, m.Parts[kind].Digest)
			}
		}
		return err
	})
}

// Size returns the bytes on disk of a dataset and its parts, manifests included.
func Size(root, key string) (n int64, err error) {
	m, err := readManifest(root, mmapcache.DatasetKind, key, "")
	if err != nil {
		return 0, err
	}
	n = sizeOf(root, mmapcache.DatasetKind, key)
	for kind, part := range m.Parts {
		n += sizeOf(root, kind, part.Key)
	}
	return n, nil
}
