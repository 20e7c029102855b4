package durable

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A file that is discarded, or that cannot be published, leaves what stood under its path, and nothing else.
func TestFileIsWholeOrAbsent(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "rows")
	f, err := NewFile(path, Options{})
	require.NoError(t, err)
	_, err = f.Write([]byte("half"))
	require.NoError(t, err)
	require.NotContains(t, files(t, dir), "rows")
	require.NoError(t, f.Discard())
	require.NoError(t, f.Discard())
	require.Empty(t, files(t, dir))

	f, err = NewFile(path, Options{})
	require.NoError(t, err)
	_, err = f.Write([]byte("whole"))
	require.NoError(t, err)
	require.NoError(t, f.Publish())
	require.NoError(t, f.Discard(), "which does nothing now")
	require.Equal(t, map[string]string{"rows": "whole"}, files(t, dir))
}

// A file is as open as the umask says, also where it replaces one; one of a shared root as its directory is.
//
// Covers F19.
func TestFilesHonourTheUmask(t *testing.T) {
	for _, c := range []struct{ umask, own, shared os.FileMode }{{0o077, 0o600, 0o660}, {0o027, 0o640, 0o660}, {0o022, 0o644, 0o660}, {0, 0o666, 0o660}} {
		dir := t.TempDir()
		require.NoError(t, os.Chmod(dir, 0o770))
		own, shared := filepath.Join(dir, "own"), filepath.Join(dir, "shared")
		require.NoError(t, os.WriteFile(own, nil, 0o666))
		require.NoError(t, umasked(t, c.umask, func() error { return errors.Join(WriteFile(own, nil), WriteShared(shared, nil)) }))
		for path, want := range map[string]os.FileMode{own: c.own, shared: c.shared} {
			info, err := os.Stat(path)
			require.NoError(t, err)
			require.Equal(t, want, info.Mode().Perm(), "%s with umask %v", path, c.umask)
		}
	}
}

// A directory in the place of a file is told, with what to do, before anything is written.
func TestDirectoryInTheWay(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	require.NoError(t, os.Mkdir(path, 0o700))
	require.EqualError(t, WriteFile(path, nil), "create "+path+": a directory is in the way: remove it, or write to another directory")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	require.NoError(t, CheckFile(filepath.Join(dir, "other")))
}

// What a killed process leaves of files is removed; files of other names stay.
func TestRemoveUnfinished(t *testing.T) {
	dir := t.TempDir()
	named := func(name string) bool { return name == "rows" || name == "rows.json" }
	require.NoError(t, RemoveUnfinished(filepath.Join(dir, "nowhere"), named))
	for _, name := range []string{"rows", "rows.json"} {
		f, err := NewFile(filepath.Join(dir, name), Options{})
		require.NoError(t, err)
		require.NoError(t, f.file.Close())
	}
	others := map[string]string{"rows": "", ".rows": "", ".rows.": "", ".rows.12a": "", ".rows2.12": "", "rows.12": "", ".12": ""}
	for name := range others {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	require.Len(t, files(t, dir), len(others)+2)
	require.NoError(t, RemoveUnfinished(dir, named))
	require.Equal(t, others, files(t, dir))
}
