package cachedir_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache/internal/cachedir"
	"github.com/agentx/agentx/mmapcache/internal/cachedir/faultdisk"
)

func TestRetryStaleCallsTwice(t *testing.T) {
	for fails, want := range map[int]error{0: nil, 1: nil, 2: fs.ErrNotExist} {
		calls := 0
		err := cachedir.RetryStale(func() error {
			if calls++; calls <= fails {
				return syscall.ESTALE
			}
			return nil
		})
		assert.Equal(t, min(fails+1, 2), calls)
		assert.ErrorIs(t, err, want)
	}
	assert.ErrorIs(t, cachedir.RetryStale(func() error { return syscall.EIO }), syscall.EIO)
}

// A name that the client remembers as missing is found, also if the directories above it are remembered as missing.
func TestFindLooksPastTheMemoryOfTheClient(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "kind", "key", "file")
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o777))
	require.NoError(t, os.WriteFile(path, []byte("content"), 0o666))
	for at := path; at != root; at = filepath.Dir(at) {
		c := &faultdisk.Client{Missing: map[string]bool{path: true, at: true}}
		info, err := c.Disk().Find(path)
		require.NoError(t, err, at)
		assert.Equal(t, int64(7), info.Size())
	}
	d := cachedir.NewDisk()
	_, err := d.Find(filepath.Join(root, "nothing", "at", "all"))
	assert.True(t, cachedir.IsAbsent(err))
	assert.False(t, d.Listed(filepath.Join(root, "kind", "other")))
}

// What is missing while a directory stays as it is counts as missing after a second, on a network file system after a
// minute. A directory that is gone, or changes all the time, is an error of its own.
func TestRetryMissingWaits(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kind", "key")
	require.NoError(t, os.MkdirAll(dir, 0o777))
	missing := fmt.Errorf("a file: %w", cachedir.ErrMissing)
	for name, c := range map[string]struct {
		dir     string
		network bool
		look    func(calls int) error
		want    error
		waits   time.Duration
	}{
		"found":            {dir, false, func(int) error { return nil }, nil, 0},
		"unreachable":      {dir, false, func(int) error { return syscall.EIO }, syscall.EIO, 0},
		"found at last":    {dir, true, func(calls int) error { return map[bool]error{calls < 5: missing}[true] }, nil, 0},
		"missing":          {dir, false, func(int) error { return missing }, cachedir.ErrMissing, cachedir.WaitReplaced},
		"missing on a net": {dir, true, func(int) error { return missing }, cachedir.ErrMissing, cachedir.WaitRemember},
		"gone":             {dir + "x", true, func(int) error { return missing }, cachedir.ErrNoCache, cachedir.WaitReplaced},
		"changing": {dir, true, func(calls int) error {
			return errors.Join(missing, os.Chtimes(dir, time.Time{}, time.Unix(int64(calls), 0)))
		}, cachedir.ErrChanging, cachedir.WaitChanging},
	} {
		t.Run(name, func(t *testing.T) {
			d, waited, calls := cachedir.NewDisk(), time.Duration(0), 0
			d.IsNetwork = func(string) bool { return c.network }
			d.Sleep = func(_ context.Context, pause time.Duration) error { waited += pause; return nil }
			err := d.RetryMissing(t.Context(), c.dir, func() error { calls++; return c.look(calls) })
			assert.ErrorIs(t, err, c.want)
			assert.GreaterOrEqual(t, waited, c.waits)
			assert.Less(t, waited, c.waits+2*time.Second)
		})
	}
}

func TestIsDamage(t *testing.T) {
	for _, err := range []error{manifest.ErrDamaged, fs.ErrNotExist, syscall.ENOTDIR, syscall.EISDIR, syscall.ELOOP} {
		assert.True(t, cachedir.IsDamage(fmt.Errorf("x: %w", err)), err)
	}
	for _, err := range []error{nil, syscall.EIO, syscall.EACCES, context.Canceled} {
		assert.False(t, cachedir.IsDamage(err), err)
	}
}
