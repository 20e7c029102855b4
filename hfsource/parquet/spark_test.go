package parquet

import (
	"bytes"
	"strings"
	"testing"

	lib "github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/hfsource/column"
)

// Intervals by the schema of Spark are no numbers of seconds, although the file stores them as plain INT64.
func TestIntervalsOfSparkAreNoNumbers(t *testing.T) {
	type record struct {
		T int64 `parquet:"t"`
		N int64 `parquet:"n"`
	}
	type row struct {
		D    int64    `parquet:"d"`
		M    int32    `parquet:"m"`
		N    int64    `parquet:"n"`
		List []int64  `parquet:"list,list"`
		R    []record `parquet:"r,list"`
	}
	const schema = `{"type":"struct","fields":[{"name":"d","type":"interval day to second","nullable":true,"metadata":{}},` +
		`{"name":"m","type":"interval year to month","nullable":true,"metadata":{}},{"name":"n","type":"long","nullable":true,"metadata":{}},` +
		`{"name":"list","type":{"type":"array","elementType":"interval day","containsNull":true}},{"name":"gone","type":{"type":"map","keyType":"string","valueType":"long"}},` +
		`{"name":"r","type":{"type":"array","elementType":{"type":"struct","fields":[{"name":"t","type":"timestamp_ntz"},{"name":"n","type":{"type":"udt","class":"x"}}]}}}]}`
	file := func(schema string) []byte {
		var out bytes.Buffer
		w := lib.NewGenericWriter[row](&out, lib.KeyValueMetadata(sparkKey, schema))
		_, err := w.Write([]row{{1, 2, 3, []int64{4}, []record{{5, 6}}}})
		require.NoError(t, err)
		require.NoError(t, w.Close())
		return out.Bytes()
	}
	paths := []string{"d", "m", "n", "list[]", "r[].t", "r[].n"}
	got := read(t, file(schema), paths...)[0].Wanted
	for k, want := range []string{"INT64 (interval day to second by its Spark schema)", "INT32 (interval year to month by its Spark schema)", "",
		"INT64 (interval day by its Spark schema)", "INT64 (timestamp_ntz by its Spark schema)", ""} {
		if want == "" {
			assert.Equal(t, column.Int, got[k].Kind, paths[k])
			continue
		}
		assert.Equal(t, column.Other, got[k].Kind, paths[k])
		assert.Equal(t, want, got[k].Type)
	}
	for _, bad := range []string{"", "{", `{"type":"struct","fields":7}`, "{\"fields\":[" + strings.Repeat(`{"type":`, 20_000)} {
		_, err := tryRead(t, file(bad), paths...)
		assert.ErrorIs(t, err, errSpark, "%.20s", bad)
	}
	_, err := tryRead(t, file(strings.Repeat(`{"elementType":`, 5000)+`"long"`+strings.Repeat("}", 5000)), paths...)
	assert.NoError(t, err, "a type that is deeper than the file")
}
