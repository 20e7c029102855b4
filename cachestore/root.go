package cachestore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

// CheckRoot refuses a cache root that lies inside another cache's own directories, where it would be taken for damage or
// removed with them. It need not exist.
func CheckRoot(root string) error {
	path, err := resolve(root)
	if err != nil {
		return fmt.Errorf("cache root %s: %w", root, err)
	}
	own := append(mmapcache.Kinds(), durable.StagingDir, useDir)
	for dir := path; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		above := filepath.Dir(dir)
		outer := ""
		if slices.Contains(own, filepath.Base(dir)) && isDir(filepath.Join(above, durable.StagingDir)) {
			outer = above
		}
		if _, err := os.Lstat(filepath.Join(dir, manifest.FileName)); err == nil {
			if slices.Contains(mmapcache.Kinds(), filepath.Base(above)) { // damaged or not
				outer = filepath.Dir(above)
			} else if _, err := manifest.Read(dir); err == nil { // not the manifest.json of something else
				outer = dir
			}
		}
		if outer != "" {
			return fmt.Errorf("cache root %s lies inside the cache %s: use another --cache", root, outer)
		}
	}
	return nil
}

// resolve returns the absolute path of a file, without symbolic links as far as it exists.
func resolve(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	rest := ""
	for at := path; ; at = filepath.Dir(at) {
		real, err := filepath.EvalSymlinks(at)
		if err == nil {
			return filepath.Join(real, rest), nil
		}
		if !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at) {
			return path, nil
		}
		rest = filepath.Join(filepath.Base(at), rest)
	}
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
