package jsonlex

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// RawString reads a string and returns the text between its quotes, a slice of Data. escaped reports that it contains
// escapes; otherwise raw is the value of the string.
func (l *Lexer) RawString() (raw []byte, escaped bool, err error) {
	if l.Peek() != '"' {
		return nil, false, l.Expected("a string")
	}
	start := l.Pos + 1
	end, escaped := StringEnd(l.Data, l.Pos)
	if end < 0 {
		if l.Pos = ^end; l.at('\\') {
			return nil, false, l.badEscape()
		}
		return nil, false, l.unfinished()
	}
	raw = l.Data[start : end-1]
	if l.Strict && escaped {
		err = l.checkEscapes(raw, start)
	}
	if err == nil {
		err = l.checkUTF8(raw, start)
	}
	l.Pos = end
	return raw, escaped, err
}

// Text reads a string and returns its value.
func (l *Lexer) Text() (string, error) {
	mark := l.Mark()
	raw, escaped, err := l.RawString()
	if err != nil || !escaped {
		return string(raw), err
	}
	l.Reset(mark)
	text, err := l.AppendString(nil)
	return string(text), err
}

// AppendString reads a string and appends its value to dst.
func (l *Lexer) AppendString(dst []byte) ([]byte, error) {
	if l.Peek() != '"' {
		return dst, l.Expected("a string")
	}
	l.Pos++
	start := l.Pos
	for {
		dst = l.copyText(dst)
		switch {
		case l.at('\\'):
			r, err := l.escape()
			if err != nil {
				return dst, err
			}
			dst = utf8.AppendRune(dst, r)
		case l.at('"'):
			l.Pos++
			return dst, l.checkUTF8(l.Data[start:l.Pos-1], start)
		default:
			return dst, l.unfinished()
		}
	}
}

// checkEscapes refuses halves of surrogate pairs.
func (l *Lexer) checkEscapes(raw []byte, start int) error {
	for l.Pos = start; ; {
		k := bytes.IndexByte(raw[l.Pos-start:], '\\')
		if k < 0 {
			return nil
		}
		l.Pos += k
		if _, err := l.escape(); err != nil {
			return err
		}
	}
}

// checkUTF8 refuses a string of a strict text that is not UTF-8. start is the offset of its first byte.
func (l *Lexer) checkUTF8(raw []byte, start int) error {
	if l.Strict && !utf8.Valid(raw) {
		return &SyntaxError{Offset: start, problem: "the string is not UTF-8"}
	}
	return nil
}

func (l *Lexer) unfinished() error {
	if l.Pos == len(l.Data) {
		return l.Expected("the end of a string")
	}
	return l.Expected("no control character in a string")
}

// copyText appends to dst the text before the next quote, control character or \u escape, and reads it. Source code has an
// escape every few dozen bytes, so it copies eight bytes at a time and then drops the excess.
func (l *Lexer) copyText(dst []byte) []byte {
	data, n := l.Data[l.Pos:], len(dst)
	for len(data) >= 9 {
		if cap(dst)-n < 8 {
			dst = slices.Grow(dst[:n], 8)
		}
		x := binary.LittleEndian.Uint64(data)
		binary.LittleEndian.PutUint64(dst[n:n+8], x)
		m := marks(x)
		if m == 0 {
			data = data[8:]
			n += 8
			continue
		}
		run := bits.TrailingZeros64(m) / 8
		data = data[run:]
		n += run
		c := unescaped[data[1]]
		if data[0] != '\\' || c == 0 {
			l.Pos = len(l.Data) - len(data)
			return dst[:n]
		}
		dst = dst[:n+1]
		dst[n] = c
		data = data[2:]
		n++
	}
	length := 0
	for length < len(data) && data[length] != '"' && data[length] != '\\' && data[length] >= ' ' {
		length++
	}
	l.Pos = len(l.Data) - len(data) + length
	return append(dst[:n], data[:length]...)
}

// unescaped maps the letter of a short escape to what the escape means; 0 is no escape.
var unescaped = [256]byte{
	'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t',
}

// escape reads an escape and returns the character that it means. Half a surrogate pair means U+FFFD, unless the text is
// strict.
func (l *Lexer) escape() (rune, error) {
	if l.Pos+1 < len(l.Data) {
		if c := unescaped[l.Data[l.Pos+1]]; c != 0 {
			l.Pos += 2
			return rune(c), nil
		}
	}
	r, ok := hexEscape(l.Data, l.Pos)
	if !ok {
		return 0, l.badEscape()
	}
	if !utf16.IsSurrogate(r) {
		l.Pos += 6
		return r, nil
	}
	if low, ok := hexEscape(l.Data, l.Pos+6); ok {
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
			l.Pos += 12
			return pair, nil
		}
	}
	if l.Strict {
		return 0, l.badEscape()
	}
	l.Pos += 6
	return utf8.RuneError, nil
}

func (l *Lexer) badEscape() error {
	if l.Strict {
		return l.Expected(`an escape such as \n or \u0041, surrogates in pairs`)
	}
	return l.Expected(`an escape such as \n or \u0041`)
}

// hexEscape returns the value of the \uXXXX at an offset, without reading it.
func hexEscape(b []byte, at int) (rune, bool) {
	if len(b)-at < 6 || b[at] != '\\' || b[at+1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range b[at+2 : at+6] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// marks returns the high bit of each byte of x that is a quote, a backslash or a control character: a byte that is zero
// after the exclusive or, or below 0x20, borrows from its high bit. A borrow can run on into higher bytes, never into lower
// ones, so only the lowest mark is reliable.
func marks(x uint64) uint64 {
	quote := x ^ ones*'"'
	slash := x ^ ones*'\\'
	return ((quote-ones)&^quote | (slash-ones)&^slash | (x-ones*0x20)&^x) & highs
}

// Number reads a number and returns its text, a slice of the lexer's.
func (l *Lexer) Number() ([]byte, error) {
	l.Peek()
	start := l.Pos
	end := numberEnd(l.Data, start)
	if end < 0 {
		l.Pos = ^end
		return nil, l.Expected("a digit")
	}
	l.Pos = end
	return l.Data[start:end], nil
}

// Natural reads a number without sign, fraction and exponent, of at most limit, which is at least 9.
func (l *Lexer) Natural(limit uint64) (uint64, error) {
	l.Peek()
	digits := l.Data[l.Pos:]
	var n uint64
	length := len(digits)
	for i, c := range digits {
		if c -= '0'; c > 9 {
			length = i
			break
		}
		if n > (limit-uint64(c))/10 {
			return 0, l.problem("want a number of at most %d", limit)
		}
		n = n*10 + uint64(c)
	}
	if length == 0 || length > 1 && digits[0] == '0' {
		return 0, l.Expected("a whole number that is not negative")
	}
	l.Pos += length
	if l.at('.') || l.at('e') || l.at('E') {
		return 0, l.Expected("a whole number")
	}
	return n, nil
}

// Whole returns the value of the text of a JSON number that is whole: 12, 12.0 and 1.2e1 are. The error is ErrNotWhole or
// errOutOfRange.
func Whole(text []byte) (int64, error) {
	if v, ok := digitsValue(text); ok {
		return v, nil
	}
	if v, err := strconv.ParseInt(string(text), 10, 64); err == nil {
		return v, nil
	}
	return slowWhole(string(text))
}

// Rounded returns the value of the text of a JSON number as a reader of doubles has it: 12.0 and 1.2e1 are the nearest double, which must be whole;
// digits alone are read as Whole reads them. The error is ErrNotWhole or errOutOfRange.
func Rounded(text []byte) (int64, error) {
	if v, ok := digitsValue(text); ok {
		return v, nil
	}
	if !bytes.ContainsAny(text, ".eE") {
		return Whole(text)
	}
	v, err := strconv.ParseFloat(string(text), 64)
	switch {
	case err != nil || math.Abs(v) >= 1<<63:
		return 0, errOutOfRange
	case v != math.Trunc(v):
		return 0, ErrNotWhole
	}
	return int64(v), nil
}

// digitsValue returns the value of up to 18 digits without a sign.
func digitsValue(text []byte) (v int64, ok bool) {
	for _, c := range text {
		if c -= '0'; c > 9 {
			return 0, false
		}
		v = v*10 + int64(c)
	}
	return v, len(text) <= 18
}

// slowWhole is Whole for a number with a fraction or an exponent.
func slowWhole(text string) (int64, error) {
	sign, mantissa := "", text
	if mantissa[0] == '-' {
		sign, mantissa = "-", mantissa[1:]
	}
	mantissa, exponent := splitExponent(mantissa)
	if k := strings.IndexByte(mantissa, '.'); k >= 0 {
		exponent -= len(mantissa) - k - 1
		mantissa = mantissa[:k] + mantissa[k+1:]
	}
	short := strings.TrimRight(mantissa, "0")
	exponent += len(mantissa) - len(short)
	short = strings.TrimLeft(short, "0")
	switch {
	case short == "":
		return 0, nil
	case exponent < 0:
		return 0, ErrNotWhole
	case len(short)+exponent > 19:
		return 0, errOutOfRange
	}
	v, err := strconv.ParseInt(sign+short+strings.Repeat("0", exponent), 10, 64)
	if err != nil {
		return 0, errOutOfRange
	}
	return v, nil
}

// splitExponent cuts the exponent off a number, 0 where it has none. One beyond 32 bits becomes the largest or smallest of
// 32 bits: no number but zero is in range with either.
func splitExponent(text string) (mantissa string, exponent int) {
	k := strings.IndexAny(text, "eE")
	if k < 0 {
		return text, 0
	}
	e, err := strconv.Atoi(text[k+1:])
	switch {
	case err == nil:
	case text[k+1] == '-':
		e = math.MinInt32
	default:
		e = math.MaxInt32
	}
	return text[:k], min(max(e, math.MinInt32), math.MaxInt32)
}
