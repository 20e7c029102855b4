package tokenizer

import (
	"sync"
	"unicode"
	"unicode/utf8"
)

// class is what the patterns ask of a character: a set of properties.
type class uint16

const (
	upper       class = 1 << iota // \p{Lu}, \p{Lt}
	lower                         // \p{Ll}
	caseless                      // \p{Lm}, \p{Lo}
	mark                          // \p{M}
	number                        // \p{N}
	space                         // \s
	newline                       // \r, \n; each is a space, too
	punctuation                   // \p{P}
	symbol                        // \p{S}
	han                           // \p{Han}

	letter = upper | lower | caseless
)

var properties = []struct {
	class class
	table *unicode.RangeTable
}{
	{upper, unicode.Lu}, {upper, unicode.Lt}, {lower, unicode.Ll}, {caseless, unicode.Lm}, {caseless, unicode.Lo}, {mark, unicode.M},
	{number, unicode.N}, {space, unicode.White_Space}, {punctuation, unicode.P}, {symbol, unicode.S}, {han, unicode.Han},
}

// classes has the class of every character. The tables of package unicode make it, in a millisecond.
var classes = sync.OnceValue(func() *[unicode.MaxRune + 1]class {
	list := new([unicode.MaxRune + 1]class)
	for _, p := range properties {
		for _, r := range p.table.R16 {
			for c := uint32(r.Lo); c <= uint32(r.Hi); c += uint32(r.Stride) {
				list[c] |= p.class
			}
		}
		for _, r := range p.table.R32 {
			for c := r.Lo; c <= r.Hi; c += r.Stride {
				list[c] |= p.class
			}
		}
	}
	list['\r'] |= newline
	list['\n'] |= newline
	return list
})

// scanner reads the characters of a text.
type scanner struct {
	text    string
	classes *[unicode.MaxRune + 1]class
}

func newScanner(text string) scanner { return scanner{text, classes()} }

// at returns the class of the character at a byte, and its length; the class of nothing is 0, and its length is 0.
func (s *scanner) at(i int) (c class, size int) {
	if i >= len(s.text) {
		return 0, 0
	}
	if b := s.text[i]; b < utf8.RuneSelf {
		return s.classes[b], 1
	}
	r, size := utf8.DecodeRuneInString(s.text[i:])
	return s.classes[r], size
}

// run returns where characters that have one of the properties end.
func (s *scanner) run(i int, of class) int {
	for i < len(s.text) {
		if b := s.text[i]; b < utf8.RuneSelf {
			if s.classes[b]&of == 0 {
				break
			}
			i++
			continue
		}
		c, size := s.at(i)
		if c&of == 0 {
			break
		}
		i += size
	}
	return i
}

// runWithout returns where characters that have none of the properties end.
func (s *scanner) runWithout(i int, of class) int {
	for i < len(s.text) {
		if b := s.text[i]; b < utf8.RuneSelf {
			if s.classes[b]&of != 0 {
				break
			}
			i++
			continue
		}
		c, size := s.at(i)
		if c&of != 0 {
			break
		}
		i += size
	}
	return i
}
