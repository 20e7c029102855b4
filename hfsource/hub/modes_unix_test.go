//go:build unix

package hub

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// In a cache that everybody may write, downloads are their owner's, as the Python client makes them; in one of a group they are the
// group's.
//
// Covers F29.
func TestDownloadsAreNotWritableForEverybody(t *testing.T) {
	for mode, want := range map[fs.FileMode][2]fs.FileMode{
		0o777 | fs.ModeSticky: {0o755, 0o644},
		0o775 | fs.ModeSetgid: {0o775, 0o664},
	} {
		runInBubble(t, func(w *fixture) {
			require.NoError(t, os.Chmod(w.home, mode))
			w.mustFetch(ref)
			seen := 0
			require.NoError(t, filepath.WalkDir(filepath.Join(w.home, "hub"), func(path string, e fs.DirEntry, err error) error {
				require.NoError(t, err)
				info, err := e.Info()
				require.NoError(t, err)
				switch {
				case e.IsDir():
					assert.Equal(t, want[0], info.Mode().Perm(), path)
				case info.Mode().IsRegular() && e.Name() != "CACHEDIR.TAG":
					assert.Equal(t, want[1], info.Mode().Perm(), path)
				}
				seen++
				return nil
			}))
			assert.Greater(t, seen, 10)
		})
	}
}
