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
	"strings"
	"time"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/mmapcache/internal/cachedir"
)

// Directories of a cache never change. What changes about them lies beside them, in ROOT/.use:
//
//	KEY.used    a byte; its modification time is the last use of dataset KEY, written at most hourly
//	KEY.pin     dataset KEY is kept: who asked for it, on which host and when
//	OWNER.use   the directories that a process uses, a line "kind/key" each (internal/durable)
//
// KEY.used and OWNER.use are best effort: a process that may only read the root writes neither.

// useDir is the directory of a cache root that holds these files.
const useDir = ".use"

func useDirOf(root string) string { return filepath.Join(root, useDir) }

const (
	usedSuffix = ".used"
	pinSuffix  = ".pin"
)

func usePath(root, key, suffix string) string { return filepath.Join(useDirOf(root), key+suffix) }

// Use is a note that this process uses directories of a root. GC and Remove leave them alone until Close.
type Use struct {
	root string
	note *durable.Use
}

// Close removes the note.
func (u *Use) Close() { u.note.Close() }

// NoteUse notes that this process uses directories, each "kind/key", and waits while another process is about to remove
// one of them. Callers note a directory before they look whether it exists: what exists then stays until the note is
// closed. NoteUse is best effort: where it cannot write a note it waits for no other process.
func NoteUse(ctx context.Context, root string, names ...string) *Use {
	note := durable.NoteUse(root, useDirOf(root), names)
	if note.Written() {
		_ = awaitRemoval(ctx, root, names...)
	}
	return &Use{root, note}
}

// Add notes further directories. Like NoteUse it waits while another process is about to remove one of them.
func (u *Use) Add(ctx context.Context, names ...string) {
	if u.note.Add(names) {
		_ = awaitRemoval(ctx, u.root, names...)
	}
}

// NoteDataset is NoteUse for a dataset and the parts that it names. Callers note a dataset before they open it. One whose
// manifest cannot be read is noted without parts.
func NoteDataset(ctx context.Context, root, key string) *Use {
	use, _ := realDisk().noteDataset(ctx, root, key)
	return use
}

// noteDataset also returns the digest of the manifest that it has read, "" where it could read none.
func (d disk) noteDataset(ctx context.Context, root, key string) (use *Use, digest string) {
	m, err := d.readManifest(root, mmapcache.DatasetKind, key, "")
	if err != nil {
		m = &manifest.Manifest{Key: key}
	}
	return NoteUse(ctx, root, namesOf(m)...), m.Digest
}

// removalLease is the lease of the one process that may remove directories of a root.
const removalLease = "gc"

// awaitRemoval waits while another process is about to remove one of some directories, each "kind/key".
func awaitRemoval(ctx context.Context, root string, names ...string) error {
	return durable.AwaitRemoval(ctx, root, removalLease, names)
}

// touchInterval is how old the record of the last use must be before Touch writes a new one.
const touchInterval = time.Hour

// Touch records that a dataset is used now, at most hourly, and not at all where it cannot write. It writes a byte, so
// that the record has the time of the file system's clock, not of this machine's.
func Touch(root, key string) {
	path := usePath(root, key, usedSuffix)
	if info, err := os.Lstat(path); err == nil && time.Since(info.ModTime()).Abs() < touchInterval {
		return
	}
	recordUse(root, key)
}

// recordUse is Touch without a look at the record.
func recordUse(root, key string) {
	_ = durable.WriteSmall(root, usePath(root, key, usedSuffix), []byte("\n"), 0)
}

// lastUse returns when a dataset was last recorded as used, nil without a record.
func lastUse(root, key string) *time.Time {
	info, err := os.Lstat(usePath(root, key, usedSuffix))
	if err != nil {
		return nil
	}
	t := info.ModTime()
	return &t
}

// readNotes reads the notes of use of a root. It is for people: notes that cannot be read are left out.
func readNotes(root string) *durable.Notes {
	notes := durable.NewNotes(useDirOf(root))
	_, _ = notes.Read(time.Now())
	return notes
}

// PinInfo says who pinned a dataset.
type PinInfo struct {
	Who  string    `json:"who"`
	Host string    `json:"host"`
	When time.Time `json:"when"`
}

// String writes a pin for people: "NAME on HOST at TIME", in UTC.
func (p PinInfo) String() string {
	s := p.Who
	if p.Host != "" {
		s += " on " + p.Host
	}
	if !p.When.IsZero() {
		s += " at " + p.When.UTC().Format(time.DateTime)
	}
	return s
}

// Pin keeps a dataset from GC and Remove until Unpin. It first writes the pin, then waits for a process that is about to
// remove the dataset, and then checks that the dataset exists: by then that process has seen the pin or has finished.
func Pin(ctx context.Context, root, key, who string) error {
	if !isKey(key) {
		return fmt.Errorf("cache %s: %w", key, mmapcache.ErrNoCache)
	}
	err := writePin(root, key, who)
	if err == nil {
		err = awaitRemoval(ctx, root, mmapcache.DatasetKind+"/"+key)
	}
	if err != nil {
		return fmt.Errorf("pin %s: %w", mmapcache.DatasetPath(root, key), err)
	}
	err = checkExists(root, key)
	if errors.Is(err, mmapcache.ErrNoCache) {
		_, unpinned := Unpin(root, key)
		err = errors.Join(err, unpinned)
	}
	return err
}

// writePin writes the pin of a dataset: who asked for it, on this host and now.
func writePin(root, key, who string) error {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	data, err := json.Marshal(PinInfo{Who: who, Host: host, When: time.Now().UTC().Truncate(time.Second)})
	if err != nil {
		return err
	}
	if err := durable.MkdirShared(root, useDirOf(root)); err != nil {
		return err
	}
	return durable.WriteShared(usePath(root, key, pinSuffix), append(data, '\n'))
}

// Unpin removes the pin of a dataset and reports whether there was one.
func Unpin(root, key string) (bool, error) {
	err := os.Remove(usePath(root, key, pinSuffix))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// checkExists returns an error unless a dataset exists; a dangling symbolic link counts as a dataset.
func checkExists(root, key string) error {
	if !isKey(key) {
		return fmt.Errorf("cache %s: %w", key, mmapcache.ErrNoCache)
	}
	path := mmapcache.DatasetPath(root, key)
	_, err := realDisk().Find(path)
	if err != nil {
		if _, linkErr := os.Lstat(path); linkErr == nil {
			return nil
		}
	}
	if cachedir.IsAbsent(err) {
		return fmt.Errorf("cache %s: %w in %s", key, mmapcache.ErrNoCache, root)
	}
	return err
}

// maxPin is how large a pin may be, in bytes.
const maxPin = 1 << 20

// readPin returns the pin of a dataset, nil if it has none. A pin that cannot be read or decoded counts as one.
func readPin(root, key string) (*PinInfo, error) {
	path := usePath(root, key, pinSuffix)
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	pin := &PinInfo{}
	var data []byte
	if f, size, err := openPlain(path); err == nil {
		if size <= maxPin {
			data, _ = io.ReadAll(io.LimitReader(f, maxPin)) // an incomplete pin counts
		}
		_ = f.Close()
	}
	if json.Unmarshal(data, pin) != nil || pin.Who == "" {
		pin.Who = "somebody"
	}
	return pin, nil
}

// ClaimOptions say how to claim a directory. The zero value waits without limit for another process that makes
// the same directory.
type ClaimOptions struct {
	Rebuild bool          // make the directory although it exists
	Trust   bool          // take a directory although everybody may write it, which counts as damaged otherwise
	Wait    time.Duration // for another process that makes the same; 0: as long as it takes; below 0: not at all

	// OnWait is called about twice a second while Claim waits, with the process that makes the directory. It may be nil.
	OnWait func(holder string, waited time.Duration)
}

// Lease is the right of this process to make one directory of a root.
type Lease struct{ lease *durable.Lease }

// Context ends when the context given to Claim does, or when another process has taken the lease over: its cause then
// wraps ErrLost. A mmapcache.NewBuilder under this context can publish only while the lease is held.
func (l *Lease) Context() context.Context { return l.lease.Context() }

// Release ends the lease and removes unpublished files. After an error other processes wait until the lease expires.
func (l *Lease) Release() error { return l.lease.Release() }

// Claim returns a lease to make a directory, or the manifest of the directory if it exists and its files have their full
// size. Another process may have made it while Claim waited. A damaged directory counts as missing, unless another user alone may
// replace it: then Claim fails. kind is one of mmapcache.Kinds, and key is one name of a directory.
func Claim(ctx context.Context, root, kind, key string, o ClaimOptions) (*Lease, *manifest.Manifest, error) {
	if !slices.Contains(mmapcache.Kinds(), kind) || key == "" || key != filepath.Base(key) || key[0] == '.' {
		return nil, nil, fmt.Errorf("cachestore: claim %q of kind %q: want the name of a directory, and a kind of %s", key, kind, strings.Join(mmapcache.Kinds(), ", "))
	}
	var found *manifest.Manifest
	lease, err := claimName(ctx, root, kind+"-"+key, func() (_ bool, err error) {
		if o.Rebuild {
			return false, nil
		}
		found, err = mmapcache.LookupGuarded(root, kind, key, o.Trust)
		if errors.Is(err, manifest.ErrDamaged) {
			return false, nil
		}
		return found != nil, err
	}, o)
	return lease, found, err
}

// ShardsKind begins the name of a lease to make shards. No directory has this kind.
const ShardsKind = "shards"

// ClaimShards returns a lease to make the shards of some files, or nil where made reports that all exist. It calls made before
// each look at the lease, which is named by the key of the first structure. Another process may have made them while it
// waited; o.Wait below 0 gives an error that wraps ErrBusy while another process holds the lease. Under the lease any
// directory can be published.
func ClaimShards(ctx context.Context, root, key string, made func() (bool, error), o ClaimOptions) (*Lease, error) {
	return claimName(ctx, root, ShardsKind+"-"+key, made, o)
}

// claimName acquires the lease of a name, and writes the README of a root that has none.
func claimName(ctx context.Context, root, name string, made func() (bool, error), o ClaimOptions) (*Lease, error) {
	lease, err := durable.Acquire(ctx, root, name, made, durable.Waiting{Limit: o.Wait, Report: o.OnWait})
	if lease == nil {
		return nil, err
	}
	writeReadme(root)
	return &Lease{lease}, err
}
