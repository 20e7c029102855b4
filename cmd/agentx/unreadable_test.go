package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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

// table writes n rows as Parquet that are no traces.
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

// A file that cannot be read is an error also with --skip-invalid: which traces it holds is unknown.
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
		"cut.jsonl":         {demo.JSONL()[:len(demo.JSONL())/2], `PATH: from line [0-9]+ on it cannot be read: cut off: the last line ends inside a JSON value`, "fetch or copy the file again; head -n [0-9]+ keeps its whole lines"},
		"zeros.jsonl":       {append(bytes.Clone(demo.JSONL()), make([]byte, 4096)...), `PATH: from line [0-9]+ on it cannot be read: cut off: it ends in bytes of zero`, "fetch or copy the file again"},
		"mark.jsonl":        {append([]byte("\ufeff"), demo.JSONL()...), `PATH: it cannot be read: it begins with a byte-order mark`, "tail -c"},
		"cut.parquet":       {whole[:len(whole)/2], `PATH: it cannot be read: not Parquet, or cut off: `, "fetch or copy the file again"},
		"encrypted.parquet": {[]byte("PARExxxxxxxx\x04\x00\x00\x00PARE"), `PATH: it cannot be read: it is encrypted: not read`, "without encryption"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), name)
			require.NoError(t, os.WriteFile(path, c.data, 0o666))
			for _, flags := range [][]string{nil, {"--skip-invalid"}} {
				if strings.HasSuffix(name, ".jsonl.gz") && flags == nil && len(c.data) > 10 {
					continue // a second trace of an id comes before the cut
				}
				inputs := []string{"demo", path}
				if (name == "cut.jsonl" || name == "zeros.jsonl") && flags == nil {
					inputs = inputs[1:] // the same
				}
				var out, problems strings.Builder
				cache := warmRoot(t)
				assert.Equal(t, exitFailed, run(slices.Concat([]string{"convert", "--quiet", "--cache", cache}, inputs, flags), nil, &out, &problems))
				assert.Empty(t, out.String())
				assert.Regexp(t, `^agentx: `+strings.ReplaceAll(c.want, "PATH", regexp.QuoteMeta(path))+`.*\ntry: .*`+c.try, problems.String())
				assert.NotContains(t, problems.String(), "--skip-invalid")
				assert.NoDirExists(t, filepath.Join(cache, "dataset"))
			}
		})
	}
}

// For a fault of every trace in a file the hint is not --skip-invalid, and says what to do in its place.
func TestFilesOfAnotherFormatGetHints(t *testing.T) {
	type timed struct {
		ID        string   `parquet:"id"`
		Models    []string `parquet:"models,list"`
		BlockSize string   `parquet:"block_size"`
		Requests  []struct {
			T int64 `parquet:"t"`
		} `parquet:"requests,list"`
	}
	type mooncake struct {
		Timestamp int64   `parquet:"timestamp"`
		Input     int64   `parquet:"input_length"`
		Output    int64   `parquet:"output_length"`
		HashIDs   []int64 `parquet:"hash_ids,list"`
	}
	nulls := strings.Replace(string(demo.JSONL()), `"requests":[`, `"tool_tokens":null,"requests":[`, -1)
	require.NotEqual(t, string(demo.JSONL()), nulls)
	warm := warmRoot(t)
	for name, c := range map[string]struct {
		data      []byte
		want, try string
	}{
		"types.parquet":    {written(t, timed{ID: "a", Models: []string{"m"}, BlockSize: "64"}), `block_size: want number, found BYTE_ARRAY`, "write the column block_size again as plain numbers"},
		"mooncake.parquet": {written(t, mooncake{1, 2, 3, []int64{4}}), `these look like Mooncake rows`, "write the rows as JSON lines"},
		"table.parquet":    {table(t, 3, &parquet.Snappy), `"models" is missing`, "another file: a trace has"},
		"array.json":       {[]byte("[{},{}]"), `want object, found \[`, "write each trace on a line of its own"},
		"chats.jsonl":      {[]byte("{\"messages\":[]}\n"), `this is a row of a chat dataset`, "agentx capture, which records"},
		"nulls.jsonl":      {[]byte(nulls), `tool_tokens: want number, found null`, "--profile default, which takes null"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), name)
			require.NoError(t, os.WriteFile(path, c.data, 0o666))
			for _, flags := range [][]string{nil, {"--skip-invalid"}} {
				if name == "nulls.jsonl" {
					flags = append(flags, "--set", "unknown_keys=reject") // else null is a field left out
				}
				var out, problems strings.Builder
				assert.Equal(t, exitFailed, run(append([]string{"convert", path, "--quiet", "--cache", warm}, flags...), nil, &out, &problems))
				assert.Regexp(t, `^agentx: .*`+regexp.QuoteMeta(path)+`.*`+c.want+`.*\ntry: `+c.try, problems.String())
				assert.NotContains(t, problems.String(), "--skip-invalid")
			}
		})
	}
}

// written returns one row as Parquet.
func written[T any](t *testing.T, row T) []byte {
	var out bytes.Buffer
	w := parquet.NewGenericWriter[T](&out)
	_, err := w.Write([]T{row})
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.Bytes()
}
