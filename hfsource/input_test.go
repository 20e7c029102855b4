package hfsource

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

// forms compresses text as the suffixes say.
var forms = map[string]func(testing.TB, []byte) []byte{
	"":    func(_ testing.TB, text []byte) []byte { return text },
	".gz": gz, ".zst": zst,
}

func gz(t testing.TB, text []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(text)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.Bytes()
}

func zst(t testing.TB, text []byte) []byte {
	w, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	return w.EncodeAll(text, nil)
}

// write writes a file to a new directory and returns its path.
func write(t testing.TB, name string, data []byte) string {
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, data, 0o666))
	return path
}

// resolve resolves valid inputs, until the test ends.
func resolve(t testing.TB, o Options, inputs ...string) *Snapshot {
	t.Helper()
	s, err := Resolve(t.Context(), inputs, o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// got is location and data of a row.
type got struct {
	where string
	text  string // or the error
}

// rows reads all rows.
func rows(t testing.TB, s *Snapshot) []got {
	t.Helper()
	list, err := collect(t.Context(), s)
	require.NoError(t, err)
	return list
}

func collect(ctx context.Context, s *Snapshot) (list []got, err error) {
	err = s.Rows(ctx, nil, nil, func(r Row) error {
		defer r.Free()
		g := got{r.Location(), string(r.Data)}
		if r.Err != nil {
			g.text = "error"
		}
		if r.File != s.Files[r.FileIndex].Path {
			return fmt.Errorf("%s is not file %d", r.File, r.FileIndex)
		}
		list = append(list, g)
		return nil
	})
	return list, err
}

// errReader fails after some bytes.
type errReader struct {
	r   io.Reader
	err error
}

func (e errReader) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	if err == io.EOF {
		err = e.err
	}
	return n, err
}

var errBroken = errors.New("the disk is broken")
