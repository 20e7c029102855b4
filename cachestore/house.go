package cachestore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/agentx/agentx/internal/cachedir"
	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

// What changes about a cache lies beside its directories, which never do, in ROOT/.use:
//
//	KEY.used    a byte, whose date is the last use of dataset KEY; written at most hourly
//	KEY.pin     dataset KEY is kept: who said so, where and when
//	OWNER.use   what a process has in use, a line "kind/key" each (internal/durable)
//
// The first and the last are best effort: who may only read leaves neither, and nobody waits for any of them.

// useDir is the directory of a cache root that says who uses what.
const useDir = ".use"

// usesIn returns the directory of a root in which notes of use, last uses and pins lie.
func usesIn(root string) string { return filepath.Join(root, useDir) }

const (
	usedSuffix = ".used"
	pinSuffix  = ".pin"
)

// usedEvery is how old the record of the last use must be to be written anew.
const usedEvery = time.Hour

// NoteUse leaves a note, until it is closed, that this process uses directories, each "kind/key", and waits until nobody
// is about to remove one of them. Whatever is in its place then stays while the note is there; so it is called before one
// looks. It is best effort: who can leave no note waits for nobody.
func NoteUse(ctx context.Context, root string, names ...string) *durable.Use {
	u := durable.NoteUse(root, usesIn(root), names)
	if u.Written() {
		_ = awaitRemoval(ctx, root, names...)
	}
	return u
}

// removing is the lease of who removes things.
const removing = "gc"

// awaitRemoval waits until nobody is about to remove directories, each "kind/key".
func awaitRemoval(ctx context.Context, root string, names ...string) error {
	return durable.AwaitRemoval(ctx, root, removing, names)
}

// NoteDataset is NoteUse of a dataset and the parts that it names. It is called before the dataset is opened. One that
// cannot be read is noted without parts.
func NoteDataset(ctx context.Context, root, key string) *durable.Use {
	u, _ := realDisk().noteDataset(ctx, root, key)
	return u
}

func (d disk) noteDataset(ctx context.Context, root, key string) (u *durable.Use, names []string) {
	m, err := d.readManifest(root, mmapcache.DatasetKind, key, "")
	if err != nil {
		m = &manifest.Manifest{Key: key}
	}
	names = usedWith(m)
	return NoteUse(ctx, root, names...), names
}

// usedWith lists what who uses a dataset uses.
func usedWith(dataset *manifest.Manifest) []string {
	names := []string{mmapcache.DatasetKind + "/" + dataset.Key}
	for _, kind := range mmapcache.PartKinds() {
		if part, ok := dataset.Parts[kind]; ok {
			names = append(names, kind+"/"+part.Key)
		}
	}
	return names
}

// Use is NoteDataset, and records the dataset as used now.
func Use(ctx context.Context, root, key string) *durable.Use {
	u := NoteDataset(ctx, root, key)
	Touch(root, key)
	return u
}

// Dataset is an open dataset that is noted as in use until it is closed.
type Dataset struct {
	*mmapcache.Cache
	use *durable.Use
}

// Close closes the dataset and takes the note away.
func (d *Dataset) Close() error {
	defer d.use.Close()
	return d.Cache.Close()
}

// Open opens a dataset, notes it as in use until it is closed, and records the use. A dataset that could not be read when
// it was noted, because another process was replacing it, is noted once more, with its parts.
func Open(ctx context.Context, root, key string) (*Dataset, error) {
	return realDisk().openInUse(ctx, root, key, mmapcache.Open)
}

func (d disk) openInUse(ctx context.Context, root, key string, open func(root, key string) (*mmapcache.Cache, error)) (dataset *Dataset, err error) {
	Touch(root, key)
	err = d.Steady(ctx, mmapcache.DatasetPath(root, key), func() error {
		use, noted := d.noteDataset(ctx, root, key)
		opened, err := open(root, key)
		if err == nil && slices.Equal(noted, usedWith(opened.Manifest)) {
			dataset = &Dataset{opened, use}
			return nil
		}
		if err == nil {
			err = errors.Join(fmt.Errorf("%s: %w: not there when it was noted as in use", mmapcache.DatasetPath(root, key), cachedir.ErrMissing), opened.Close())
		}
		use.Close()
		return err
	})
	return dataset, err
}

// Touch records that a dataset is used now, at most hourly, and where that cannot be written not at all. The byte is
// written so that the clock of the file system dates it, not the one of this machine.
func Touch(root, key string) {
	path := usePath(root, key, usedSuffix)
	if info, err := os.Lstat(path); err == nil && time.Since(info.ModTime()).Abs() < usedEvery {
		return
	}
	_ = durable.WriteSmall(root, path, []byte("\n"), 0)
}

func usePath(root, key, suffix string) string { return filepath.Join(usesIn(root), key+suffix) }

// Pinned says who wants a dataset kept.
type Pinned struct {
	Who  string    `json:"who"`
	Host string    `json:"host"`
	When time.Time `json:"when"`
}

func (p Pinned) String() string {
	s := p.Who
	if p.Host != "" {
		s += " on " + p.Host
	}
	if !p.When.IsZero() {
		s += " at " + p.When.UTC().Format(time.DateTime)
	}
	return s
}

// ErrPinned is wrapped by the error of who would remove a dataset that is pinned.
var ErrPinned = errors.New("pinned")

// Pin keeps a dataset from being removed, until Unpin. It looks whether the dataset is there once the pin is, and nobody is
// about to remove it: who was has then seen the pin, or has done so.
func Pin(ctx context.Context, root, key, who string) error {
	if !isKey(key) {
		return fmt.Errorf("cache %s: %w", key, mmapcache.ErrNoCache)
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	data, err := json.Marshal(Pinned{Who: who, Host: host, When: time.Now().UTC().Truncate(time.Second)})
	if err != nil {
		return err
	}
	err = durable.MkdirAll(root, usesIn(root))
	if err == nil {
		err = durable.WriteFile(usePath(root, key, pinSuffix), append(data, '\n'))
	}
	if err == nil {
		err = awaitRemoval(ctx, root, mmapcache.DatasetKind+"/"+key)
	}
	if err != nil {
		return fmt.Errorf("pin %s: %w", mmapcache.DatasetPath(root, key), err)
	}
	err = there(root, key)
	if errors.Is(err, mmapcache.ErrNoCache) {
		_, unpinned := Unpin(root, key)
		err = errors.Join(err, unpinned)
	}
	return err
}

// Unpin takes a pin away. It reports whether there was one.
func Unpin(root, key string) (bool, error) {
	err := os.Remove(usePath(root, key, pinSuffix))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// there returns an error if a dataset is not.
func there(root, key string) error {
	if !isKey(key) {
		return fmt.Errorf("cache %s: %w", key, mmapcache.ErrNoCache)
	}
	_, err := realDisk().Find(mmapcache.DatasetPath(root, key))
	if _, link := os.Lstat(mmapcache.DatasetPath(root, key)); link == nil {
		err = nil // perhaps one that leads nowhere
	}
	if cachedir.IsAbsent(err) {
		return fmt.Errorf("cache %s: %w in %s", key, mmapcache.ErrNoCache, root)
	}
	return err
}

// maxPin bounds a pin, in bytes.
const maxPin = 1 << 20

// pinOf returns the pin of a dataset, nil if it has none. One that cannot be made out is one all the same.
func pinOf(root, key string) (*Pinned, error) {
	path := usePath(root, key, pinSuffix)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	p := &Pinned{}
	var data []byte
	if f, size, err := openPlain(path); err == nil {
		if size <= maxPin {
			data, _ = io.ReadAll(io.LimitReader(f, maxPin)) // half a pin is one too
		}
		_ = f.Close()
	}
	if json.Unmarshal(data, p) != nil || p.Who == "" {
		p.Who = "somebody"
	}
	return p, nil
}

// usedAt returns when a dataset was last recorded as used, nil where it was not.
func usedAt(root, key string) *time.Time {
	info, err := os.Lstat(usePath(root, key, usedSuffix))
	if err != nil {
		return nil
	}
	t := info.ModTime()
	return &t
}

// readmeName is the file that says to people what the folder is that they have found.
const readmeName = "README.txt"

const readme = `This folder is a cache of agentx, which prepares recorded AI-agent traces once and replays them
against inference servers.

Nothing in it is an original: whatever is removed is made again from the traces when it is wanted.
Every directory below structure/, starts/, arenas/ and dataset/ is named by the hash of what it was
made from and never changes. A dataset names the three parts that belong to it. Please edit nothing.

  agentx cache ls                         what is here, how large, how old, when last used
  agentx cache gc --max-bytes 20G         free what was not used for longest
  agentx cache gc --max-age 30d           free what was not used for a month
  agentx cache rm KEY                     free one dataset, and what nothing else needs
  agentx cache pin KEY                    keep a dataset from both

Say which folder with --cache DIR or AGENTX_CACHE. .use holds pins and notes of what is in use,
.staging what is being built or removed. The whole folder may be deleted at any time when nothing
runs that uses it.
`

// dropReadme leaves the file in a root that has none. It is best effort.
func dropReadme(root string) {
	_ = durable.WriteSmall(root, filepath.Join(root, readmeName), []byte(readme), os.O_EXCL)
}

// plainDirectories returns an error if a directory of a cache root is a symbolic link: who removes things would remove
// them elsewhere.
func plainDirectories(root string) error {
	for _, name := range append(mmapcache.Kinds(), useDir, durable.StagingDir) {
		path := filepath.Join(root, name)
		info, err := os.Lstat(path)
		if err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return fmt.Errorf("%s: a symbolic link, which is not followed: nothing is removed", path)
		}
	}
	return nil
}
