package durable

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// On a full disk no directory can be made, but a directory can still be removed, or put back.
//
// Covers F18.
func TestRemoveOnAFullDisk(t *testing.T) {
	for _, full := range []error{syscall.ENOSPC, syscall.EDQUOT} {
		root := t.TempDir()
		require.NoError(t, build(root, Options{}, publish))
		o := Options{Step: func(name, path string) error {
			if name == "mkdir" && strings.HasPrefix(path, filepath.Join(root, StagingDir)+"/") {
				return full
			}
			return nil
		}}
		taken := errors.New("in use")
		assert.ErrorIs(t, o.Remove(root, "kind/name", func() error { return taken }), taken)
		assert.Equal(t, content, files(t, filepath.Join(root, "kind", "name")))
		require.NoError(t, o.Remove(root, "kind/name", nil))
		assert.Nil(t, files(t, filepath.Join(root, "kind", "name")))
		assert.Empty(t, staging(t, root))
	}
}

// A note is overwritten and never emptied: a reader at that moment must not take what it names for unused.
func TestWriteSmallWritesOver(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "notes", "a")
	require.NoError(t, WriteSmall(root, path, []byte("12345"), 0))
	require.NoError(t, WriteSmall(root, path, []byte("ab"), 0))
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, "ab345", string(data))
	assert.ErrorIs(t, WriteSmall(root, path, nil, os.O_EXCL), os.ErrExist)
	old := time.Now().Add(-time.Hour)
	require.NoError(t, os.Chtimes(path, old, old))
	require.NoError(t, WriteSmall(root, path, []byte("a"), 0))
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.NotEqual(t, old.Unix(), info.ModTime().Unix(), "and that dates it")
}

// InUse lists every process that uses a name, once.
func TestManyUse(t *testing.T) {
	root := t.TempDir()
	for range 2 {
		defer NoteUse(root, root, []string{"a", "b"}).Close()
	}
	far := as(func(o *owner) { o.host, o.boot, o.pid = "h", "b", 7 })
	require.NoError(t, os.WriteFile(filepath.Join(root, far.fileName()+useSuffix), []byte("a\n"), 0o666))
	users, _, err := InUse(root, time.Now())
	require.NoError(t, err)
	assert.ElementsMatch(t, []string{thisProcess().describe(), far.describe()}, strings.Split(users["a"], ", "))
	assert.Equal(t, thisProcess().describe(), users["b"])
}

// A note is as open as the directory it is in, under any umask.
//
// Covers F19.
func TestNotesUnderAnyUmask(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.Chmod(root, 0o770))
	path := filepath.Join(root, "notes", "a")
	require.NoError(t, umasked(t, 0o077, func() error { return WriteSmall(root, path, nil, 0) }))
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o660), info.Mode().Perm())
}
