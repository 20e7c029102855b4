package tokenizer

import (
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// joiner is what package norm puts into runs of more than 30 marks, which Hugging Face's library does not.
const joiner = "\u034f"

// nfc normalizes a text to NFC.
func nfc(text string) string {
	if norm.NFC.IsNormalString(text) {
		return text
	}
	normal := norm.NFC.String(text)
	if strings.Count(normal, joiner) == strings.Count(text, joiner) {
		return normal
	}
	return compose(decompose(text))
}

// decompose returns the canonical decomposition of a text, with its marks in their order.
func decompose(text string) []rune {
	var list []rune
	for _, r := range text {
		if d := norm.NFC.PropertiesString(string(r)).Decomposition(); d != nil {
			list = append(list, []rune(string(d))...)
		} else {
			list = append(list, r)
		}
	}
	for from := 0; from < len(list); {
		to := from + 1
		if ccc(list[from]) != 0 {
			for to < len(list) && ccc(list[to]) != 0 {
				to++
			}
			slices.SortStableFunc(list[from:to], func(a, b rune) int { return int(ccc(a)) - int(ccc(b)) })
		}
		from = to
	}
	return list
}

// compose joins marks with the letters before them, where a character is both.
func compose(list []rune) string {
	var out []rune
	letter, last := -1, uint8(0) // the letter in out, and the class of the last mark behind it
	for _, r := range list {
		class := ccc(r)
		if letter >= 0 && (letter == len(out)-1 || last < class) {
			pair := norm.NFC.String(string([]rune{out[letter], r}))
			if both, size := utf8.DecodeRuneInString(pair); size == len(pair) {
				out[letter] = both
				continue
			}
		}
		out = append(out, r)
		last = class
		if class == 0 {
			letter = len(out) - 1
		}
	}
	return string(out)
}

// ccc is the canonical combining class of a character.
func ccc(r rune) uint8 { return norm.NFC.PropertiesString(string(r)).CCC() }
