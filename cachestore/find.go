package cachestore

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agentx/agentx/internal/cachedir"
	"github.com/agentx/agentx/mmapcache"
)

// minPrefix is the shortest prefix of a key that names a dataset or part, in characters.
const minPrefix = 8

// Find returns root and key of the dataset that a user names: by the path of its directory, or by a unique prefix of its
// key in a root. An error about a dataset that does not exist wraps mmapcache.ErrNoCache.
func Find(root, name string) (foundRoot, key string, err error) {
	return realDisk().findDataset(root, name)
}

func (d disk) findDataset(root, name string) (foundRoot, key string, err error) {
	foundRoot, _, key, err = d.find(root, name, mmapcache.DatasetKind)
	return foundRoot, key, err
}

// FindAny is Find for datasets and parts, and also returns the kind.
func FindAny(root, name string) (foundRoot, kind, key string, err error) {
	return realDisk().find(root, name, mmapcache.Kinds()...)
}

// find finds a directory of one of the given kinds.
func (d disk) find(root, name string, kinds ...string) (foundRoot, kind, key string, err error) {
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
	kind, key, err = d.findPrefix(root, name, kinds)
	return root, kind, key, err
}

// findPrefix finds the one directory of a root whose key begins with a prefix.
func (d disk) findPrefix(root, prefix string, kinds []string) (kind, key string, err error) {
	for _, k := range kinds {
		keys, err := d.keysOf(root, k)
		if err != nil {
			return "", "", fmt.Errorf("cache %s: %w", prefix, err)
		}
		for _, candidate := range keys {
			if !strings.HasPrefix(candidate, prefix) {
				continue
			}
			if key != "" {
				return "", "", fmt.Errorf("cache %s: more than one key in %s begins with it: give more of its characters", prefix, root)
			}
			kind, key = k, candidate
		}
	}
	if key == "" {
		return "", "", fmt.Errorf("cache %s: %w in %s", prefix, mmapcache.ErrNoCache, root)
	}
	return kind, key, nil
}

// IsCachePath reports whether a path has the form ROOT/KIND/KEY of a directory of a root, whether or not it exists.
func IsCachePath(path string) bool {
	path = filepath.Clean(path)
	return slices.Contains(mmapcache.Kinds(), filepath.Base(filepath.Dir(path))) && isKey(filepath.Base(path))
}
