package wire

import (
	"encoding/binary"
	"math/bits"
)

// The skip functions return the position behind a piece of JSON that starts at i, or -1 where they are not sure. They return
// -1 when i is -1, so that calls can be chained.

// isSpace does not accept line ends: they end a line of the event, so skimming is not sure of them.
func isSpace(c byte) bool { return c == ' ' || c == '\t' }

func skipSpace(b []byte, i int) int {
	for uint(i) < uint(len(b)) && isSpace(b[i]) {
		i++
	}
	return i
}

func skipWord(b []byte, i int, word string) int {
	if i < 0 || len(b)-i < len(word) || string(b[i:i+len(word)]) != word {
		return -1
	}
	return i + len(word)
}

// skipComma returns the position of the element after a comma, or of the closing bracket.
func skipComma(b []byte, i int) int {
	i = skipSpace(b, i)
	if uint(i) >= uint(len(b)) {
		return -1
	}
	if b[i] == ']' {
		return i
	}
	if b[i] != ',' {
		return -1
	}
	if i = skipSpace(b, i+1); i >= len(b) || b[i] == ']' {
		return -1
	}
	return i
}

// skipRest returns the position behind an array, one of whose elements ends at i.
func skipRest(b []byte, i, depth int) int {
	for i = skipComma(b, i); i >= 0 && b[i] != ']'; {
		i = skipComma(b, skipValue(b, i, depth))
	}
	if i < 0 {
		return -1
	}
	return i + 1
}

func skipValue(b []byte, i, depth int) int {
	if uint(i) >= uint(len(b)) || depth > skimDepth {
		return -1
	}
	switch c := b[i]; c {
	case '"':
		end, _ := skipString(b, i)
		return end
	case '{':
		m := openObject(b, i)
		for m.next() {
			m.at = skipValue(b, m.at, depth+1)
		}
		return m.at
	case '[':
		i = skipSpace(b, i+1)
		if i < len(b) && b[i] == ']' {
			return i + 1
		}
		return skipRest(b, skipValue(b, i, depth+1), depth+1)
	case 't':
		return skipWord(b, i, "true")
	case 'f':
		return skipWord(b, i, "false")
	case 'n':
		return skipWord(b, i, "null")
	default:
		return skipNumber(b, i)
	}
}

func skipNumber(b []byte, i int) int {
	if b[i] == '-' {
		i++
	}
	switch {
	case i < len(b) && b[i] == '0':
		i++
	default:
		if i = skipDigits(b, i); i < 0 {
			return -1
		}
	}
	if i < len(b) && b[i] == '.' {
		if i = skipDigits(b, i+1); i < 0 {
			return -1
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		return skipDigits(b, i)
	}
	return i
}

// skipDigits requires at least one digit.
func skipDigits(b []byte, i int) int {
	start := i
	for i < len(b) && b[i]-'0' <= 9 {
		i++
	}
	if i == start {
		return -1
	}
	return i
}

// skipString returns the position behind a string, and whether the string has no escapes. It looks at eight bytes at a time:
// strings are most of the bytes of an event.
func skipString(b []byte, i int) (end int, plain bool) {
	if uint(i) >= uint(len(b)) || b[i] != '"' {
		return -1, false
	}
	plain = true
	for i++; ; {
		for i+8 <= len(b) {
			stop := stops(binary.LittleEndian.Uint64(b[i:]))
			if stop != 0 {
				i += bits.TrailingZeros64(stop) >> 3
				break
			}
			i += 8
		}
		for i < len(b) && b[i] != '"' && b[i] != '\\' && b[i] >= ' ' {
			i++
		}
		switch {
		case i >= len(b) || b[i] < ' ':
			return -1, false
		case b[i] == '"':
			return i + 1, plain
		}
		plain = false
		if i = skipEscape(b, i); i < 0 {
			return -1, false
		}
	}
}

// stops sets the top bit of the first byte of w that is a quote, a backslash or a control character. Bits above that byte may
// be wrong.
func stops(w uint64) uint64 {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	quote, slash := w^('"'*ones), w^('\\'*ones)
	return ((quote-ones)&^quote | (slash-ones)&^slash | (w-' '*ones)&^w) & tops
}

func skipEscape(b []byte, i int) int {
	if i+1 >= len(b) {
		return -1
	}
	switch b[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2
	case 'u':
		if i+6 > len(b) {
			return -1
		}
		for _, c := range b[i+2 : i+6] {
			if lower := c | 0x20; c-'0' > 9 && (lower < 'a' || lower > 'f') {
				return -1
			}
		}
		return i + 6
	}
	return -1
}
