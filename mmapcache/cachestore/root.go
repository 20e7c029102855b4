package cachestore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agentx/agentx/internal/bytefmt"
	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/mmapcache/internal/cachedir"
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
			return fmt.Errorf("cache root %s lies inside the cache %s: use another directory", root, outer)
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

// readmeName is the file that explains a cache root to people.
const readmeName = "README.txt"

const readme = `This folder is a cache of agentx, which prepares recorded AI-agent traces once and replays them
against inference servers.

Nothing in it is an original: whatever is removed is made again from the traces when it is wanted.
Every directory below structure/, starts/, arenas/ and dataset/ is named by the hash of what it was
made from and never changes. A dataset names the parts that belong to it. Please edit nothing.

  agentx cache ls                         what is here, how large, how old, when last used
  agentx cache gc --max-bytes 20G         free what was not used for longest
  agentx cache gc --max-age 30d           free what was not used for a month
  agentx cache rm KEY                     free one dataset, and its parts unless another needs them
  agentx cache pin KEY                    keep a dataset from gc and rm

Choose the folder with --cache DIR or AGENTX_CACHE. .use holds pins and notes of what is in use,
.staging what is being built or removed. The whole folder may be deleted at any time when nothing
runs that uses it.
`

// writeReadme writes the file into a root that has none, or only its beginning, which a killed process left. It is best effort.
func writeReadme(root string) {
	path := filepath.Join(root, readmeName)
	if info, err := os.Lstat(path); err == nil && (!info.Mode().IsRegular() || info.Size() >= int64(len(readme))) {
		return
	}
	if data, err := os.ReadFile(path); err == nil && !strings.HasPrefix(readme, string(data)) { // a person has edited it
		return
	}
	_ = durable.WriteSmall(root, path, []byte(readme), 0)
}

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
	return &durable.FullError{Text: text, Err: err}
}

// isKey reports whether a name has the form of a key: a SHA-256 in lower-case hex. cachestore leaves every other name
// alone.
func isKey(name string) bool {
	return len(name) == 64 && strings.Trim(name, "0123456789abcdef") == ""
}

// Errors that callers tell apart with errors.Is. An error about a dataset or part that does not exist wraps
// mmapcache.ErrNoCache; one about damage wraps manifest.ErrDamaged.
var (
	// ErrPinned: Remove was asked to remove a pinned dataset.
	ErrPinned = errors.New("pinned")

	// ErrInUse: Remove was asked to remove a dataset that a process uses.
	ErrInUse = errors.New("in use")

	// ErrRemoving: another process is removing directories of the same root, for longer than GC or Remove may wait.
	ErrRemoving = errors.New("another process is removing from this root")

	// ErrSameRoot: source and target of a Copy are one directory.
	ErrSameRoot = errors.New("source and target are one directory")

	// ErrBusy: another process makes the same directory, for longer than Claim or Copy may wait.
	ErrBusy = durable.ErrBusy

	// ErrLost: another process has taken a Lease over, because this one was silent for too long.
	ErrLost = durable.ErrLost
)
