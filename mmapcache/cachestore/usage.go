package cachestore

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
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
