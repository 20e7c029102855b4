package cachestore

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/mmapcache"
)

func TestNoteDatasetNotesParts(t *testing.T) {
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

// NoteDataset, which cache verify calls, records no use.
func TestNoteDatasetRecordsNoUse(t *testing.T) {
	root := t.TempDir()
	key := plainToy(40).build(t, root, "")
	u := NoteDataset(contextOf(t), root, key)
	defer u.Close()
	assert.Len(t, usersOf(t, root), 4)
	assert.Nil(t, lastUse(root, key))
}

// Touch records the last use at most hourly, by the clock of the file system.
func TestTouchWritesHourly(t *testing.T) {
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

// In a root that cannot be written notes are left out without an error, and everything can be read.
func TestUseInAReadOnlyRoot(t *testing.T) {
	root := t.TempDir()
	key := plainToy(40).build(t, root, "")
	require.NoError(t, os.WriteFile(useDirOf(root), nil, 0o666)) // root may write anywhere, but cannot make a directory over a file
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

// Users who share a root can read and replace its notes and pins.
//
// Covers F19.
func TestNotesAreAsOpenAsTheRoot(t *testing.T) {
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
