package durable

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A file that is discarded, or that cannot be published, leaves what stood under its path, and nothing else.
func TestFileIsWholeOrAbsent(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "rows")
	f, err := NewFile(path, Options{})
	require.NoError(t, err)
	_, err = f.Write([]byte("half"))
	require.NoError(t, err)
	require.NotContains(t, files(t, dir), "rows")
	require.NoError(t, f.Discard())
	require.NoError(t, f.Discard())
	require.Empty(t, files(t, dir))

	f, err = NewFile(path, Options{})
	require.NoError(t, err)
	_, err = f.Write([]byte("whole"))
	require.NoError(t, err)
	require.NoError(t, f.Publish())
	require.NoError(t, f.Discard(), "which does nothing now")
	require.Equal(t, map[string]string{"rows": "whole"}, files(t, dir))
}
