package engine

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// exampleTable has durations whose values between and behind its axes are easy to compute: prefill isl/10 up to 200, then twice as
// steep; decode 1 + kv/100 + context/10.
func exampleTable() *Table {
	return &Table{
		PrefillISL: []float64{100, 200, 300}, PrefillTTFT: []float64{10, 20, 40},
		DecodeKV: []float64{0, 100, 300}, DecodeContext: []float64{10, 20},
		DecodeITL: [][]float64{{2, 3}, {3, 4}, {5, 6}},
	}
}

// Covers S-08.
func TestTablesInterpolateAndExtrapolate(t *testing.T) {
	table := exampleTable()
	require.NoError(t, table.Validate())
	timing := NewTiming(Default(), table)
	for tokens, want := range map[int]int64{0: 0, 50: 5e6, 100: 10e6, 150: 15e6, 200: 20e6, 250: 30e6, 300: 40e6, 400: 60e6} {
		require.Equal(t, want, timing.Prefill(tokens), "%d tokens", tokens)
	}
	for _, c := range []struct {
		kv, length, requests int
		want                 int64
	}{
		{0, 10, 1, 2e6},
		{0, 39, 2, 2.9e6}, // context 19
		{50, 30, 2, 3e6},
		{300, 40, 2, 6e6},
		{500, 60, 2, 9e6},
		{0, 0, 1, 1e6}, // not below 1
	} {
		require.Equal(t, c.want, timing.Decode(c.kv, c.length, c.requests), "%+v", c)
	}
	require.Equal(t, int64(7e6), func() int64 {
		one := NewTiming(Default(), &Table{PrefillISL: []float64{1}, PrefillTTFT: []float64{7}})
		return one.Prefill(99)
	}())
}

// gridTable has prefill isl/10 up to 200, then twice as steep, + prefix/100; decode 1 + batch/10 + batch x context/1000.
func gridTable() *Table {
	return &Table{
		PrefillISL: []float64{100, 200, 300}, PrefillPrefix: []float64{0, 1000}, PrefillMS: [][]float64{{10, 20}, {20, 30}, {40, 50}},
		DecodeBatch: []float64{1, 11}, DecodeContext: []float64{0, 1000}, DecodeMS: [][]float64{{1.1, 2.1}, {2.1, 13.1}},
	}
}

// Covers S-08.
func TestGridsHavePrefixAndBatch(t *testing.T) {
	table := gridTable()
	require.NoError(t, table.Validate())
	timing := NewTiming(Default(), table)
	for _, c := range []struct {
		tokens, prefix int
		batch, context int
		want           float64 // ms
		outside        bool
	}{
		{100, 0, 0, 0, 10, false}, {150, 500, 0, 0, 20, false}, {300, 1000, 0, 0, 50, false}, {300, 2000, 0, 0, 60, true},
		{0, 0, 1, 1000, 2.1, false}, {0, 0, 6, 500, 1.6 + 3, false}, {0, 0, 12, 500, 2.2 + 6, true}, {100, 0, 6, 500, 10 + 1.6 + 3, false},
	} {
		w := Work{New: c.tokens, Attended: attended(c.tokens, c.prefix), charged: c.tokens, Batch: c.batch, KV: c.batch * c.context, length: c.batch * c.context}
		require.InDelta(t, c.want*1e6, timing.pass(&w), 1, "%+v", c)
		require.Equal(t, c.outside, timing.outside(&w), "%+v", c)
	}
}

// Covers S-08.
func TestTableFiles(t *testing.T) {
	want := exampleTable()
	text, err := json.Marshal(want)
	require.NoError(t, err)
	flat := []float64{2, 3, 3, 4, 5, 6}
	files := map[string][]byte{
		"json": text,
		"npz": archive(t, map[string][]byte{
			"prefill_isl.npy": array("<i8", "(3,)", []int64{100, 200, 300}), "prefill_ttft_ms.npy": array("<f8", "(3,)", want.PrefillTTFT),
			"decode_active_kv_tokens.npy": array("<i4", "(3,)", []int32{0, 100, 300}), "decode_context_length.npy": array("<f4", "(2,)", []float32{10, 20}),
			"decode_itl.npy": array("<f8", "(3, 2)", flat), "model.npy": []byte("something else"),
		}),
	}
	read := func(name string, data []byte) *Table {
		path := filepath.Join(t.TempDir(), "table."+name)
		require.NoError(t, os.WriteFile(path, data, 0o600))
		got, err := ReadTable(path)
		require.NoError(t, err)
		return got
	}
	for name, data := range files {
		require.Equal(t, want, read(name, data))
	}
	text, err = json.Marshal(gridTable())
	require.NoError(t, err)
	require.Equal(t, gridTable(), read("json", text))
}

// Covers S-08.
func TestTablesThatCannotBeUsed(t *testing.T) {
	for want, change := range map[string]func(*Table){
		"prefill_isl has no values":                                                                func(t *Table) { t.PrefillISL = nil },
		"prefill_isl[2] is 200 after 200: want rising values":                                      func(t *Table) { t.PrefillISL[2] = 200 },
		"prefill_ttft_ms has 2 values, and prefill_isl 3: want as many":                            func(t *Table) { t.PrefillTTFT = t.PrefillTTFT[:2] },
		"decode_itl has 2 rows, and decode_active_kv_tokens 3 values: want as many":                func(t *Table) { t.DecodeITL = t.DecodeITL[:2] },
		"decode_itl[1] has 1 values, and decode_context_length 2: want as many":                    func(t *Table) { t.DecodeITL[1] = t.DecodeITL[1][:1] },
		"decode_context_length[1] is 5 after 10: want rising values":                               func(t *Table) { t.DecodeContext[1] = 5 },
		"decode_itl[2][1] is NaN: want a finite number":                                            func(t *Table) { t.DecodeITL[2][1] = nan() },
		"decode_active_kv_tokens[0] is NaN: want a finite number":                                  func(t *Table) { t.DecodeKV[0] = nan() },
		"prefill_ttft_ms beside prefill_prefix_tokens and prefill_ms: leave it out":                func(t *Table) { t.PrefillPrefix = []float64{0} },
		"decode_active_kv_tokens and decode_itl beside decode_batch and decode_ms: leave them out": func(t *Table) { t.DecodeBatch = []float64{1} },
		"decode_ms has 1 rows, and decode_batch 2 values: want as many": func(t *Table) {
			*t = *gridTable()
			t.DecodeMS = t.DecodeMS[:1]
		},
		"prefill_ms has 2 rows, and prefill_isl 3 values: want as many": func(t *Table) {
			*t = *gridTable()
			t.PrefillMS = t.PrefillMS[:2]
		},
	} {
		table := exampleTable()
		change(table)
		require.EqualError(t, table.Validate(), want)
	}
	for want, data := range map[string][]byte{
		`unknown key "prefil_isl"; did you mean`:                    []byte(`{"prefil_isl":[1]}`),
		"prefill_isl: value 1 of [1,null] is null":                  []byte(`{"prefill_isl":[1,null]}`),
		"decode_itl: value 0 of [null] is null":                     []byte(`{"decode_itl":[[1],[null]]}`),
		"prefill_isl has no values":                                 archive(t, nil),
		"prefill_isl: not an array in numpy's format .npy":          archive(t, map[string][]byte{"prefill_isl.npy": []byte("text")}),
		`prefill_isl: type "|O"`:                                    archive(t, map[string][]byte{"prefill_isl.npy": array("|O", "(1,)", []int64{1})}),
		"prefill_isl: the array has 1 values, and its shape (2,) 2": archive(t, map[string][]byte{"prefill_isl.npy": array("<i8", "(2,)", []int64{1})}),
		"shape (99999999999,) is not one of at most 67108864 bytes": archive(t, map[string][]byte{"prefill_isl.npy": array("<i8", "(99999999999,)", []int64{1})}),
		"decode_itl has 1 dimensions":                               archive(t, map[string][]byte{"decode_itl.npy": array("<i8", "(1,)", []int64{1})}),
		"want an array in C order":                                  archive(t, map[string][]byte{"decode_itl.npy": bytes.Replace(array("<i8", "(1,)", []int64{1}), []byte("False"), []byte("True "), 1)}),
		"not a valid zip file":                                      []byte("PK"),
	} {
		path := filepath.Join(t.TempDir(), "table")
		require.NoError(t, os.WriteFile(path, data, 0o600))
		_, err := ReadTable(path)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, path)
	}
}

func nan() float64 { var zero float64; return zero / zero }

// array writes an array as numpy does.
func array(kind, shape string, values any) []byte {
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }\n", kind, shape)
	var b bytes.Buffer
	b.WriteString("\x93NUMPY\x01\x00")
	_ = binary.Write(&b, binary.LittleEndian, uint16(len(header)))
	b.WriteString(header)
	_ = binary.Write(&b, binary.LittleEndian, values)
	return b.Bytes()
}

func archive(t *testing.T, files map[string][]byte) []byte {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, data := range files {
		f, err := w.Create(name)
		require.NoError(t, err)
		_, err = f.Write(data)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}
