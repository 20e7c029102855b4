package convert

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	arrowparquet "github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	parquetcompress "github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/encoding"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert/reconstruct"
	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/hfsource"
	"github.com/agentx/agentx/hfsource/column"
	"github.com/agentx/agentx/internal/demo"
	"github.com/agentx/agentx/mmapcache/cachestore"
)

// Traces as structs for the writer of parquet-go. Every field is optional, as in files of other programs.
type (
	parquetTrace struct {
		ID           *string          `json:"id" parquet:"id,optional"`
		Models       []string         `json:"models" parquet:"models,optional,list"`
		BlockSize    *int64           `json:"block_size" parquet:"block_size,optional"`
		Scope        *string          `json:"hash_id_scope" parquet:"hash_id_scope,optional,dict"`
		ToolTokens   *int64           `json:"tool_tokens" parquet:"tool_tokens,optional"`
		SystemTokens *int64           `json:"system_tokens" parquet:"system_tokens,optional"`
		Totals       *parquetTotals   `json:"totals" parquet:"totals,optional"`
		Requests     []parquetRequest `json:"requests" parquet:"requests,optional,list"`
	}
	parquetTotals struct {
		Parent *struct {
			Input  *int64 `json:"input" parquet:"input,optional"`
			Output *int64 `json:"output" parquet:"output,optional"`
		} `json:"parent_tokens" parquet:"parent_tokens,optional"`
		Subagents *int64 `json:"subagent_count" parquet:"subagent_count,optional"`
	}
	parquetRequest struct {
		parquetCommon
		AgentID      *string         `json:"agent_id" parquet:"agent_id,optional"`
		SubagentType *string         `json:"subagent_type" parquet:"subagent_type,optional,dict"`
		Duration     *int64          `json:"duration_ms" parquet:"duration_ms,optional"`
		TotalTokens  *int64          `json:"total_tokens" parquet:"total_tokens,optional"`
		ToolUses     *int64          `json:"tool_use_count" parquet:"tool_use_count,optional"`
		Status       *string         `json:"status" parquet:"status,optional"`
		ToolTokens   *int64          `json:"tool_tokens" parquet:"tool_tokens,optional"`
		SystemTokens *int64          `json:"system_tokens" parquet:"system_tokens,optional"`
		Models       []string        `json:"models" parquet:"models,optional,list"`
		Requests     []parquetCommon `json:"requests" parquet:"requests,optional,list"`
	}
	parquetCommon struct {
		T           *float64 `json:"t" parquet:"t,optional"`
		Type        *string  `json:"type" parquet:"type,optional,dict"`
		Model       *string  `json:"model" parquet:"model,optional,dict"`
		In          *int64   `json:"in" parquet:"in,optional"`
		Out         *int64   `json:"out" parquet:"out,optional"`
		IDs         []int64  `json:"hash_ids" parquet:"hash_ids,optional,list"`
		InputTypes  []string `json:"input_types" parquet:"input_types,optional,list"`
		OutputTypes []string `json:"output_types" parquet:"output_types,optional,list"`
		Stop        *string  `json:"stop" parquet:"stop,optional"`
		APITime     *float64 `json:"api_time" parquet:"api_time,optional"`
		ThinkTime   *float64 `json:"think_time" parquet:"think_time,optional"`
		TTFT        *float64 `json:"ttft" parquet:"ttft,optional"`
	}
)

// libraryParquet writes JSON rows with parquet-go, which writes checksums.
func libraryParquet(t testing.TB, rows [][]byte, options ...parquet.WriterOption) []byte {
	var out bytes.Buffer
	w := parquet.NewGenericWriter[parquetTrace](&out, append([]parquet.WriterOption{parquet.Compression(&parquet.Zstd), parquet.PageBufferSize(1 << 18)}, options...)...)
	for _, row := range rows {
		var tr parquetTrace
		require.NoError(t, json.Unmarshal(row, &tr))
		_, err := w.Write([]parquetTrace{tr})
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

// datasetsParquet writes JSON rows as the library datasets does since version 5: objects whose keys differ as JSON texts, and
// columns sorted by name.
func datasetsParquet(t testing.TB, rows [][]byte) []byte {
	text, number := parquet.Optional(parquet.String()), parquet.Optional(parquet.Int(64))
	schema := parquet.NewSchema("schema", parquet.Group{"block_size": number, "hash_id_scope": text, "id": text, "models": parquet.Optional(parquet.List(text)),
		"requests": parquet.Optional(parquet.List(parquet.Optional(parquet.JSON()))), "system_tokens": number, "tool_tokens": number, "totals": parquet.Optional(parquet.JSON())})
	var out bytes.Buffer
	w := parquet.NewWriter(&out, schema, parquet.Compression(&parquet.Snappy))
	for _, row := range rows {
		var tr struct {
			BlockSize    *int64            `json:"block_size"`
			Scope        *string           `json:"hash_id_scope"`
			ID           *string           `json:"id"`
			Models       []string          `json:"models"`
			Requests     []json.RawMessage `json:"requests"`
			SystemTokens *int64            `json:"system_tokens"`
			ToolTokens   *int64            `json:"tool_tokens"`
			Totals       json.RawMessage   `json:"totals"`
		}
		require.NoError(t, json.Unmarshal(row, &tr))
		r := slices.Concat(optional(0, tr.BlockSize), optional(1, tr.Scope), optional(2, tr.ID), list(3, tr.Models), list(4, tr.Requests),
			optional(5, tr.SystemTokens), optional(6, tr.ToolTokens))
		if tr.Totals != nil {
			r = append(r, parquet.ValueOf([]byte(tr.Totals)).Level(0, 1, 7))
		} else {
			r = append(r, parquet.NullValue().Level(0, 0, 7))
		}
		_, err := w.WriteRows([]parquet.Row{r})
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

func optional[T any](column int, v *T) []parquet.Value {
	if v == nil {
		return []parquet.Value{parquet.NullValue().Level(0, 0, column)}
	}
	return []parquet.Value{parquet.ValueOf(*v).Level(0, 1, column)}
}

// list returns the values of an optional list of optional elements.
func list[T any](column int, elements []T) (values []parquet.Value) {
	for k, e := range elements {
		v := any(e)
		if raw, ok := v.(json.RawMessage); ok {
			v = []byte(raw)
		}
		values = append(values, parquet.ValueOf(v).Level(min(k, 1), 3, column))
	}
	if values == nil {
		values = []parquet.Value{parquet.NullValue().Level(0, 1, column)}
	}
	return values
}

var (
	arrowIDs   = arrow.ListOf(arrow.PrimitiveTypes.Int64)
	arrowTexts = arrow.ListOf(arrow.BinaryTypes.String)
	arrowPlain = []arrow.Field{
		{Name: "t", Type: arrow.PrimitiveTypes.Float64}, {Name: "type", Type: arrow.BinaryTypes.String}, {Name: "model", Type: arrow.BinaryTypes.String},
		{Name: "in", Type: arrow.PrimitiveTypes.Int64}, {Name: "out", Type: arrow.PrimitiveTypes.Int64}, {Name: "hash_ids", Type: arrowIDs},
		{Name: "input_types", Type: arrowTexts}, {Name: "output_types", Type: arrowTexts}, {Name: "stop", Type: arrow.BinaryTypes.String},
		{Name: "api_time", Type: arrow.PrimitiveTypes.Float64}, {Name: "think_time", Type: arrow.PrimitiveTypes.Float64}, {Name: "ttft", Type: arrow.PrimitiveTypes.Float64},
	}
	arrowRequest = append(append([]arrow.Field{}, arrowPlain...),
		arrow.Field{Name: "agent_id", Type: arrow.BinaryTypes.String}, arrow.Field{Name: "subagent_type", Type: arrow.BinaryTypes.String},
		arrow.Field{Name: "duration_ms", Type: arrow.PrimitiveTypes.Int64}, arrow.Field{Name: "total_tokens", Type: arrow.PrimitiveTypes.Int64},
		arrow.Field{Name: "tool_use_count", Type: arrow.PrimitiveTypes.Int64}, arrow.Field{Name: "status", Type: arrow.BinaryTypes.String},
		arrow.Field{Name: "tool_tokens", Type: arrow.PrimitiveTypes.Int64}, arrow.Field{Name: "system_tokens", Type: arrow.PrimitiveTypes.Int64},
		arrow.Field{Name: "models", Type: arrowTexts}, arrow.Field{Name: "requests", Type: arrow.ListOf(arrow.StructOf(nullable(arrowPlain)...))})
	arrowTokens = arrow.StructOf(nullable([]arrow.Field{{Name: "input", Type: arrow.PrimitiveTypes.Int64}, {Name: "output", Type: arrow.PrimitiveTypes.Int64}})...)
	arrowTrace  = nullable([]arrow.Field{
		{Name: "id", Type: arrow.BinaryTypes.String}, {Name: "models", Type: arrowTexts}, {Name: "block_size", Type: arrow.PrimitiveTypes.Int64},
		{Name: "hash_id_scope", Type: arrow.BinaryTypes.String}, {Name: "tool_tokens", Type: arrow.PrimitiveTypes.Int64},
		{Name: "system_tokens", Type: arrow.PrimitiveTypes.Int64},
		{Name: "totals", Type: arrow.StructOf(nullable([]arrow.Field{{Name: "parent_tokens", Type: arrowTokens}, {Name: "subagent_tokens", Type: arrowTokens},
			{Name: "combined_tokens", Type: arrowTokens}, {Name: "subagent_count", Type: arrow.PrimitiveTypes.Int64}})...)},
		{Name: "requests", Type: arrow.ListOf(arrow.StructOf(nullable(arrowRequest)...))},
	})
)

func nullable(fields []arrow.Field) (list []arrow.Field) {
	for _, f := range fields {
		f.Nullable = true
		list = append(list, f)
	}
	return list
}

// arrowParquet writes JSON rows with Arrow's writer: snappy, dictionaries, no checksums, several row groups.
func arrowParquet(t testing.TB, rows [][]byte, group int) []byte {
	return arrowParquetAs(t, rows, group, arrowparquet.WithCompression(compress.Codecs.Snappy), arrowparquet.WithDictionaryDefault(true))
}

func arrowParquetAs(t testing.TB, rows [][]byte, group int, properties ...arrowparquet.WriterProperty) []byte {
	schema := arrow.NewSchema(arrowTrace, nil)
	var out bytes.Buffer
	w, err := pqarrow.NewFileWriter(schema, nopCloser{&out}, arrowparquet.NewWriterProperties(properties...), pqarrow.DefaultWriterProps())
	require.NoError(t, err)
	for len(rows) > 0 {
		n := min(group, len(rows))
		b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
		for _, row := range rows[:n] {
			require.NoError(t, b.UnmarshalJSON(row))
		}
		record := b.NewRecordBatch()
		require.NoError(t, w.Write(record))
		record.Release()
		b.Release()
		rows = rows[n:]
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// rewritten writes a Parquet file again with Arrow's writer, as arrowParquet does; it is fast enough for all traces.
func rewritten(t testing.TB, data []byte, group int64) []byte {
	f, err := file.NewParquetReader(bytes.NewReader(data))
	require.NoError(t, err)
	defer f.Close()
	r, err := pqarrow.NewFileReader(f, pqarrow.ArrowReadProperties{BatchSize: 16}, memory.DefaultAllocator)
	require.NoError(t, err)
	table, err := r.ReadTable(t.Context())
	require.NoError(t, err)
	defer table.Release()
	var out bytes.Buffer
	require.NoError(t, pqarrow.WriteTable(table, nopCloser{&out}, group, arrowparquet.NewWriterProperties(arrowparquet.WithCompression(compress.Codecs.Snappy),
		arrowparquet.WithDictionaryDefault(true)), pqarrow.DefaultWriterProps()))
	return out.Bytes()
}

// publicRows returns the first n public traces, as JSON.
func publicRows(t testing.TB, n int) (rows [][]byte) {
	f, err := os.Open(shared(t, "corpus/weka-v8-600.jsonl.zst"))
	require.NoError(t, err)
	defer f.Close()
	z, err := zstd.NewReader(f)
	require.NoError(t, err)
	defer z.Close()
	lines := bufio.NewReaderSize(z, 8<<20)
	for range n {
		line, err := lines.ReadBytes('\n')
		require.NoError(t, err)
		rows = append(rows, line)
	}
	return rows
}

// digests returns what identifies each trace of a converted dataset.
func digests(t testing.TB, o Options, r *Result) (list []string) {
	c := openResult(t, o, r)
	for i := range c.Traces() {
		d, err := c.Digest(i, "-")
		require.NoError(t, err)
		list = append(list, fmt.Sprintf("%+v", d))
	}
	return list
}

// digestsOf converts an input and returns what identifies each trace, and the tables.
func digestsOf(t testing.TB, input string) (list []string, files map[string]string) {
	o := options(t, input)
	r := o.convert(t)
	list = digests(t, o, r)
	return list, tables(t, o.Root)
}

func requireSameForms(t testing.TB, rows [][]byte, files map[string][]byte) {
	want, wantTables := digestsOf(t, write(t, "in.jsonl", bytes.Join(rows, []byte("\n"))))
	require.Len(t, want, len(rows))
	for name, data := range files {
		got, gotTables := digestsOf(t, write(t, "in.parquet", data))
		require.Equal(t, want, got, name)
		require.Equal(t, len(wantTables), len(gotTables))
		for table := range wantTables {
			require.True(t, wantTables[table] == gotTables[table], "%s: %s", name, table)
		}
	}
}

// Parquet by any writer gives the same structure as JSON lines of the same traces.
func TestParquetAndJSONLinesAreOneStructure(t *testing.T) {
	seconds(t)
	rows := publicRows(t, 4)
	requireSameForms(t, rows, map[string][]byte{
		"parquet-go": libraryParquet(t, rows), "arrow": arrowParquet(t, rows, 3), "datasets": datasetsParquet(t, rows),
	})
}

// Parquet in every supported compression, and with texts in every supported encoding, gives the same structure as JSON lines.
func TestParquetInEveryCodec(t *testing.T) {
	rows := demoRows(t)
	files := map[string][]byte{}
	for _, codec := range []parquetcompress.Codec{&parquet.Uncompressed, &parquet.Snappy, &parquet.Gzip, &parquet.Zstd, &parquet.Brotli, &parquet.Lz4Raw} {
		files[codec.String()] = libraryParquet(t, rows, parquet.Compression(codec))
	}
	for _, e := range []encoding.Encoding{&parquet.DeltaLengthByteArray, &parquet.DeltaByteArray} {
		files[e.String()] = libraryParquet(t, rows, parquet.DefaultEncodingFor(parquet.ByteArray, e), parquet.Compression(&parquet.Lz4Raw))
	}
	for _, codec := range []compress.Compression{compress.Codecs.Brotli, compress.Codecs.Lz4Raw} {
		files["arrow: "+codec.String()] = arrowParquetAs(t, rows, 7, arrowparquet.WithCompression(codec), arrowparquet.WithDictionaryDefault(false),
			arrowparquet.WithEncoding(arrowparquet.Encodings.Plain), arrowparquet.WithEncodingFor("id", arrowparquet.Encodings.DeltaByteArray))
	}
	requireSameForms(t, rows, files)
}

// Objects that Parquet stores as JSON texts are read, and refused, as in JSON lines.
func TestParquetOfJSONTexts(t *testing.T) {
	rows := demoRows(t)
	requireSameForms(t, rows, map[string][]byte{"datasets": datasetsParquet(t, rows)})
	for from, to := range map[string]string{`"in":9`: `"in":-9`, `"t":9`: `"t":"9"`, `"type":"n"`: `"type":null`, `{"t":9`: `null,{"t":9`} {
		bad := []byte(strings.Replace(traceText("bad"), from, to, 1))
		require.NotEqual(t, traceText("bad"), string(bad))
		var want, got *InvalidTraceError
		_, err := Convert(t.Context(), options(t, write(t, "in.jsonl", bad)))
		require.ErrorAs(t, err, &want)
		_, err = Convert(t.Context(), options(t, write(t, "in.parquet", datasetsParquet(t, [][]byte{bad}))))
		require.ErrorAs(t, err, &got)
		require.Equal(t, want.Err, got.Err)
	}
}

// Parquet that the library datasets wrote gives the same structure as its JSON lines. make test-datasets installs it.
func TestParquetOfDatasets(t *testing.T) {
	python := os.Getenv("DATASETS_PYTHON")
	if python == "" {
		t.Skip("DATASETS_PYTHON names no Python with datasets: see make test-datasets")
	}
	rows := demoRows(t)
	from, to := write(t, "in.jsonl", bytes.Join(rows, []byte("\n"))), filepath.Join(t.TempDir(), "out.parquet")
	run := exec.CommandContext(t.Context(), python, filepath.Join("..", "contrib", "datasets", "to-parquet.py"), from, to)
	run.Env = append(os.Environ(), "HF_HUB_OFFLINE=1")
	out, err := run.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "List(Json(")
	data, err := os.ReadFile(to)
	require.NoError(t, err)
	requireSameForms(t, rows, map[string][]byte{"datasets": data})
}

// Parquet of all public traces gives the same structure as their JSON lines.
func TestLongParquetAndJSONLinesAreOneStructure(t *testing.T) {
	long(t)
	rows := publicRows(t, 600)
	library := libraryParquet(t, rows, parquet.MaxRowsPerRowGroup(100))
	requireSameForms(t, rows, map[string][]byte{"parquet-go": library, "arrow": rewritten(t, library, 100), "datasets": datasetsParquet(t, rows)})
}

// demoRows returns the traces of the demo, and some small ones.
func demoRows(t testing.TB) [][]byte {
	rows := bytes.Split(bytes.TrimSpace(demo.JSONL()), []byte("\n"))
	for k := range 5 {
		rows = append(rows, []byte(traceText(fmt.Sprint("small-", k))))
	}
	return rows
}

// The columns of a file, joined to objects again, are the JSON that the file was written from.
func TestParquetRowsArePlainly(t *testing.T) {
	rows := demoRows(t)
	for name, data := range map[string][]byte{
		"parquet-go": libraryParquet(t, rows), "pages of version 1": libraryParquet(t, rows, parquet.DataPageVersion(1), parquet.Compression(&parquet.Gzip)),
		"tiny pages": libraryParquet(t, rows, parquet.PageBufferSize(64), parquet.MaxRowsPerRowGroup(3), parquet.Compression(&parquet.Uncompressed)),
		"arrow":      arrowParquet(t, rows, 4),
	} {
		k := 0
		readRows(t, data, func(r hfsource.Row) {
			require.NoError(t, r.Err, name)
			d := json.NewDecoder(bytes.NewReader(rows[k]))
			d.UseNumber()
			var want any
			require.NoError(t, d.Decode(&want))
			require.Equal(t, plainly(want), any(objectOf(r.Columns, "", 0)), "%s: row %d", name, k)
			for _, o := range r.Columns.Others {
				require.NotContains(t, o.State, column.Value, "%s: %s", name, o.Path)
			}
			k++
		})
		require.Equal(t, len(rows), k, name)
	}
}

// plainly returns a JSON value without nulls, with numbers as columns have them, and totals as an empty object, because their members are
// no columns.
func plainly(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			if v[name] = plainly(member); member == nil {
				delete(v, name)
			} else if name == "totals" {
				v[name] = map[string]any{}
			}
		}
	case []any:
		for k := range v {
			v[k] = plainly(v[k])
		}
	case json.Number:
		f, _ := v.Float64()
		if f == math.Trunc(f) {
			return int64(f)
		}
		return f
	}
	return v
}

// objectOf joins what the columns below a path have for a slot.
func objectOf(row *column.Row, prefix string, slot int) map[string]any {
	object := map[string]any{}
	for i := range row.Wanted {
		c := &row.Wanted[i]
		path, below := strings.CutPrefix(c.Path, prefix)
		name, isList := strings.CutSuffix(path, "[]")
		if !below || strings.Contains(name, ".") || c.At(slot) != column.Value {
			continue
		}
		value := func(k int) any {
			switch c.Kind {
			case column.Int:
				return c.Ints[k]
			case column.Float:
				if v := c.Floats[k]; v != math.Trunc(v) {
					return v
				}
				return int64(c.Floats[k])
			case column.Text:
				return c.Texts[k]
			}
			return objectOf(row, c.Path+".", k)
		}
		if !isList {
			object[name] = value(slot)
			continue
		}
		list := []any{}
		for from, to := c.Span(slot); from < to; from++ {
			list = append(list, value(from))
		}
		object[name] = list
	}
	return object
}

// readRows reads the rows of one Parquet file.
func readRows(t testing.TB, data []byte, each func(hfsource.Row)) *hfsource.Snapshot {
	s, err := hfsource.Resolve(t.Context(), []string{write(t, "in.parquet", data)}, hfsource.Options{})
	require.NoError(t, err)
	defer s.Close()
	require.NoError(t, s.Rows(t.Context(), weka.ColumnPaths(), nil, func(r hfsource.Row) error {
		each(r)
		r.Free()
		return nil
	}))
	return s
}

// tracesOf reads a Parquet file to its end or to where it is damaged, and plans what can be planned.
func tracesOf(t testing.TB, data []byte) (list []string, damage error) {
	readRows(t, data, func(r hfsource.Row) {
		if r.Err != nil {
			damage = r.Err
			return
		}
		tr, err := weka.ScanColumns(r.Columns, rules.Default())
		if err != nil && damage == nil {
			damage = err
		}
		if damage != nil { // what comes after an invalid row is not converted
			return
		}
		text, err := json.Marshal(tr)
		require.NoError(t, err)
		list = append(list, string(text))
		if _, _, err := reconstruct.MakePlan(tr, rules.Default()); err != nil {
			list = append(list, err.Error())
		}
	})
	return list, damage
}

// mutations damages a file n times in each way, and says what it did.
func mutations(data []byte, n int, each func(what string, damaged []byte)) {
	r := rand.New(rand.NewPCG(7, uint64(len(data))))
	footer := len(data) - 8 - int(binary.LittleEndian.Uint32(data[len(data)-8:]))
	for k := range n {
		at := r.IntN(len(data))
		each(fmt.Sprintf("%d: cut at %d", k, at), data[:at])
		flip := func(what string, at int) {
			bad := bytes.Clone(data)
			bad[at] ^= 1 << r.IntN(8)
			each(fmt.Sprintf("%d: %s: flip at %d: %x", k, what, at, bad[at]), bad)
		}
		flip("pages", r.IntN(footer))
		flip("footer", footer+r.IntN(len(data)-footer))
		flip("footer", footer+r.IntN(len(data)-footer))
		bad := bytes.Clone(data)
		at = r.IntN(len(data) - 64)
		for i := range 64 {
			bad[at+i] = byte(r.Uint32())
		}
		each(fmt.Sprintf("%d: garbage at %d", k, at), bad)
	}
}

// A damaged file with checksums is an error, or gives the same traces as the original. One without gives traces or an error.
func TestDamagedParquet(t *testing.T) {
	seconds(t)
	testDamagedParquet(t, 20)
}

// Fifteen thousand damages of each file.
func TestLongDamagedParquet(t *testing.T) {
	long(t)
	testDamagedParquet(t, 3000)
}

func testDamagedParquet(t *testing.T, n int) {
	rows := demoRows(t)
	for name, c := range map[string]struct {
		data   []byte
		summed bool
	}{
		"zstd with checksums":                   {libraryParquet(t, rows, parquet.MaxRowsPerRowGroup(5)), true},
		"version 1 with checksums":              {libraryParquet(t, rows, parquet.DataPageVersion(1), parquet.Compression(&parquet.Snappy)), true},
		"brotli and prefixes, with checksums":   {libraryParquet(t, rows, parquet.DefaultEncodingFor(parquet.ByteArray, &parquet.DeltaByteArray), parquet.Compression(&parquet.Brotli)), true},
		"snappy and dictionaries, no checksums": {arrowParquet(t, rows, 5), false},
	} {
		whole, err := tracesOf(t, c.data)
		require.NoError(t, err)
		require.Len(t, whole, len(rows))
		errs, wrong, same := 0, 0, 0
		mutations(c.data, n, func(what string, damaged []byte) {
			got, damage := tracesOf(t, damaged)
			switch {
			case damage != nil:
				errs++
				if c.summed {
					require.LessOrEqual(t, len(got), len(whole))
					require.True(t, slices.Equal(whole[:len(got)], got), "%s: %s: rows before the damage: %v", name, what, damage)
				}
			case slices.Equal(got, whole):
				same++
			default:
				wrong++
				require.False(t, c.summed, "%s: %s: wrong, and no error", name, what)
			}
		})
		t.Logf("%s: %d bytes: %d errors, %d wrong, %d as the whole", name, len(c.data), errs, wrong, same)
		require.Positive(t, errs)
		require.Positive(t, same)
	}
}

// Convert warns of files without checksums, and of no others.
func TestFilesWithoutChecksumsAreNamed(t *testing.T) {
	rows := demoRows(t)
	for _, c := range []struct {
		data []byte
		want bool
	}{{libraryParquet(t, rows), false}, {arrowParquet(t, rows, 5), true}} {
		in := write(t, "in.parquet", c.data)
		o := options(t, in)
		var warned []string
		o.Warn = func(format string, args ...any) { warned = append(warned, fmt.Sprintf(format, args...)) }
		requireSound(t, o.convert(t))
		if !c.want {
			require.Empty(t, warned)
			continue
		}
		require.Len(t, warned, 1)
		require.Contains(t, warned[0], in+" carries no checksums")
		require.True(t, o.convert(t).Hit)
		require.Len(t, warned, 2, "a hit is of the same file")
		require.Equal(t, warned[0], warned[1])
	}

	first, again := write(t, "first.parquet", arrowParquet(t, rows, 5)), write(t, "again.parquet", arrowParquet(t, rows, 4)) // of which nothing is kept
	two := options(t, first, again)
	two.SkipInvalid = true
	var named []string
	two.Warn = func(format string, args ...any) { named = append(named, fmt.Sprintf(format, args...)) }
	require.Len(t, two.convert(t).Facts.Skipped, len(rows))
	require.Len(t, named, 1)
	require.Contains(t, named[0], first)

	t.Chdir(t.TempDir()) // a file on disk that is called like one of the hub
	const in = "hf://datasets/o/n/x.parquet"
	require.NoError(t, os.MkdirAll(filepath.Dir(in), 0o777))
	require.NoError(t, os.WriteFile(in, arrowParquet(t, rows, 5), 0o666))
	o := options(t, in)
	warned := 0
	o.Warn = func(string, ...any) { warned++ }
	o.convert(t)
	require.Equal(t, 1, warned)
}

// An invalid row is reported with row and field, and can be skipped. A damaged file is reported with row and column.
func TestInvalidParquet(t *testing.T) {
	rows := demoRows(t)
	bad := slices.Clone(rows)
	bad[2] = []byte(strings.Replace(traceText("bad"), `"in":9`, `"in":-9`, 1))
	bad[4] = bad[3] // a second of its id
	in := write(t, "in.parquet", libraryParquet(t, bad))
	o := options(t, in)
	_, err := Convert(t.Context(), o)
	require.EqualError(t, err, in+`:3: trace "bad": requests[1].requests[0]: in = -9: a prompt cannot have a negative length`)
	requireClean(t, o.Root)
	o.SkipInvalid = true
	r := o.convert(t)
	require.Len(t, r.Facts.Skipped, 2)
	require.Equal(t, in+":5", r.Facts.Skipped[1].Where)
	require.Contains(t, r.Facts.Skipped[1].Reason, "the first is row 4 of file 1")

	whole := libraryParquet(t, rows)
	cut := write(t, "cut.parquet", whole[:len(whole)-100])
	_, err = Convert(t.Context(), options(t, cut))
	require.EqualError(t, err, cut+": it cannot be read: not Parquet, or cut off: it does not begin and end with PAR1")
	flipped := bytes.Clone(whole)
	flipped[len(whole)/3] ^= 1
	_, err = Convert(t.Context(), options(t, write(t, "flipped.parquet", flipped)))
	require.ErrorContains(t, err, "flipped.parquet:")
	require.ErrorContains(t, err, ": column requests.list.element.")
	require.ErrorContains(t, err, ": page ")
}

// The format of a file is part of the key, and its name is not. For JSON the key has no field for it.
func TestFormIsPartOfTheKey(t *testing.T) {
	image, err := json.Marshal(inputImages(&hfsource.Snapshot{Files: []hfsource.File{{Format: hfsource.FileFormat{Lines: true}, SHA256: "x"}, {SHA256: "y"}, {Format: hfsource.FileFormat{Parquet: true}, SHA256: "z"}}}))
	require.NoError(t, err)
	require.Equal(t, `[{"lines":true,"sha256":"x"},{"lines":false,"sha256":"y"},{"lines":false,"form":"parquet","sha256":"z"}]`, string(image))
}

// Unknown columns that hold a value count as unknown keys.
func TestUnknownColumns(t *testing.T) {
	type request struct {
		parquetRequest
		Odd  *int64            `parquet:"odd,optional"`
		Void *int64            `parquet:"void,optional"`
		Deep []map[string]bool `parquet:"deep,optional,list"`
	}
	type traceRow struct {
		ID        string   `parquet:"id"`
		Models    []string `parquet:"models,list"`
		BlockSize int32    `parquet:"block_size"`
		Extra     struct{ A, B *float64 }
		Requests  []request `parquet:"requests,list"`
	}
	ptr := func(v int64) *int64 { return &v }
	text := func(v string) *string { return &v }
	at := 1.0
	plain := request{parquetRequest: parquetRequest{parquetCommon: parquetCommon{T: &at, Type: text("n"), Model: text("m"), In: ptr(3), Out: ptr(1)}}}
	odd := plain
	odd.Odd, odd.Status, odd.Deep = ptr(7), text("of a marker"), []map[string]bool{{"x": true}, {"y": false, "z": true}}
	var out bytes.Buffer
	w := parquet.NewGenericWriter[traceRow](&out)
	row := traceRow{ID: "a", BlockSize: 64, Requests: []request{odd, plain, odd}}
	row.Extra.B = &at
	_, err := w.Write([]traceRow{row})
	require.NoError(t, err)
	require.NoError(t, w.Close())
	o := options(t, write(t, "in.parquet", out.Bytes()))
	r := o.convert(t)
	require.Equal(t, map[string]int{"Extra": 1, "odd": 2, "status": 2, "deep": 2}, r.Facts.Unknown)
	o.Strict = true
	_, err = Convert(t.Context(), o)
	require.ErrorContains(t, err, `unknown key "odd", 2 times, first in a`)
}

// Row groups without rows are read. Some writers write them for an empty shard, with dictionaries but no pages.
func TestParquetWithoutRows(t *testing.T) {
	rows := demoRows(t)[:2]
	empty := arrowParquet(t, [][]byte{}, 1)
	dir := t.TempDir()
	for name, data := range map[string][]byte{"1.parquet": empty, "2.parquet": arrowParquet(t, rows, 1)} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o666))
	}
	o := options(t, dir)
	r := o.convert(t)
	assert.Equal(t, &cachestore.ShardCount{Total: 2}, r.Shards)
	got := digests(t, o, r)
	want, _ := digestsOf(t, write(t, "in.jsonl", append(bytes.Join(rows, []byte("\n")), '\n')))
	assert.Equal(t, want, got)
}
