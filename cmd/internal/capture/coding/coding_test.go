package coding

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
)

// coded returns a body in every coding.
func coded(t *testing.T, body string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{"": []byte(body), "identity": []byte(body)}
	add := func(name string, open func(io.Writer) io.WriteCloser) {
		var b bytes.Buffer
		w := open(&b)
		_, err := io.WriteString(w, body)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		out[name] = b.Bytes()
	}
	add("gzip", func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) })
	add("X-GZip", func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) })
	add("deflate", func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) })
	add(" Deflate", func(w io.Writer) io.WriteCloser {
		f, err := flate.NewWriter(w, 9)
		require.NoError(t, err)
		return f
	})
	add("br", func(w io.Writer) io.WriteCloser { return brotli.NewWriter(w) })
	add("zstd", func(w io.Writer) io.WriteCloser {
		z, err := zstd.NewWriter(w)
		require.NoError(t, err)
		return z
	})
	return out
}

// Every coding is undone, also where its bytes arrive one at a time.
func TestDecode(t *testing.T) {
	body := strings.Repeat("one body, ", 1000)
	for name, data := range coded(t, body) {
		got, err := Decode(name, data, int64(len(body)))
		require.NoError(t, err, name)
		require.Equal(t, body, string(got), name)
		require.True(t, Known(name) || Identity(name))
		r, err := NewReader(name, iotest.OneByteReader(bytes.NewReader(data)))
		require.NoError(t, err, name)
		slow, err := io.ReadAll(r)
		require.NoError(t, err, name)
		require.Equal(t, body, string(slow), name)
		if Identity(name) {
			continue
		}
		_, err = Decode(name, data, int64(len(body)-1))
		require.ErrorIs(t, err, ErrTooLong, name)
		_, err = Decode(name, data[:len(data)-2], 1<<20)
		require.Error(t, err, name)
	}
	for _, name := range []string{"compress", "gzip, br", "aws-chunked", "gz"} {
		_, err := Decode(name, []byte("x"), 10)
		require.ErrorIs(t, err, ErrUnknown, name)
		require.False(t, Known(name) || Identity(name))
	}
}

// A body cannot ask for more memory than a window of the web.
func TestHugeWindow(t *testing.T) {
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b, zstd.WithWindowSize(64<<20))
	require.NoError(t, err)
	_, err = w.Write(bytes.Repeat([]byte("0123456789abcdef"), 8<<20))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	_, err = Decode("zstd", b.Bytes(), 1<<30)
	require.ErrorIs(t, err, zstd.ErrWindowSizeExceeded)
}
