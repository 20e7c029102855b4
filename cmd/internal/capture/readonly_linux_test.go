package capture

import (
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/capture/finish"
	"github.com/agentx/agentx/cmd/internal/capture/journal"
)

// mounted makes a directory a file system of its own, and returns what remounts it with flags. It needs a superuser, or the test is
// skipped.
func mounted(t *testing.T, dir string) func(flags uintptr) error {
	t.Helper()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=16m"); err != nil {
		t.Skipf("needs a file system of its own: mount: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	return func(flags uintptr) error { return syscall.Mount("none", dir, "", syscall.MS_REMOUNT|flags, "") }
}

// A directory that becomes read-only changes nothing for the traffic. What is not written is counted; what was written becomes a
// trace when the directory is writable again.
//
// Covers C-27.
func TestReadOnlyDirectory(t *testing.T) {
	dir := t.TempDir()
	remount := mounted(t, dir)
	r := start(t, newScripted(), func(o *Options) { o.Dir, o.Sync = dir, 10*time.Millisecond })
	r.dir = dir
	for _, name := range []string{"a", "b"} {
		r.do("/s/"+name+chatPath, "whole", chatBody("before"))
	}
	// no system becomes read-only while files are open: journals that rest are closed
	require.Eventually(t, func() bool { return remount(syscall.MS_RDONLY) == nil }, 10*time.Second, 10*time.Millisecond)
	for _, name := range []string{"a", "c"} {
		status, text := r.do("/s/"+name+chatPath, "whole", chatBody("after"))
		require.Equal(t, http.StatusOK, status)
		require.Equal(t, delta+stopping+counts+done, text)
	}
	r.stop()
	<-r.done // its error is that of the lock
	s := r.Summary()
	requireCounted(t, s)
	require.Equal(t, map[journal.Reason]int{"journal": 4}, s.NotRecorded)
	require.Contains(t, r.logged.String(), "a session is not recorded")

	require.NoError(t, remount(0))
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "lock"))) // which could not be given back, and whose process lives
	folder, err := journal.OpenFolder(t.Context(), dir, false)
	require.NoError(t, err)
	list, err := finish.Recover(t.Context(), folder)
	require.NoError(t, err)
	recorded := 0
	for _, made := range list {
		recorded += made.Recorded
	}
	require.Equal(t, 2, recorded)
	require.NoError(t, folder.Close())
}
