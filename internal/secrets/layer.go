package secrets

import (
	"bytes"
	"html"
	"strconv"
	"unicode/utf8"
)

// maxLayers is how often a text is looked at: as it is, and with escapes decoded, which may be nested.
const maxLayers = 5

// layer is a text with some escapes decoded, and where each byte of it stands in the text as it was.
type layer struct {
	text []byte
	from []int32 // nil: as it was
}

// at returns where byte k began in the text as it was.
func (v *layer) at(k int) int {
	if v.from == nil {
		return k
	}
	return int(v.from[k])
}

// decode decodes the outermost escapes of a text that had n bytes. It reports whether there was one.
func (v *layer) decode(n int) bool {
	if !bytes.ContainsAny(v.text, `\%&`) {
		return false
	}
	var next layer
	for k := 0; k < len(v.text); {
		decoded, length := unescape(v.text[k:])
		if length == 0 {
			decoded, length = v.text[k:k+1], 1
		}
		for _, c := range decoded {
			next.text, next.from = append(next.text, c), append(next.from, int32(v.at(k)))
		}
		k += length
	}
	next.from = append(next.from, int32(n))
	changed := len(next.text) < len(v.text)
	*v = next
	return changed
}

// unescape decodes the escape that a text begins with: \u0041 and \x41, a backslash before punctuation, %41, and those of HTML. Its
// length is 0 if there is none. What is decoded is shorter than its escape.
func unescape(text []byte) (decoded []byte, length int) {
	digits := func(from, to int) (uint64, bool) {
		if len(text) < to {
			return 0, false
		}
		value, err := strconv.ParseUint(string(text[from:to]), 16, 32)
		return value, err == nil
	}
	switch {
	case text[0] == '%':
		if c, ok := digits(1, 3); ok {
			return []byte{byte(c)}, 3
		}
	case text[0] == '&':
		rest := bytes.TrimLeft(text[1:min(len(text), 12)], "#0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
		if end := min(len(text), 12) - len(rest); bytes.HasPrefix(rest, []byte(";")) {
			if plain := html.UnescapeString(string(text[:end+1])); len(plain) <= end {
				return []byte(plain), end + 1
			}
		}
	case text[0] != '\\' || len(text) < 2:
	case text[1] == 'u':
		if r, ok := digits(2, 6); ok {
			return utf8.AppendRune(nil, rune(r)), 6
		}
	case text[1] == 'x':
		if c, ok := digits(2, 4); ok {
			return []byte{byte(c)}, 4
		}
	case bytes.IndexByte([]byte("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"), text[1]) >= 0:
		return text[1:2], 2
	}
	return nil, 0
}
