package report

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/replay/wire"
)

// Contents are those of the files, in whatever order they are read.
func TestChunkFile(t *testing.T) {
	for _, files := range []int{1, 3, 40} {
		dir := t.TempDir()
		paths := []string{filepath.Join(dir, "none")}
		var list []row
		var want [][]byte
		from := int64(0)
		for n := range files {
			var data []byte
			for k := range 50 {
				var contents wire.Contents
				for at := range 1 + (k*7+n)%90 {
					contents.Add(time.Duration(at*(k+1)*1000+n), wire.Unknown)
				}
				packed := slices.Clone(contents.Packed())
				list, want = append(list, row{contents: from + int64(len(data)), packed: int32(len(packed))}), append(want, packed)
				data = append(data, packed...)
			}
			path := filepath.Join(dir, string(rune('a'+n)))
			require.NoError(t, os.WriteFile(path, data, 0o600))
			paths, from = append(paths, path), from+int64(len(data))
		}
		c, err := openChunks(paths, nil)
		require.NoError(t, err)
		defer c.close()
		rapid.Check(t, func(rt *rapid.T) {
			k := rapid.IntRange(0, len(list)-1).Draw(rt, "request")
			got, err := c.of(&list[k])
			require.NoError(rt, err)
			require.Equal(rt, want[k], got.Packed())
		})
		_, err = c.of(&row{contents: from - 1, packed: 2})
		require.ErrorContains(t, err, paths[files]+": byte ")
	}
}
