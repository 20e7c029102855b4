//go:build unix

package convert

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
)

// openPaths lists the directories and files below a root that everybody may write.
func openPaths(t *testing.T, root string) (open []string) {
	require.NoError(t, filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := e.Info()
		require.NoError(t, err)
		if durable.IsOpen(info) && info.Mode()&fs.ModeSticky == 0 {
			open = append(open, path)
		}
		return nil
	}))
	return open
}

// A directory that everybody may write, or a file in it, gives no hit: it is built again, and closed. With TrustRoot it is used. What a
// group may write does give one.
//
// Covers F29.
func TestWhatEverybodyMayWriteGivesNoHit(t *testing.T) {
	for _, shardRows := range []int{0, 1} {
		o := options(t, lines(t, traceText("a"), traceText("b")))
		o.shardRows = shardRows
		o.convert(t)
		want := filesOf(t, o.Root)
		var warned []string
		o.Warn = func(format string, args ...any) { warned = append(warned, format+" "+args[0].(error).Error()) }
		for _, kind := range append(mmapcache.PartKinds(), mmapcache.DatasetKind) {
			keys, err := os.ReadDir(filepath.Join(o.Root, kind))
			require.NoError(t, err)
			dir := filepath.Join(o.Root, kind, keys[0].Name())
			files, err := os.ReadDir(dir)
			require.NoError(t, err)
			paths := []string{dir, filepath.Join(dir, manifest.FileName), filepath.Join(dir, files[0].Name())}
			for _, path := range slices.Compact(paths) {
				info, err := os.Stat(path)
				require.NoError(t, err)
				require.NoError(t, os.Chmod(path, info.Mode()|0o020))
				require.True(t, o.convert(t).Hit, path)
				require.NoError(t, os.Chmod(path, info.Mode()|0o022))
				o.TrustRoot = true
				require.True(t, o.convert(t).Hit, path)
				o.TrustRoot, warned = false, nil
				require.False(t, o.convert(t).Hit, path)
				require.Len(t, warned, 1)
				assert.Contains(t, warned[0], path+": damaged: every user of this machine may write it (mode 0")
				assert.Empty(t, openPaths(t, o.Root))
				require.Equal(t, want, filesOf(t, o.Root))
			}
		}
	}
}

// On a full disk the error is one line, and what the build has published is removed. What it has found stays.
//
// Covers F31.
func TestFullDiskLeavesNothing(t *testing.T) {
	full := func(name string) durable.Options {
		return durable.Options{Step: func(step, path string) error {
			if step == "create" && filepath.Base(path) == name {
				return &fs.PathError{Op: "write", Path: path, Err: syscall.ENOSPC}
			}
			return nil
		}, Sync: func(*os.File) error { return nil }}
	}
	o := options(t, lines(t, traceText("a")))
	o.disk = full("ids.txt") // of the arenas: the structure is published by then
	_, err := Convert(t.Context(), o)
	var one *durable.FullError
	require.ErrorAs(t, err, &one)
	require.ErrorIs(t, err, syscall.ENOSPC)
	assert.True(t, strings.HasPrefix(err.Error(), "cache root "+o.Root+": no space is left on its disk for what is to be written: "), err)
	assert.NotContains(t, err.Error(), "\n")
	assert.Empty(t, one.Hint, "the command names its flags")
	assert.Empty(t, filesOf(t, o.Root))

	o.disk = full("")
	o.convert(t)
	want := filesOf(t, o.Root)
	o.Placement.Seed = 7
	o.disk = full("starts.bin")
	_, err = Convert(t.Context(), o)
	require.ErrorAs(t, err, &one)
	assert.Equal(t, want, filesOf(t, o.Root), "of another seed, with the same parts")

	other := errors.New("no light")
	o.disk.Step = func(string, string) error { return other }
	_, err = Convert(t.Context(), o)
	require.ErrorIs(t, err, other)
	assert.False(t, errors.As(err, &one))
}
