package inferencex

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
)

// object is a JSON object; of keys that stand in it twice, the last one counts.
type object map[string]json.RawMessage

// asObject returns a JSON value as an object; false if it is none, such as null.
func asObject(v json.RawMessage) (o object, ok bool) {
	if v = bytes.TrimSpace(v); len(v) == 0 || v[0] != '{' {
		return nil, false
	}
	return o, json.Unmarshal(v, &o) == nil
}

// asNumber returns a JSON number; false if the value is none, such as true or a text.
func asNumber(v json.RawMessage) (float64, bool) {
	v = bytes.TrimSpace(v)
	if len(v) == 0 || (v[0] != '-' && (v[0] < '0' || v[0] > '9')) {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(v), 64)
	return f, err == nil
}

// asInteger returns a JSON number without its fraction; 0 if the value is none. Nanoseconds since 1970 do not fit a float64.
func asInteger(v json.RawMessage) int64 {
	if n, err := strconv.ParseInt(string(bytes.TrimSpace(v)), 10, 64); err == nil {
		return n
	}
	f, ok := asNumber(v)
	if !ok || math.Abs(f) >= 1<<63 {
		return 0
	}
	return int64(f)
}

// asText returns a JSON text; false if the value is none.
func asText(v json.RawMessage) (s string, ok bool) {
	if v = bytes.TrimSpace(v); len(v) == 0 || v[0] != '"' {
		return "", false
	}
	return s, json.Unmarshal(v, &s) == nil
}

// isTrue reports whether Python takes a JSON value for true: null, false, 0 and what is empty are not.
func isTrue(v json.RawMessage) bool {
	var empty bytes.Buffer
	if len(v) == 0 || json.Compact(&empty, v) != nil {
		return false
	}
	if f, ok := asNumber(v); ok {
		return f != 0
	}
	switch empty.String() {
	case "null", "false", `""`, "{}", "[]":
		return false
	}
	return true
}

// word returns a JSON value as Python writes it as text.
func word(v json.RawMessage) string {
	if s, ok := asText(v); ok {
		return s
	}
	if string(v) == "true" {
		return "True"
	}
	return string(bytes.TrimSpace(v))
}

// Figure is a number in the results of InferenceX: rounded to five places, and an integer when that leaves a whole number of at
// least 1.
type Figure float64

// MarshalJSON returns the figure; a figure that is not finite is null.
func (f Figure) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(f)) || math.IsInf(float64(f), 0) {
		return []byte("null"), nil
	}
	text := strconv.FormatFloat(float64(f), 'f', 5, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
	}
	if text == "0" || text == "-0" {
		text = "0.0"
	}
	return []byte(text), nil
}
