package terminal

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A block is written over in its place, with lines above it, also when the terminal changes its size.
func TestBlock(t *testing.T) {
	var out strings.Builder
	columns, rows := 20, 10
	b := Block{W: &out, Size: func() (int, int) { return columns, rows }}
	written := func() string {
		defer out.Reset()
		return out.String()
	}
	draw := func(lines ...string) {
		b.Draw(func(room int) []string {
			require.Equal(t, columns-1, room)
			return lines
		})
	}
	draw("one", "twelve and more")
	require.Equal(t, "one\x1b[K\r\ntwelve and more\x1b[K\r\n", written())
	draw("two", "twelve")
	require.Equal(t, "\x1b[2A\rtwo\x1b[K\r\ntwelve\x1b[K\r\n", written())
	b.Above(func(w io.Writer) { _, _ = io.WriteString(w, "warning\n") })
	require.Equal(t, "\x1b[2A\r\x1b[Jwarning\ntwo\r\ntwelve\r\n", written())
	draw("only")
	require.Equal(t, "\x1b[2A\ronly\x1b[K\r\n\x1b[J", written())
	draw("twelve and more", "x")
	written()
	columns = 10 // the first line has become two
	draw("a", "b")
	require.Equal(t, "\x1b[3A\ra\x1b[K\r\nb\x1b[K\r\n", written())
	rows = 2 // the last row is that of the cursor
	draw("a", "b")
	require.Equal(t, "\x1b[2A\ra\x1b[K\r\n\x1b[J", written())
	b.Erase()
	require.Equal(t, "\x1b[1A\r\x1b[J", written())
	b.Erase()
	require.Empty(t, written())
}
