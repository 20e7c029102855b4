package report

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/replay/measure"
)

// Bytes are those of the file, whatever pages they lie on and in whatever order they are read.
func TestChunkFilePages(t *testing.T) {
	dir, data := t.TempDir(), make([]byte, (keptPages+2)*pageSize+77)
	for k := range data {
		data[k] = byte(k * 7 / 3)
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, measure.ContentsFile), data, 0o600))
	c, err := openChunks(dir, nil)
	require.NoError(t, err)
	defer c.close()
	rapid.Check(t, func(rt *rapid.T) {
		page := rapid.IntRange(0, keptPages+2).Draw(rt, "page")
		at := min(len(data), max(0, page*pageSize+rapid.IntRange(-100, 100).Draw(rt, "from")))
		b := make([]byte, rapid.OneOf(rapid.IntRange(0, 200), rapid.IntRange(0, 3*pageSize)).Draw(rt, "bytes"))
		err := c.read(b, int64(at))
		require.Equal(rt, at+len(b) > len(data), err != nil)
		if err == nil {
			require.Equal(rt, data[at:at+len(b)], b)
		}
	})
	_, err = c.of(&row{contents: int64(len(data)) - 1, packed: 2})
	require.ErrorContains(t, err, c.path+": byte ")
}
