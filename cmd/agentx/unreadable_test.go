package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert/demo"
)

// table writes n rows as Parquet that no trace is in.
func table(t *testing.T, n int, codec compress.Codec) []byte {
	type row struct {
		ID    string `parquet:"id"`
		Other int64  `parquet:"other"`
	}
	var out bytes.Buffer
	w := parquet.NewGenericWriter[row](&out, parquet.Compression(codec))
	_, err := w.Write(make([]row, n))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.Bytes()
}

// A file that cannot be read is no trace to skip: nobody knows which traces it has.
func TestUnreadableFilesFailAlways(t *testing.T) {
	var gz bytes.Buffer
	z := gzip.NewWriter(&gz)
	_, err := z.Write(bytes.Repeat(demo.JSONL(), 3))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	zw, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	zst := zw.EncodeAll(demo.JSONL(), nil)
	whole := table(t, 100, &parquet.Snappy)
	for name, c := range map[string]struct {
		data      []byte
		want, try string
	}{
		"cut.jsonl.gz":      {gz.Bytes()[:gz.Len()-gz.Len()/4], `PATH: from line [0-9]+ on it cannot be read: unexpected EOF`, "fetch or copy the file again"},
		"cut.jsonl.zst":     {zst[:len(zst)/2], `PATH: (from line [0-9]+ on )?it cannot be read: unexpected EOF`, "fetch or copy the file again"},
		"no.jsonl.gz":       {[]byte("{}\n"), `PATH: it cannot be read: `, "fetch or copy the file again"},
		"cut.parquet":       {whole[:len(whole)/2], `PATH: it cannot be read: not Parquet, or cut off: `, "fetch or copy the file again"},
		"encrypted.parquet": {[]byte("PARExxxxxxxx\x04\x00\x00\x00PARE"), `PATH: it cannot be read: it is encrypted: not read`, "without encryption"},
		"brotli.parquet":    {table(t, 100, &parquet.Brotli), `PATH: it cannot be read: column id: compression BROTLI: not read`, "snappy or zstd"},
		"lz4.parquet":       {table(t, 100, &parquet.Lz4Raw), `PATH: it cannot be read: column id: compression LZ4_RAW: not read`, "snappy or zstd"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), name)
			require.NoError(t, os.WriteFile(path, c.data, 0o666))
			for _, flags := range [][]string{nil, {"--skip-invalid"}} {
				if strings.HasSuffix(name, ".jsonl.gz") && flags == nil && len(c.data) > 10 {
					continue // a second trace of an id comes before the cut
				}
				var out, problems strings.Builder
				cache := t.TempDir()
				assert.Equal(t, exitFailed, run(append([]string{"convert", "demo", path, "--quiet", "--cache", cache}, flags...), nil, &out, &problems))
				assert.Empty(t, out.String())
				assert.Regexp(t, `^agentx: `+strings.ReplaceAll(c.want, "PATH", regexp.QuoteMeta(path))+`.*\ntry: .*`+c.try, problems.String())
				assert.NotContains(t, problems.String(), "--skip-invalid")
				assert.NoDirExists(t, filepath.Join(cache, "structure"))
			}
		})
	}
}
