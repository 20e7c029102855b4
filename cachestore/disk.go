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

func realDisk() disk { return disk{cachedir.Real()} }

// isKey reports whether a name is that of a directory of a cache. Others are of whoever put them there.
func isKey(name string) bool {
	return len(name) == 64 && strings.Trim(name, "0123456789abcdef") == ""
}

// readManifest reads the manifest of a directory in the format that this program reads.
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

func readManifest(root, kind, key, digest string) (*manifest.Manifest, error) {
	return realDisk().readManifest(root, kind, key, digest)
}
