package wire

import (
	"bytes"
	"encoding/json"
	"iter"
	"math"
	"strconv"
)

// jsonValue is a value of a JSON text, in place; nil: there is none. A message may be as large as maxMessageSize, on each of
// thousands of connections, so its values are looked up where they stand, and none is copied.
type jsonValue []byte

// parseJSON returns the value of a text, nil where it is no JSON.
func parseJSON(text []byte) jsonValue {
	if !json.Valid(text) {
		return nil
	}
	return trim(text)
}

// parts yields the names, in quotes, and the values of an object, with open '{', or the values of an array, with open '['. It
// yields nothing of another value.
func (v jsonValue) parts(open byte) iter.Seq2[jsonValue, jsonValue] {
	return func(yield func(name, value jsonValue) bool) {
		if len(v) == 0 || v[0] != open {
			return
		}
		for i := v.blanksEnd(1); v[i] != open+2; { // ] and } are two behind [ and {
			var name jsonValue
			if open == '{' {
				end := v.valueEnd(i)
				name = v[i:end]
				i = v.blanksEnd(v.blanksEnd(end) + 1) // behind the colon
			}
			end := v.valueEnd(i)
			if !yield(name, v[i:end]) {
				return
			}
			if i = v.blanksEnd(end); v[i] == ',' {
				i = v.blanksEnd(i + 1)
			}
		}
	}
}

// blanksEnd returns the position of the first byte from i on that is no blank.
func (v jsonValue) blanksEnd(i int) int {
	for isSpace(v[i]) || v[i] == '\n' || v[i] == '\r' {
		i++
	}
	return i
}

// valueEnd returns the position behind the value that starts at i.
func (v jsonValue) valueEnd(i int) int {
	for depth := 0; ; {
		switch v[i] {
		case '"':
			i, _ = skipString(v, i)
		case '{', '[':
			depth++
			i++
		case '}', ']':
			depth--
			i++
		default: // of a number, of a word, or between values
			i++
			if depth == 0 && (i == len(v) || bytes.IndexByte([]byte(",]} \t\r\n"), v[i]) >= 0) {
				return i
			}
			continue
		}
		if depth == 0 {
			return i
		}
	}
}

// member returns the last member of an object that has a name.
func (v jsonValue) member(name string) (found jsonValue) {
	for n, value := range v.parts('{') {
		if string(n[1:len(n)-1]) == name || bytes.IndexByte(n, '\\') >= 0 && n.text() == name {
			found = value
		}
	}
	return found
}

// hasText reports whether the value is a string that is not empty.
func (v jsonValue) hasText() bool { return len(v) > 2 && v[0] == '"' }

// isBlank reports whether the value is an empty string.
func (v jsonValue) isBlank() bool { return string(v) == `""` }

// text returns a string, and "" for another value. Of a long one it returns the beginning as it was written.
func (v jsonValue) text() (s string) {
	switch {
	case !v.hasText():
		return ""
	case len(v) > maxFailureText:
		return clip(string(v[1:maxFailureText]), maxFailureText)
	}
	json.Unmarshal(v, &s) //nolint:errcheck // it is valid
	return s
}

// isSet reports whether the value is another than null, false, zero and empty.
func (v jsonValue) isSet() bool {
	if len(v) == 0 {
		return false
	}
	switch v[0] {
	case 'n', 'f':
		return false
	case 't':
		return true
	case '"':
		return len(v) > 2
	case '{', '[':
		for range v.parts(v[0]) {
			return true
		}
		return false
	}
	f, _ := strconv.ParseFloat(string(v), 64) // infinite where it is too large
	return f != 0
}

// maxCount is the largest count that is believed. The sum over millions of requests is a number, whatever their server says.
const maxCount = 1 << 40

// count returns a whole number, Unknown for another value.
func (v jsonValue) count() int64 {
	var f *float64
	if len(v) == 0 || json.Unmarshal(v, &f) != nil || f == nil {
		return Unknown
	}
	if *f < 0 || *f > maxCount || *f != math.Trunc(*f) {
		return Unknown
	}
	return int64(*f)
}
