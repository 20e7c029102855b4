package report

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Bytes are those of the files, whatever pages they lie on and in whatever order they are read.
func TestChunkFilePages(t *testing.T) {
	for _, files := range []int{1, 3, 40} {
		dir := t.TempDir()
		paths, data := []string{filepath.Join(dir, "none")}, [][]byte{nil}
		for n := range files {
			path := filepath.Join(dir, string(rune('a'+n)))
			bytes := make([]byte, keptBytes/files*3/2+77)
			for k := range bytes {
				bytes[k] = byte(k*7/3 + n)
			}
			require.NoError(t, os.WriteFile(path, bytes, 0o600))
			paths, data = append(paths, path), append(data, bytes)
		}
		c, err := openChunks(paths, nil)
		require.NoError(t, err)
		defer c.close()
		size := int(c.pageSize)
		require.LessOrEqual(t, len(c.pages)*size, keptBytes)
		rapid.Check(t, func(rt *rapid.T) {
			k := rapid.IntRange(1, files).Draw(rt, "file")
			page := rapid.IntRange(0, len(data[k])/size).Draw(rt, "page")
			at := min(len(data[k]), max(0, page*size+rapid.IntRange(-100, 100).Draw(rt, "from")))
			b := make([]byte, rapid.OneOf(rapid.IntRange(0, 200), rapid.IntRange(0, 3*size)).Draw(rt, "bytes"))
			err := c.read(b, k, int64(at))
			require.Equal(rt, at+len(b) > len(data[k]), err != nil)
			if err == nil {
				require.Equal(rt, data[k][at:at+len(b)], b)
			}
		})
		last := c.files[files].from + int64(len(data[files]))
		_, err = c.of(&row{contents: last - 1, packed: 2})
		require.ErrorContains(t, err, paths[files]+": byte ")
	}
}
