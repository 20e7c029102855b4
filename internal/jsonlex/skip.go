package jsonlex

import (
	"encoding/binary"
	"math/bits"
)

// These functions return the position behind a piece of text that begins at i. Skip passes over most of a text with them, without an
// error to tell what is wrong: a negative position says that something is.

// StringEnd returns where a string ends that begins with a quote, and whether it has escapes; ^end is where it is none.
func StringEnd(b []byte, i int) (end int, escaped bool) {
	for i++; ; {
		for i+8 <= len(b) {
			if m := marks(binary.LittleEndian.Uint64(b[i:])); m != 0 {
				i += bits.TrailingZeros64(m) / 8
				break
			}
			i += 8
		}
		for i < len(b) && b[i] != '"' && b[i] != '\\' && b[i] >= ' ' {
			i++
		}
		switch {
		case i >= len(b) || b[i] < ' ':
			return ^i, escaped
		case b[i] == '"':
			return i + 1, escaped
		}
		escaped = true
		if i+1 < len(b) && unescaped[b[i+1]] != 0 {
			i += 2
		} else if _, ok := hexEscape(b, i); ok {
			i += 6
		} else {
			return ^i, escaped
		}
	}
}

// numberEnd returns where a number ends; ^end is where it lacks a digit.
func numberEnd(b []byte, i int) int {
	if i < len(b) && b[i] == '-' {
		i++
	}
	if i < len(b) && b[i] == '0' {
		i++
	} else if i = digitsEnd(b, i); i < 0 {
		return i
	}
	if i < len(b) && b[i] == '.' {
		if i = digitsEnd(b, i+1); i < 0 {
			return i
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		return digitsEnd(b, i)
	}
	return i
}

func digitsEnd(b []byte, i int) int {
	start := i
	for i < len(b) && b[i]-'0' <= 9 {
		i++
	}
	if i == start {
		return ^i
	}
	return i
}

func spaceEnd(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

var words = [...]string{"null", "true", "false"}

// valueEnd returns where a value ends in which depth objects and arrays may be open at once.
func valueEnd(b []byte, i, depth int) int {
	if i >= len(b) {
		return -1
	}
	switch c := b[i]; {
	case c == '"':
		end, _ := StringEnd(b, i)
		return end
	case c == '{' || c == '[':
		if depth <= 0 {
			return -1
		}
		return elementsEnd(b, i, depth-1)
	case c == '-' || c-'0' <= 9:
		return numberEnd(b, i)
	}
	for _, word := range words {
		if len(b)-i >= len(word) && string(b[i:i+len(word)]) == word {
			return i + len(word)
		}
	}
	return -1
}

// elementsEnd returns where an object or array ends.
func elementsEnd(b []byte, i, depth int) int {
	object, last := b[i] == '{', b[i]+2 // ] and } are two behind [ and {
	if i = spaceEnd(b, i+1); i < len(b) && b[i] == last {
		return i + 1
	}
	for i < len(b) {
		if object {
			if b[i] != '"' {
				return -1
			}
			end, _ := StringEnd(b, i)
			if end < 0 {
				return -1
			}
			if i = spaceEnd(b, end); i >= len(b) || b[i] != ':' {
				return -1
			}
			i = spaceEnd(b, i+1)
		}
		if i = valueEnd(b, i, depth); i < 0 {
			return -1
		}
		if i = spaceEnd(b, i); i >= len(b) {
			return -1
		}
		switch b[i] {
		case last:
			return i + 1
		case ',':
			i = spaceEnd(b, i+1)
		default:
			return -1
		}
	}
	return -1
}
