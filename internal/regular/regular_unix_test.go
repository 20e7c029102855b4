//go:build unix

package regular

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A pipe that no program writes to, and a link to a device without an end, are refused at once.
func TestPipeAndDevice(t *testing.T) {
	dir := t.TempDir()
	pipe, link := filepath.Join(dir, "pipe"), filepath.Join(dir, "link")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	require.NoError(t, os.Symlink("/dev/zero", link))
	for _, path := range []string{pipe, link} {
		_, err := Open(path)
		require.ErrorContains(t, err, "not a regular file")
		_, err = Read(path, 5)
		require.ErrorContains(t, err, "not a regular file")
	}
}
