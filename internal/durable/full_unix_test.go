//go:build unix

package durable

import (
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A note that cannot be written whole is removed. A limit on the size of files stands in for a full disk.
//
// Covers F18.
func TestNotesOnAFullDisk(t *testing.T) {
	const limit = 8 << 20 // more than anything else that is written here
	root := t.TempDir()
	signal.Ignore(syscall.SIGXFSZ)
	defer signal.Reset(syscall.SIGXFSZ)
	var was syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was))
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: limit, Max: was.Max}))
	u := NoteUse(root, filepath.Join(root, "notes"), []string{strings.Repeat("a", limit)})
	err := WriteSmall(root, filepath.Join(root, "b"), make([]byte, limit+1), 0)
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was))
	u.Close()
	assert.ErrorIs(t, err, syscall.EFBIG)
	assert.Empty(t, files(t, filepath.Join(root, "notes")))
	assert.FileExists(t, filepath.Join(root, "b"), "what others may have written stays")
}
