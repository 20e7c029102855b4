package regular

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	require.NoError(t, os.WriteFile(path, []byte("12345"), 0o600))
	data, err := Read(path, 5)
	require.NoError(t, err)
	require.Equal(t, "12345", string(data))
	_, err = Read(path, 4)
	require.EqualError(t, err, "read "+path+": too long: 5 bytes or more, want at most 4")
	require.ErrorIs(t, err, ErrTooLong)
	_, err = Read(filepath.Join(dir, "none"), 5)
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, err = Open(dir)
	require.EqualError(t, err, "open "+dir+": not a regular file (d---------)")
}
