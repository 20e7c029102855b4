package mmapcache

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/manifest"
)

// Kinds lists the kinds of directory, parts first.
func Kinds() []string { return []string{StructureKind, StartsKind, ArenasKind, DatasetKind} }

// minPrefix is the shortest prefix of a key that names a cache.
const minPrefix = 8

// ErrNoCache is wrapped by errors about a cache that is not there.
var ErrNoCache = errors.New("no such cache")

// Find returns root and key of the dataset that a user names: by the path of its directory, or by a unique prefix of
// its key in the cache root.
func Find(root, name string) (foundRoot, key string, err error) {
	abs, err := filepath.Abs(name)
	if err != nil {
		return "", "", err
	}
	if filepath.Base(filepath.Dir(abs)) == DatasetKind {
		if info, err := os.Stat(abs); err == nil && info.IsDir() {
			return filepath.Dir(filepath.Dir(abs)), filepath.Base(abs), nil
		}
	}
	if len(name) < minPrefix || strings.ContainsRune(name, filepath.Separator) {
		return "", "", fmt.Errorf("cache %s: %w: want the path that convert printed or %d characters or more of its key", name, ErrNoCache, minPrefix)
	}
	entries, err := os.ReadDir(filepath.Join(root, DatasetKind))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", "", err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), name) {
			continue
		}
		if key != "" {
			return "", "", fmt.Errorf("cache %s: more than one key in %s begins so: write more of it", name, root)
		}
		key = e.Name()
	}
	if key == "" {
		return "", "", fmt.Errorf("cache %s: %w in %s", name, ErrNoCache, root)
	}
	return root, key, nil
}

// Entry is one directory of a cache root.
type Entry struct {
	Path    string     `json:"path"`
	Key     string     `json:"key"`
	Kind    string     `json:"kind"`
	Bytes   int64      `json:"bytes"`   // of its own files
	Created *time.Time `json:"created"` // nil where the provenance cannot be read
	Used    *time.Time `json:"used"`    // nil: not recorded
	Pinned  bool       `json:"pinned"`
	Source  string     `json:"source"`            // first input file, and how many more
	Damaged string     `json:"damaged,omitempty"` // why the manifest cannot be read
}

// List returns the directories of a cache root, datasets first, by kind and age.
func List(root string) ([]Entry, error) {
	list := []Entry{}
	kinds := Kinds()
	for k := len(kinds) - 1; k >= 0; k-- {
		entries, err := os.ReadDir(filepath.Join(root, kinds[k]))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		from := len(list)
		for _, e := range entries {
			if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
				list = append(list, describe(root, kinds[k], e.Name()))
			}
		}
		part := list[from:]
		sort.SliceStable(part, func(i, j int) bool { // without a date first
			a, b := part[i].Created, part[j].Created
			return b != nil && (a == nil || a.Before(*b))
		})
	}
	return list, nil
}

func describe(root, kind, key string) Entry {
	e := Entry{Path: filepath.Join(root, kind, key), Key: key, Kind: kind}
	if _, err := readManifest(root, kind, key, ""); err != nil {
		e.Damaged = err.Error()
	}
	entries, _ := os.ReadDir(e.Path) // an unreadable directory has size 0, and the manifest says why
	for _, f := range entries {
		if info, err := f.Info(); err == nil {
			e.Bytes += info.Size()
		}
	}
	if p, err := ReadProvenance(e.Path); err == nil {
		e.Created = &p.Created
		if len(p.Sources) > 0 {
			e.Source = p.Sources[0].Path
		}
		if n := len(p.Sources) - 1; n > 0 {
			e.Source += fmt.Sprintf(" and %d more", n)
		}
	}
	return e
}

// DatasetPath returns the directory of a dataset.
func DatasetPath(root, key string) string { return filepath.Join(root, DatasetKind, key) }

// Directory is one directory of a described cache.
type Directory struct {
	Path       string             `json:"path"`
	Manifest   *manifest.Manifest `json:"manifest"`
	Provenance *Provenance        `json:"provenance"` // nil where it cannot be read
}

// Info describes a dataset and its parts.
type Info struct {
	Key         string      `json:"key"`
	Directories []Directory `json:"directories"` // the dataset, then its parts
}

// Describe reads the manifests of a dataset and its parts.
func Describe(root, key string) (*Info, error) {
	info := &Info{Key: key}
	add := func(kind, key, digest string) (*manifest.Manifest, error) {
		m, err := readManifest(root, kind, key, digest)
		if err != nil {
			return nil, err
		}
		d := Directory{Path: filepath.Join(root, kind, key), Manifest: m}
		if p, err := ReadProvenance(d.Path); err == nil {
			d.Provenance = &p
		}
		info.Directories = append(info.Directories, d)
		return m, nil
	}
	m, err := add(DatasetKind, key, "")
	if err != nil {
		return nil, err
	}
	for _, kind := range []string{StructureKind, StartsKind, ArenasKind} {
		if _, err := add(kind, m.Parts[kind].Key, m.Parts[kind].Digest); err != nil {
			return nil, err
		}
	}
	return info, nil
}

// Size returns the bytes on disk of a dataset and its parts, manifests included.
func Size(root, key string) (n int64, err error) {
	m, err := readManifest(root, DatasetKind, key, "")
	if err != nil {
		return 0, err
	}
	n = describe(root, DatasetKind, key).Bytes
	for kind, part := range m.Parts {
		n += describe(root, kind, part.Key).Bytes
	}
	return n, nil
}

// Remove removes a dataset, and those of its parts that no other dataset names. It returns the bytes freed.
func Remove(root, key string) (freed int64, err error) {
	dir := filepath.Join(root, DatasetKind, key)
	if _, err := os.Stat(dir); err != nil {
		return 0, err
	}
	m, err := readManifest(root, DatasetKind, key, "")
	if err != nil && !errors.Is(err, manifest.ErrDamaged) && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	named, err := namedParts(root, key)
	if err != nil {
		return 0, err
	}
	remove := func(kind, key string) error {
		size := describe(root, kind, key).Bytes
		if err := durable.Remove(root, kind+"/"+key, nil); err != nil {
			return err
		}
		freed += size
		return nil
	}
	if err := remove(DatasetKind, key); err != nil { // first, so that no dataset names a part that is gone
		return freed, err
	}
	if m == nil {
		return freed, nil
	}
	for kind, part := range m.Parts {
		if named(kind, part.Key) {
			continue
		}
		if err := remove(kind, part.Key); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return freed, err
		}
	}
	return freed, nil
}

// namedParts returns a function that says whether a dataset other than one names a part. A dataset whose manifest
// cannot be read might name any.
func namedParts(root, except string) (func(kind, key string) bool, error) {
	names := map[string]bool{}
	all := false
	entries, err := os.ReadDir(filepath.Join(root, DatasetKind))
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Name() == except {
			continue
		}
		m, err := readManifest(root, DatasetKind, e.Name(), "")
		if err != nil {
			all = true
			continue
		}
		for kind, part := range m.Parts {
			names[kind+"/"+part.Key] = true
		}
	}
	return func(kind, key string) bool { return all || names[kind+"/"+key] }, nil
}
