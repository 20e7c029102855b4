package mock

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth bounds the nesting of a body, as encoding/json does.
const maxDepth = 10000

// A scanner walks one JSON document and accepts what encoding/json accepts. Its
// methods stand at a value and leave the scanner behind it; after an error its
// place is of no use.
type scanner struct {
	data  []byte
	pos   int
	depth int
	held  []byte // what hold has decoded for the fields that are open
}

func (s *scanner) fail(format string, args ...any) error {
	return fmt.Errorf("byte %d: %s", s.pos, fmt.Sprintf(format, args...))
}

// peek skips white space and returns the byte behind it, 0 at the end. A 0 in
// the document is no JSON outside of a string, so the two need no telling apart.
func (s *scanner) peek() byte {
	for s.pos < len(s.data) {
		switch c := s.data[s.pos]; c {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return c
		}
	}
	return 0
}

// expect consumes c.
func (s *scanner) expect(c byte) error {
	if s.peek() != c {
		return s.fail("want %q", c)
	}
	s.pos++
	return nil
}

// end accepts nothing but white space up to the end of the document.
func (s *scanner) end() error {
	if s.peek(); s.pos < len(s.data) {
		return s.fail("want the end of the body")
	}
	return nil
}

// object calls field for each field, standing at its value, which field must
// consume. The key is good until field returns.
func (s *scanner) object(field func(key []byte) error) error {
	top := len(s.held)
	return s.list('{', '}', func() error {
		s.held = s.held[:top]
		key, err := s.hold()
		if err != nil {
			return err
		}
		if err := s.expect(':'); err != nil {
			return err
		}
		return field(key)
	})
}

// hold consumes a string and returns what it means, good until the field at hand
// is done. It is for short ones.
func (s *scanner) hold() (_ []byte, err error) {
	top := len(s.held)
	s.held, err = s.string(s.held)
	return s.held[top:], err
}

// array calls item for each item, standing at it; item must consume it.
func (s *scanner) array(item func() error) error {
	return s.list('[', ']', item)
}

func (s *scanner) list(open, shut byte, item func() error) error {
	if err := s.expect(open); err != nil {
		return err
	}
	if s.depth++; s.depth > maxDepth {
		return s.fail("nested deeper than %d", maxDepth)
	}
	for first := true; ; first = false {
		if s.peek() == shut && first {
			break
		}
		if err := item(); err != nil {
			return err
		}
		if s.peek() != ',' {
			break
		}
		s.pos++
	}
	s.depth--
	if s.peek() != shut {
		return s.fail("want ',' or %q", shut)
	}
	s.pos++
	return nil
}

// skip consumes any value.
func (s *scanner) skip() error {
	switch c := s.peek(); {
	case c == '{':
		return s.object(func([]byte) error { return s.skip() })
	case c == '[':
		return s.array(s.skip)
	case c == '"':
		_, err := s.rawString()
		return err
	case c == '-' || '0' <= c && c <= '9':
		return s.skipNumber()
	case c == 't':
		return s.word("true")
	case c == 'f':
		return s.word("false")
	case c == 'n':
		return s.word("null")
	}
	return s.fail("want a value")
}

// word consumes w.
func (s *scanner) word(w string) error {
	s.peek()
	if len(s.data)-s.pos < len(w) || string(s.data[s.pos:s.pos+len(w)]) != w {
		return s.fail("want %s", w)
	}
	s.pos += len(w)
	return nil
}

// null consumes a null, if one stands here, and says so.
func (s *scanner) null() bool {
	return s.peek() == 'n' && s.word("null") == nil
}

// boolean consumes true, false, or null for false.
func (s *scanner) boolean() (bool, error) {
	if s.null() {
		return false, nil
	}
	if s.peek() == 't' {
		return true, s.word("true")
	}
	return false, s.word("false")
}

// natural consumes a number without sign, fraction and exponent, of at most
// limit, which must be below 2^59.
func (s *scanner) natural(limit uint64) (uint64, error) {
	s.peek()
	digits := s.data[s.pos:]
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
		return 0, s.fail("want a number of at most %d", limit)
	case length == 0 || length > 1 && digits[0] == '0':
		return 0, s.fail("want a whole number that is not negative")
	}
	s.pos += length
	if s.at('.') || s.at('e') || s.at('E') {
		return 0, s.fail("want a whole number")
	}
	return n, nil
}

func (s *scanner) skipNumber() error {
	if s.data[s.pos] == '-' {
		s.pos++
	}
	start := s.pos
	if !s.digits() || s.data[start] == '0' && s.pos > start+1 {
		return s.fail("want a number")
	}
	if s.at('.') {
		s.pos++
		if !s.digits() {
			return s.fail("want a digit behind the point")
		}
	}
	if s.at('e') || s.at('E') {
		s.pos++
		if s.at('+') || s.at('-') {
			s.pos++
		}
		if !s.digits() {
			return s.fail("want a digit in the exponent")
		}
	}
	return nil
}

func (s *scanner) at(c byte) bool {
	return s.pos < len(s.data) && s.data[s.pos] == c
}

// digits consumes digits and says whether there were any.
func (s *scanner) digits() bool {
	start := s.pos
	for s.pos < len(s.data) && s.data[s.pos]-'0' <= 9 {
		s.pos++
	}
	return s.pos > start
}

// rawString consumes a string and returns it as it stands, with its quotes.
func (s *scanner) rawString() ([]byte, error) {
	if err := s.expect('"'); err != nil {
		return nil, err
	}
	start := s.pos - 1
	for {
		s.pos += plain(s.data[s.pos:])
		switch {
		case s.at('"'):
			s.pos++
			return s.data[start:s.pos], nil
		case s.at('\\'):
			if _, err := s.escape(); err != nil {
				return nil, err
			}
		default:
			return nil, s.badString()
		}
	}
}

// string consumes a string and appends what it means to dst.
func (s *scanner) string(dst []byte) ([]byte, error) {
	if err := s.expect('"'); err != nil {
		return dst, err
	}
	for {
		dst = s.copyText(dst)
		switch {
		case s.at('\\'):
			r, err := s.escape()
			if err != nil {
				return dst, err
			}
			dst = utf8.AppendRune(dst, r)
		case s.at('"'):
			s.pos++
			return dst, nil
		default:
			return dst, s.badString()
		}
	}
}

// copyText appends to dst what stands before the first quote, control character
// or \u escape, and consumes it. Source code has an escape every few dozen bytes,
// so eight bytes are copied at a time and those too many taken back.
func (s *scanner) copyText(dst []byte) []byte {
	data, n := s.data[s.pos:], len(dst)
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
			s.pos = len(s.data) - len(data)
			return dst[:n]
		}
		dst = dst[:n+1]
		dst[n] = c
		data = data[2:]
		n++
	}
	length := plain(data)
	s.pos = len(s.data) - len(data) + length
	return append(dst[:n], data[:length]...)
}

func (s *scanner) badString() error {
	if s.pos == len(s.data) {
		return s.fail("the string does not end")
	}
	return s.fail("control character in a string")
}

// unescaped maps the letter of a short escape to what it means; 0 is no escape.
var unescaped = [256]byte{
	'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t',
}

// escape consumes an escape and returns the character it means. Half a surrogate
// pair means U+FFFD.
func (s *scanner) escape() (rune, error) {
	if s.pos+1 < len(s.data) {
		if c := unescaped[s.data[s.pos+1]]; c != 0 {
			s.pos += 2
			return rune(c), nil
		}
	}
	r, ok := s.hexEscape()
	if !ok {
		return 0, s.fail("bad escape")
	}
	s.pos += 6
	if !utf16.IsSurrogate(r) {
		return r, nil
	}
	if low, ok := s.hexEscape(); ok {
		if pair := utf16.DecodeRune(r, low); pair != utf8.RuneError {
			s.pos += 6
			return pair, nil
		}
	}
	return utf8.RuneError, nil
}

// hexEscape reads, without consuming it, the \uXXXX that stands here.
func (s *scanner) hexEscape() (rune, bool) {
	if len(s.data)-s.pos < 6 || s.data[s.pos] != '\\' || s.data[s.pos+1] != 'u' {
		return 0, false
	}
	var r rune
	for _, c := range s.data[s.pos+2 : s.pos+6] {
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

// marks returns the high bit of each byte of x that is a quote, a backslash or a
// control character: a byte that is zero after the exclusive or, or below 0x20,
// borrows from its high bit. A borrow can run on into higher bytes, never into
// lower ones, so only the lowest mark is to be trusted.
func marks(x uint64) uint64 {
	quote := x ^ ones*'"'
	slash := x ^ ones*'\\'
	return ((quote-ones)&^quote | (slash-ones)&^slash | (x-ones*0x20)&^x) & highs
}

// plain returns how many bytes of b stand before the first quote, backslash or
// control character.
func plain(b []byte) int {
	i := 0
	for ; i+8 <= len(b); i += 8 {
		if m := marks(binary.LittleEndian.Uint64(b[i:])); m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c == '"' || c == '\\' || c < 0x20 {
			break
		}
	}
	return i
}
