package wire

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/agentx/agentx/internal/jsonlex"
)

// jsonValue is a value of a JSON text, in place: a message may be as large as maxMessageSize, on each of thousands of connections.
type jsonValue []byte

// is reports whether a string has a value.
func (v jsonValue) is(text string) bool {
	return string(v[1:len(v)-1]) == text || bytes.IndexByte(v, '\\') >= 0 && v.text() == text
}

// finishReasons are those that servers are known to give.
var finishReasons = [...]string{"stop", "length", "tool_calls", "content_filter", "end_turn", "max_tokens", "tool_use", "stop_sequence", "pause_turn", "refusal"}

// text returns the value of a string. Of a long one it returns the beginning as it was written.
func (v jsonValue) text() string {
	for _, reason := range finishReasons {
		if string(v[1:len(v)-1]) == reason {
			return reason
		}
	}
	if len(v) > maxFailureText {
		return clip(string(v[1:maxFailureText]), maxFailureText)
	}
	text := new(string)
	json.Unmarshal(v, text) //nolint:errcheck // it is valid
	return *text
}

// isSet reports whether the value is another than null, false, zero and empty.
func (v jsonValue) isSet() bool {
	switch v[0] {
	case 'n', 'f':
		return false
	case 't':
		return true
	case '"':
		return len(v) > 2
	case '{', '[':
		return v[1] > ' ' && len(v) > 2 || len(trim(v[1:len(v)-1])) > 0
	}
	f, _ := strconv.ParseFloat(string(v), 64) // infinite where it is too large
	return f != 0
}

// maxCount is the largest count that is believed. The sum over millions of requests is a number, whatever their server says.
const maxCount = 1 << 40

// count returns a whole number, Unknown for another value.
func (v jsonValue) count() int64 {
	if v[0] != '-' && (v[0] < '0' || v[0] > '9') {
		return Unknown
	}
	n, err := jsonlex.Rounded(v)
	if err != nil || n < 0 || n > maxCount {
		return Unknown
	}
	return n
}
