package hfsource

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLines(t *testing.T) {
	for text, want := range map[string][]got{
		"":                             nil,
		"\n":                           nil,
		"a":                            {{":1", "a"}},
		"a\n":                          {{":1", "a"}},
		"a\n\n \t\r\nb":                {{":1", "a"}, {":4", "b"}},
		"a\r\nb\r\n":                   {{":1", "a\r"}, {":2", "b\r"}}, // white space to JSON
		"\na\n\x00\n\n":                {{":2", "a"}, {":3", "\x00"}},
		strings.Repeat("x", 1<<20):     {{":1", strings.Repeat("x", 1<<20)}},
		strings.Repeat("x\n", 3) + " ": {{":1", "x"}, {":2", "x"}, {":3", "x"}},
	} {
		for suffix, pack := range forms {
			path := write(t, "in.jsonl"+suffix, pack(t, []byte(text)))
			var named []got
			for _, w := range want {
				named = append(named, got{path + w.where, w.text})
			}
			assert.Equal(t, named, rows(t, resolve(t, Options{}, path)), "%.20q%s", text, suffix)
		}
	}
}

func TestWholeFileIsOneRow(t *testing.T) {
	for _, text := range []string{"", "a", "{\n}\n\n", "\n", strings.Repeat("a\n", 1<<20)} {
		for suffix, pack := range forms {
			path := write(t, "in.json"+suffix, pack(t, []byte(text)))
			assert.Equal(t, []got{{path, text}}, rows(t, resolve(t, Options{}, path)))
		}
	}
}

// Rows may be longer than the buffers, and end at or around the end of one.
func TestRowsAcrossBuffers(t *testing.T) {
	for _, around := range []int{1 << 16, 1 << 20, 5 << 20} {
		var text bytes.Buffer
		var want []string
		for k := -2; k <= 2; k++ {
			row := strings.Repeat(string(rune('c'+k)), around+k)
			want = append(want, row, "short")
			text.WriteString(row + "\nshort\n")
		}
		for suffix, pack := range forms {
			list := rows(t, resolve(t, Options{}, write(t, "in.jsonl"+suffix, pack(t, text.Bytes()))))
			require.Len(t, list, len(want))
			for k, w := range want {
				require.True(t, w == list[k].text, "row %d of %d bytes", k, around)
			}
		}
	}
}

// The buffer of a freed row is used again, that of others is not.
func TestRowsAreIndependent(t *testing.T) {
	s := resolve(t, Options{}, write(t, "in.jsonl", []byte("aaaa\nbb\ncccccc\ndd\n")))
	var kept []Row
	var seen []string
	n := 0
	require.NoError(t, s.Rows(t.Context(), nil, nil, func(r Row) error {
		seen = append(seen, string(r.Data))
		if n++; n%2 == 0 {
			r.Free()
			r.Free() // once is enough
			assert.Nil(t, r.Data)
		} else {
			kept = append(kept, r)
		}
		return nil
	}))
	assert.Equal(t, []string{"aaaa", "bb", "cccccc", "dd"}, seen)
	assert.Equal(t, "aaaa", string(kept[0].Data))
	assert.Equal(t, "cccccc", string(kept[1].Data))
}

// noise returns bytes that do not compress, so that damage lies inside data.
func noise(n int) []byte {
	r := rand.New(rand.NewPCG(1, 2))
	var text bytes.Buffer
	for text.Len() < n {
		fmt.Fprintf(&text, "%x\n", r.Uint64())
	}
	return text.Bytes()
}

// A damaged file gives the rows before the damage and one with an error; then the next file follows.
func TestDamageIsARowAndNextFileFollows(t *testing.T) {
	text := noise(300_000)
	for suffix, pack := range forms {
		if suffix == "" {
			continue
		}
		good := pack(t, text)
		flipped := bytes.Clone(good)
		flipped[len(good)/2] ^= 0x10
		for name, bad := range map[string][]byte{
			"cut": good[:len(good)/2], "cut at the start": good[:3], "cut by one": good[:len(good)-1], "flipped": flipped,
			"more behind": append(bytes.Clone(good), "garbage"...),
		} {
			if name == "more behind" && suffix == ".gz" {
				continue // TestEndOfGzip
			}
			for _, kind := range []string{"in.jsonl", "in.json"} {
				after := write(t, "after.jsonl", []byte("fine\n"))
				path := write(t, kind+suffix, bad)
				list := rows(t, resolve(t, Options{}, path, after))
				require.GreaterOrEqual(t, len(list), 2, "%s %s%s", name, kind, suffix)
				assert.Equal(t, got{after + ":1", "fine"}, list[len(list)-1])
				damage := list[len(list)-2]
				assert.Equal(t, "error", damage.text, "%s %s%s", name, kind, suffix)
				want := path
				if kind == "in.jsonl" && len(list) > 2 { // a file of which nothing can be read has no line to name
					want = fmt.Sprintf("%s:%d", path, len(list)-1)
				}
				assert.Equal(t, want, damage.where)
				for k, row := range list[:len(list)-2] { // what came before is what was written
					require.Equal(t, fmt.Sprintf("%s:%d", path, k+1), row.where)
					require.True(t, bytes.HasPrefix(text, []byte(list[0].text)))
				}
			}
		}
	}
}

func TestEmptyCompressedFileIsDamage(t *testing.T) {
	path := write(t, "in.jsonl.gz", nil)
	assert.Equal(t, []got{{path, "error"}}, rows(t, resolve(t, Options{}, path)))
}

func TestManyFramesAreOneText(t *testing.T) {
	for suffix, pack := range forms {
		path := write(t, "in.jsonl"+suffix, append(pack(t, []byte("a\nb")), pack(t, []byte("c\nd\n"))...))
		assert.Equal(t, []got{{path + ":1", "a"}, {path + ":2", "bc"}, {path + ":3", "d"}}, rows(t, resolve(t, Options{}, path)))
	}
}

// A file that changed after it was hashed ends Rows with an error.
func TestChangedFileEndsRows(t *testing.T) {
	text := noise(100_000)
	for suffix, pack := range forms {
		good := pack(t, text)
		other := bytes.Clone(text)
		other[7] ^= 1
		for name, now := range map[string][]byte{
			"other content": pack(t, other), "longer": append(bytes.Clone(good), '\n'), "cut": good[:len(good)-9], "emptied": {},
		} {
			path := write(t, "in.jsonl"+suffix, good)
			s := resolve(t, Options{Unkeyed: name == "longer"}, path, write(t, "after.jsonl", []byte("fine\n")))
			require.Equal(t, name == "longer", s.Files[0].SHA256 == "")
			require.NoError(t, os.WriteFile(path, now, 0o666))
			list, err := collect(t.Context(), s)
			assert.ErrorIs(t, err, ErrChanged, "%s%s", name, suffix)
			assert.ErrorContains(t, err, path)
			for _, row := range list {
				assert.NotEqual(t, "fine", row.text)
				assert.NotEqual(t, "error", row.text)
			}
		}
	}
}

func TestFailedReadEndsRows(t *testing.T) {
	path := write(t, "in.jsonl", []byte("a\n"))
	s := resolve(t, Options{}, path)
	require.NoError(t, os.Remove(path))
	_, err := collect(t.Context(), s)
	assert.ErrorIs(t, err, os.ErrNotExist)

	for suffix, pack := range forms {
		data := pack(t, noise(100_000))
		s := resolve(t, Options{}, write(t, "in.jsonl"+suffix, data))
		s.Files[0].open = func() (io.ReadCloser, error) {
			return io.NopCloser(errReader{bytes.NewReader(data[:len(data)/2]), errBroken}), nil
		}
		list, err := collect(t.Context(), s)
		assert.ErrorIs(t, err, errBroken)
		for _, row := range list {
			assert.NotEqual(t, "error", row.text)
		}
	}
}

func TestCallerErrorEndsRows(t *testing.T) {
	for suffix, pack := range forms {
		s := resolve(t, Options{}, write(t, "in.jsonl"+suffix, pack(t, noise(5_000_000))))
		enough := errors.New("enough")
		n := 0
		err := s.Rows(t.Context(), nil, nil, func(r Row) error {
			r.Free()
			if n++; n == 3 {
				return enough
			}
			return nil
		})
		assert.Equal(t, enough, err)
		assert.Equal(t, 3, n)
	}
}

// The first row is that of Rows, read alone. A file without one that can be read has none, and Rows says why.
func TestFirstRow(t *testing.T) {
	for suffix, pack := range forms {
		long := append([]byte("\n \n"), noise(3_000_000)...)
		for name, want := range map[string]string{
			"in.jsonl" + suffix: "a", "in.json" + suffix: "\na\nb\n",
		} {
			first, err := resolve(t, Options{}, write(t, name, pack(t, []byte("\na\nb\n")))).FirstRow(t.Context(), 0)
			require.NoError(t, err, name)
			assert.Equal(t, want, string(first), name)
		}
		s := resolve(t, Options{}, write(t, "in.jsonl"+suffix, pack(t, long)), write(t, "blank.jsonl"+suffix, pack(t, []byte("\n\n"))))
		first, err := s.FirstRow(t.Context(), 0)
		require.NoError(t, err)
		assert.Equal(t, rows(t, s)[0].text, string(first))
		blank, err := s.FirstRow(t.Context(), 1)
		require.NoError(t, err)
		assert.Nil(t, blank)
		require.NoError(t, os.Remove(s.Files[0].Path))
		_, err = s.FirstRow(t.Context(), 0)
		assert.ErrorIs(t, err, os.ErrNotExist)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = s.FirstRow(ctx, 1)
		assert.ErrorIs(t, err, context.Canceled, suffix)
	}
	damaged := resolve(t, Options{}, write(t, "in.jsonl.gz", []byte("\x1f\x8b\x08")))
	first, err := damaged.FirstRow(t.Context(), 0)
	require.NoError(t, err)
	assert.Nil(t, first)
}

// Small files are read with the buffers of those before them, which a whole file fills.
func TestManySmallFilesShareBuffers(t *testing.T) {
	dir := t.TempDir()
	const files = 200
	for k := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("%03d.jsonl", k)), []byte("a\nb\n"), 0o666))
	}
	s := resolve(t, Options{}, dir)
	allocated := func(f func()) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / files
	}
	const most = 512 << 10 // of each file; the race detector drops a quarter of what is shared
	assert.Less(t, allocated(func() { assert.Len(t, rows(t, s), 2*files) }), uint64(most))
	assert.Less(t, allocated(func() {
		for k := range s.Files {
			several, err := s.HasSeveralRows(t.Context(), k)
			require.NoError(t, err)
			assert.True(t, several)
		}
	}), uint64(most))
}

func TestRowsStopWithTheirContext(t *testing.T) {
	for suffix, pack := range forms {
		s := resolve(t, Options{}, write(t, "in.jsonl"+suffix, pack(t, noise(5_000_000))))
		ctx, cancel := context.WithCancel(t.Context())
		err := s.Rows(ctx, nil, nil, func(r Row) error {
			cancel()
			r.Free()
			return nil
		})
		assert.ErrorIs(t, err, context.Canceled, suffix)
	}
}

func TestProgressOfReadingAddsUp(t *testing.T) {
	var inputs []string
	for suffix, pack := range forms {
		inputs = append(inputs, write(t, "in.jsonl"+suffix, pack(t, noise(100_000))))
	}
	s := resolve(t, Options{}, inputs...)
	var done int64
	require.NoError(t, s.Rows(t.Context(), nil, func(n int64) { done += n }, func(r Row) error {
		r.Free()
		return nil
	}))
	assert.Equal(t, s.Bytes(), done)
}

// The error about an unreadable file names the file, the first row that cannot be read, and what to do.
func TestUnreadableFilesHaveHints(t *testing.T) {
	text := noise(300_000)
	cut := gz(t, text)
	cut = cut[:len(cut)/2]
	for name, c := range map[string]struct {
		file, want, try string
		data            []byte
	}{
		"cut":          {"in.jsonl.gz", `^PATH: from line [0-9]+ on it cannot be read: unexpected EOF$`, "fetch or copy the file again", cut},
		"cut value":    {"in.json.gz", `^PATH: it cannot be read: unexpected EOF$`, "fetch or copy the file again", cut},
		"wide window":  {"in.jsonl.zst", `^PATH: it cannot be read: window size exceeded$`, "zstd --long=27", []byte{0x28, 0xb5, 0x2f, 0xfd, 0, 0xa0, 1, 0, 0}},
		"encrypted":    {"in.parquet", `^PATH: it cannot be read: it is encrypted: not read$`, "without encryption", []byte("PARExxxxxxxx\x04\x00\x00\x00PARE")},
		"signed":       {"in.parquet", `^PATH: it cannot be read: it is encrypted: not read$`, "without encryption", signed(packed(t, 20))},
		"no Parquet":   {"in.parquet", `^PATH: it cannot be read: not Parquet, `, "fetch or copy the file again", []byte("{}\n{}\n{}\n{}\n")},
		"compression":  {"in.parquet", `^PATH: it cannot be read: column n: compression LZ4: not read$`, "snappy, zstd", lz4(packed(t, 20, parquet.Compression(&parquet.Lz4Raw)))},
		"damaged rows": {"in.parquet", `^PATH: from row [0-9]+ on it cannot be read: column `, "fetch or copy the file again", flip(packed(t, 20))},
	} {
		path := write(t, c.file, c.data)
		var last error
		n := 0
		require.NoError(t, resolve(t, Options{}, path).Rows(t.Context(), nil, nil, func(r Row) error {
			defer r.Free()
			require.NoError(t, last, "%s: a row behind it", name)
			n, last = n+1, r.Err
			return nil
		}), name)
		var unreadable *UnreadableError
		require.ErrorAs(t, last, &unreadable, name)
		assert.Regexp(t, strings.ReplaceAll(c.want, "PATH", regexp.QuoteMeta(path)), last.Error(), name)
		assert.Contains(t, unreadable.Hint(), c.try, name)
		if unreadable.From > 0 {
			assert.Equal(t, n, unreadable.From, name)
		}
		unreadable.fromHub = true
		if strings.HasPrefix(c.try, "fetch") {
			assert.Contains(t, unreadable.Hint(), "another revision", name)
		}
	}
}

// A row longer than maxRow is an error with a hint.
func TestLongRows(t *testing.T) {
	f := &File{Path: "in"}
	for unit, want := range map[string]string{"line": "a newline that is missing", "": "as JSON lines"} {
		row := f.unreadable(0, 1, unit, errLongRow)
		assert.Contains(t, row.Err.(*UnreadableError).Hint(), want)
	}
	r := newRowReader(strings.NewReader("{}\n"), &rowMemory{}, true)
	r.at, r.to = &slab{make([]byte, maxRow+readStep), 1, &rowMemory{}}, maxRow
	row, err := r.next(nil)
	assert.Equal(t, errLongRow, err)
	assert.Len(t, row, maxRow)
}

// lz4 changes the footer of a file with LZ4_RAW to LZ4, which libraries no longer write.
func lz4(data []byte) []byte {
	return bytes.Replace(data, []byte("\x01n\x15\x0e"), []byte("\x01n\x15\x0a"), 1)
}

// signed returns a file with a plain, signed footer that says that columns are encrypted.
func signed(data []byte) []byte {
	end := len(data) - 8
	begin := end - int(binary.LittleEndian.Uint32(data[end:]))
	footer := append(bytes.Clone(data[begin:end-1]), 0x0c, 8<<1, 0x1c, 0, 0, 0) // field 8 is AES_GCM_V1
	footer = append(footer, make([]byte, 28)...)
	data = append(bytes.Clone(data[:begin]), footer...)
	return append(binary.LittleEndian.AppendUint32(data, uint32(len(footer))), "PAR1"...)
}

// flip changes a bit in the middle.
func flip(data []byte) []byte {
	data[len(data)/2] ^= 4
	return data
}
