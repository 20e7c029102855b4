//go:build unix

package wire

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// A mapped file that is truncated while a request sends it makes an internal failure and no crash, whether the body copies the
// map in Go or writes from it.
func TestTruncatedFile(t *testing.T) {
	const size = 1 << 16
	file := filepath.Join(t.TempDir(), "arena")
	require.NoError(t, os.WriteFile(file, make([]byte, size), 0o600))
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	mapped, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ, syscall.MAP_SHARED)
	require.NoError(t, err)
	defer syscall.Munmap(mapped) //nolint:errcheck // the test is over
	require.NoError(t, os.Truncate(file, 0))
	for name, write := range map[string]func(w io.Writer) (int64, error){
		"copied": func(w io.Writer) (int64, error) {
			n, err := w.Write(append([]byte(nil), mapped...))
			return int64(n), err
		},
		"written": func(w io.Writer) (int64, error) { n, err := w.Write(mapped); return int64(n), err },
	} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, serve(t, func(p *peer) { io.Copy(io.Discard, p.in) }), Options{})
			res := c.Do(context.Background(), &Request{Path: "/", Body: oddBody{size, write}})
			require.Equal(t, Internal, res.Err.Category, res.Err.Message)
		})
	}
}
