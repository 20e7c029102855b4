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
		s = &Snapshot{}
		require.NoError(t, s.addStdin(t.Context(), strings.NewReader(string(data))))
		defer s.Close()
		require.NoError(t, s.hash(t.Context(), Options{}.withDefaults()))
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

// Content of another format than the name says is one error that names the format, not an error per line.
func TestContentContradictsName(t *testing.T) {
	text := []byte("{}\n{}\n")
	utf16 := []byte("\xff\xfe{\x00}\x00\n\x00{\x00}\x00\n\x00")
	table := packed(t, 20)
	for _, c := range []struct {
		name      string
		data      []byte
		want, try string
	}{
		{"in.jsonl", table, "its content is Parquet, not what its name says", "rename it to in.parquet"},
		{"in.jsonl.zst", table, "its content is Parquet, not what its name says", "rename it to in.parquet"},
		{"in.jsonl", zst(t, text), "its content is zstd, not what its name says", "rename it to in.jsonl.zst"},
		{"in.json", gz(t, text), "its content is gzip, not what its name says", "rename it to in.json.gz"},
		{"in.jsonl.gz", zst(t, text), "its content is zstd, not what its name says", "rename it to in.jsonl.zst"},
		{"in.jsonl.zst", gz(t, text), "its content is gzip, not what its name says", "rename it to in.jsonl.gz"},
		{"in.jsonl.gz", gz(t, zst(t, text)), "what is compressed in it is zstd, not text", "unpack it once, to a name that ends in .zst"},
		{"in", zst(t, text), "its content is zstd, not what its name says", "rename it to in.jsonl.zst"},
		{"in.bin", table, "its content is Parquet, not what its name says", "rename it to in.bin.parquet"},
		{"-", zst(t, text), "its content is zstd, not what its name says", "unpack it before"},
		{"-", table, "its content is Parquet, not what its name says", "a file whose name ends in .parquet"},
		{"in.jsonl", utf16, "its content is text in UTF-16, or UTF-32, not UTF-8", "iconv"},
		{"in.json", []byte("\xfe\xff\x00{\x00}"), "its content is text in UTF-16, not UTF-8", "iconv"},
		{"in.jsonl.gz", gz(t, utf16), "its content is text in UTF-16, or UTF-32, not UTF-8", "iconv"},
		{"-", utf16, "its content is text in UTF-16", "iconv"},
		{"in.jsonl", []byte("\ufeff{}\n{}\n"), "it begins with a byte-order mark", "tail -c +4"},
		{"in.json.zst", zst(t, []byte("\ufeff{}")), "it begins with a byte-order mark", "tail -c +4"},
		{"-", []byte("\ufeff{}\n{}\n"), "it begins with a byte-order mark", "tail -c +4"},

		{"in.jsonl", []byte("{\n  \"id\": \"a\",\n  \"b\": [\n    1\n  ]\n}\n"), "it has a JSON value on many lines, not one per line", "rename it to in.json;"},
		{"in.jsonl.zst", zst(t, []byte("{\n}\n{\n}\n")), "it has a JSON value on many lines", "rename it to in.json.zst; else write each on a line: jq -c ."},
		{"in.jsonl", []byte("\n[\n{},\n{}\n]\n"), "it has a JSON value on many lines", "jq -c '.[]'"},
		{"in.jsonl", []byte("[{},\n{}]\n"), "it has a JSON value on many lines", "jq -c '.[]'"},
		{"in.jsonl", []byte("{\"a\":1,\r\n\r\n\"b\":2}\r\n"), "it has a JSON value on many lines", "rename it"},
		{"-", []byte("{\n  \"id\": \"a\"\n}\n"), "it has a JSON value on many lines", "write each value on a line: jq -c ."},
	} {
		t.Run(fmt.Sprint(c.name, " ", c.want), func(t *testing.T) {
			list, bad := read(t, c.name, c.data)
			assert.Empty(t, list)
			require.NotNil(t, bad)
			assert.Zero(t, bad.From)
			assert.Regexp(t, "(^|/)"+regexp.QuoteMeta(c.name)+": it cannot be read: "+c.want, bad.Error())
			assert.Contains(t, bad.Hint(), c.try)
			bad.fromHub = true
			assert.Regexp(t, "^agentx fetch with --dest DIR, and there .*"+regexp.QuoteMeta(c.try), bad.Hint())
		})
	}
	// A first line that is damaged is a row.
	for _, text := range []string{"{\"a\":1,\"b\n{\"a\":1}\n", "{\"a\":[1,2\n{\"a\":1}\n", "{\n", "[[[\n{}x\n", "PAR\n{}\n", "\x1f\n{}\n"} {
		list, bad := read(t, "in.jsonl", []byte(text))
		assert.Nil(t, bad, text)
		assert.Len(t, list, strings.Count(text, "\n"), text)
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
