package parquet

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	arrowparquet "github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/parquet-go/parquet-go/format"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/hfsource/column"
)

// arrowTypes are the types of times in Arrow, and one that is no time. plain replaces them by the types that writers store.
func arrowTypes(plain bool) *arrow.StructType {
	of := func(t arrow.DataType) arrow.DataType {
		if plain && t.ID() == arrow.DURATION {
			return arrow.PrimitiveTypes.Int64
		}
		return t
	}
	field := func(name string, t arrow.DataType) arrow.Field {
		return arrow.Field{Name: name, Type: t, Nullable: true}
	}
	ns := of(arrow.FixedWidthTypes.Duration_ns)
	return arrow.StructOf(
		field("seconds", of(arrow.FixedWidthTypes.Duration_s)), field("ms", of(arrow.FixedWidthTypes.Duration_ms)), field("us", of(arrow.FixedWidthTypes.Duration_us)), field("ns", ns),
		field("stamp", arrow.FixedWidthTypes.Timestamp_us), field("number", arrow.PrimitiveTypes.Int64), field("float", arrow.PrimitiveTypes.Float64),
		field("list", arrow.ListOf(ns)), field("large", arrow.LargeListOf(arrow.StructOf(field("t", ns)))),
	)
}

const arrowJSON = `{"seconds":1,"ms":2,"us":3,"ns":4,"stamp":1767225600000000,"number":5,"float":6.5,"list":[7,8],"large":[{"t":9}]}`

// arrowMessage returns the schema of a row that has those types as fields, and as fields of a list of records, as the writers
// of Python and Rust store it.
func arrowMessage(t testing.TB) []byte {
	var out bytes.Buffer
	w := ipc.NewWriter(&out, ipc.WithSchema(arrowSchemaOf(false)))
	require.NoError(t, w.Close())
	return out.Bytes()
}

func arrowSchemaOf(plain bool) *arrow.Schema {
	types := arrowTypes(plain)
	return arrow.NewSchema(append(types.Fields(), arrow.Field{Name: "r", Type: arrow.ListOf(types), Nullable: true}), nil)
}

// arrowFile writes one row of that schema. The writer for Go does not have durations, so it gets the stored types, and the
// schema separately.
func arrowFile(t testing.TB) []byte {
	schema := arrowSchemaOf(true)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	require.NoError(t, b.UnmarshalJSON([]byte(strings.TrimSuffix(arrowJSON, "}")+`,"r":[`+arrowJSON+"]}")))
	record := b.NewRecordBatch()
	defer record.Release()
	var out bytes.Buffer
	w, err := pqarrow.NewFileWriter(schema, &out, arrowparquet.NewWriterProperties(), pqarrow.DefaultWriterProps())
	require.NoError(t, err)
	require.NoError(t, w.Write(record))
	require.NoError(t, w.AppendKeyValueMetadata(arrowKey, base64.StdEncoding.EncodeToString(arrowMessage(t))))
	require.NoError(t, w.Close())
	return out.Bytes()
}

// Times and durations by the schema of Arrow are no numbers of seconds, although the file stores some as plain INT64.
func TestTimesOfArrowAreNoNumbers(t *testing.T) {
	var paths []string
	for _, prefix := range []string{"", "r[]."} {
		for _, name := range []string{"seconds", "ms", "us", "ns", "stamp", "number", "float", "list[]", "large[].t"} {
			paths = append(paths, prefix+name)
		}
	}
	rows := read(t, arrowFile(t), paths...)
	require.Len(t, rows, 1)
	for k, c := range rows[0].Wanted {
		name := strings.TrimPrefix(c.Path, "r[].")
		switch name {
		case "number":
			assert.Equal(t, column.Int, c.Kind, c.Path)
			assert.Equal(t, []int64{5}, c.Ints, c.Path)
		case "float":
			assert.Equal(t, []float64{6.5}, c.Floats, c.Path)
		default:
			assert.Equal(t, column.Other, c.Kind, c.Path)
			assert.Empty(t, c.Ints, c.Path)
		}
		assert.Equal(t, paths[k], c.Path)
		if unit, ok := map[string]string{"seconds": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds", "list[]": "nanoseconds", "large[].t": "nanoseconds"}[name]; ok {
			assert.Equal(t, "INT64 (a duration in "+unit+" by its Arrow schema)", c.Type, c.Path)
		}
	}
}

// Reading a damaged schema of Arrow ends, without a panic.
func TestDamagedSchemasOfArrow(t *testing.T) {
	message := arrowMessage(t)
	mark := func(message []byte) error {
		return markTimes(&node{fields: []*node{{name: "r", elem: &node{fields: []*node{{name: "ns", leaf: &leaf{kind: column.Int}}}}}}},
			[]format.KeyValue{{Key: arrowKey, Value: base64.StdEncoding.EncodeToString(message)}})
	}
	require.NoError(t, mark(message))
	require.NoError(t, mark(message[4:]), "as it was before Arrow 0.15")
	assert.ErrorIs(t, markTimes(&node{}, []format.KeyValue{{Key: arrowKey, Value: "*"}}), errArrow)
	assert.NoError(t, markTimes(&node{}, []format.KeyValue{{Key: "pandas", Value: "*"}}))
	for n := range 8 {
		assert.ErrorIs(t, mark(message[:n]), errArrow, n)
	}
	rapid.Check(t, func(t *rapid.T) {
		changed := bytes.Clone(message)
		for range rapid.IntRange(1, 4).Draw(t, "n") {
			changed[rapid.IntRange(0, len(changed)-1).Draw(t, "at")] = rapid.Byte().Draw(t, "byte")
		}
		_ = mark(changed[:rapid.IntRange(0, len(changed)).Draw(t, "length")])
	})
}
