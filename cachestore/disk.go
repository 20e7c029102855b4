package cachestore

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/agentx/agentx/internal/bytefmt"
	"github.com/agentx/agentx/internal/cachedir"
	"github.com/agentx/agentx/internal/durable"
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

// ExplainFullDisk makes an error of a disk without room a *durable.FullError, which says in one line how much is free. It returns any
// other error as it is.
func ExplainFullDisk(root string, err error) error {
	if !durable.IsDiskFull(err) {
		return err
	}
	text := fmt.Sprintf("cache root %s: no space is left on its disk", root)
	if free, ok := durable.FreeBytes(root); ok {
		text += fmt.Sprintf(" for what is to be written: %s are free", bytefmt.Format(free))
	}
	return &durable.FullError{Text: text, Hint: "--cache DIR (of cache warm --to DIR), on a disk with more room; or agentx cache gc --max-bytes SIZE, which frees some here", Err: err}
}

// isKey reports whether a name has the form of a key: a SHA-256 in lower-case hex. cachestore leaves every other name
// alone.
func isKey(name string) bool {
	return len(name) == 64 && strings.Trim(name, "0123456789abcdef") == ""
}
