package cachestore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/agentx/agentx/internal/cachedir"
	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

// CheckRoot refuses a cache root that lies inside the directories of another one, where GC would take it for damage or
// remove it with them. The root need not exist.
func CheckRoot(root string) error {
	path, err := resolve(root)
	if err != nil {
		return fmt.Errorf("cache root %s: %w", root, err)
	}
	for dir := path; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if outer := outerRoot(dir); outer != "" {
			return fmt.Errorf("cache root %s lies inside the cache %s: use another --cache", root, outer)
		}
	}
	return nil
}

// outerRoot returns the cache root that a directory belongs to, "" if none.
func outerRoot(dir string) (outer string) {
	above := filepath.Dir(dir)
	own := append(mmapcache.Kinds(), durable.StagingDir, useDir)
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
	return outer
}

// resolve returns the absolute path of a file, with symbolic links followed as far as the path exists.
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

// SameDirectory reports whether two paths lead to one directory.
func SameDirectory(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// sharedName is a file of a cache root that says that other machines read the root.
const sharedName = ".shared"

// MarkShared marks a root as read by other machines, so that GC keeps what was used recently (GCOptions.Keep). It is best
// effort.
func MarkShared(root string) {
	_ = durable.WriteSmall(root, filepath.Join(root, sharedName), nil, 0)
}

// isShared reports whether other machines may read a root: it is marked so, or on no local file system.
func isShared(root string) bool {
	_, err := os.Lstat(filepath.Join(root, sharedName))
	return !errors.Is(err, fs.ErrNotExist) || !cachedir.IsLocal(root)
}

// checkNoLinks returns an error if a directory of a cache root is a symbolic link: removing things behind it would remove
// them elsewhere.
func checkNoLinks(root string) error {
	for _, name := range append(mmapcache.Kinds(), useDir, durable.StagingDir) {
		path := filepath.Join(root, name)
		info, err := os.Lstat(path)
		if err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return fmt.Errorf("%s: a symbolic link, which is not followed: nothing is removed", path)
		}
	}
	return nil
}
