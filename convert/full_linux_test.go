package convert

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/durable"
)

// On disks of every size that is too small, a conversion fails with an error that says so, leaves nothing incomplete, and keeps
// what existed before. The test mounts a small file system, for which it needs root.
func TestLongFullDisk(t *testing.T) {
	long(t)
	disk := filepath.Join(t.TempDir(), "disk")
	require.NoError(t, os.Mkdir(disk, 0o777))
	mount := func(kib int) error {
		return syscall.Mount("tmpfs", disk, "tmpfs", 0, "size="+strconv.Itoa(kib)+"k")
	}
	if err := mount(1000); err != nil {
		t.Skipf("a tmpfs cannot be mounted here (%v): run it as root", err)
	}
	require.NoError(t, syscall.Unmount(disk, 0))
	o := options(t, "@demo")
	o.convert(t)
	want := filesOf(t, o.Root)
	failed := 0
	for kib := 4; ; kib += 4 {
		require.NoError(t, mount(kib))
		o.Root = filepath.Join(disk, "root")
		_, err := Convert(t.Context(), o)
		if err != nil {
			failed++
			require.ErrorIs(t, err, syscall.ENOSPC, "%d KiB", kib)
			require.ErrorContains(t, err, disk)
			requireWhole(t, o.Root)
			entries, err := os.ReadDir(filepath.Join(o.Root, durable.StagingDir))
			if !errors.Is(err, os.ErrNotExist) {
				require.NoError(t, err)
			}
			require.Empty(t, entries, "%d KiB", kib)
		} else {
			require.Equal(t, want, filesOf(t, o.Root))
		}
		require.NoError(t, syscall.Unmount(disk, 0))
		if err == nil {
			break
		}
		require.Less(t, kib, 1<<16)
	}
	t.Logf("%d sizes of disk were too small", failed)
	assert.Greater(t, failed, 20)
}
