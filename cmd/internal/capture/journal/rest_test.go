package journal

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// A journal that is not written holds no file, and goes on where it was.
//
// Covers C-27.
func TestRest(t *testing.T) {
	folder, err := OpenFolder(t.Context(), t.TempDir(), false)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, folder.Close()) })
	head := Head{Trace: "cap-00000001", BlockSize: 64, Canon: "canon-1", Tokenizer: "o200k_base", By: ByURL}
	w, err := folder.Create(head)
	require.NoError(t, err)
	folder.Sync() // it was written since
	require.NotNil(t, w.file)
	folder.Sync()
	require.Nil(t, w.file)
	require.NoError(t, w.Write(Begin{Q: 0}))
	require.NotNil(t, w.file)
	folder.Sync()
	folder.Sync()
	require.NoError(t, w.Write(End{Q: 0, First: -1, X: Transport}))
	folder.Sync()
	folder.Sync()
	require.Nil(t, w.file)
	require.NoError(t, w.Close())
	text, err := os.ReadFile(w.path)
	require.NoError(t, err)
	s, err := Read(text)
	require.NoError(t, err)
	require.Nil(t, s.Torn)
	require.Len(t, s.Requests, 1)
	require.Equal(t, Transport, s.Requests[0].End.X)

	head.Trace = "cap-00000002"
	w, err = folder.Create(head)
	require.NoError(t, err)
	folder.Sync()
	folder.Sync()
	require.NoError(t, os.RemoveAll(filepath.Dir(w.path)))
	require.Error(t, w.Write(Begin{Q: 0}))
	require.Error(t, w.Write(End{Q: 0}), "after an error it writes nothing")
	require.Error(t, w.Close())
}
