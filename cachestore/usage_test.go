package cachestore

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachedir"
	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

// usersOf reads the notes of use of a root.
func usersOf(t require.TestingT, root string) map[string]string {
	users, _, err := durable.InUse(useDirOf(root), time.Now())
	require.NoError(t, err)
	return users
}

// dateUse makes the record of the last use of a dataset say a time.
func dateUse(t require.TestingT, root, key string, at time.Time) {
	Touch(root, key)
	require.NoError(t, os.Chtimes(usePath(root, key, usedSuffix), at, at))
}

// entryOf is what List says of a directory.
func entryOf(t require.TestingT, root, kind, key string) Entry {
	list, err := List(root)
	require.NoError(t, err)
	for _, e := range list {
		if e.Kind == kind && e.Key == key {
			return e
		}
	}
	require.Fail(t, "not listed", "%s/%s", kind, key)
	return Entry{}
}

func partKey(t require.TestingT, root, dataset, kind string) string {
	m, err := readManifest(root, mmapcache.DatasetKind, dataset, "")
	require.NoError(t, err)
	return m.Parts[kind].Key
}

func TestUseNotesADatasetAndItsParts(t *testing.T) {
	root := t.TempDir()
	key := plainToy(40).build(t, root, "")
	u := use(t, root, key)
	users := usersOf(t, root)
	assert.Len(t, users, 4)
	for _, kind := range mmapcache.PartKinds() {
		assert.NotEmpty(t, users[kind+"/"+partKey(t, root, key, kind)], kind)
	}
	assert.NotEmpty(t, users[mmapcache.DatasetKind+"/"+key])
	assert.Equal(t, users[mmapcache.DatasetKind+"/"+key], entryOf(t, root, mmapcache.DatasetKind, key).InUse)
	assert.NotEmpty(t, entryOf(t, root, mmapcache.ArenasKind, partKey(t, root, key, mmapcache.ArenasKind)).InUse)
	info, err := Describe(root, key)
	require.NoError(t, err)
	assert.Equal(t, users[mmapcache.DatasetKind+"/"+key], info.InUse)
	assert.NotNil(t, info.LastUse)
	u.Close()
	assert.Empty(t, usersOf(t, root))
	assert.Empty(t, entryOf(t, root, mmapcache.DatasetKind, key).InUse)

	require.NoError(t, os.RemoveAll(mmapcache.DatasetPath(root, key)))
	u = use(t, root, key)
	assert.Len(t, usersOf(t, root), 1, "of what cannot be read only the dataset is known")
	u.Close()
}

// Who only looks whether a dataset is whole has not used it.
func TestNoteDatasetRecordsNoUse(t *testing.T) {
	root := t.TempDir()
	key := plainToy(40).build(t, root, "")
	u := NoteDataset(contextOf(t), root, key)
	defer u.Close()
	assert.Len(t, usersOf(t, root), 4)
	assert.Nil(t, lastUse(root, key))
}

// A dataset that is being replaced is waited for, and noted with its parts.
func TestOpenInUseOfWhatIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root, away := t.TempDir(), filepath.Join(t.TempDir(), "away")
		key := plainToy(40).build(t, root, "")
		for _, name := range []string{mmapcache.DatasetKind + "/" + key, mmapcache.PlacementKind + "/" + partKey(t, root, key, mmapcache.PlacementKind)} {
			require.NoError(t, os.Rename(filepath.Join(root, name), away))
			back := time.AfterFunc(200*time.Millisecond, func() { assert.NoError(t, os.Rename(away, filepath.Join(root, name))) })
			c, err := Open(contextOf(t), root, key)
			require.NoError(t, err)
			assert.Len(t, usersOf(t, root), 4)
			require.NoError(t, c.Close())
			assert.Empty(t, usersOf(t, root))
			back.Stop()
		}
		begin := time.Now()
		_, err := Open(contextOf(t), root, strings.Repeat("0", 64))
		assert.ErrorIs(t, err, mmapcache.ErrNoCache)
		assert.Less(t, time.Since(begin), 2*time.Second)
		assert.Empty(t, usersOf(t, root))

		begin = time.Now()
		require.NoError(t, os.Truncate(filepath.Join(mmapcache.DatasetPath(root, key), manifest.FileName), 5))
		_, err = Open(contextOf(t), root, key)
		assert.ErrorIs(t, err, manifest.ErrDamaged)
		assert.Zero(t, time.Since(begin), "what is damaged is not waited for")
	})
}

// opener opens a dataset once the disk has shown the manifest and the table of its starts.
func (d disk) opener(root, key string) (*mmapcache.Cache, error) {
	dataset, err := d.readManifest(root, mmapcache.DatasetKind, key, "")
	if err != nil {
		return nil, err
	}
	m, err := d.readManifest(root, mmapcache.PlacementKind, dataset.Parts[mmapcache.PlacementKind].Key, "")
	if err != nil {
		return nil, err
	}
	path := filepath.Join(root, m.Kind, m.Key, startsFile)
	f, _, err := d.Disk.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", path, manifest.ErrDamaged, cachedir.ErrMissing)
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	return mmapcache.Open(root, key)
}

// A dataset that came back between the note and the opening is noted once more, with its parts; so is one of which a file
// was missed at that moment.
func TestOpenInUseNotesWhatItOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		key := plainToy(40).build(t, root, "")
		for missed, times := range map[string]int{
			filepath.Join(mmapcache.DatasetPath(root, key), manifest.FileName):                                              2, // it is listed, so it is read twice
			filepath.Join(root, mmapcache.PlacementKind, partKey(t, root, key, mmapcache.PlacementKind), startsFile):        1,
			filepath.Join(root, mmapcache.PlacementKind, partKey(t, root, key, mmapcache.PlacementKind), manifest.FileName): 2,
		} {
			d, misses := realDisk(), 0
			d.Disk.Open = func(path string) (fs.File, int64, error) {
				if path == missed && misses < times {
					misses++
					return nil, 0, &fs.PathError{Op: "open", Path: path, Err: syscall.ENOENT}
				}
				return manifest.Open(path)
			}
			c, err := d.openDataset(contextOf(t), root, key, d.opener)
			require.NoError(t, err, missed)
			assert.Len(t, usersOf(t, root), 4, missed)
			require.NoError(t, c.Close())
		}
	})
}

// The last use is recorded at most hourly, and dated by the clock of the file system.
func TestTouch(t *testing.T) {
	root := t.TempDir()
	key := plainToy(40).build(t, root, "")
	assert.Nil(t, entryOf(t, root, mmapcache.DatasetKind, key).LastUse)
	now := time.Now()
	for _, c := range []struct {
		ago     time.Duration
		written bool
	}{{10 * time.Minute, false}, {59 * time.Minute, false}, {61 * time.Minute, true}, {-59 * time.Minute, false}, {-61 * time.Minute, true}} {
		before := now.Add(-c.ago).Truncate(time.Second)
		dateUse(t, root, key, before)
		Touch(root, key)
		e := entryOf(t, root, mmapcache.DatasetKind, key)
		require.NotNil(t, e.LastUse)
		assert.Equal(t, c.written, !e.LastUse.Equal(before), c.ago)
		assert.False(t, c.written && e.LastUse.Before(now.Add(-time.Minute)), c.ago)
	}
}

// Where nothing can be written nothing is said, and everything can be looked at.
func TestUseWhereNothingCanBeWritten(t *testing.T) {
	root := t.TempDir()
	key := plainToy(40).build(t, root, "")
	require.NoError(t, os.WriteFile(useDirOf(root), nil, 0o666)) // root may write anywhere, but no directory over a file
	before := snapshotOf(t, root)
	u := use(t, root, key)
	writeReadme(filepath.Join(root, readmeName))
	_, err := List(root)
	assert.NoError(t, err)
	assert.Nil(t, entryOf(t, root, mmapcache.DatasetKind, key).LastUse)
	u.Close()
	assert.Equal(t, before, snapshotOf(t, root))
	assert.Error(t, Pin(contextOf(t), root, key, "me"))
}

func TestPins(t *testing.T) {
	root := t.TempDir()
	first, second := twins(t, root)
	before := snapshotOf(t, root)
	assert.ErrorIs(t, Pin(contextOf(t), root, strings.Repeat("0", 64), "me"), mmapcache.ErrNoCache)
	assert.ErrorIs(t, Pin(contextOf(t), root, "nothing/"+first, "me"), mmapcache.ErrNoCache)
	assert.Equal(t, before, snapshotOf(t, root))
	was, err := Unpin(root, first)
	require.NoError(t, err)
	assert.False(t, was)
	require.NoError(t, Pin(contextOf(t), root, first, "me"))
	require.NoError(t, Pin(contextOf(t), root, first, "you"), "once more is fine")
	info, err := Describe(root, first)
	require.NoError(t, err)
	require.NotNil(t, info.Pin)
	assert.Equal(t, "you", info.Pin.Who)
	assert.NotEmpty(t, info.Pin.Host)
	assert.WithinDuration(t, time.Now(), info.Pin.When, time.Hour)
	list, err := List(root)
	require.NoError(t, err)
	for _, e := range list {
		want := e.Key != second && (e.Kind != mmapcache.PlacementKind || e.Key == partKey(t, root, first, mmapcache.PlacementKind))
		assert.Equal(t, want, e.Pinned, "%s %s: what a pinned dataset names is pinned", e.Kind, e.Key)
	}
	was, err = Unpin(root, first)
	require.NoError(t, err)
	assert.True(t, was)
	assert.False(t, entryOf(t, root, mmapcache.DatasetKind, first).Pinned)

	require.NoError(t, os.WriteFile(usePath(root, first, pinSuffix), []byte("{"), 0o666))
	assert.True(t, entryOf(t, root, mmapcache.DatasetKind, first).Pinned, "a pin that cannot be made out is one")
}

// Notes and pins can be read, and replaced, by whoever the root is shared with.
func TestF19NotesAreAsOpenAsTheRoot(t *testing.T) {
	root := filepath.Join(t.TempDir(), "root")
	require.NoError(t, os.Mkdir(root, 0o777))
	require.NoError(t, os.Chmod(root, 0o770|os.ModeSetgid))
	key := plainToy(40).build(t, root, "")
	require.NoError(t, Pin(contextOf(t), root, key, "me"))
	defer use(t, root, key).Close()
	entries, err := os.ReadDir(useDirOf(root))
	require.NoError(t, err)
	require.Len(t, entries, 3)
	info, err := os.Stat(useDirOf(root))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o770), info.Mode().Perm())
	for _, e := range entries {
		info, err := e.Info()
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o040), info.Mode().Perm()&0o040, e.Name())
	}
	info, err = os.Stat(filepath.Join(root, readmeName))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o660), info.Mode().Perm())
}

// Whoever finds the folder finds words in it. They are written once: somebody may have added to them.
func TestReadme(t *testing.T) {
	root := t.TempDir()
	plainToy(40).build(t, root, "")
	path := filepath.Join(root, readmeName)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, readme, string(data))
	require.NoError(t, os.WriteFile(path, []byte("ours"), 0o666))
	plainToy(40).build(t, root, "other")
	data, err = os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "ours", string(data))
}
