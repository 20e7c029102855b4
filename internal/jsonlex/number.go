package jsonlex

import (
	"bytes"
	"math"
	"strconv"
	"strings"
)

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

// Natural reads a number without sign, fraction and exponent, of at most limit, which has to be below 2^59.
func (l *Lexer) Natural(limit uint64) (uint64, error) {
	l.Peek()
	digits := l.Data[l.Pos:]
	var n uint64
	length := len(digits)
	for i, c := range digits {
		if c -= '0'; c > 9 || n > limit {
			length = i
			break
		}
		n = n*10 + uint64(c)
	}
	switch {
	case n > limit:
		return 0, l.problem("want a number of at most %d", limit)
	case length == 0 || length > 1 && digits[0] == '0':
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
