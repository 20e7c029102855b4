package parquet

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	lib "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding"
	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/format"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/hfsource/column"
)

// codecRows returns several pages of rows with a text and a list of texts. Some are null, others begin like the text before.
func codecRows() (rows []lib.Row) {
	for k := range 3000 {
		row := lib.Row{v(nil, 0, 0, 0)}
		if k%7 != 0 {
			row[0] = v(fmt.Sprintf("trace/%06d/%s", k/5, strings.Repeat("x", k%40)), 0, 1, 0)
		}
		for i := range k % 4 {
			row = append(row, v(fmt.Sprintf("model-%d", k%(i+2)), min(i, 1), 1, 1))
		}
		if k%4 == 0 {
			row = append(row, v(nil, 0, 0, 1))
		}
		rows = append(rows, row)
	}
	return rows
}

// codecFile writes codecRows.
func codecFile(t testing.TB, e encoding.Encoding, options ...lib.WriterOption) []byte {
	text := lib.Encoded(lib.String(), e)
	schema := lib.NewSchema("row", lib.Group{"a": lib.Optional(text), "b": lib.Repeated(text)})
	return file(t, schema, codecRows(), append(options, lib.PageBufferSize(4096))...)
}

// A file gives the same rows, whatever it was compressed and encoded with.
func TestCodecsAndEncodingsGiveTheSameRows(t *testing.T) {
	texts := func(data []byte) (list []string) {
		for _, row := range read(t, data, "a", "b[]") {
			a, b := row.Wanted[0], row.Wanted[1]
			list = append(list, fmt.Sprint(a.State, a.Texts, b.Lists, b.Texts))
		}
		return list
	}
	want := texts(codecFile(t, &lib.Plain, lib.Compression(&lib.Uncompressed)))
	require.Len(t, want, 3000)
	for _, e := range []encoding.Encoding{&lib.Plain, &lib.RLEDictionary, &lib.DeltaLengthByteArray, &lib.DeltaByteArray} {
		for _, codec := range []lib.WriterOption{lib.Compression(&lib.Uncompressed), lib.Compression(&lib.Snappy), lib.Compression(&lib.Gzip),
			lib.Compression(&lib.Zstd), lib.Compression(&lib.Brotli), lib.Compression(&lib.Lz4Raw)} {
			for _, version := range []int{1, 2} {
				require.Equal(t, want, texts(codecFile(t, e, codec, lib.DataPageVersion(version))), "%v %v version %d", e, codec, version)
			}
		}
	}
}

// Pages of nulls in any encoding are read, for values and for presence.
func TestPagesOfNullsInEveryEncoding(t *testing.T) {
	for _, e := range []encoding.Encoding{&lib.Plain, &lib.RLEDictionary, &lib.DeltaLengthByteArray, &lib.DeltaByteArray} {
		schema := lib.NewSchema("row", lib.Group{"a": lib.Optional(lib.Encoded(lib.String(), e)), "b": lib.Leaf(lib.Int64Type)})
		rows := read(t, file(t, schema, []lib.Row{{v(nil, 0, 0, 0), v(1, 0, 0, 1)}, {v(nil, 0, 0, 0), v(2, 0, 0, 1)}}), "b")
		require.Equal(t, column.Null, rows[1].Others[0].At(0), "%v", e)
		rows = read(t, file(t, schema, []lib.Row{{v(nil, 0, 0, 0), v(1, 0, 0, 1)}}), "a")
		require.Equal(t, column.Null, rows[0].Wanted[0].At(0), "%v", e)
	}
}

// A page that decompresses to another size than it states is an error, in every codec.
func TestPagesThatDecompressToAnotherSize(t *testing.T) {
	for _, codec := range []format.CompressionCodec{format.Snappy, format.Gzip, format.Zstd, format.Brotli, format.Lz4Raw} {
		content := bytes.Repeat([]byte("content "), 100)
		page, err := lib.LookupCompressionCodec(codec).Encode(nil, content)
		require.NoError(t, err)
		var d decompressor
		for range 2 { // a decoder serves again after damage
			out, err := d.decompress(codec, page, nil, len(content))
			require.NoError(t, err)
			require.Equal(t, content, out)
			for _, size := range []int{0, 1, len(content) - 1, len(content) + 1, 1 << 20} {
				_, err := d.decompress(codec, page, nil, size)
				require.Error(t, err, "%v of %d", codec, size)
			}
			for _, damaged := range [][]byte{nil, page[:len(page)/2], bytes.Repeat([]byte{0xff}, 50)} {
				_, err := d.decompress(codec, damaged, nil, len(content))
				require.Error(t, err, "%v", codec)
			}
		}
		d.close()
	}
}

// A small page that decompresses or decodes to much is an error before the memory is allocated.
func TestBombsAreErrors(t *testing.T) {
	var zeros bytes.Buffer
	w := brotli.NewWriterLevel(&zeros, 5)
	_, err := w.Write(make([]byte, 100<<20))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	prefixes, suffixes := make([]int32, 100_000), make([]int32, 100_000)
	for k := range prefixes {
		prefixes[k] = 100_000
	}
	prefixes[0], suffixes[0] = 0, 100_000
	encoder := new(delta.BinaryPackedEncoding)
	texts, err := encoder.EncodeInt32(nil, prefixes)
	require.NoError(t, err)
	more, err := encoder.EncodeInt32(nil, suffixes)
	require.NoError(t, err)
	texts = append(append(texts, more...), make([]byte, 100_000)...)

	for name, m := range map[string]made{
		"brotli pages": {fields: 20, n: 100, pages: 1, def: 4, kind: format.ByteArray, codec: format.Brotli, page: zeros.Bytes(), size: 100 << 20},
		"LZ4 page":     {fields: 1, n: 100, pages: 1, def: 4, kind: format.ByteArray, codec: format.Lz4Raw, page: make([]byte, 100), size: 100 << 20},
		"prefixes":     {fields: 1, n: len(prefixes), pages: 1, def: 4, kind: format.ByteArray, encoding: format.DeltaByteArray, page: texts, size: len(texts)},
	} {
		data := m.bytes(t)
		require.Less(t, len(data), 500_000, name)
		n := allocated(func() { _, err = m.read(t, data) })
		t.Logf("%s: a file of %d bytes takes %d MiB: %v", name, len(data), n>>20, err)
		require.Error(t, err, name)
		require.Less(t, n, 450<<20, name)
	}
}

// packedEnd finds the end of packed numbers, whatever follows them. Headers that state more than the page holds are errors.
func TestEndOfPackedNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.Int32(), 0, 400).Draw(t, "list")
		encoded, err := new(delta.BinaryPackedEncoding).EncodeInt32(nil, list)
		require.NoError(t, err)
		tail := rapid.SliceOfN(rapid.Byte(), 0, 20).Draw(t, "tail")
		end, err := packedEnd(append(bytes.Clone(encoded), tail...), len(list), 32)
		require.NoError(t, err)
		require.Equal(t, len(encoded), end)
		if len(list) > 0 {
			_, err = packedEnd(encoded, len(list)-1, 32)
			require.ErrorIs(t, err, errValues)
		}
		_, _ = packedEnd(encoded[:rapid.IntRange(0, len(encoded)).Draw(t, "cut")], len(list), 32)
	})
	header := func(numbers ...uint64) (b []byte) {
		for _, x := range numbers {
			b = binary.AppendUvarint(b, x)
		}
		return b
	}
	for name, data := range map[string][]byte{
		"empty": nil, "block 0": header(0, 4, 1, 0), "block too large": header(1<<17, 4, 1, 0), "odd block": header(100, 4, 1, 0),
		"no miniblock": header(128, 0, 1, 0), "small miniblocks": header(128, 8, 1, 0), "no blocks": header(128, 4, 9, 0),
		"wide numbers": append(header(128, 4, 9, 0, 0), 33, 0, 0, 0),
	} {
		_, err := packedEnd(data, 10, 32)
		assert.ErrorIs(t, err, errValues, name)
	}
}
