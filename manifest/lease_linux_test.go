package manifest

import (
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Open waits for a file server that has a lease on the file and gives it back.
func TestOpenOfAFileUnderALease(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(path, []byte("content"), 0o666))
	holder, err := os.Open(path)
	require.NoError(t, err)
	defer holder.Close()
	lease := func(kind int) syscall.Errno {
		_, _, errno := syscall.Syscall(syscall.SYS_FCNTL, holder.Fd(), syscall.F_SETLEASE, uintptr(kind))
		return errno
	}
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGIO)
	defer signal.Stop(asked)
	if errno := lease(syscall.F_WRLCK); errno != 0 {
		t.Skip("no leases on this file system: ", errno)
	}
	done := make(chan error)
	go func() {
		<-asked
		if errno := lease(syscall.F_UNLCK); errno != 0 {
			done <- errno
		}
		close(done)
	}()
	f, size, err := Open(path)
	require.NoError(t, err)
	assert.Equal(t, int64(7), size)
	require.NoError(t, f.Close())
	require.NoError(t, <-done)
}
