package hfsource

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// read returns the rows of a file, and the error about the rest of it, if any.
func read(t *testing.T, name string, data []byte) (list []string, bad *UnreadableError) {
	s := resolve(t, Options{}, write(t, name, data))
	if name == "-" {
		s = resolve(t, Options{Stdin: bytes.NewReader(data)}, name)
	}
	require.NoError(t, s.Rows(t.Context(), nil, nil, func(r Row) error {
		defer r.Free()
		require.Nil(t, bad, "a row behind the error")
		if r.Err != nil {
			require.ErrorAs(t, r.Err, &bad)
		} else {
			list = append(list, string(r.Data))
		}
		return nil
	}))
	return list, bad
}

// The last line of a truncated text is not a row, at whatever byte and with whatever compression it was truncated.
func TestCutOffTextIsNoRow(t *testing.T) {
	const first, second = `{"id":"a","r":[{"t":0.5e1,"s":"x\n{é","u":[1,-2,true,null]}]}`, `{"id":"b","r":[{"t":1.5,"s":"\"]}\\","u":[]},{}]}`
	for suffix, pack := range forms {
		for n := range len(second) + 1 {
			list, bad := read(t, "in.jsonl"+suffix, pack(t, []byte(first+"\n\n"+second[:n])))
			if n == 0 || n == len(second) {
				require.Nil(t, bad, n)
				require.Len(t, list, 1+n/len(second))
				continue
			}
			require.NotNil(t, bad, second[:n])
			require.Equal(t, []string{first}, list)
			require.Equal(t, 3, bad.From)
			require.ErrorContains(t, bad, "from line 3 on it cannot be read: cut off")
			require.Contains(t, bad.Hint(), "fetch or copy the file again; head -n 2 keeps")
		}
	}
	for text, rows := range map[string]int{
		second[:9] + "\n": 1, "7": 1, "12.5": 1, `"x"`: 1, "nonsense": 1, second + " \t": 1, second + "}": 1, `{"a":1,}`: 1, // bad as they may be, not cut off
		second[:9]: 0, "tru": 0, `"x`: 0, "  [": 0,
	} {
		list, bad := read(t, "in.jsonl", []byte(text))
		assert.Len(t, list, rows, text)
		assert.Equal(t, rows == 0, bad != nil, text)
	}
	list, bad := read(t, "-", []byte(first+"\n"+second[:20]))
	assert.Equal(t, []string{first}, list)
	assert.Equal(t, 2, bad.From)
}

// A crash of the system can leave zeros at the end of a file that was being written.
func TestTextEndsInZeros(t *testing.T) {
	zeros := strings.Repeat("\x00", 5000)
	for _, text := range []string{`{}` + "\n" + zeros, `{}` + "\n" + `{"a":1}` + zeros, `{}` + "\n" + `{"a":` + zeros, `{}` + "\n\n \x00"} {
		list, bad := read(t, "in.jsonl", []byte(text))
		assert.Equal(t, []string{"{}"}, list)
		require.NotNil(t, bad)
		assert.ErrorContains(t, bad, "on it cannot be read: cut off: it ends in bytes of zero")
	}
	list, bad := read(t, "in.json", []byte(`{"a":1}`+zeros))
	assert.Empty(t, list)
	assert.ErrorIs(t, bad, errZeros)
	list, bad = read(t, "in.jsonl", []byte("\x00\n{}")) // a line among others
	assert.Equal(t, []string{"\x00", "{}"}, list)
	assert.Nil(t, bad)
}

// Compression and Parquet are told by the content: the name is no matter.
func TestContentDecides(t *testing.T) {
	text := []byte("{}\n{}\n")
	skipped := append([]byte{0x5e, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 'x', 'y'}, zst(t, text)...)
	for _, name := range []string{"in.jsonl", "in.json", "in.jsonl.gz", "in.jsonl.zst", "in.gz", "in.txt", "in", "-"} {
		for _, data := range [][]byte{text, zst(t, text), gz(t, text), skipped} {
			list, bad := read(t, name, data)
			assert.Equal(t, []string{"{}", "{}"}, list, name)
			assert.Nil(t, bad)
		}
		s := resolve(t, Options{Stdin: bytes.NewReader(packed(t, 20))}, map[bool]string{true: "-", false: write(t, name, packed(t, 20))}[name == "-"])
		n := 0
		require.NoError(t, s.Rows(t.Context(), nil, nil, func(r Row) error {
			assert.NotNil(t, r.Columns)
			n++
			r.Free()
			return nil
		}))
		assert.Equal(t, 20, n, name)
	}
}

// Content that is not read is one error that names it, not an error per line.
func TestContentThatIsNotRead(t *testing.T) {
	text := []byte("{}\n{}\n")
	utf16 := []byte("\xff\xfe{\x00}\x00\n\x00{\x00}\x00\n\x00")
	for _, c := range []struct {
		name      string
		data      []byte
		want, try string
	}{
		{"in.jsonl.gz", gz(t, zst(t, text)), "what is compressed in it is zstd, not text", "unpack it once, to a name that ends in .zst"},
		{"in.parquet.zst", zst(t, packed(t, 20)), "what is compressed in it is Parquet, not text", "unpack it once, to a name that ends in .parquet"},
		{"in.jsonl", utf16, "it is text in UTF-16, or UTF-32, not UTF-8", "iconv"},
		{"in.json", []byte("\xfe\xff\x00{\x00}"), "it is text in UTF-16, or UTF-32, not UTF-8", "iconv"},
		{"in.jsonl.gz", gz(t, utf16), "it is text in UTF-16, or UTF-32, not UTF-8", "iconv"},
		{"-", utf16, "it is text in UTF-16", "iconv"},
		{"in.jsonl", []byte("\ufeff{}\n{}\n"), "it begins with a byte-order mark", "tail -c +4"},
		{"in.json.zst", zst(t, []byte("\ufeff{}")), "it begins with a byte-order mark", "tail -c +4"},
		{"-", []byte("\ufeff{}\n{}\n"), "it begins with a byte-order mark", "tail -c +4"},
		{"in.jsonl.zst", []byte("\x28\xb5\x2f\xfd\x23\x07\x00\x00\x00\x01\x00\x00"), "it was compressed with a dictionary of zstd, which is not in it", "zstd -d -D DICTIONARY "},
	} {
		t.Run(fmt.Sprint(c.name, " ", c.want), func(t *testing.T) {
			list, bad := read(t, c.name, c.data)
			assert.Empty(t, list)
			require.NotNil(t, bad)
			assert.Less(t, bad.From, 2)
			assert.Regexp(t, "(^|/)"+regexp.QuoteMeta(c.name)+": .*it cannot be read: "+c.want, bad.Error())
			assert.Contains(t, bad.Hint(), c.try)
			bad.fromHub = true
			assert.Regexp(t, "^(copy it out of the hub's cache, and there )?.*"+regexp.QuoteMeta(c.try), bad.Hint())
		})
	}
	// A first line that is damaged is a row.
	for _, text := range []string{"{\"a\":1,\"b\n{\"a\":1}\n", "{\"a\":[1,2\n{\"a\":1}\n", "{\n", "[[[\n{}x\n", "PAR\n{}\n", "\x1f\n{}\n"} {
		list, bad := read(t, "in.jsonl", []byte(text))
		assert.Nil(t, bad, text)
		assert.Len(t, list, strings.Count(text, "\n"), text)
	}
}

// What stands behind the last member of a gzip file is left out, as gzip(1) does, and noted unless it is zeros. Members may follow
// each other.
//
// Covers I-2.
func TestEndOfGzip(t *testing.T) {
	text := []byte("{}\n{}\n")
	two := append(gz(t, text[:3]), gz(t, text[3:])...)
	for tail, garbage := range map[string]bool{"": false, "\x00": false, strings.Repeat("\x00", 100_000): false, "garbage": true, "\x00\x00x": true, "\x1f": true} {
		s := resolve(t, Options{}, write(t, "in.jsonl.gz", append(bytes.Clone(two), tail...)))
		assert.Len(t, rows(t, s), 2, "%.10q", tail)
		assert.Equal(t, garbage, s.Files[0].HasGarbage(), "%.10q", tail)
	}
	for _, tail := range []string{"\x1f\x8b", string(two[:len(two)-9]), "\x1f\x8b\x09"} { // a member that is damaged
		_, bad := read(t, "in.jsonl.gz", append(bytes.Clone(two), tail...))
		require.NotNil(t, bad, "%q", tail)
	}
}

// A file belongs to the hub by its origin: a path on disk may look like a reference.
func TestFromHub(t *testing.T) {
	assert.False(t, (&File{Path: "hf://datasets/o/n/x.parquet"}).FromHub())
	assert.True(t, (&File{changedErr: &mismatchError{}}).FromHub())
}

// Formats that are never read are named, whatever the name of the file says, also in compressed files.
func TestForeignFormats(t *testing.T) {
	var tarred, zipped bytes.Buffer
	w := tar.NewWriter(&tarred)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: "a.jsonl", Size: 0}))
	require.NoError(t, w.Close())
	z := zip.NewWriter(&zipped)
	_, err := z.Create("a.jsonl")
	require.NoError(t, err)
	require.NoError(t, z.Close())
	pointer := []byte("version https://git-lfs.github.com/spec/v1\noid sha256:aa\nsize 5\n")
	page := []byte("\n<!DOCTYPE html>\n<html></html>\n")
	for _, c := range []struct {
		name, what, try string
		data            []byte
	}{
		{"a.jsonl", "it is a pointer of Git LFS", "git lfs pull", pointer},
		{"a.jsonl.zst", "it is a pointer of Git LFS", "git lfs pull", pointer},
		{"a.json.gz", "it is a pointer of Git LFS", "git lfs pull", pointer},
		{"a.parquet", "it is a pointer of Git LFS", "git lfs pull", pointer},
		{"a.jsonl", "it is a page of HTML or XML", "/resolve/", page},
		{"a.parquet", "it is a page of HTML or XML", "/resolve/", page},
		{"a.json", "it is a page of HTML or XML", "/resolve/", []byte("<?xml version='1.0'?><Error/>")},
		{"a.tar", "it is a tar archive", "tar -xf ", tarred.Bytes()},
		{"a.jsonl", "it is a tar archive", "tar -xf ", tarred.Bytes()},
		{"a.parquet", "it is a tar archive", "tar -xf ", tarred.Bytes()},
		{"a.tar.gz", "it is a tar archive", "tar -xf ", gz(t, tarred.Bytes())},
		{"a.tgz", "it is a tar archive", "tar -xf ", gz(t, tarred.Bytes())},
		{"a.tar.zst", "it is a tar archive", "tar -xf ", zst(t, tarred.Bytes())},
		{"a.jsonl", "it is a tar archive", "tar -xf ", zst(t, tarred.Bytes())},
		{"a.jsonl.gz", "it is a tar archive", "tar -xf ", gz(t, tarred.Bytes())},
		{"a.zip", "it is a zip archive", "unzip ", zipped.Bytes()},
		{"a.jsonl", "it is a zip archive", "unzip ", zipped.Bytes()},
		{"a.json.gz", "it is empty", "copy it again", nil},
		{"a.jsonl.gz", "it is empty", "copy it again", nil},
		{"a.parquet", "it is empty", "copy it again", nil},
	} {
		list, bad := read(t, c.name, c.data)
		require.Empty(t, list, c.name)
		require.NotNil(t, bad, c.name)
		assert.ErrorContains(t, bad, c.name+": it cannot be read: "+c.what, c.name)
		assert.Contains(t, bad.Hint(), c.try, c.name)
	}
	for name, rows := range map[string]int{"a.jsonl": 0, "a.jsonl.zst": 0, "a.json": 1} { // an empty value is for the caller
		list, bad := read(t, name, nil)
		assert.Len(t, list, rows)
		assert.Nil(t, bad)
	}
}

// Ten entries are named, by their paths if they are in several directories.
func TestSkippedEntries(t *testing.T) {
	var list []SkippedEntry
	for k := range 12 {
		list = append(list, SkippedEntry{fmt.Sprintf("d/%d", k), notATrace})
	}
	assert.Equal(t, "skipped 12: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 (not a trace format), and 2 more", DescribeSkipped(list))
	assert.Equal(t, "skipped 3: 0 (not a trace format), e/pipe (not a file), e/f (a directory: name it as an input)",
		DescribeSkipped([]SkippedEntry{list[0], {"e/f", aDirectory}, {"e/pipe", notAFile}}))
}
