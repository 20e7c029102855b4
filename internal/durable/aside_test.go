package durable

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sealed is a directory with a seal.
var sealed = map[string]string{Seal: "{}", "a": "1"}

// makeSealed makes kind/name with a seal in a new root.
func makeSealed(t *testing.T) (root, path string) {
	root = t.TempDir()
	path = filepath.Join(root, "kind", "name")
	require.NoError(t, os.MkdirAll(path, 0o777))
	for name, data := range sealed {
		require.NoError(t, os.WriteFile(filepath.Join(path, name), []byte(data), 0o666))
	}
	return root, path
}

// lowerLayer are options under which a directory cannot be taken away by a rename, as on overlayfs.
func lowerLayer(before func()) Options {
	return Options{Step: func(name, _ string) error {
		if before != nil {
			before()
		}
		if name == "remove" || name == "replace" {
			return syscall.EXDEV
		}
		return nil
	}}
}

// states copies a root at each call, as a kill at that instant leaves it.
type states struct {
	t     *testing.T
	root  string
	found []map[string]string // of kind/name
}

func (s *states) take() { s.found = append(s.found, files(s.t, filepath.Join(s.root, "kind", "name"))) }

// requireWholeOrUnsealed checks that no state has the seal without the rest.
func (s *states) requireWholeOrUnsealed(whole ...map[string]string) {
	for _, got := range s.found {
		if _, ok := got[Seal]; ok {
			assert.Contains(s.t, whole, got)
		}
	}
}

// A directory that cannot be renamed loses its seal first, and that is on disk before it loses another file. A process that is killed
// at any step leaves it whole, or without its seal.
//
// Covers F30.
func TestRemoveInPlace(t *testing.T) {
	for _, leased := range []bool{true, false} {
		root, path := makeSealed(t)
		s := &states{t: t, root: root}
		o := lowerLayer(s.take)
		if leased {
			o.Lease = acquire(t, root, Waiting{})
		}
		r := o.Removal(root)
		require.NoError(t, r.Remove(t.Context(), []string{"kind/name"}, nil)["kind/name"])
		assert.Equal(t, map[string]string{"a": "1"}, files(t, path))
		synced := false
		step := o.Step
		r.opts.Step = func(name, at string) error {
			if name == "sync" && at == path {
				synced = true
				assert.Equal(t, map[string]string{"a": "1"}, files(t, path))
			}
			return step(name, at)
		}
		require.Empty(t, r.Finish())
		s.take()
		assert.True(t, synced)
		assert.NoDirExists(t, path)
		s.requireWholeOrUnsealed(sealed)
		if leased {
			require.NoError(t, o.Lease.Release())
		}
		assert.Empty(t, staging(t, root))
	}
}

// A directory that is in use, or whose seal may still be there on disk, gets its seal back.
func TestPutBackInPlace(t *testing.T) {
	root, path := makeSealed(t)
	taken, checks := errors.New("in use"), 0
	err := lowerLayer(nil).Remove(root, "kind/name", func() error {
		if checks++; checks == 2 {
			return taken
		}
		return nil
	})
	require.Equal(t, taken, err)
	assert.Equal(t, sealed, files(t, path))

	o := Options{Step: func(name, _ string) error {
		switch name {
		case "remove":
			return syscall.EXDEV
		case "sync":
			return errFull
		}
		return nil
	}}
	require.ErrorIs(t, o.Remove(root, "kind/name", nil), errFull)
	assert.Equal(t, sealed, files(t, path))
	assert.Empty(t, staging(t, root))
}

// What another process has built under the name meanwhile stays, and keeps its own seal.
func TestRemoveInPlaceLeavesWhatWasBuiltMeanwhile(t *testing.T) {
	for _, refused := range []bool{false, true} {
		root, path := makeSealed(t)
		o := lowerLayer(nil)
		r := o.Removal(root)
		require.NoError(t, r.Remove(t.Context(), []string{"kind/name"}, nil)["kind/name"])
		require.NoError(t, os.RemoveAll(path))
		require.NoError(t, os.Mkdir(path, 0o777))
		again := map[string]string{Seal: "new", "a": "2"}
		for name, data := range again {
			require.NoError(t, os.WriteFile(filepath.Join(path, name), []byte(data), 0o666))
		}
		if refused {
			r.opts.Step = func(name, _ string) error { return errFull }
		}
		assert.Equal(t, refused, len(r.Finish()) > 0)
		assert.Equal(t, again, files(t, path))
	}
}

// Two processes may remove what is left of a directory without its seal.
func TestRemoveInPlaceWhatIsRemoved(t *testing.T) {
	for _, leave := range []string{"a", ""} {
		root, path := makeSealed(t)
		r := lowerLayer(nil).Removal(root)
		require.NoError(t, r.Remove(t.Context(), []string{"kind/name"}, nil)["kind/name"])
		require.NoError(t, os.RemoveAll(filepath.Join(path, leave)))
		assert.Empty(t, r.Finish())
		assert.NoDirExists(t, path)
	}
}

// Replace removes what it cannot rename before it publishes: a process that is killed at any step leaves the old directory, the new
// one, or none with a seal. A directory that has lost its seal is replaced as well.
//
// Covers F30.
func TestReplaceInPlace(t *testing.T) {
	for _, seal := range []bool{true, false} {
		root, path := makeSealed(t)
		if !seal {
			require.NoError(t, os.Remove(filepath.Join(path, Seal)))
		}
		s := &states{t: t, root: root}
		whole := map[string]string{Seal: "new"}
		d, err := NewDir(root, lowerLayer(s.take))
		require.NoError(t, err)
		require.NoError(t, d.Write(Seal, []byte("new")))
		require.NoError(t, d.Replace("kind/name"))
		s.take()
		assert.Equal(t, whole, files(t, path))
		s.requireWholeOrUnsealed(sealed, whole)
		assert.Empty(t, staging(t, root))
	}
}

// Without the lease's directory nothing can be taken away, in place either.
func TestRemoveInPlaceNeedsTheLease(t *testing.T) {
	root, path := makeSealed(t)
	l := acquire(t, root, Waiting{})
	o := Options{Lease: l, Step: func(name, _ string) error {
		if name == "remove" {
			require.NoError(t, os.RemoveAll(l.path))
			return syscall.EXDEV
		}
		return nil
	}}
	require.NoError(t, os.Remove(filepath.Join(path, Seal)))
	require.ErrorIs(t, o.Remove(root, "kind/name", nil), ErrLost)
	assert.FileExists(t, filepath.Join(path, "a"))
	require.NoError(t, l.Release())
}

// What a killed process left in a lower layer is swept.
func TestSweepInPlace(t *testing.T) {
	root := t.TempDir()
	dead := filepath.Join(root, StagingDir, far().fileName())
	require.NoError(t, os.MkdirAll(dead, 0o777))
	o := Options{Step: func(string, string) error { return syscall.EXDEV }}
	require.NoError(t, removeThrough(dead, filepath.Dir(dead), o))
	assert.Empty(t, staging(t, root))
}

// Remove is a removal of one directory.
func (o Options) Remove(root, name string, inUse func() error) error {
	r := o.Removal(root)
	err := r.Remove(context.Background(), []string{name}, func([]string) map[string]error {
		if inUse == nil {
			return nil
		}
		return map[string]error{name: inUse()}
	})[name]
	if err != nil {
		return err
	}
	return r.Finish()[name]
}
