package tokenizer

import (
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// pattern splits a text into pieces. Tokens never cross the edge of two pieces. Each is a regular expression, or several of which
// each splits what the one before left, and a function that finds the same pieces. The tests hold the function against a library
// that runs the expressions, dlclark/regexp2, which takes 20 to 80 times as long for a page of code and prose: 1 MB/s, not 50.
type pattern struct {
	name        string
	expressions []string // as in the files of tokenizers that use them

	// next returns where the piece ends that begins at a byte of a text.
	next func(s *scanner, from int) (end int)

	// segment returns where the segment ends that begins at a byte. Pieces do not depend on what is outside of their segment. nil: the whole
	// text is one segment. whole says that the segment is one piece.
	segment func(s *scanner, from int) (end int, whole bool)
}

// Parts of the expressions.
const (
	contractions = `(?i:'s|'t|'re|'ve|'m|'ll|'d)`
	spaces       = `|\s*[\r\n]+|\s+(?!\S)|\s+`
)

// patterns are those that are known. Cl100k is that of GPT-4, Llama 3 and GLM 4; O200k that of GPT-4o and GPT-OSS.
var patterns = []*pattern{
	{
		name:        "cl100k",
		expressions: []string{contractions + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*` + spaces},
		next:        func(s *scanner, from int) int { return s.nextCl100k(from, 3) },
	},
	{
		name:        "qwen2",
		expressions: []string{contractions + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*` + spaces},
		next:        func(s *scanner, from int) int { return s.nextCl100k(from, 1) },
	},
	{
		name: "o200k",
		expressions: []string{`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+` + contractions + `?` +
			`|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*` + contractions + `?` +
			`|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*` + spaces},
		next: func(s *scanner, from int) int { return s.nextO200k(from, 0) },
	},
	{
		name: "kimi",
		expressions: []string{`[\p{Han}]+` +
			`|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+` + contractions + `?` +
			`|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*` + contractions + `?` +
			`|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*` + spaces},
		next: func(s *scanner, from int) int { return s.nextKimi(from) },
	},
	{
		name: "deepseek-v3",
		expressions: []string{
			`\p{N}{1,3}`,
			`[一-龥぀-ゟ゠-ヿ]+`,
			"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+" +
				"|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
		},
		next:    func(s *scanner, from int) int { return s.nextDeepSeek(from) },
		segment: func(s *scanner, from int) (int, bool) { return s.segmentDeepSeek(from) },
	},
}

// patternOf returns the pattern with the given expressions, nil if it is not known.
func patternOf(expressions []string) *pattern {
	for _, p := range patterns {
		if strings.Join(p.expressions, "\x00") == strings.Join(expressions, "\x00") {
			return p
		}
	}
	return nil
}

func patternNamed(name string) *pattern {
	for _, p := range patterns {
		if p.name == name {
			return p
		}
	}
	return nil
}

// spaceEnd returns where a piece of white space ends that begins at from: behind the last line break of the white space there;
// without one, before its last character, which goes with the text behind it, if there is any.
func (s *scanner) spaceEnd(from int) int {
	end, lines, last := from, 0, 0
	for end < len(s.text) {
		c, size := s.at(end)
		if c&space == 0 {
			break
		}
		last = end
		end += size
		if c&newline != 0 {
			lines = end
		}
	}
	switch {
	case lines > 0:
		return lines
	case end < len(s.text) && last > from:
		return last
	}
	return end
}

// contraction returns where 's, 't, 're, 've, 'm, 'll or 'd ends that begins at from, in either case; from if there is none. The long s
// counts as one.
func (s *scanner) contraction(from int) int {
	t := s.text[from:]
	if len(t) < 2 || t[0] != '\'' {
		return from
	}
	switch t[1] | 0x20 {
	case 's', 't', 'm', 'd':
		return from + 2
	}
	if len(t) < 3 {
		return from
	}
	if t[1:3] == "ſ" {
		return from + 3
	}
	switch [2]byte{t[1] | 0x20, t[2] | 0x20} {
	case [2]byte{'r', 'e'}, [2]byte{'v', 'e'}, [2]byte{'l', 'l'}:
		return from + 3
	}
	return from
}

// digits returns where the digits that begin at from end, most of them at most.
func (s *scanner) digits(from, most int) int {
	for range most {
		c, size := s.at(from)
		if c&number == 0 {
			break
		}
		from += size
	}
	return from
}

// nextCl100k finds pieces of patterns cl100k and qwen2, which differ in how many digits make a piece.
func (s *scanner) nextCl100k(from, digits int) int {
	if end := s.contraction(from); end > from {
		return end
	}
	c, size := s.at(from)
	if c&letter != 0 {
		return s.run(from+size, letter)
	}
	if c&number != 0 {
		return s.digits(from, digits)
	}
	second, _ := s.at(from + size)
	if c&newline == 0 && second&letter != 0 {
		return s.run(from+size, letter)
	}
	if end := s.otherEnd(from, c, size, second); end > from {
		return s.run(end, newline)
	}
	return s.spaceEnd(from)
}

// otherEnd returns where characters end that are neither letters, digits nor white space. A blank may stand before them. If there are
// none it returns from. The caller knows the first two classes.
func (s *scanner) otherEnd(from int, first class, size int, second class) int {
	const known = space | letter | number
	switch {
	case first&known == 0:
		return s.runWithout(from+size, known)
	case s.text[from] == ' ' && from+1 < len(s.text) && second&known == 0:
		return s.runWithout(from+1, known)
	}
	return from
}

// The two sets of letters of o200k: a word is some of the first, then some of the second.
const (
	wordHead = upper | caseless | mark
	wordTail = lower | caseless | mark
)

// word returns where a word ends that begins at from. full says that it has at least one character of wordTail, as the first branch wants.
// Characters of the classes not are in no word. Without a word it returns from.
func (s *scanner) word(from int, not class) (end int, full bool) {
	either := 0 // behind the last character that is in both sets
	end = from
	for {
		for end < len(s.text) && s.text[end] >= 'A' && s.text[end] <= 'Z' {
			end++
		}
		c, size := s.at(end)
		if c&not != 0 || c&wordHead == 0 {
			if c&not == 0 && c&lower != 0 {
				return s.tail(end, not), true
			}
			break
		}
		end += size
		if c&wordTail != 0 {
			either = end
		}
	}
	if either > 0 {
		return either, true
	}
	return end, false
}

// tail returns where characters of wordTail end.
func (s *scanner) tail(from int, not class) int {
	for {
		for from < len(s.text) && s.text[from] >= 'a' && s.text[from] <= 'z' {
			from++
		}
		c, size := s.at(from)
		if c&wordTail == 0 || c&not != 0 {
			return from
		}
		from += size
	}
}

// nextO200k finds pieces of pattern o200k. Characters of the classes not are in no word.
func (s *scanner) nextO200k(from int, not class) int {
	if end := s.wordPiece(from, not); end > from {
		return end
	}
	c, size := s.at(from)
	if c&number != 0 {
		return s.digits(from, 3)
	}
	second, _ := s.at(from + size)
	if end := s.otherEnd(from, c, size, second); end > from {
		for end < len(s.text) && (s.text[end] == '\r' || s.text[end] == '\n' || not == 0 && s.text[end] == '/') {
			end++
		}
		return end
	}
	return s.spaceEnd(from)
}

// wordPiece returns where a word ends with what may stand before and behind it; without a word, from. Full words come first, and those
// with a character before them before those without.
func (s *scanner) wordPiece(from int, not class) int {
	c, size := s.at(from)
	if c&letter != 0 {
		if end, _ := s.word(from, not); end > from {
			return s.contraction(end)
		}
		return from
	}
	if c&(newline|number) != 0 {
		return from
	}
	after, full := s.word(from+size, not)
	if full {
		return s.contraction(after)
	}
	if end, ok := s.word(from, not); ok {
		return s.contraction(end)
	}
	if after > from+size {
		return s.contraction(after)
	}
	return from
}

// nextKimi finds pieces of pattern kimi: runs of Han characters are pieces, and all else is as in o200k, except that a slash does not
// follow other characters.
func (s *scanner) nextKimi(from int) int {
	if end := s.run(from, han); end > from {
		return end
	}
	return s.nextO200k(from, han)
}

// isCJK reports whether a character is of the second expression of pattern deepseek-v3.
func isCJK(r rune) bool { return r >= '一' && r <= '龥' || r >= '\u3040' && r <= '\u30ff' }

// segmentDeepSeek finds what the first two expressions of deepseek-v3 leave: up to three digits, a run of CJK characters, or what is
// between them.
func (s *scanner) segmentDeepSeek(from int) (end int, whole bool) {
	if end := s.digits(from, 3); end > from {
		return end, true
	}
	cjk := false
	for i, r := range s.text[from:] {
		if i == 0 {
			cjk = isCJK(r)
		} else if isCJK(r) != cjk || s.classes[r]&number != 0 {
			return from + i, false
		}
	}
	return len(s.text), false
}

// nextDeepSeek finds pieces of the third expression of deepseek-v3. Characters that it does not match make up a piece.
func (s *scanner) nextDeepSeek(from int) int {
	end := s.matchDeepSeek(from)
	if end > from {
		return end
	}
	_, size := s.at(from)
	end = from + size
	for end < len(s.text) && s.matchDeepSeek(end) == end {
		_, size := s.at(end)
		end += size
	}
	return end
}

// matchDeepSeek returns where a match of the third expression ends that begins at from; from if there is none.
func (s *scanner) matchDeepSeek(from int) int {
	const word, sign = letter | mark, punctuation | symbol
	c, size := s.at(from)
	if c&sign != 0 && s.text[from] < 0x80 && isLatin(s.text, from+1) {
		end := from + 2
		for isLatin(s.text, end) {
			end++
		}
		return end
	}
	if c&(newline|letter|sign) == 0 {
		if second, _ := s.at(from + size); second&word != 0 {
			return s.run(from+size, word)
		}
	}
	if c&word != 0 {
		return s.run(from, word)
	}
	signs := from
	if s.text[from] == ' ' {
		signs++
	}
	if end := s.run(signs, sign); end > signs {
		return s.run(end, newline)
	}
	if c&space != 0 {
		return s.spaceEnd(from)
	}
	return from
}

func isLatin(text string, i int) bool {
	return i < len(text) && (text[i]|0x20 >= 'a' && text[i]|0x20 <= 'z')
}

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
