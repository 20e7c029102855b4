package weka

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/hfsource/column"
	"github.com/agentx/agentx/internal/fixtures"
	"github.com/agentx/agentx/trace"
)

// withoutNulls deletes from a JSON text the members that columns do not distinguish from missing ones: nulls, and unknown keys
// and totals without any value below.
func withoutNulls(t require.TestingT, text []byte) []byte {
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	var v any
	require.NoError(t, d.Decode(&v))
	known := map[string]bool{"id": true, "block_size": true, "hash_id_scope": true}
	for _, name := range keyNames[1:] {
		known[name] = true
	}
	var holds func(v any) bool
	holds = func(v any) bool {
		switch v := v.(type) {
		case nil:
			return false
		case map[string]any:
			for _, e := range v {
				if holds(e) {
					return true
				}
			}
			return false
		case []any:
			for _, e := range v {
				if holds(e) {
					return true
				}
			}
			return false
		}
		return true
	}
	var strip func(v any) any
	strip = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			for name, e := range v {
				if e == nil || !known[name] && !holds(e) {
					delete(v, name)
				} else if known[name] {
					v[name] = strip(e)
				}
			}
		case []any:
			for k := range v {
				v[k] = strip(v[k])
			}
		}
		return v
	}
	out, err := json.Marshal(strip(v))
	require.NoError(t, err)
	return out
}

// scanBoth reads a row as columns and as JSON. ok is false where columns cannot hold it.
func scanBoth(t require.TestingT, text []byte, rules rules.Rules) (fromColumns, fromJSON *trace.Trace, columnsErr, jsonErr error, ok bool) {
	row, err := rowOf(ColumnPaths(), text)
	if err != nil {
		return nil, nil, nil, nil, false
	}
	fromColumns, columnsErr = ScanColumns(row, rules)
	fromJSON, jsonErr = Scan(withoutNulls(t, text), rules)
	return fromColumns, fromJSON, columnsErr, jsonErr, true
}

// ScanColumns and Scan agree on random traces.
func TestColumnsAgreeWithJSON(t *testing.T) {
	accepted, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		w := writer{t: t}
		text := []byte(w.trace())
		for mode, rules := range modes() {
			got, want, err, wantErr, ok := scanBoth(t, text, rules)
			if !ok {
				continue
			}
			require.Equal(t, wantErr == nil, err == nil, "%s: columns: %v; JSON: %v\n%s", mode, err, wantErr, text)
			if err != nil {
				var e *trace.Error
				require.ErrorAs(t, err, &e)
				require.NotEmpty(t, e.Kind)
				refused++
				continue
			}
			accepted++
			require.Equal(t, fmt.Sprintf("%+v", plainOf(want)), fmt.Sprintf("%+v", plainOf(got)), "%s\n%s", mode, text)
			require.Equal(t, want.Format, got.Format)
		}
	})
	assert.Positive(t, accepted)
	assert.Positive(t, refused)
}

// The validation vectors apply to columns too.
func TestColumnsAgreeOnVectors(t *testing.T) {
	list, err := fixtures.Weka("validation")
	require.NoError(t, err)
	compared := 0
	for _, v := range list {
		var in struct{ Trace json.RawMessage }
		require.NoError(t, json.Unmarshal(v.In, &in))
		if in.Trace == nil || in.Trace[0] != '{' {
			continue
		}
		for mode, rules := range modes() {
			got, want, err, wantErr, ok := scanBoth(t, in.Trace, rules)
			if !ok {
				continue
			}
			compared++
			require.Equal(t, wantErr == nil, err == nil, "%s: columns: %v; JSON: %v\n%s", mode, err, wantErr, in.Trace)
			if err == nil {
				require.Equal(t, plainOf(want), plainOf(got), "%s\n%s", mode, in.Trace)
				continue
			}
			var e, f *trace.Error
			require.ErrorAs(t, err, &e)
			require.ErrorAs(t, wantErr, &f)
			require.Equal(t, f.Kind, e.Kind, "%s: columns: %v; JSON: %v\n%s", mode, err, wantErr, in.Trace)
		}
	}
	require.Greater(t, compared, 20)
}

// columnsOf returns the columns of small with one change.
func columnsOf(t *testing.T, change func(c map[string]*column.Column)) *column.Row {
	row, err := rowOf(ColumnPaths(), []byte(small))
	require.NoError(t, err)
	byPath := map[string]*column.Column{}
	for k := range row.Wanted {
		byPath[row.Wanted[k].Path] = &row.Wanted[k]
	}
	if change != nil {
		change(byPath)
	}
	return row
}

// Values that JSON does not have, or writes in another way.
func TestColumnsThatAreRefused(t *testing.T) {
	floats := func(c *column.Column) []float64 {
		c.Kind, c.Floats = column.Float, make([]float64, len(c.Ints))
		for k, v := range c.Ints {
			c.Floats[k] = float64(v)
		}
		return c.Floats
	}
	for want, change := range map[string]func(c map[string]*column.Column){
		`trace "trace": requests[0].t: NaN is not a finite number`:        func(c map[string]*column.Column) { c["requests[].t"].Floats[0] = math.NaN() },
		`trace "trace": requests[3].t: -Inf is not a finite number`:       func(c map[string]*column.Column) { c["requests[].t"].Floats[3] = math.Inf(-1) },
		`trace "trace": requests[2].t: 1e+16 seconds: beyond 1e+15`:       func(c map[string]*column.Column) { c["requests[].t"].Floats[2] = 1e16 },
		`trace "trace": requests[0].in: want a whole number, found 130.5`: func(c map[string]*column.Column) { floats(c["requests[].in"])[0] = 130.5 },
		`trace "trace": requests[0].in: 9.007199254740994e+15 in a column of floating point numbers: beyond 2^53 they are not exact`: func(c map[string]*column.Column) {
			floats(c["requests[].in"])[0] = 1<<53 + 2
		},
		`trace "trace": requests[0].in: NaN is not a finite number`: func(c map[string]*column.Column) { floats(c["requests[].in"])[0] = math.NaN() },
		`trace "trace": requests[2].hash_ids[3]: 18446744073709551615 is outside the signed 64-bit range`: func(c map[string]*column.Column) {
			c["requests[].hash_ids[]"].Kind = column.Uint
			c["requests[].hash_ids[]"].Ints[7] = -1
		},
		`trace "trace": requests[0].hash_ids[2]: want number, found null`: func(c map[string]*column.Column) { c["requests[].hash_ids[]"].Nulls = []int32{2} },
		`trace "trace": requests[0].hash_ids[0]: want number, found BYTE_ARRAY`: func(c map[string]*column.Column) {
			ids := c["requests[].hash_ids[]"]
			ids.Kind, ids.Type, ids.Texts = column.Text, "BYTE_ARRAY", make([]string, len(ids.Ints))
		},
		`trace "trace": requests[1].requests[0].hash_ids[0]: want a whole number, found 9.5`: func(c map[string]*column.Column) { floats(c["requests[].requests[].hash_ids[]"])[0] = 9.5 },
		`trace "trace": requests[0].hash_ids: want array, found INT64`: func(c map[string]*column.Column) {
			ids := c["requests[].hash_ids[]"]
			ids.Kind, ids.Type, ids.Lists = column.Other, "INT64", ids.Lists[:1]
		},
		`trace "trace": requests[0].model: a string that is not UTF-8: "\xff"`: func(c map[string]*column.Column) { c["requests[].model"].Texts[0] = "\xff" },
		`trace "trace": requests[0].input_types[0]: a string that is not UTF-8: "a\xc0"`: func(c map[string]*column.Column) {
			c["requests[].input_types[]"].Texts[0] = "a\xc0"
		},
		`trace "trace": block_size: want number, found BOOLEAN`: func(c map[string]*column.Column) {
			*c["block_size"] = column.Column{Path: "block_size", Kind: column.Other, Type: "BOOLEAN", State: []column.State{column.Value}}
		},
		`trace "trace": requests: want array, found a record`: func(c map[string]*column.Column) {
			*c["requests[]"] = column.Column{Path: "requests[]", Kind: column.Other, Type: "a record", State: []column.State{column.Value}}
		},
		`trace "trace": requests[0]: want object, found BYTE_ARRAY`: func(c map[string]*column.Column) {
			c["requests[]"].Kind, c["requests[]"].Type = column.Text, "BYTE_ARRAY"
		},
		`trace "trace": requests[2].in: not JSON: byte 3: data after the value`:       func(c map[string]*column.Column) { texts(c["requests[].in"], "130", "", "130,1", "9", "9") },
		`trace "trace": requests[0].in: not JSON: byte 0: want a value, found 'x'`:    func(c map[string]*column.Column) { texts(c["requests[].in"], "x") },
		`trace "trace": totals: want object, found INT64`:                             func(c map[string]*column.Column) { c["totals"].Kind, c["totals"].Type = column.Int, "INT64" },
		`trace "trace": required field "models" is missing`:                           func(c map[string]*column.Column) { *c["models[]"] = column.Column{Path: "models[]"} },
		`required field "id" is missing`:                                              func(c map[string]*column.Column) { c["id"].State[0] = column.Null },
		`trace "trace": requests[1]: required field "type" is missing`:                func(c map[string]*column.Column) { c["requests[].type"].State[1] = column.Absent },
		`trace "trace": hash_id_scope: hash_id_scope "odd": want "local" or "global"`: func(c map[string]*column.Column) { c["hash_id_scope"].Texts[0] = "odd" },
	} {
		_, err := ScanColumns(columnsOf(t, change), rules.Default())
		assert.EqualError(t, err, want)
	}
}

// texts turns a column into one of JSON texts.
func texts(c *column.Column, values ...string) {
	c.Kind, c.Type, c.Texts = column.JSON, "BYTE_ARRAY (JSON)", values
	c.Lists = c.Lists[:min(len(c.Lists), strings.Count(strings.TrimSuffix(c.Path, "[]"), "[]"))]
}

// A JSON text in a column, at any depth, means what it would mean in a JSON row.
func TestColumnsOfJSONTexts(t *testing.T) {
	var tr map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(small), &tr))
	want, err := Scan(withoutNulls(t, []byte(small)), rules.Default())
	require.NoError(t, err)
	for name, change := range map[string]func(c map[string]*column.Column){
		"all requests": func(c map[string]*column.Column) { texts(c["requests[]"], string(tr["requests"])) },
		"each request": func(c map[string]*column.Column) {
			var list []json.RawMessage
			require.NoError(t, json.Unmarshal(tr["requests"], &list))
			c["requests[]"].Kind = column.JSON
			for _, r := range list {
				c["requests[]"].Texts = append(c["requests[]"].Texts, string(r))
			}
		},
		"members": func(c map[string]*column.Column) {
			var list []map[string]json.RawMessage
			require.NoError(t, json.Unmarshal(tr["requests"], &list))
			for _, key := range []string{"in", "hash_ids[]", "t", "requests[]"} {
				values := []string{}
				for _, r := range list {
					values = append(values, string(r[strings.TrimSuffix(key, "[]")]))
				}
				texts(c["requests[]."+key], values...)
			}
		},
		"the trace's own": func(c map[string]*column.Column) {
			for _, key := range []string{"id", "models[]", "block_size"} {
				texts(c[key], string(tr[strings.TrimSuffix(key, "[]")]))
			}
		},
	} {
		got, err := ScanColumns(columnsOf(t, change), rules.Default())
		require.NoError(t, err, name)
		assert.Equal(t, plainOf(want), plainOf(got), name)
	}
}

// Columns of all number types are read, and a key that does not count may have a value of any type.
func TestColumnsOfOtherTypes(t *testing.T) {
	want, err := Scan(withoutNulls(t, []byte(small)), rules.Default())
	require.NoError(t, err)
	got, err := ScanColumns(columnsOf(t, func(c map[string]*column.Column) {
		for _, path := range []string{"block_size", "requests[].in", "requests[].requests[].out", "requests[].hash_ids[]", "requests[].duration_ms"} {
			c := c[path]
			c.Kind, c.Floats = column.Float, make([]float64, len(c.Ints))
			for k, v := range c.Ints {
				c.Floats[k] = float64(v)
			}
		}
		c["requests[].out"].Kind = column.Uint
		c["requests[].ttft"].Kind, c["requests[].ttft"].Type = column.Other, "INT96"
		c["requests[].output_types[]"].Kind = column.None // always empty
	}), rules.Default())
	require.NoError(t, err)
	assert.Equal(t, plainOf(want), plainOf(got))
}

// A request has no requests of its own: the column is unknown, and its values do not count.
func TestRequestsOfARequestAreAnUnknownColumn(t *testing.T) {
	text := strings.Replace(small, `"stop":""`, `"requests":[{"t":0,"type":"?","model":"other","in":1,"out":1,"odd":1}]`, 1)
	got, want, err, wantErr, ok := scanBoth(t, []byte(text), rules.Default())
	require.True(t, ok)
	require.NoError(t, err)
	require.NoError(t, wantErr)
	assert.Equal(t, plainOf(want), plainOf(got))
	assert.Equal(t, []string{"m", "n"}, got.Models)
	assert.Equal(t, map[string]int{"requests": 1}, got.Unknown)
}

func TestColumnsOfMooncakeRowsAreNamedInTheError(t *testing.T) {
	row, err := rowOf(ColumnPaths(), []byte(`{"timestamp":1,"input_length":3,"output_length":4,"hash_ids":[1,2]}`))
	require.NoError(t, err)
	_, err = ScanColumns(row, rules.Default())
	assert.ErrorContains(t, err, "Mooncake rows, which are read from JSON lines only")
}

func FuzzColumns(f *testing.F) {
	f.Add([]byte(small))
	f.Fuzz(func(t *testing.T, text []byte) {
		if !json.Valid(text) || oddity(text) != "" {
			return
		}
		for _, rules := range modes() {
			got, want, err, wantErr, ok := scanBoth(t, text, rules)
			if ok && (err == nil) == (wantErr == nil) && err == nil {
				require.Equal(t, fmt.Sprintf("%+v", plainOf(want)), fmt.Sprintf("%+v", plainOf(got)), "%s", text)
			} else if ok {
				require.Equal(t, wantErr == nil, err == nil, "columns: %v; JSON: %v\n%s", err, wantErr, text)
			}
		}
	})
}

// Errors name rows that are no traces, as text and as columns, under strict rules too.
func TestRowsOfOtherFormatsAreNamedInTheError(t *testing.T) {
	for text, want := range map[string]string{
		`{"messages":[{"role":"user","content":"hi"}],"id":"x"}`:          "a chat dataset",
		`{"conversations":[{"from":"human","value":"hi"}]}`:               "ShareGPT",
		`{"timestamp":1,"input_length":3,"output_length":4}`:              "a Mooncake row without hash_ids",
		`{"created_time":1,"input_tokens":3,"output_tokens":4,"odd":"x"}`: "a Mooncake row without hash_ids",
	} {
		for mode, rules := range modes() {
			_, err := Scan([]byte(text), rules)
			assert.ErrorContains(t, err, want, mode)
			row, err := rowOf(ColumnPaths(), []byte(text))
			require.NoError(t, err)
			_, err = ScanColumns(row, rules)
			assert.ErrorContains(t, err, want, mode)
		}
	}
	_, err := Scan([]byte(`{"messages":[],"block_size":64,"models":[],"requests":[]}`), rules.Default())
	assert.ErrorContains(t, err, `required field "id" is missing`)
}
