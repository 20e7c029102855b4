package spans

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/convert/text/content"
)

// otlp returns a value as OTLP has it. Members of a map have their keys first or last.
func otlp(t *rapid.T, v any) string {
	text := func(v any) string {
		b, err := json.Marshal(v)
		require.NoError(t, err)
		return string(b)
	}
	var list []string
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			list = append(list, otlp(t, e))
		}
		return `{"arrayValue":{"values":[` + strings.Join(list, ",") + `]}}`
	case map[string]any:
		for key, e := range v {
			pair := []string{`"key":` + text(key), `"value":` + otlp(t, e)}
			if rapid.Bool().Draw(t, "last") {
				pair[0], pair[1] = pair[1], pair[0]
			}
			list = append(list, "{"+strings.Join(pair, " , ")+"}")
		}
		return ` {"x":1, "kvlistValue": {"values" :[` + strings.Join(list, ",") + `]}}`
	case string:
		return `{"stringValue":` + text(v) + `}`
	case bool:
		return `{"boolValue":` + text(v) + `}`
	case int64:
		return fmt.Sprintf(`{"intValue":"%d"}`, v)
	case float64:
		return `{"doubleValue":` + text(v) + `}`
	}
	return `{}`
}

func value(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		kinds := 7
		if depth == 0 {
			kinds = 5
		}
		switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
		case 0:
			return rapid.String().Draw(t, "string")
		case 1:
			return rapid.Int64().Draw(t, "int")
		case 2:
			return rapid.Float64Range(-1e9, 1e9).Draw(t, "double")
		case 3:
			return rapid.Bool().Draw(t, "bool")
		case 4:
			return nil
		case 5:
			return rapid.SliceOfN(value(depth-1), 0, 3).Draw(t, "list")
		}
		return rapid.MapOfN(rapid.String(), value(depth-1), 0, 3).Draw(t, "map")
	})
}

// Values of OTLP become the JSON that they stand for.
func TestPlain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := []any{value(4).Draw(t, "value")} // a list, so that it is wrapped
		s := Scanner{Wanted: map[string]int{"a": 3}}
		counted, err := s.Scan([]byte(`{"resourceSpans":[{"scopeSpans":[{"spans":[{"attributes":[{"key":"a","value":` + otlp(t, v) + `}]}]}]}]}`))
		require.NoError(t, err)
		require.Empty(t, counted)
		want, err := json.Marshal(v)
		require.NoError(t, err)
		got, list := s.Said(&s.Spans[0], 3)
		require.True(t, list)
		require.JSONEq(t, string(want), string(got))
	})
}

func TestPlainOfOddities(t *testing.T) {
	for of, want := range map[string]string{
		`{"arrayValue":{"values":[{"intValue":"x"},{"intValue":7},{"intValue":"007"},{"bytesValue":"AA=="},5,{"other":1},{"stringValue":"a","boolValue":true}]}}`: `["x",7,007,"AA==",null,null,true]`,
		`{"arrayValue":null}`: `[]`, `{"arrayValue":{"values":7}}`: `[]`, `{"arrayValue":{"values":[],"values":[{"boolValue":true}]}}`: `[true]`,
		`{"kvlistValue":{"values":[7,{},{"key":5,"value":{"intValue":1}},{"key":"a"}]}}`:                       `{"":null,"":null,"":1,"a":null}`,
		`{"kvlistValue":{"values":[{"key":"a","value":{"intValue":"1"},"value":{"intValue":"2"},"key":"b"}]}}`: `{"b":2}`,
	} {
		s := Scanner{Wanted: map[string]int{"a": 0}}
		_, err := s.Scan([]byte(`{"spans":[{"attributes":[{"key":"a","value":` + of + `}]}]}`))
		require.NoError(t, err)
		assert.Equal(t, want, string(s.Plain(&s.Spans[0], 0)), of)
	}
}

// A row is malformed for a Scanner where it is for encoding/json, and then it has no spans.
func FuzzScan(f *testing.F) {
	for _, row := range []string{
		`{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"a","spanId":"b","parentSpanId":"c","startTimeUnixNano":"5","endTimeUnixNano":6,"status":{"code":2},"attributes":[{"key":"a","value":{"arrayValue":{"values":[{"kvlistValue":{"values":[{"key":"k","value":{"intValue":"1"}}]}}]}}}]}]}]}]}`,
		`{"session_id":1,"spans":[{"trace_id":"a","span_id":"b","attributes":{"a":[1]}},7]}`, `{"span_id":"b","attributes":{"a":"[1]"},"attributes":null}`, `[]`, `{"resourceLogs":[]}`, `{"spans":[{}`,
	} {
		f.Add([]byte(row))
	}
	f.Fuzz(func(t *testing.T, row []byte) {
		s := Scanner{Wanted: map[string]int{"a": 0}}
		_, err := s.Scan(row)
		if depth(row) < content.MaxDepth {
			require.Equal(t, json.Valid(row), err == nil)
		}
		if err != nil {
			require.Empty(t, s.Spans)
			return
		}
		for k := range s.Spans {
			f := &s.Spans[k]
			for _, v := range []content.Raw{f.Trace(), f.ID(), f.Parent(), f.Attribute(0)} {
				require.True(t, len(v) == 0 || json.Valid(v))
			}
			f.Start()
			f.End()
			f.Failed()
			f.Count(0)
			s.Said(f, 0)
		}
	})
}

// depth returns a bound of how deep a text may be.
func depth(row []byte) int { return strings.Count(string(row), "[") + strings.Count(string(row), "{") }

func TestIs(t *testing.T) {
	for row, is := range map[string]bool{
		`{"resourceSpans":[]}`: true, `{"resourceLogs":[]}`: true, `{"spans":[]}`: true, `{"resourceSpans":[{"scope`: true, ` {"x":1,"span_id":"a","attributes":{}}`: true,
		`{"attributes":[],"spanId":"a"}`: true, `{"spans":7}`: false, `{"attributes":{}}`: false, `{"span_id":"a"}`: false, `{}`: false, ``: false, `[`: false, `{"messages":[{"spans":[]}]}`: false,
	} {
		assert.Equal(t, is, Is(content.Raw(strings.TrimSpace(row))), row)
	}
}
