package main

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/demo"
)

// inUTF16 returns a text in UTF-16, little-endian.
func inUTF16(text string, mark bool) []byte {
	var out []byte
	if mark {
		out = append(out, 0xff, 0xfe)
	}
	for _, u := range utf16.Encode([]rune(text)) {
		out = binary.LittleEndian.AppendUint16(out, u)
	}
	return out
}

// foreignFiles are invented files of other programs, one or more of each kind that is known, with the beginning of the answer
// behind the name of the file, and of the way out.
var foreignFiles = []struct {
	name, data, want, try string
}{
	{"a.jsonl.xz", "\xfd7zXZ\x00\x00\x04\xe6", "it cannot be read: it is compressed with xz", "unpack it .*xz -d .*a.jsonl.xz"},
	{"a.jsonl", "BZh91AY&SY\x00\x00", "it cannot be read: it is compressed with bzip2", "unpack it .*bzip2 -d "},
	{"a.jsonl.lz4", "\x04\x22\x4d\x18d@", "it cannot be read: it is compressed with lz4", "unpack it .*lz4 -d "},
	{"a.7z", "7z\xbc\xaf\x27\x1c\x00\x04", "it cannot be read: it is a 7z archive", "unpack it, .*7z x .*a.7z"},
	{"a.zip", "PK\x03\x04\x14\x00", "it cannot be read: it is a zip archive", "unpack it, .*unzip "},
	{"dictionary", "\x37\xa4\x30\xec\x01\x00", "it cannot be read: it is a dictionary of zstd", "the files that were compressed with it"},
	{"a.arrow", "ARROW1\x00\x00\xff\xff\xff\xff", "it cannot be read: it is an Arrow file", "write it as Parquet"},
	{"a.arrows", "\xff\xff\xff\xff\x10\x00\x00\x00", "it cannot be read: it is an Arrow file", "write it as Parquet"},
	{"a.pkl", "\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00]", "it cannot be read: it is a pickle of Python", "write it as JSON lines, in the program"},
	{"a.jsonl", string(inUTF16(`{"id":"a"}`, true)), "it cannot be read: it is text in UTF-16", "convert it to UTF-8: iconv"},
	{"a.json", string(inUTF16(`{"id":"a"}`, false)), "it cannot be read: it is text in UTF-16", "convert it to UTF-8: iconv"},
	{"a.jsonl", "version https://git-lfs.github.com/spec/v1\noid sha256:aa\nsize 5\n", "it cannot be read: it is a pointer of Git LFS", "git lfs pull"},
	{"a.jsonl", "<!DOCTYPE html><html></html>", "it cannot be read: it is a page of HTML", "download the file again"},
	{"a.jsonl", "a,b\n1,2\n", "it cannot be read: it is CSV", "another file: this one says neither"},
	{"a.tsv", "prompt\tcompletion\nx\ty\n", "it cannot be read: it is CSV", "another file: this one says neither"},
	{"quoted.csv", "\"a\",\"b c\"\r\n1,2\r\n", "it cannot be read: it is CSV", "another file: this one says neither"},

	{"rows.jsonl", `{"request_id":"r0","play_id":"p","session_id":"r0","model":"m","input_length":64,"output_length":2,"hash_ids":[0],"not_before_ms":0,"dependencies":[]}`, "rows of version 2 without their header", "the whole file: its first row has schema and block_size"},
	{"lengths.jsonl", `{"timestamp":0,"input_length":5,"output_length":1}`, "this is a Mooncake row without hash_ids", "a file whose rows have hash_ids"},

	{"profile_export.jsonl", `{"metadata":{"session_num":0},"metrics":{"request_latency":{"value":1,"unit":"ms"}},"error":null}`, "this is a record of a run of AIPerf", "agentx report DIR --compare"},
	{"profile_export_aiperf.json", `{"schema_version":"1.1","aiperf_version":"0.13.0","input_config":{},"request_throughput":{"avg":1}}`, "this is a record of a run of AIPerf", "agentx report DIR --compare"},
	{"D100_100_text-to-text_num_concurrency_1_time_10s.json", `{"aggregated_metrics":{"scenario":"D(100,100)"},"individual_request_metrics":[]}`, "this is a result of genai-bench", "the traces that this benchmark sent"},
	{"benchmarks.json", `{"metadata":{"version":1},"args":{},"benchmarks":[]}`, "this is a result of GuideLLM", "the traces that this benchmark sent"},
	{"genai-perf.json", `{"version":"0.1","service_kind":"openai","experiments":[]}`, "this is a result of genai-perf", "the traces that this benchmark sent"},

	{"a.traj", `{"environment":"swe_main","trajectory":[{"action":"ls"}],"history":[],"info":{}}`, "this is a trajectory of SWE-agent", "agentx capture, "},
	{"mini.traj.json", `{"info":{},"messages":[],"trajectory_format":"mini-swe-agent-1"}`, "this is a trajectory of SWE-agent", "agentx capture, "},
	{"batch_output.jsonl", `{"id":"b","custom_id":"request-1","response":{"status_code":200},"error":null}`, "this is answers to a batch of OpenAI's API", "the file of its requests"},
	{"capture.jsonl", `{"captureData":{"endpointInput":{"data":"{}","encoding":"JSON"}},"eventMetadata":{"eventId":"1","inferenceTime":"2026-01-02T15:00:00Z"},"eventVersion":"0"}`, "this is a capture of SageMaker", "the bodies of its requests"},
	{"baseten.jsonl", `{"prompt":"hi","timestamp_start_unix_ms":1767366000000,"session_id":"a","output_tokens":5}`, "this is a trace of Baseten", "its columns as JSON lines"},
	{"tracelab.jsonl", `{"session_id":"p:1","round_index":0,"provider":"p","input_tokens_total":10,"prefix_tokens":4,"newly_append_tokens":6,"timing_events":[],"tools":[]}`, "this is a row of TraceLab", "another file: agentx fetch"},
}

// Of files of Dynamo in which a row cannot be read, the error says what to do; --skip-invalid leaves the row out.
func TestRowsOfDynamoAreNamed(t *testing.T) {
	for _, f := range []struct{ name, data, want, try string }{
		{"header.jsonl", `{"schema":"dynamo.agentic_mooncake","version":3,"block_size":64,"hash_id_scope":"local","source":{"format":"x"}}`, "schema: want dynamo.agentic_mooncake, version 2", ""},
		{"later.jsonl", `{"request_id":"r0","input_length":64,"output_length":2,"hash_ids":[0],"timestamp":0}` + "\n" + `{"request_id":"r1","input_length":64,"output_length":2,"hash_ids":[0],"wait_for":["r0"]}`, "wait_for: this is agentic_mooncake of Dynamo, in a file whose first row is a plain Mooncake row", `the file with "wait_for":[] in its first row`},
	} {
		path := filepath.Join(t.TempDir(), f.name)
		require.NoError(t, os.WriteFile(path, []byte(f.data+"\n"), 0o666))
		var problems strings.Builder
		assert.Equal(t, exitFailed, run([]string{"convert", path, "--quiet", "--cache", t.TempDir()}, nil, &problems, &problems), f.name)
		assert.Contains(t, problems.String(), f.want)
		assert.Contains(t, problems.String(), f.try)
	}
}

// A file of another program is called by its name, and the way out is said. None of them is hinted at --skip-invalid, which would
// leave out all that it has.
//
// Covers I-5.
func TestFilesOfOtherProgramsAreNamed(t *testing.T) {
	cache := warmRoot(t)
	for _, f := range foreignFiles {
		for _, again := range []int{1, 3} {
			if again > 1 && (strings.ContainsAny(f.name, "[") || !strings.HasSuffix(f.name, ".jsonl") || !strings.HasPrefix(f.data, "{")) {
				continue // not rows
			}
			path := filepath.Join(t.TempDir(), f.name)
			require.NoError(t, os.WriteFile(path, []byte(strings.Repeat(f.data+"\n", again)), 0o666))
			for _, flags := range [][]string{nil, {"--skip-invalid"}, {"--profile", "aiperf"}} {
				var out, problems strings.Builder
				assert.Equal(t, exitFailed, run(slices.Concat([]string{"convert", path, "--quiet", "--cache", cache}, flags), nil, &out, &problems), f.name)
				text := regexp.MustCompile(`(?m)^agentx: warning: .*\n`).ReplaceAllString(problems.String(), "")
				assert.Regexp(t, `^agentx: .*`+regexp.QuoteMeta(path)+`(:1)?: .*`+f.want+`.*\ntry: `+f.try, text, "%s %v", f.name, flags)
				assert.NotContains(t, text, "--skip-invalid")
				if testing.Verbose() && flags == nil && again == 1 {
					line, _, _ := strings.Cut(text, "\n")
					t.Log(f.name + ": " + strings.ReplaceAll(line, path, f.name))
				}
			}
		}
	}
}

// The content of an input decides: names are no matter, and neither is compression.
//
// Covers I-1, I-2.
func TestNamesOfInputsAreNoMatter(t *testing.T) {
	w, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	packed := w.EncodeAll(demo.JSONL(), nil)
	var want string
	cache, blank := warmRoot(t), ""
	for _, name := range []string{"a.jsonl", "a.ndjson", "a.jsonlines", "a.JSONL", "a.json", "a", "a.txt", "a.jsonl.gz"} {
		blank += "\n" // no file is found prepared
		for _, data := range [][]byte{append(demo.JSONL(), blank...), w.EncodeAll(append(demo.JSONL(), blank...), nil)} {
			path := filepath.Join(t.TempDir(), name)
			require.NoError(t, os.WriteFile(path, data, 0o666))
			var out, problems strings.Builder
			require.Equal(t, 0, run([]string{"inspect", path, "--quiet", "--digest", "--cache", cache}, nil, &out, &problems), problems.String())
			if want == "" {
				want = out.String()
			}
			assert.Equal(t, want, out.String(), name)
		}
	}
	rows := table(t, 0, &parquet.Snappy)
	path := filepath.Join(t.TempDir(), "rows")
	require.NoError(t, os.WriteFile(path, rows, 0o666))
	var out, problems strings.Builder
	assert.Equal(t, exitFailed, run([]string{"convert", path, "--quiet", "--cache", t.TempDir()}, nil, &out, &problems))
	assert.Equal(t, "agentx: no trace in "+path+": Parquet without rows: check the program that writes it\n", problems.String())
	out.Reset()
	require.Equal(t, 0, run([]string{"inspect", "-", "--quiet", "--digest", "--cache", cache}, bytes.NewReader(packed), &out, &problems), problems.String())
	assert.Equal(t, want, out.String())
}

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
