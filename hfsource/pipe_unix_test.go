//go:build unix

package hfsource

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// makePipe makes a named pipe.
func makePipe(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(path, 0o666))
	return path
}
