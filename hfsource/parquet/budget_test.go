package parquet

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"testing"

	"github.com/klauspost/compress/zstd"
	wire "github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/hfsource/column"
)

// made describes a file that is written here, not by a library: one row with a list of records, whose fields are alike.
type made struct {
	fields int
	n      int         // elements of the list
	def    uint64      // definition level of each: 2 for a record that is null, 3 for a field that is, 4 for a value
	kind   format.Type // of the fields
	codec  format.CompressionCodec
	page   []byte // values of a page, compressed
	size   int    // decompressed, as the header states
	pages  int    // of each column; the elements are spread over them

	encoding format.Encoding // of the values; the zero value is plain
}

// bytes returns the file.
func (m made) bytes(t testing.TB) []byte {
	compact := new(wire.CompactProtocol)
	marshal := func(v any) []byte {
		b, err := wire.Marshal(compact, v)
		require.NoError(t, err)
		return b
	}
	element := func(name string, r format.FieldRepetitionType, children int) (e format.SchemaElement) {
		e.Name = name
		e.RepetitionType = wire.New(r)
		if children > 0 {
			e.NumChildren = wire.New(int32(children))
		} else {
			e.Type = wire.New(m.kind)
		}
		return e
	}
	schema := []format.SchemaElement{element("row", format.Required, 1), element("r", format.Optional, 1), element("list", format.Repeated, 1), element("element", format.Optional, m.fields)}
	out := []byte("PAR1")
	group := format.RowGroup{NumRows: 1}
	run := func(n int, level uint64) []byte { return append(binary.AppendUvarint(nil, uint64(n)<<1), byte(level)) }
	for k := range m.fields {
		name := fmt.Sprint("f", k)
		schema = append(schema, element(name, format.Optional, 0))
		from := len(out)
		for p := range m.pages {
			n := m.n / m.pages
			rep := run(n, 1)
			if p == 0 {
				rep = append(run(1, 0), run(n-1, 1)...)
			}
			def := run(n, m.def)
			nulls := n
			if m.def == 4 {
				nulls = 0
			}
			h := format.PageHeader{Type: format.DataPageV2, UncompressedPageSize: int32(len(rep) + len(def) + m.size), CompressedPageSize: int32(len(rep) + len(def) + len(m.page))}
			h.DataPageHeaderV2 = wire.New(format.DataPageHeaderV2{NumValues: int32(n), NumNulls: int32(nulls), NumRows: int32(1), Encoding: m.encoding,
				DefinitionLevelsByteLength: int32(len(def)), RepetitionLevelsByteLength: int32(len(rep))})
			out = append(append(append(append(out, marshal(&h)...), rep...), def...), m.page...)
		}
		c := format.ColumnChunk{}
		c.MetaData = format.ColumnMetaData{Type: m.kind, PathInSchema: []string{"r", "list", "element", name}, Codec: m.codec, NumValues: int64(m.n),
			TotalCompressedSize: int64(len(out) - from), TotalUncompressedSize: int64(len(out) - from), DataPageOffset: int64(from), Encoding: []format.Encoding{m.encoding}}
		group.Columns = append(group.Columns, c)
	}
	footer := marshal(&format.FileMetaData{Version: 2, Schema: schema, NumRows: 1, RowGroups: []format.RowGroup{group}})
	out = binary.LittleEndian.AppendUint32(append(out, footer...), uint32(len(footer)))
	return append(out, "PAR1"...)
}

// allocated returns how many bytes f allocates.
func allocated(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// paths returns the paths of all fields of the records, and of their list.
func (m made) paths() (list []string) {
	for k := range m.fields {
		list = append(list, fmt.Sprintf("r[].f%d", k))
	}
	return append(list, "r[]")
}

// read reads the row and returns the number of elements of the list.
func (m made) read(t testing.TB, data []byte) (elements int, err error) {
	f, err := Open(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	_, err = f.Rows(context.Background(), m.paths(), func(row *column.Row, free func()) error {
		elements += int(row.Wanted[m.fields].Lists[0].Ends[0])
		free()
		return nil
	})
	return elements, err
}

// A small file that asks for much memory is refused within bounded memory: by lists of nulls, by pages that decompress to
// much, or by texts.
func TestMemoryOfHostileFilesIsBounded(t *testing.T) {
	w, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	texts := make([]byte, 100<<20)
	for at := 0; at < len(texts); at += 1 << 20 {
		binary.LittleEndian.PutUint32(texts[at:], 1<<20-4)
	}
	packed := w.EncodeAll(texts, nil)
	for name, m := range map[string]made{
		"records that are null": {fields: 60, n: 500_000, pages: 1, def: 2, kind: format.Int64},
		"fields that are null":  {fields: 60, n: 500_000, pages: 1, def: 3, kind: format.ByteArray},
		"texts":                 {fields: 1, n: 1000, pages: 10, def: 4, kind: format.ByteArray, codec: format.Zstd, page: packed, size: len(texts)},
		"pages":                 {fields: 20, n: 100, pages: 1, def: 4, kind: format.ByteArray, codec: format.Zstd, page: packed, size: len(texts)},
	} {
		data := m.bytes(t)
		require.Less(t, len(data), 500_000, name)
		n := allocated(func() { _, err = m.read(t, data) })
		t.Logf("%s: a file of %d bytes takes %d MiB: %v", name, len(data), n>>20, err)
		var refused *UnsupportedError
		require.ErrorAs(t, err, &refused, name)
		require.Less(t, n, 450<<20, name)
	}

	// Real traces are far below the bounds: the longest public one has 13,700 requests.
	m := made{fields: 60, n: 50_000, pages: 1, def: 2, kind: format.Int64}
	n, err := m.read(t, m.bytes(t))
	require.NoError(t, err)
	require.Equal(t, m.n, n)
	m = made{fields: 1, n: 4096, pages: 1, def: 4, kind: format.Int64, page: make([]byte, 8*4096), size: 8 * 4096}
	n, err = m.read(t, m.bytes(t))
	require.NoError(t, err)
	require.Equal(t, m.n, n)
}
