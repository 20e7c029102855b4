package hfsource

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/hfsource/hub"
)

func TestFilesAreIdentifiedByContent(t *testing.T) {
	text := []byte("{}\n")
	for suffix, pack := range forms {
		data := pack(t, text)
		sum := sha256.Sum256(data)
		f := resolve(t, Options{}, write(t, "in.jsonl"+suffix, data)).Files[0]
		assert.Equal(t, hex.EncodeToString(sum[:]), f.SHA256)
		assert.Equal(t, int64(len(data)), f.Size)
	}
}

// The content of a file says how its rows are stored, whatever its name. A value on one line is JSON lines by the name .jsonl
// alone, as keys have it.
//
// Covers I-1.
func TestFormatByContent(t *testing.T) {
	const one, pretty = `{"id":"a"}`, "{\n  \"id\": \"a\",\n  \"b\": [\n    1\n  ]\n}\n"
	two := one + "\r\n \n" + one
	table := packed(t, 3)
	for _, name := range []string{"a.jsonl", "a.json", "a.ndjson", "a.jsonlines", "a.JSONL", "a", "a.txt", "a.zst", "a.json.gz", "a.jsonl.zst", "-", "/dev/stdin"} {
		lines := strings.Contains(name, ".jsonl") && name != "a.jsonlines" || name == "-" || name == "/dev/stdin"
		for text, want := range map[string]FileFormat{
			"": {Lines: lines}, one: {Lines: lines}, "\n" + one + "\n": {Lines: lines}, "nonsense\n{}": {Lines: lines}, "{\n": {Lines: lines}, "7\n8\n": {Lines: lines},
			two: {Lines: true}, "\n" + two: {Lines: true}, "[1]\n[2]\n": {Lines: true}, one + "\n" + one[:4]: {Lines: true},
			pretty: {}, "[\n{},\n{}\n]\n": {}, "[{},\n{}]": {}, "{\"a\":1,\r\n\r\n\"b\":2}\r\n": {}, string(table): {Parquet: true},
			strings.Repeat(" ", 3<<20) + one + "\n" + one: {Lines: true}, "{\"a\":\"" + strings.Repeat("x", 3<<20) + "\"}\n" + one: {Lines: true},
		} {
			for suffix, pack := range forms {
				data, want := pack(t, []byte(text)), want
				if want.Parquet && suffix != "" {
					continue // what is compressed is text
				}
				in, o := name, Options{Stdin: bytes.NewReader(data)}
				if name != "-" && name != "/dev/stdin" {
					in = write(t, name, data)
				}
				assert.Equal(t, want, resolve(t, o, in).Files[0].Format, "%s %s %.20q", name, suffix, text)
			}
		}
	}
	for name, want := range map[string]FileFormat{"a.parquet": {Parquet: true}, "a.PARQUET": {}, "a.parquet.zst": {}} {
		assert.Equal(t, want, resolve(t, Options{}, write(t, name, []byte(one))).Files[0].Format, name)
	}
}

// A pipe is read as standard input is: once.
//
// Covers I-4.
func TestPipesAreRead(t *testing.T) {
	path := makePipe(t)
	done := make(chan error, 1)
	go func() { done <- os.WriteFile(path, []byte("{}\n{}\n"), 0o666) }()
	assert.True(t, IsStream(path))
	s := resolve(t, Options{}, path)
	require.NoError(t, <-done)
	want := []got{{path + ":1", "{}"}, {path + ":2", "{}"}}
	assert.Equal(t, want, rows(t, s))
	assert.Equal(t, want, rows(t, s), "it can be read again")
	for in, want := range map[string]bool{"-": true, "/dev/stdin": true, "/dev/fd/63": true, "nowhere": false, t.TempDir(): false, write(t, "a.jsonl", nil): false} {
		assert.Equal(t, want, IsStream(in), in)
	}
}

// The directory of a capture gives its finished traces.
//
// Covers I-3.
func TestCaptureIsAnInput(t *testing.T) {
	for _, beside := range []string{"journal", "notes", "other"} {
		dir := t.TempDir()
		for _, name := range []string{"lock", beside, "traces"} {
			require.NoError(t, os.Mkdir(filepath.Join(dir, name), 0o777))
		}
		_, err := Resolve(t.Context(), []string{dir}, Options{})
		require.Error(t, err)
		var hint *hub.Error
		assert.Equal(t, beside != "other", errors.As(err, &hint))
		if hint != nil {
			assert.Equal(t, "agentx capture finish "+dir, hint.Hint)
		}
		require.NoError(t, os.WriteFile(filepath.Join(dir, "traces", "t.json"), []byte("{}"), 0o666))
		if beside != "other" {
			assert.Equal(t, filepath.Join(dir, "traces", "t.json"), resolve(t, Options{}, dir).Files[0].Path)
		}
	}
}

func TestDirectoriesGiveTheirFilesInOrder(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"10.json", "9.json", "a.json", "A.jsonl", "b.jsonl.zst", "c.json.gz", "README.md", "d.parquet", "d.parquet.zst", "e.JSON", ".f.json", "._a.json", ".#b.jsonl", ".DS_Store", "g.ndjson", "h.JSONLINES.GZ"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(name), 0o666))
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, "deep.json"), 0o777))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "deep.json", "x.json"), nil, 0o666))
	require.NoError(t, os.Symlink("a.json", filepath.Join(dir, "link.json"))) // as the caches of the hub are made of
	require.NoError(t, os.Symlink("nowhere", filepath.Join(dir, "dangling.txt")))
	s := resolve(t, Options{Workers: 3}, dir)
	base := func(list []string) (names []string) {
		for _, path := range list {
			assert.Equal(t, dir, filepath.Dir(path))
			names = append(names, filepath.Base(path))
		}
		return names
	}
	var paths []string
	for _, f := range s.Files {
		paths = append(paths, f.Path)
	}
	assert.Equal(t, []string{"10.json", "9.json", "A.jsonl", "a.json", "b.jsonl.zst", "c.json.gz", "d.parquet", "g.ndjson", "h.JSONLINES.GZ", "link.json"}, base(paths))
	assert.Equal(t, "skipped 9: README.md, d.parquet.zst, dangling.txt, e.JSON (not a trace format), deep.json (a directory: name it as an input), .#b.jsonl, .DS_Store, ._a.json, .f.json (hidden)", DescribeSkipped(s.Skipped))
	assert.Equal(t, s.Files[3].SHA256, s.Files[9].SHA256)
}

// A file with a known suffix that cannot be opened is an error, not skipped.
func TestUnreadableDirectoryEntries(t *testing.T) {
	for name, spoil := range map[string]func(path string) error{
		"dangling.jsonl":  func(path string) error { return os.Symlink("nowhere", path) },
		"loop.json.gz":    func(path string) error { return os.Symlink("loop.json.gz", path) },
		"unread.json.zst": func(path string) error { return os.WriteFile(path, nil, 0) },
	} {
		if name == "unread.json.zst" && os.Getuid() == 0 {
			continue // root may read anything
		}
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "good.json"), nil, 0o666))
		require.NoError(t, spoil(filepath.Join(dir, name)))
		_, err := Resolve(t.Context(), []string{dir}, Options{})
		assert.ErrorContains(t, err, "input "+filepath.Join(dir, name)+": ")
	}
}

func TestInputsThatAreRefused(t *testing.T) {
	empty := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(empty, "sub"), 0o777))
	unread := write(t, "in.json", nil)
	require.NoError(t, os.Chmod(filepath.Dir(unread), 0))
	defer func() { require.NoError(t, os.Chmod(filepath.Dir(unread), 0o777)) }()
	for in, want := range map[string]string{
		"nowhere":                      "input nowhere: there is no such file or directory",
		empty:                          empty + ": the directory has no",
		"hf://datasets/a":              "hf://datasets/a: ",
		"/dev/null":                    "neither a file nor a directory",
		"-":                            "standard input is closed",
		filepath.Join(empty, "x", "y"): "no such file",
	} {
		_, err := Resolve(t.Context(), []string{write(t, "good.json", nil), in}, Options{})
		assert.ErrorContains(t, err, want)
	}
	if os.Getuid() != 0 { // root may read anything
		_, err := Resolve(t.Context(), []string{unread}, Options{})
		assert.ErrorContains(t, err, unread)
	}
}

func TestStandardInputLeavesNoFile(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	tempFiles := func() int {
		entries, err := os.ReadDir(os.TempDir())
		require.NoError(t, err)
		return len(entries)
	}
	s, err := Resolve(t.Context(), []string{"-"}, Options{Stdin: strings.NewReader("a\nb")})
	require.NoError(t, err)
	assert.Zero(t, tempFiles(), "the file has no name: a killed run leaves nothing")
	want := []got{{"-:1", "a"}, {"-:2", "b"}}
	assert.Equal(t, want, rows(t, s))
	assert.Equal(t, want, rows(t, s), "it can be read again")
	sum := sha256.Sum256([]byte("a\nb"))
	assert.Equal(t, hex.EncodeToString(sum[:]), s.Files[0].SHA256)
	require.NoError(t, s.Close())
	require.NoError(t, s.Close(), "once is enough")
	assert.Zero(t, tempFiles())

	for name, inputs := range map[string][]string{"broken": {"-"}, "another input is missing": {"-", "nowhere"}} {
		o := Options{Stdin: strings.NewReader("a")}
		if name == "broken" {
			o.Stdin = errReader{strings.NewReader("a"), errBroken}
		}
		_, err := Resolve(t.Context(), inputs, o)
		assert.Error(t, err, name)
		assert.Zero(t, tempFiles(), name)
	}
}

// Reading standard input ends with the context, even if a read blocks or the input is endless.
func TestStandardInputStopsWithItsContext(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	silent, w := io.Pipe()
	defer w.Close() // ends the read, and with it the goroutine
	reading := readerFunc(func(p []byte) (int, error) {
		cancel()
		return silent.Read(p)
	})
	_, err := Resolve(ctx, []string{"-"}, Options{Stdin: reading})
	assert.ErrorIs(t, err, context.Canceled)

	ctx, cancel = context.WithCancel(t.Context())
	chunks := 0
	endless := readerFunc(func(p []byte) (int, error) {
		if chunks++; chunks == 10 {
			cancel()
		}
		return len(p), nil
	})
	_, err = Resolve(ctx, []string{"-"}, Options{Stdin: endless})
	assert.ErrorIs(t, err, context.Canceled)
	left, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	assert.Empty(t, left)
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestEmbeddedDataUnlessAPathOfThatNameExists(t *testing.T) {
	t.Chdir(t.TempDir())
	o := Options{Embedded: map[string][]byte{"demo": []byte("1\n2\n")}}
	s := resolve(t, o, "demo")
	assert.Equal(t, []got{{"demo:1", "1"}, {"demo:2", "2"}}, rows(t, s))
	assert.Equal(t, int64(4), s.Bytes())
	require.NoError(t, os.WriteFile("demo", []byte("3"), 0o666))
	assert.Equal(t, []got{{"demo", "3"}}, rows(t, resolve(t, o, "demo")))
}

func TestProgressOfHashingAddsUp(t *testing.T) {
	dir := t.TempDir()
	for k := range 20 {
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(k, ".json")), bytes.Repeat([]byte("x"), 1000*k), 0o666))
	}
	for workers := range 4 {
		var done atomic.Int64
		s := resolve(t, Options{Workers: workers, Progress: func(n int64) { done.Add(n) }}, dir)
		assert.Equal(t, s.Bytes(), done.Load())
		assert.Equal(t, int64(190_000), done.Load())
	}
}

func TestResolveStopsWithItsContext(t *testing.T) {
	dir := t.TempDir()
	for k := range 20 {
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(k, ".json")), nil, 0o666))
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Resolve(ctx, []string{dir}, Options{Progress: func(int64) { cancel() }})
	assert.ErrorIs(t, err, context.Canceled)
	_, err = Resolve(ctx, []string{dir, "-"}, Options{Stdin: strings.NewReader("a")})
	assert.ErrorIs(t, err, context.Canceled)
}

// Resolve names the option that it refuses, and its value.
func TestOptionsAreValidated(t *testing.T) {
	require.NoError(t, Options{}.Validate())
	for want, o := range map[string]Options{
		"option Workers: -1":     {Workers: -1},
		`option Version "v\r\n"`: {Hub: hub.Options{Version: "v\r\n"}},
	} {
		_, err := Resolve(t.Context(), nil, o)
		require.ErrorContains(t, err, want)
	}
}
