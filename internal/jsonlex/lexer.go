// Package jsonlex reads JSON text token by token, without reflection and with few allocations.
//
// A Lexer has a position in one text. Each method skips white space, reads a value or token, and moves the position behind it:
//
//	l := jsonlex.New(text)
//	err := l.Object(func(key []byte) (err error) {
//		if string(key) == "model" {
//			model, err = l.Text()
//			return err
//		}
//		return l.Skip()
//	})
//	if err == nil {
//		err = l.End()
//	}
//
// By default a Lexer accepts exactly the texts that encoding/json accepts. Strict refuses two things that encoding/json
// replaces by U+FFFD: halves of surrogate pairs, and bytes that are not UTF-8.
//
// Errors are *SyntaxError: what was expected, what was found, and at which byte. After an error the position of the lexer
// is undefined, until Reset moves it back.
package jsonlex

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
)

// DefaultMaxDepth is the nesting that New allows, that of encoding/json.
const DefaultMaxDepth = 10000

// Lexer reads one JSON text from front to back. It is not safe for concurrent use.
type Lexer struct {
	Data     []byte
	Pos      int  // the next byte to read
	MaxDepth int  // objects and arrays that may be open at once
	Strict   bool // refuse halves of surrogate pairs, and strings that are not UTF-8

	depth   int
	decoded []byte // strings with escapes that ShortString has returned to open members
}

// New returns a lexer at the beginning of a text.
func New(data []byte) *Lexer { return &Lexer{Data: data, MaxDepth: DefaultMaxDepth} }

// Kind is the kind of a JSON value.
type Kind uint8

// Kinds of values.
const (
	None Kind = iota // no value begins here
	Object
	Array
	String
	Number
	Bool
	Null
)

func (k Kind) String() string {
	return [...]string{"no value", "object", "array", "string", "number", "true or false", "null"}[k]
}

// Mark is a position in a text, for Reset.
type Mark struct{ pos, depth int }

// Mark returns the lexer's position.
func (l *Lexer) Mark() Mark { return Mark{l.Pos, l.depth} }

// Reset moves the lexer back to an earlier position, also after an error.
func (l *Lexer) Reset(m Mark) { l.Pos, l.depth = m.pos, m.depth }

// Peek skips white space and returns the byte after it, 0 at the end of the text. A 0 within the text begins no token
// either.
func (l *Lexer) Peek() byte {
	if l.Pos < len(l.Data) && l.Data[l.Pos] > ' ' {
		return l.Data[l.Pos]
	}
	return l.peekBeyondSpace()
}

func (l *Lexer) peekBeyondSpace() byte {
	for l.Pos < len(l.Data) {
		switch c := l.Data[l.Pos]; c {
		case ' ', '\t', '\n', '\r':
			l.Pos++
		default:
			return c
		}
	}
	return 0
}

// AtEnd skips white space and reports whether the text ends behind it.
func (l *Lexer) AtEnd() bool {
	l.Peek()
	return l.Pos >= len(l.Data)
}

// End returns an error unless only white space follows.
func (l *Lexer) End() error {
	if l.AtEnd() {
		return nil
	}
	return l.Expected("the end of the text")
}

// Kind returns the kind of the next value by its first byte. The rest of the value may be malformed.
func (l *Lexer) Kind() Kind {
	switch c := l.Peek(); c {
	case '{':
		return Object
	case '[':
		return Array
	case '"':
		return String
	case 't', 'f':
		return Bool
	case 'n':
		return Null
	default:
		if c == '-' || c-'0' <= 9 {
			return Number
		}
		return None
	}
}

// Object reads an object. It calls member for each key, with the lexer before the value, which member has to read. The key
// is valid until member returns.
func (l *Lexer) Object(member func(key []byte) error) error {
	if err := l.open('{'); err != nil {
		return err
	}
	if l.Peek() == '}' {
		return l.close('}')
	}
	top := len(l.decoded)
	for {
		if l.Peek() != '"' {
			return l.Expected("a key")
		}
		key, err := l.ShortString()
		if err != nil {
			return err
		}
		if l.Peek() != ':' {
			return l.Expected("':'")
		}
		l.Pos++
		l.Peek()
		if err := member(key); err != nil {
			return err
		}
		l.decoded = l.decoded[:top]
		if l.Peek() != ',' {
			return l.close('}')
		}
		l.Pos++
	}
}

// ShortString reads a string and returns what it means: a slice of the text where it has no escapes, else bytes that are
// valid until the member of an object that is being read returns.
func (l *Lexer) ShortString() ([]byte, error) {
	if l.Peek() == '"' && !l.Strict {
		if end, escaped := StringEnd(l.Data, l.Pos); end > 0 && !escaped {
			start := l.Pos + 1
			l.Pos = end
			return l.Data[start : end-1], nil
		}
	}
	raw, escaped, err := l.RawString()
	if err != nil || !escaped {
		return raw, err
	}
	l.Pos -= len(raw) + len(`""`)
	top := len(l.decoded)
	l.decoded, err = l.AppendString(l.decoded)
	return l.decoded[top:], err
}

// Array reads an array. It calls element before each element, which element has to read.
func (l *Lexer) Array(element func() error) error {
	if err := l.open('['); err != nil {
		return err
	}
	if l.Peek() == ']' {
		return l.close(']')
	}
	for {
		if err := element(); err != nil {
			return err
		}
		if l.Peek() != ',' {
			return l.close(']')
		}
		l.Pos++
	}
}

// open reads the first byte of an object or array.
func (l *Lexer) open(first byte) error {
	if l.Peek() != first {
		return l.Expected(quote(first))
	}
	if l.depth >= l.MaxDepth {
		return l.problem("nested deeper than %d", l.MaxDepth)
	}
	l.depth++
	l.Pos++
	return nil
}

// close reads the last byte of an object or array.
func (l *Lexer) close(last byte) error {
	if l.Peek() != last {
		return l.Expected("',' or " + quote(last))
	}
	l.depth--
	l.Pos++
	return nil
}

func quote(c byte) string { return "'" + string(c) + "'" }

// Skip reads a value of any kind.
func (l *Lexer) Skip() error {
	l.Peek()
	if end := valueEnd(l.Data, l.Pos, l.MaxDepth-l.depth); end >= 0 && !l.Strict {
		l.Pos = end
		return nil
	}
	switch l.Kind() {
	case Object:
		return l.Object(func([]byte) error { return l.Skip() })
	case Array:
		return l.Array(l.Skip)
	case String:
		_, _, err := l.RawString()
		return err
	case Number:
		_, err := l.Number()
		return err
	case Bool:
		_, err := l.Bool()
		return err
	case Null:
		if l.Null() {
			return nil
		}
	}
	return l.Expected("a value")
}

// Null reads a null, and reports whether there was one.
func (l *Lexer) Null() bool { return l.word("null") }

// Bool reads true or false.
func (l *Lexer) Bool() (bool, error) {
	switch {
	case l.word("true"):
		return true, nil
	case l.word("false"):
		return false, nil
	}
	return false, l.Expected("true or false")
}

// word reads w, and reports whether it was there.
func (l *Lexer) word(w string) bool {
	if l.Peek() != w[0] || len(l.Data)-l.Pos < len(w) || string(l.Data[l.Pos:l.Pos+len(w)]) != w {
		return false
	}
	l.Pos += len(w)
	return true
}

// at reports whether c is the next byte.
func (l *Lexer) at(c byte) bool { return l.Pos < len(l.Data) && l.Data[l.Pos] == c }

// What Whole reports about a number that is valid JSON.
var (
	// ErrNotWhole is about a number with a fraction, such as 1.5 or 1e-3.
	ErrNotWhole = errors.New("not a whole number")
	// errOutOfRange is about a whole number that does not fit into 64 bits with a sign.
	errOutOfRange = errors.New("outside the signed 64-bit range")
)

// SyntaxError is about a text that is not JSON, or is not what the caller expects.
type SyntaxError struct {
	Offset  int    // of the byte at which it was noticed
	cutOff  bool   // the text ends there, too early
	problem string // such as "want a value, found 'x'"
}

func (e *SyntaxError) Error() string {
	if e.cutOff {
		return fmt.Sprintf("cut off after %d bytes, %s", e.Offset, e.problem)
	}
	return fmt.Sprintf("byte %d: %s", e.Offset, e.problem)
}

// Expected returns the error about unexpected text at the lexer's position. what completes "want ...".
func (l *Lexer) Expected(what string) error {
	if l.Pos >= len(l.Data) {
		return &SyntaxError{Offset: len(l.Data), cutOff: true, problem: "want " + what}
	}
	return l.problem("want %s, found %q", what, l.Data[l.Pos])
}

// problem returns an error at the lexer's position.
func (l *Lexer) problem(format string, args ...any) error {
	return &SyntaxError{Offset: l.Pos, problem: fmt.Sprintf(format, args...)}
}

// These functions return the position behind a piece of text that begins at i. Skip passes over most of a text with them, without an
// error to tell what is wrong: a negative position says that something is.

// StringEnd returns where a string ends that begins with a quote, and whether it has escapes; ^end is where it is none.
func StringEnd(b []byte, i int) (end int, escaped bool) {
	for i++; ; {
		for i+9 <= len(b) { // the byte behind the eight may be that of an escape
			m := marks(binary.LittleEndian.Uint64(b[i:]))
			if m == 0 {
				i += 8
				continue
			}
			if i += bits.TrailingZeros64(m) / 8; b[i] == '"' {
				return i + 1, escaped
			}
			if b[i] != '\\' || unescaped[b[i+1]] == 0 {
				break
			}
			escaped = true
			i += 2
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

// digitsEnd returns the first index behind the digits that begin at i, and ^i where there are none.
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

// spaceEnd returns the first index from i on that holds no white space.
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
