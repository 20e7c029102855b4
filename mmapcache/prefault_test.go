package mmapcache

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/manifest"
)

// wide is a toy whose tokens fill more than two windows.
func wide(t *testing.T) (root, key, tokens string) {
	y := plainToy(40)
	for len(y.corpus) < 2*prefaultWindow/4 {
		y.corpus = append(y.corpus, y.corpus...)
	}
	root = t.TempDir()
	key = y.build(t, root, "")
	m, err := realDisk().readManifest(root, DatasetKind, key, "")
	require.NoError(t, err)
	return root, key, filepath.Join(root, ArenasKind, m.Parts[ArenasKind].Key, "tokens.u32")
}

// kernels are the calls that populate a window: that of this system, and failing ones.
var kernels = map[string]func([]byte) error{
	"populate": populate,
	"touch":    func([]byte) error { return syscall.EINVAL },
	"no call":  func([]byte) error { return syscall.ENOSYS },
}

func TestPrefault(t *testing.T) {
	root, key, _ := wide(t)
	c := open(t, root, key)
	total := int64(0)
	for _, m := range c.maps.all() {
		total += int64(len(m.data))
	}
	var at []int64
	note := func(done, all int64) {
		assert.Equal(t, total, all)
		at = append(at, done)
	}
	require.NoError(t, c.Prefault(t.Context(), note))
	assert.True(t, slices.IsSorted(at))
	assert.Equal(t, total, at[len(at)-1])
	require.NoError(t, c.Prefault(t.Context(), nil))
	for _, kernel := range kernels {
		require.NoError(t, c.prefault(t.Context(), kernel, nil))
	}

	var windows [][]byte
	require.NoError(t, c.prefault(t.Context(), func(w []byte) error { windows = append(windows, w); return nil }, nil))
	assert.Len(t, at, len(windows))
	assert.Zero(t, prefaultWindow%os.Getpagesize())
	for _, m := range c.maps.all() { // each is covered, in pieces that begin at a page
		rest := []byte(m.data)
		for ; len(rest) > 0; windows = windows[1:] {
			n := min(prefaultWindow, len(rest))
			require.Len(t, windows[0], n)
			require.Same(t, &rest[0], &windows[0][0])
			rest = rest[n:]
		}
	}
	assert.Empty(t, windows)
}

// Cutting a mapped file gives an error that names it.
func TestPrefaultOfACutFile(t *testing.T) {
	root, key, tokens := wide(t)
	for name, kernel := range kernels {
		for _, size := range []int64{0, prefaultWindow + 5} {
			good, err := os.ReadFile(tokens)
			require.NoError(t, err)
			c := open(t, root, key)
			require.NoError(t, os.Truncate(tokens, size))
			want := size / prefaultWindow * prefaultWindow // what is there is fetched
			for _, m := range c.maps.all()[:slices.IndexFunc(c.maps.all(), func(m *mapping) bool { return m.path == tokens })] {
				want += int64(len(m.data))
			}
			last := int64(0)
			err = c.prefault(t.Context(), kernel, func(done, _ int64) { last = done })
			assert.ErrorIs(t, err, manifest.ErrDamaged, name)
			assert.ErrorContains(t, err, tokens+": ", name)
			assert.Equal(t, want, last, name)
			require.NoError(t, os.WriteFile(tokens, good, 0o666))
		}
	}
}

func TestPrefaultErrors(t *testing.T) {
	y, root := plainToy(40), t.TempDir()
	c := open(t, root, y.build(t, root, ""))
	fail := func(err error) error {
		return c.prefault(t.Context(), func([]byte) error { return err }, nil)
	}
	for _, errno := range []error{syscall.EFAULT, syscall.EIO} {
		err := fail(errno)
		assert.ErrorIs(t, err, manifest.ErrDamaged)
		assert.ErrorContains(t, err, c.maps.all()[0].path+": ")
	}
	err := fail(syscall.ENOMEM)
	assert.ErrorIs(t, err, syscall.ENOMEM)
	assert.NotErrorIs(t, err, manifest.ErrDamaged)
	assert.ErrorContains(t, err, c.maps.all()[0].path+": ")
}

func TestPrefaultStopsWithItsContext(t *testing.T) {
	y, root := plainToy(40), t.TempDir()
	c := open(t, root, y.build(t, root, ""))
	ctx, cancel := context.WithCancelCause(t.Context())
	calls := 0
	err := c.prefault(ctx, func([]byte) error {
		if calls++; calls == 2 {
			cancel(errors.New("enough"))
		}
		return nil
	}, nil)
	assert.ErrorIs(t, err, context.Canceled)
	assert.Equal(t, 2, calls)
}
