package parquet

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	lib "github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/hfsource/column"
)

// file writes rows of values under a schema.
func file(t testing.TB, schema *lib.Schema, rows []lib.Row, options ...lib.WriterOption) []byte {
	var out bytes.Buffer
	w := lib.NewWriter(&out, append([]lib.WriterOption{schema}, options...)...)
	_, err := w.WriteRows(rows)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return out.Bytes()
}

// read returns all rows.
func read(t testing.TB, data []byte, paths ...string) (rows []*column.Row) {
	rows, err := tryRead(t, data, paths...)
	require.NoError(t, err)
	return rows
}

func tryRead(t testing.TB, data []byte, paths ...string) (rows []*column.Row, err error) {
	f, err := Open(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}
	_, err = f.Rows(t.Context(), paths, func(row *column.Row, _ func()) error {
		rows = append(rows, row) // never given back, so it stays
		return nil
	})
	return rows, err
}

// v is a value with its levels.
func v(value any, rep, def, col int) lib.Value {
	return lib.ValueOf(value).Level(rep, def, col)
}

// listNode is a group with the annotation of lists.
type listNode struct{ lib.Node }

func (listNode) Type() lib.Type { return lib.List(lib.Leaf(lib.Int64Type)).Type() }

// A list of records with a list of numbers gives the same columns, however the schema spells lists.
func TestSpellingsOfLists(t *testing.T) {
	number, x := lib.Leaf(lib.Int64Type), lib.Optional(lib.Leaf(lib.Int64Type))
	group := func(annotated bool, g lib.Group) lib.Node {
		if annotated {
			return lib.Optional(listNode{g})
		}
		return lib.Optional(g)
	}
	three := func(repeated, element string) func(lib.Node, bool) lib.Node {
		return func(n lib.Node, annotated bool) lib.Node {
			return group(annotated, lib.Group{repeated: lib.Repeated(lib.Group{element: lib.Optional(n)})})
		}
	}
	// The rows: {[7 8] 1} and {[] null}; no record; null; {null 2}; and null in the place of a record.
	full := []lib.Row{
		{v(7, 0, 6, 0), v(8, 2, 6, 0), v(nil, 1, 4, 0), v(1, 0, 4, 1), v(nil, 1, 3, 1)}, {v(nil, 0, 1, 0), v(nil, 0, 1, 1)},
		{v(nil, 0, 0, 0), v(nil, 0, 0, 1)}, {v(nil, 0, 3, 0), v(2, 0, 4, 1)}, {v(nil, 0, 2, 0), v(nil, 0, 2, 1)},
	}
	two := []lib.Row{
		{v(7, 0, 4, 0), v(8, 2, 4, 0), v(nil, 1, 3, 0), v(1, 0, 3, 1), v(nil, 1, 2, 1)}, {v(nil, 0, 1, 0), v(nil, 0, 1, 1)},
		{v(nil, 0, 0, 0), v(nil, 0, 0, 1)}, {v(nil, 0, 2, 0), v(2, 0, 3, 1)},
	}
	bare := []lib.Row{
		{v(7, 0, 2, 0), v(8, 2, 2, 0), v(nil, 1, 1, 0), v(1, 0, 2, 1), v(nil, 1, 1, 1)}, {v(nil, 0, 0, 0), v(nil, 0, 0, 1)},
		{v(nil, 0, 0, 0), v(nil, 0, 0, 1)}, {v(nil, 0, 1, 0), v(2, 0, 2, 1)},
	}
	for name, c := range map[string]struct {
		list func(n lib.Node, annotated bool) lib.Node
		rows []lib.Row
	}{
		"list.element": {three("list", "element"), full}, "list.item": {three("list", "item"), full}, "list.array": {three("list", "array"), full},
		"bag.array_element": {three("bag", "array_element"), full}, "array.element": {three("array", "element"), full},
		"two levels": {func(n lib.Node, annotated bool) lib.Node {
			return group(annotated, lib.Group{"array": lib.Repeated(n)})
		}, two},
		"repeated": {func(n lib.Node, _ bool) lib.Node { return lib.Repeated(n) }, bare},
	} {
		for _, annotated := range []bool{true, false} {
			schema := lib.NewSchema("row", lib.Group{"r": c.list(lib.Group{"ids": c.list(number, annotated), "x": x}, annotated)})
			rows := read(t, file(t, schema, c.rows), "r[]", "r[].ids[]", "r[].x", "r[].y", "z[]")
			require.Len(t, rows, len(c.rows))
			a := rows[0].Wanted
			assert.Equal(t, []column.List{{State: []column.State{column.Value}, Ends: []int32{2}}}, a[0].Lists, name)
			assert.Equal(t, a[0].Lists[0], a[1].Lists[0], name)
			assert.Equal(t, column.List{State: []column.State{column.Value, column.Value}, Ends: []int32{2, 2}}, a[1].Lists[1], name)
			assert.Equal(t, []int64{7, 8}, a[1].Ints, name)
			assert.Equal(t, []int64{1, 0}, a[2].Ints, name)
			assert.Equal(t, []column.State{column.Value, column.Null}, a[2].State, name)
			for _, missing := range a[3:] {
				assert.Equal(t, column.Missing, missing.Kind)
				assert.Equal(t, column.Absent, missing.At(0))
			}
			empty, null, last := rows[1].Wanted, rows[2].Wanted, rows[3].Wanted
			assert.Equal(t, column.Value, empty[0].At(0), name)
			assert.Equal(t, []int32{0}, empty[0].Lists[0].Ends, name)
			want := column.Null
			if name == "repeated" {
				want = column.Value // which cannot tell null from empty
			}
			assert.Equal(t, want, null[0].At(0), name)
			assert.Equal(t, want, last[1].At(0), name)
			assert.Equal(t, []int64{2}, last[2].Ints, name)
			if len(rows) == 5 { // what holds it is null
				assert.Equal(t, column.Absent, rows[4].Wanted[1].At(0), name)
				assert.Equal(t, column.Absent, rows[4].Wanted[2].At(0), name)
			}
			assert.Empty(t, rows[0].Others)
		}
	}
}

// Values of every type are read, in pages of both versions and in every compression.
func TestTypesOfValues(t *testing.T) {
	for name, c := range map[string]struct {
		node  lib.Node
		value lib.Value
		kind  column.Kind
		want  string
	}{
		"int64":             {lib.Leaf(lib.Int64Type), lib.ValueOf(int64(-5)), column.Int, "[-5] [] []"},
		"int32":             {lib.Leaf(lib.Int32Type), lib.ValueOf(int32(-5)), column.Int, "[-5] [] []"},
		"int 8":             {lib.Int(8), lib.ValueOf(int32(-5)), column.Int, "[-5] [] []"},
		"uint 32":           {lib.Uint(32), lib.ValueOf(uint32(4_000_000_000)), column.Int, "[4000000000] [] []"},
		"uint 64":           {lib.Uint(64), lib.ValueOf(uint64(math.MaxUint64)), column.Uint, "[-1] [] []"},
		"double":            {lib.Leaf(lib.DoubleType), lib.ValueOf(0.1), column.Float, "[] [0.1] []"},
		"float":             {lib.Leaf(lib.FloatType), lib.ValueOf(float32(0.5)), column.Float, "[] [0.5] []"},
		"string":            {lib.String(), lib.ValueOf("é"), column.Text, "[] [] [é]"},
		"bytes":             {lib.Leaf(lib.ByteArrayType), lib.ValueOf("x"), column.Text, "[] [] [x]"},
		"enum":              {lib.Enum(), lib.ValueOf("x"), column.Text, "[] [] [x]"},
		"boolean":           {lib.Leaf(lib.BooleanType), lib.ValueOf(true), column.Other, "[] [] []"},
		"json":              {lib.JSON(), lib.ValueOf("1"), column.JSON, "[] [] [1]"},
		"timestamp":         {lib.Timestamp(lib.Millisecond), lib.ValueOf(int64(1)), column.Other, "[] [] []"},
		"decimal":           {lib.Decimal(2, 12, lib.Int64Type), lib.ValueOf(int64(1)), column.Other, "[] [] []"},
		"fixed":             {lib.Leaf(lib.FixedLenByteArrayType(2)), lib.ValueOf([2]byte{1, 2}), column.Other, "[] [] []"},
		"dictionary":        {lib.Encoded(lib.Leaf(lib.Int64Type), &lib.RLEDictionary), lib.ValueOf(int64(9)), column.Int, "[9] [] []"},
		"differences":       {lib.Encoded(lib.Leaf(lib.Int64Type), &lib.DeltaBinaryPacked), lib.ValueOf(int64(9)), column.Int, "[9] [] []"},
		"differences of 32": {lib.Encoded(lib.Uint(32), &lib.DeltaBinaryPacked), lib.ValueOf(uint32(4_000_000_000)), column.Int, "[4000000000] [] []"},
		"lengths":           {lib.Encoded(lib.String(), &lib.DeltaLengthByteArray), lib.ValueOf("long"), column.Text, "[] [] [long]"},
		"prefixes":          {lib.Encoded(lib.String(), &lib.DeltaByteArray), lib.ValueOf("long"), column.Text, "[] [] [long]"},
		"split bytes":       {lib.Encoded(lib.Leaf(lib.DoubleType), &lib.ByteStreamSplit), lib.ValueOf(2.5), column.Float, "[] [2.5] []"},
	} {
		for _, version := range []int{1, 2} {
			for _, codec := range []lib.WriterOption{lib.Compression(&lib.Uncompressed), lib.Compression(&lib.Snappy), lib.Compression(&lib.Gzip), lib.Compression(&lib.Zstd), lib.Compression(&lib.Brotli), lib.Compression(&lib.Lz4Raw)} {
				schema := lib.NewSchema("row", lib.Group{"a": lib.Optional(c.node)})
				rows := read(t, file(t, schema, []lib.Row{{c.value.Level(0, 1, 0)}, {v(nil, 0, 0, 0)}}, lib.DataPageVersion(version), codec), "a")
				require.Len(t, rows, 2)
				a, b := &rows[0].Wanted[0], &rows[1].Wanted[0]
				assert.Equal(t, c.kind, a.Kind, name)
				assert.Equal(t, c.want, fmt.Sprint(a.Ints, a.Floats, a.Texts), name)
				assert.Equal(t, []column.State{column.Value}, a.State, name)
				assert.Equal(t, []column.State{column.Null}, b.State, name)
			}
		}
	}
}

// A field of another shape than the path has the kind Other, its presence, and the name of its type.
func TestOtherShapes(t *testing.T) {
	one := func(n lib.Node, value lib.Value, path string) *column.Column {
		return &read(t, file(t, lib.NewSchema("row", lib.Group{"a": n}), []lib.Row{{value}}), path)[0].Wanted[0]
	}
	number := lib.Leaf(lib.Int64Type)
	for path, c := range map[string]*column.Column{
		"INT64":             one(number, v(1, 0, 0, 0), "a[]"),
		"a list":            one(lib.List(number), v(1, 0, 1, 0), "a"),
		"a record":          one(lib.Group{"b": number}, v(1, 0, 0, 0), "a[]"),
		"a list of lists":   one(lib.List(lib.List(number)), v(1, 0, 2, 0), "a[]"),
		"a list of records": one(lib.List(lib.Group{"b": number}), v(1, 0, 1, 0), "a[]"),
	} {
		assert.Equal(t, path, c.Type)
		assert.Equal(t, column.Value, c.At(0), path)
		assert.Empty(t, c.Ints)
	}
	c := one(lib.Group{"b": number}, v(1, 0, 0, 0), "a") // asked for as a record
	assert.Equal(t, column.None, c.Kind)
	assert.Equal(t, column.Value, c.At(0))
	assert.Equal(t, column.Missing, one(number, v(1, 0, 0, 0), "a.b").Kind)
}

// A record is present where any field below it is.
func TestPresenceOfRecords(t *testing.T) {
	x := lib.Optional(lib.Leaf(lib.Int64Type))
	schema := lib.NewSchema("row", lib.Group{"a": lib.Optional(lib.Group{"b": x, "c": lib.List(lib.String()), "d": x})})
	rows := read(t, file(t, schema, []lib.Row{
		{v(1, 0, 2, 0), v(nil, 0, 1, 1), v(nil, 0, 1, 2)}, {v(nil, 0, 1, 0), v("x", 0, 2, 1), v("y", 1, 2, 1), v(nil, 0, 1, 2)},
		{v(nil, 0, 1, 0), v(nil, 0, 1, 1), v(1, 0, 2, 2)}, {v(nil, 0, 1, 0), v(nil, 0, 1, 1), v(nil, 0, 1, 2)}, {v(nil, 0, 0, 0), v(nil, 0, 0, 1), v(nil, 0, 0, 2)},
	}), "a")
	var states []bool
	for _, r := range rows {
		states = append(states, r.Wanted[0].At(0) == column.Value)
	}
	assert.Equal(t, []bool{true, true, true, false, false}, states)
}

// A page header with a long smallest and largest value is read.
func TestHeadersOfLongTexts(t *testing.T) {
	schema := lib.NewSchema("row", lib.Group{"a": lib.Optional(lib.String())})
	var want []string
	var list []lib.Row
	for _, n := range []int{1, 300, 40_000, 200_000, 3 << 20} {
		want = append(want, strings.Repeat(string(rune('a'+len(list))), n))
		list = append(list, lib.Row{v(want[len(list)], 0, 1, 0)})
	}
	var got []string
	for _, r := range read(t, file(t, schema, list), "a") {
		got = append(got, r.Wanted[0].Texts[0])
	}
	assert.True(t, slices.Equal(want, got))
}

// Levels and indices of any width, in runs of both kinds, are read as they were written.
func TestHybrid(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		width := rapid.IntRange(1, 31).Draw(t, "width")
		var b []byte
		var want []uint32
		for range rapid.IntRange(0, 8).Draw(t, "runs") {
			largest := uint32(1)<<width - 1
			if rapid.Bool().Draw(t, "packed") {
				groups := rapid.IntRange(1, 20).Draw(t, "groups")
				b = binary.AppendUvarint(b, uint64(groups)<<1|1)
				bits := make([]byte, groups*width)
				for k := range groups * 8 {
					x := rapid.Uint32Range(0, largest).Draw(t, "x")
					want = append(want, x)
					for i := range width {
						bits[(k*width+i)/8] |= byte(x>>i&1) << ((k*width + i) % 8)
					}
				}
				b = append(b, bits...)
			} else {
				n, x := rapid.IntRange(0, 300).Draw(t, "n"), rapid.Uint32Range(0, largest).Draw(t, "x")
				b = binary.AppendUvarint(b, uint64(n)<<1)
				b = append(b, binary.LittleEndian.AppendUint32(nil, x)[:(width+7)/8]...)
				for range n {
					want = append(want, x)
				}
			}
		}
		b = append(make([]byte, 0, len(b)+padding), b...)
		require.True(t, newHybrid(b, width).holds(len(want)))
		require.False(t, newHybrid(b, width).holds(len(want)+maxFill))
		if n := len(want); n > 0 {
			fill := append(binary.AppendUvarint(bytes.Clone(b), 32<<1|1), make([]byte, 32*width+padding)...)
			fill = fill[:len(fill)-padding]
			require.True(t, newHybrid(fill, width).holds(n+1), "what fills up a run that was begun")
			require.False(t, newHybrid(fill, width).holds(n), "is no run of its own")
		}

		var l levels
		l.reset(b, math.MaxInt, width)
		got := []uint32(nil)
		for len(got) < len(want) {
			x, n, err := l.run()
			require.NoError(t, err)
			n = min(n, len(want)-len(got), rapid.IntRange(1, 50).Draw(t, "take"))
			l.take(n)
			for range n {
				got = append(got, uint32(x))
			}
		}
		require.Equal(t, want, got)
		require.True(t, l.done())

		if width <= 12 { // through a dictionary
			dict := make([]int64, 1<<width)
			for k := range dict {
				dict[k] = int64(k) * 3
			}
			c := values{source: fromDictionary, indices: newHybrid(b, width), leaf: &leaf{kind: column.Int}, dict: &dictionary{ints: dict}}
			var to column.Column
			for n := len(want); n > 0; {
				k := rapid.IntRange(1, n).Draw(t, "some")
				require.NoError(t, c.read(&to, k))
				n -= k
			}
			for k := range want {
				require.EqualValues(t, want[k]*3, to.Ints[k])
			}
			c = values{source: fromDictionary, indices: newHybrid(b, width), leaf: &leaf{kind: column.Int}, dict: &dictionary{}}
			require.Equal(t, len(want) > 0, c.read(&to, len(want)) != nil, "beyond the dictionary")
		}
	})
}

// A footer that states an impossible length, or is cut off, is an error before memory is allocated by it.
func TestHostileFooters(t *testing.T) {
	long := []byte{0x29, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07} // field 2: a list of 2^31 records
	for name, footer := range map[string][]byte{
		"a list of 2^31": long, "a text of 2^31": {0x18, 0xff, 0xff, 0xff, 0xff, 0x07}, "cut": {0x15}, "empty": {},
		"deep": bytes.Repeat([]byte{0x1c}, 1000), "more": {0, 0}, "no such type": {0x1f, 0},
	} {
		data := append([]byte("PAR1"), footer...)
		data = binary.LittleEndian.AppendUint32(data, uint32(len(footer)))
		data = append(data, "PAR1"...)
		_, err := tryRead(t, data)
		assert.ErrorContains(t, err, "footer", name)
	}
	for name, data := range map[string]string{"short": "PAR1PAR1", "no magic": "PAR1....\x04\x00\x00\x00PAR2", "encrypted": "PARE....\x04\x00\x00\x00PARE", "long": "PAR1\x00\xff\xff\xff\x7fPAR1"} {
		_, err := tryRead(t, []byte(data))
		assert.Error(t, err, name)
	}
}

// Footers that nest too deep are refused: a recursive reader would exhaust its stack.
func TestFootersThatNestTooDeep(t *testing.T) {
	nested := func(head byte, n int) []byte {
		return append(bytes.Repeat([]byte{head}, n), make([]byte, n+1)...)
	}
	require.NoError(t, checkFooter(nested(0x1c, 10)))
	require.Error(t, checkFooter(nested(0x1c, 100_000)))
	lists := append([]byte{0x19}, bytes.Repeat([]byte{0x19}, 100_000)...)
	require.Error(t, checkFooter(append(lists, 0, 0)))
}

// A list of two levels whose records have one field is told from a list of three levels by its names.
func TestRecordsOfOneField(t *testing.T) {
	for name, want := range map[string]string{"array": "r[].x", "r_tuple": "r[].x", "list": "r[]"} {
		schema := lib.NewSchema("row", lib.Group{"r": lib.Optional(listNode{lib.Group{name: lib.Repeated(lib.Group{"x": lib.Optional(lib.Leaf(lib.Int64Type))})}})})
		c := read(t, file(t, schema, []lib.Row{{v(5, 0, 3, 0)}}), want)[0].Wanted[0]
		assert.Equal(t, []int64{5}, c.Ints, name)
	}
}

// A logical type and a converted type that differ are an error.
func TestTypesThatContradictThemselves(t *testing.T) {
	leaf := func(logical format.LogicalTypeValue, old deprecated.ConvertedType) error {
		root := format.SchemaElement{Name: "row"}
		root.NumChildren.V, root.NumChildren.Valid = 1, true
		e := format.SchemaElement{Name: "a", LogicalType: format.LogicalType{Value: logical}}
		e.Type.V, e.Type.Valid = format.ByteArray, true
		if _, ok := logical.(*format.IntType); ok {
			e.Type.V = format.Int64
		}
		e.ConvertedType.V, e.ConvertedType.Valid = old, true
		_, _, err := resolveSchema([]format.SchemaElement{root, e})
		return err
	}
	assert.NoError(t, leaf(&format.StringType{}, deprecated.UTF8))
	assert.NoError(t, leaf(&format.IntType{BitWidth: 64}, deprecated.Uint64))
	assert.ErrorContains(t, leaf(&format.ListType{}, deprecated.UTF8), "schema: a is of type LIST and of converted type UTF8")
	assert.ErrorContains(t, leaf(&format.IntType{BitWidth: 64, IsSigned: true}, deprecated.Uint64), "and of converted type UINT_64")
}

// Errors name types that are not read as the format does.
func TestOlderTypesHaveNames(t *testing.T) {
	for old, want := range map[deprecated.ConvertedType]string{
		deprecated.Date: "INT32 (DATE)", deprecated.Interval: "INT32 (INTERVAL)", deprecated.TimeMillis: "INT32 (TIME_MILLIS)", deprecated.Bson: "INT32 (BSON)",
		deprecated.Decimal: "INT32 (DECIMAL)", 22: "INT32 (converted type 22)", -1: "INT32 (converted type -1)",
	} {
		var e format.SchemaElement
		e.Type.V, e.ConvertedType.V, e.ConvertedType.Valid = format.Int32, old, true
		kind, name := kindOf(&e)
		assert.Equal(t, column.Other, kind)
		assert.Equal(t, want, name)
	}
}

// A page with more or fewer values than its levels state is an error before the first row.
func TestPagesHoldWhatTheySay(t *testing.T) {
	for name, n := range map[string]lib.Node{"plain": lib.Leaf(lib.Int64Type), "dictionary": lib.Encoded(lib.Leaf(lib.Int64Type), &lib.RLEDictionary), "text": lib.String()} {
		value := lib.ValueOf(int64(1))
		if name == "text" {
			value = lib.ValueOf("\x00\x00\x00\x00")
		}
		data := file(t, lib.NewSchema("row", lib.Group{"a": n}), []lib.Row{{value.Level(0, 0, 0)}, {value.Level(0, 0, 0)}}, lib.DataPageVersion(1))
		f, err := Open(bytes.NewReader(data), int64(len(data)))
		require.NoError(t, err)
		c := chunk{file: f, leaf: f.leaves[0], wanted: true}
		m := &f.groups[0].Columns[0].MetaData
		c.open(m)
		require.NoError(t, c.next(), name)
		for _, values := range []int32{0, 1, 3, 20} {
			c.pending, c.values = 0, 100
			err := c.openValues(c.read.data, pageHeader{values: values, encoding: int32(format.Plain)})
			if name != "dictionary" {
				require.ErrorIs(t, err, errValues, "%s of %d", name, values)
			}
		}
		if name == "dictionary" {
			c.read.source = fromDictionary
			c.read.indices = newHybrid(append([]byte{3, 0b10}, make([]byte, padding)...)[:2], 1)
			require.True(t, c.read.holds(8))
			require.False(t, c.read.holds(9))
			c.read.indices = newHybrid(append([]byte{4, 1}, make([]byte, padding)...)[:2], 1)
			require.False(t, c.read.holds(1))
		}
	}
}

// Row groups that contradict the schema, the number of rows or each other are errors.
func TestFootersThatContradictThemselves(t *testing.T) {
	data := file(t, lib.NewSchema("row", lib.Group{"a": lib.Leaf(lib.Int64Type), "b": lib.Leaf(lib.Int64Type)}), []lib.Row{{v(1, 0, 0, 0), v(2, 0, 0, 1)}})
	f, err := Open(bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	end := int64(len(data))
	require.NoError(t, f.checkRowGroups(1, end))
	for want, change := range map[string]func(g *format.RowGroup){
		"it is c in row group 1":    func(g *format.RowGroup) { g.Columns[0].MetaData.PathInSchema = []string{"c"} },
		"and DOUBLE in row group 1": func(g *format.RowGroup) { g.Columns[1].MetaData.Type = format.Double },
		"two columns overlap at":    func(g *format.RowGroup) { g.Columns[0].MetaData.DataPageOffset = g.Columns[1].MetaData.DataPageOffset },
		"beyond the file":           func(g *format.RowGroup) { g.Columns[0].MetaData.TotalCompressedSize = end },
		"it is in another file":     func(g *format.RowGroup) { g.Columns[0].FilePath = "x" },
		"rows more than its":        func(g *format.RowGroup) { g.NumRows = 0 },
		"where the schema has 2":    func(g *format.RowGroup) { g.Columns = g.Columns[:1] },
		"row group 1: -1 values":    func(g *format.RowGroup) { g.Columns[0].MetaData.NumValues = -1 },
		"values in 0 bytes at -9, b": func(g *format.RowGroup) {
			g.Columns[0].MetaData.DataPageOffset, g.Columns[0].MetaData.TotalCompressedSize = -9, 0
		},
	} {
		f, err := Open(bytes.NewReader(data), end)
		require.NoError(t, err)
		change(&f.groups[0])
		assert.ErrorContains(t, f.checkRowGroups(1, end), want)
	}
	for want, change := range map[string]func(g *format.RowGroup){
		"1 values are missing":        func(g *format.RowGroup) { g.Columns[0].MetaData.NumValues = 2 },
		"more than the footer states": func(g *format.RowGroup) { g.Columns[0].MetaData.NumValues = 0 },
		"it ends too early":           func(g *format.RowGroup) { g.NumRows = 2 },
		"compression LZO: not read":   func(g *format.RowGroup) { g.Columns[0].MetaData.Codec = format.LZO },
		"of which ":                   func(g *format.RowGroup) { g.Columns[0].MetaData.TotalCompressedSize-- },
	} {
		f, err := Open(bytes.NewReader(data), end)
		require.NoError(t, err)
		change(&f.groups[0])
		_, err = f.Rows(t.Context(), []string{"a"}, func(_ *column.Row, free func()) error {
			free()
			return nil
		})
		assert.ErrorContains(t, err, want)
		assert.ErrorContains(t, err, "column a: ")
	}
}

func FuzzFile(f *testing.F) {
	f.Add(file(f, lib.NewSchema("row", lib.Group{"a": lib.List(lib.Leaf(lib.Int64Type)), "b": lib.Optional(lib.String())}), []lib.Row{{v(1, 0, 1, 0), v(2, 1, 1, 0), v("x", 0, 1, 1)}}))
	for _, codec := range []lib.WriterOption{lib.Compression(&lib.Brotli), lib.Compression(&lib.Lz4Raw)} {
		f.Add(file(f, lib.NewSchema("row", lib.Group{"b": lib.Encoded(lib.String(), &lib.DeltaByteArray)}), []lib.Row{{v("xyz", 0, 0, 0)}, {v("xyzzy", 0, 0, 0)}}, codec))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = tryRead(t, data, "a[]", "b")
	})
}

// A chunk without data pages has the offset 0 for them, or begins with its dictionary.
func TestChunksWithoutAPage(t *testing.T) {
	for _, c := range []struct{ data, dictionary, want int64 }{{100, 4, 4}, {4, 0, 4}, {0, 4, 4}, {4, 100, 4}, {0, 0, 0}} {
		m := format.ColumnMetaData{DataPageOffset: c.data, DictionaryPageOffset: c.dictionary}
		assert.Equal(t, c.want, chunkStart(&m), c)
	}
}
