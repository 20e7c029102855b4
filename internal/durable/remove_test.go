package durable

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
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

// usersOf reads the notes of use in a directory, by name.
func usersOf(t *testing.T, dir string, now time.Time) (users map[string]string, left []Leftover) {
	n := NewNotes(dir)
	left, err := n.Read(now)
	require.NoError(t, err)
	users = map[string]string{}
	for _, note := range n.list {
		for name := range note.names {
			users[name] = n.Users(name)
		}
	}
	return users, left
}

// Users lists every process that uses a name, once.
func TestManyUse(t *testing.T) {
	root := t.TempDir()
	for range 2 {
		defer NoteUse(root, root, []string{"a", "b"}).Close()
	}
	far := as(func(o *owner) { o.host, o.boot, o.pid = "h", "b", 7 })
	require.NoError(t, os.WriteFile(filepath.Join(root, far.fileName()+useSuffix), []byte("a\n"), 0o666))
	users, _ := usersOf(t, root, time.Now())
	assert.ElementsMatch(t, []string{thisProcess().describe(), far.describe()}, strings.Split(users["a"], ", "))
	assert.Equal(t, thisProcess().describe(), users["b"])
}

// A note is read once it is whole: notes that grow are read again, and those that keep their size are not.
func TestNotesThatGrow(t *testing.T) {
	root := t.TempDir()
	far := as(func(o *owner) { o.host, o.boot, o.pid = "h", "b", 7 })
	path := filepath.Join(root, far.fileName()+useSuffix)
	n := NewNotes(root)
	for _, c := range [][2]string{{"", ""}, {"a\n", far.describe()}, {"a\nb\n", far.describe()}, {"x\ny\n", far.describe()}} {
		require.NoError(t, os.WriteFile(path, []byte(c[0]), 0o666))
		_, err := n.Read(time.Now())
		require.NoError(t, err)
		assert.Equal(t, c[1], n.Users("a"), "%q", c[0])
	}
	assert.NotEmpty(t, n.Users("b"), "it has kept its size, and is not read again")
	require.NoError(t, os.Remove(path))
	_, err := n.Read(time.Now())
	require.NoError(t, err)
	assert.Empty(t, n.Users("a"))
}

// Names that are added to a note count from then on, and are in what is rewritten.
func TestNoteThatGetsNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		u := NoteUse(root, root, []string{"a"})
		n := NewNotes(root)
		read := func() string {
			_, err := n.Read(time.Now())
			require.NoError(t, err)
			return fmt.Sprint(n.Users("a") != "", n.Users("b") != "", n.Users("c") != "")
		}
		assert.Equal(t, "true false false", read())
		require.True(t, u.Add([]string{"b"}))
		assert.Equal(t, "true true false", read())
		require.NoError(t, os.Remove(u.path))
		time.Sleep(useBeat + 1)
		synctest.Wait()
		assert.Equal(t, "true true false", read())
		require.NoError(t, os.Remove(u.path))
		require.True(t, u.Add([]string{"c"}))
		assert.Equal(t, "true true true", read())
		u.Close()
		assert.Equal(t, "false false false", read())
	})
	root := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(root, "file"), nil, 0o666))
	none := NoteUse(root, filepath.Join(root, "file", "dir"), []string{"a"}) // as on a read-only file system
	assert.False(t, none.Add([]string{"b"}))
	none.Close()
}

// The note of a dataset of many shards has more than a million bytes.
func TestNoteOfManyNames(t *testing.T) {
	root := t.TempDir()
	var names []string
	for k := range 20000 {
		names = append(names, fmt.Sprintf("starts/%064x", k))
	}
	defer NoteUse(root, root, names).Close()
	users, _ := usersOf(t, root, time.Now())
	assert.Len(t, users, len(names))
	assert.Equal(t, thisProcess().describe(), users[names[len(names)-1]])
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
