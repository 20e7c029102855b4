package cachestore

import (
	"path/filepath"
	"strings"

	"github.com/agentx/agentx/internal/cachedir"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

// disk is how the files of a root are reached.
type disk struct{ cachedir.Disk }

func realDisk() disk { return disk{cachedir.NewDisk()} }

// readManifest reads the manifest of a directory in the format that this program reads. Digest, unless "", is the one that
// a dataset names.
func (d disk) readManifest(root, kind, key, digest string) (*manifest.Manifest, error) {
	m, err := d.ReadManifest(root, kind, key, digest)
	if err == nil {
		err = mmapcache.CheckFormat(filepath.Join(root, kind, key), m)
	}
	if err != nil {
		return nil, err
	}
	return m, nil
}

// keysOf lists the entries of a kind that are named like a key, whether or not they are directories.
func (d disk) keysOf(root, kind string) (keys []string, err error) {
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

// isKey reports whether a name has the form of a key: a SHA-256 in lower-case hex. cachestore leaves every other name
// alone.
func isKey(name string) bool {
	return len(name) == 64 && strings.Trim(name, "0123456789abcdef") == ""
}
