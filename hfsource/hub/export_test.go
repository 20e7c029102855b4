package hub

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestExport(t *testing.T) {
	runInBubble(t, func(w *fixture) {
		dir := filepath.Join(t.TempDir(), "a", "b")
		s := w.mustFetch(ref + "/plots/a.png")
		for range 2 {
			list, err := s.Export(w.t.Context(), dir, nil)
			require.NoError(t, err)
			require.Equal(t, []string{filepath.Join(dir, "plots", "a.png")}, list)
			got, err := os.ReadFile(list[0])
			require.NoError(t, err)
			assert.Equal(t, w.files["plots/a.png"].Data, got)
		}
		path := filepath.Join(dir, "plots", "a.png")
		is, err := os.Stat(path)
		require.NoError(t, err)
		blob := w.repoPath("blobs", w.files["plots/a.png"].ETag())
		there, err := os.Stat(blob)
		require.NoError(t, err)
		assert.False(t, os.SameFile(is, there), "another name of the blob")
		require.NoError(t, os.WriteFile(path, []byte("mine"), 0o666)) // editing the copy does not change the cache
		kept, err := os.ReadFile(blob)
		require.NoError(t, err)
		assert.Equal(t, w.files["plots/a.png"].Data, kept)
		require.NoError(t, os.Remove(path))
		require.NoError(t, os.Link(blob, path)) // a hard link, as earlier versions of agentx made
		_, err = s.Export(w.t.Context(), dir, nil)
		require.NoError(t, err)
		is, err = os.Stat(path)
		require.NoError(t, err)
		assert.False(t, os.SameFile(is, there))
		require.NoError(t, os.WriteFile(path, []byte("mine"), 0o666))
		_, err = s.Export(w.t.Context(), dir, nil)
		require.NoError(t, err)
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, w.files["plots/a.png"].Data, got)

		elsewhere := t.TempDir()
		require.NoError(t, os.RemoveAll(filepath.Join(dir, "plots")))
		require.NoError(t, os.Symlink(elsewhere, filepath.Join(dir, "plots")))
		_, err = s.Export(w.t.Context(), dir, nil)
		assert.ErrorContains(t, err, "plots/a.png")
		entries, err := os.ReadDir(elsewhere)
		require.NoError(t, err)
		assert.Empty(t, entries)
	})
	runInBubble(t, func(w *fixture) {
		s := w.mustFetch(ref)
		root, err := os.OpenRoot(t.TempDir())
		require.NoError(t, err)
		defer root.Close()
		l := exporter{w.t.Context(), root, func(int64) {}, nil}
		require.NoError(t, l.copy(&s.Files[0], s.Files[0].kept, "x"))
		got, err := root.ReadFile("x")
		require.NoError(t, err)
		assert.Equal(t, w.files[data].Data, got)
		s.Files[0].SHA256 = strings.Repeat("0", 64)
		assert.ErrorContains(t, l.copy(&s.Files[0], s.Files[0].kept, "y"), "hash mismatch")
		s.Files[0].SHA256 = w.files[data].ETag()
	})
}

// Files with the same content stay; others are replaced.
func TestExportKeepsEqualFiles(t *testing.T) {
	runInBubble(t, func(w *fixture) {
		s := w.mustFetch(ref)
		dir := t.TempDir()
		path := filepath.Join(dir, data)
		export := func() (is os.FileInfo) {
			var done, all int64
			_, err := s.Export(w.t.Context(), dir, func(n, total int64) { done, all = done+n, total })
			require.NoError(t, err)
			assert.EqualValues(t, 300_000, all)
			assert.Equal(t, all, done)
			got, err := os.ReadFile(path)
			require.NoError(t, err)
			assert.True(t, bytes.Equal(w.files[data].Data, got))
			is, err = os.Lstat(path)
			require.NoError(t, err)
			assert.True(t, is.Mode().IsRegular())
			return is
		}
		first := export()
		assert.True(t, os.SameFile(first, export()), "it was written again")
		other := bytes.Clone(w.files[data].Data)
		other[9]++
		require.NoError(t, os.WriteFile(path, other, 0o666))
		assert.False(t, os.SameFile(first, export()))
		require.NoError(t, os.Remove(path))
		require.NoError(t, os.Symlink(w.repoPath("blobs", w.files[data].ETag()), path)) // a symbolic link to the blob
		export()
		require.NoError(t, os.Remove(path))
		require.NoError(t, mkfifo(t, path))
		export()
	})
}

// A cancelled export leaves no temporary file. Those of a killed one are removed after a day.
func TestExportCancelAndSweep(t *testing.T) {
	runInBubble(t, func(w *fixture) {
		s := w.mustFetch(ref)
		dir := t.TempDir()
		names := func() (list []string) {
			entries, err := os.ReadDir(dir)
			require.NoError(t, err)
			for _, e := range entries {
				list = append(list, e.Name())
			}
			return list
		}
		ctx, cancel := context.WithCancel(w.t.Context())
		written := int64(0)
		_, err := s.Export(ctx, dir, func(n, _ int64) { written += n; cancel() })
		assert.ErrorIs(t, err, context.Canceled)
		assert.Positive(t, written)
		assert.Less(t, written, int64(300_000), "it went on")
		assert.Empty(t, names())
		_, err = s.Export(ctx, dir, nil)
		assert.ErrorIs(t, err, context.Canceled)

		id := strings.Repeat("A", 24)
		for name, age := range map[string]time.Duration{
			".agentx-" + id + "OL": 25 * time.Hour, ".agentx-" + id + "NG": time.Hour, ".agentx-mine": 99 * time.Hour, ".agentx-" + id + "01": 99 * time.Hour,
		} {
			path := filepath.Join(dir, name)
			require.NoError(t, os.WriteFile(path, nil, 0o666))
			at := time.Now().Add(-age)
			require.NoError(t, os.Chtimes(path, at, at))
		}
		require.NoError(t, os.Mkdir(filepath.Join(dir, ".agentx-"+id+"DR"), 0o777))
		at := time.Now().Add(-99 * time.Hour)
		require.NoError(t, os.Chtimes(filepath.Join(dir, ".agentx-"+id+"DR"), at, at))
		_, err = s.Export(w.t.Context(), dir, nil)
		require.NoError(t, err)
		assert.Equal(t, []string{".agentx-" + id + "01", ".agentx-" + id + "DR", ".agentx-" + id + "NG", ".agentx-mine", data}, names())
	})
}

// A directory that cannot take the files is refused before they are downloaded.
func TestExportDirIsChecked(t *testing.T) {
	for want, c := range map[string]struct {
		path  string
		dir   bool
		calls [3]int
	}{
		"DEST, the directory to copy to, is a file":                                    {"", false, [3]int{0, 0, 0}},
		"DEST/plots/a.png is a directory, and in the way of the file plots/a.png":      {"plots/a.png", true, [3]int{2, 0, 0}},
		"DEST/plots is a file, and in the way of the directory of plots/a.png":         {"plots", false, [3]int{2, 0, 0}},
		"DEST/plots/a.png is a directory, and in the way of the file plots/a.png, too": {"plots/a.png/x", false, [3]int{2, 0, 0}},
	} {
		runInBubble(t, func(w *fixture) {
			dest := filepath.Join(t.TempDir(), "dest")
			at := filepath.Join(dest, c.path)
			require.NoError(t, os.MkdirAll(filepath.Dir(at), 0o777))
			if c.dir {
				require.NoError(t, os.Mkdir(at, 0o777))
			} else {
				require.NoError(t, os.WriteFile(at, []byte("mine"), 0o666))
			}
			r, err := Parse(ref + "/plots/a.png")
			require.NoError(t, err)
			o := w.options()
			o.ExportDir = dest
			_, err = Fetch(w.context(), r, o)
			assert.Equal(t, ClassLocalDisk, classOf(err))
			assert.ErrorContains(t, err, strings.ReplaceAll(strings.TrimSuffix(want, ", too"), "DEST", dest))
			assert.Contains(t, Hint(err), "choose a different directory")
			w.checkCalls(c.calls[0], c.calls[1], c.calls[2])
		})
	}
	runInBubble(t, func(w *fixture) { // a link to a directory is accepted, and a file is replaced
		dest := t.TempDir()
		require.NoError(t, os.Symlink(t.TempDir(), filepath.Join(dest, "link")))
		require.NoError(t, os.WriteFile(filepath.Join(dest, data), []byte("mine"), 0o666))
		r, err := Parse(ref)
		require.NoError(t, err)
		for _, dest := range []string{dest, filepath.Join(dest, "link"), filepath.Join(dest, "new")} {
			o := w.options()
			o.ExportDir = dest
			s, err := Fetch(w.context(), r, o)
			require.NoError(t, err)
			_, err = s.Export(w.t.Context(), dest, nil)
			require.NoError(t, err)
			require.NoError(t, s.Close())
		}
	})
}
