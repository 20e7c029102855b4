package durable

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A directory that is in use when the marker exists stays, and is never renamed.
func TestRemoveLeavesWhatIsInUse(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, build(root, Options{}, publish))
	l := acquire(t, root, Waiting{})
	o := Options{Lease: l}
	taken := errors.New("in use")
	require.ErrorIs(t, o.Remove(root, "kind/name", func() error {
		assert.Equal(t, content, files(t, filepath.Join(root, "kind", "name")))
		for name, want := range map[string]bool{"kind/name": true, "kind/other": false} {
			got, err := isMarked(root, "thing", map[string]bool{markName("a/b"): true, markName(name): true})
			require.NoError(t, err)
			assert.Equal(t, want, got, name)
		}
		return taken
	}), taken)
	assert.Equal(t, content, files(t, filepath.Join(root, "kind", "name")))
	got, err := isMarked(root, "thing", map[string]bool{markName("kind/name"): true})
	require.NoError(t, err)
	assert.False(t, got)
	require.NoError(t, o.Remove(root, "kind/name", nil))
	assert.Nil(t, files(t, filepath.Join(root, "kind", "name")))
	require.NoError(t, l.Release())
	assert.Empty(t, staging(t, root))
}

// A remover killed at any step leaves what it was removing whole or gone. A process that waits for its marker waits no
// longer than its lease lasts. Then nothing of it is left.
func TestRemoverKilledAtAnyStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var roots []string
		root := filepath.Join(t.TempDir(), "root")
		require.NoError(t, build(root, Options{}, publish))
		l := acquire(t, root, Waiting{})
		l.kill(t)
		kill := func() { // as the disk is when that happens here
			copied := filepath.Join(t.TempDir(), "root")
			require.NoError(t, os.CopyFS(copied, os.DirFS(root)))
			roots = append(roots, copied)
		}
		o := Options{Lease: l, Step: func(string, string) error { kill(); return nil }}
		require.NoError(t, o.Remove(root, "kind/name", nil))
		kill()
		l.revive()
		require.NoError(t, l.Release())
		require.Len(t, roots, 6)
		waits, stays := 0, 0
		for _, root := range roots {
			begin := time.Now()
			require.NoError(t, AwaitRemoval(t.Context(), root, "thing", []string{"kind/name"}))
			if took := time.Since(begin); took > 0 {
				waits++
				assert.LessOrEqual(t, took, 3*DefaultHeartbeat)
				assert.Empty(t, staging(t, root))
			}
			if there := files(t, filepath.Join(root, "kind", "name")); there != nil {
				stays++
				assert.Equal(t, content, there)
			}
		}
		assert.Equal(t, 2, waits)
		assert.Equal(t, 3, stays)
	})
}

// No directory loses a file before its rename is on disk, and each directory above is synced once. What cannot be synced is put back.
func TestRemovalSyncsOnce(t *testing.T) {
	for _, refused := range []string{"", "kind"} {
		root := t.TempDir()
		names := []string{"kind/a", "other/b", "kind/c"}
		for _, name := range names {
			require.NoError(t, os.MkdirAll(filepath.Join(root, name), 0o777))
			require.NoError(t, os.WriteFile(filepath.Join(root, name, "name"), []byte(name), 0o666))
		}
		l := acquire(t, root, Waiting{})
		var steps []string
		r := Options{Lease: l, Step: func(step, path string) error {
			at, err := filepath.Rel(root, path)
			if step == "delete" {
				var name []byte
				name, err = os.ReadFile(filepath.Join(path, "name"))
				at = string(name)
			}
			require.NoError(t, err)
			steps = append(steps, step+" "+at)
			if step == "sync" && at == refused {
				return errFull
			}
			return nil
		}}.Removal(root)
		for name, err := range r.Remove(t.Context(), names, nil) {
			require.NoError(t, err)
			assert.NoDirExists(t, filepath.Join(root, name))
		}
		steps = nil
		failed := r.Finish()
		if refused == "" {
			assert.Empty(t, failed)
			assert.Equal(t, []string{"sync kind", "delete kind/a", "sync other", "delete other/b", "delete kind/c"}, steps)
		} else {
			assert.Equal(t, []string{"sync kind", "sync other", "delete other/b"}, steps)
			assert.Len(t, failed, 2)
			assert.ErrorIs(t, failed["kind/a"], errFull)
			assert.ErrorIs(t, failed["kind/c"], errFull)
			assert.Equal(t, map[string]string{"name": "kind/a"}, files(t, filepath.Join(root, "kind/a")))
			assert.Equal(t, map[string]string{"name": "kind/c"}, files(t, filepath.Join(root, "kind/c")))
		}
		assert.Empty(t, r.Finish(), "it has nothing left to do")
		require.NoError(t, l.Release())
		assert.Empty(t, staging(t, root))
	}
}

// A wait for a marker ends with its context, and takes nothing over from a live process.
func TestAwaitRemovalEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		require.NoError(t, build(root, Options{}, publish))
		l := acquire(t, root, Waiting{})
		require.NoError(t, Options{Lease: l}.Remove(root, "kind/name", func() error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			assert.ErrorIs(t, AwaitRemoval(ctx, root, "thing", []string{"kind/name"}), ctx.Err())
			return nil
		}))
		require.NoError(t, l.Release())
		assert.Empty(t, staging(t, root))
	})
}
