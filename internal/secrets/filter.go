// Package secrets takes secrets out of texts of servers, which echo them in many shapes.
package secrets

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"html"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Run is how many characters of a secret in a row are one themselves.
const Run = 12

// shortForm is the shortest coded form of a secret that is looked for: shorter ones occur by chance.
const shortForm = 8

// Filter knows secrets. The zero value knows none. After the last Add it may be used concurrently.
type Filter struct {
	labels   []string
	runs     map[[Run]byte]uint8 // Run bytes of a form, folded, to its label's number, from 1
	alphabet [256]bool           // the bytes that runs are made of
	words    []word              // forms shorter than Run, the longest first
}

// word is a form that counts as a whole.
type word struct {
	text  []byte
	exact bool // only as it is spelled: short and of letters alone, such as none
	label uint8
}

// Add adds a secret and what stands in its place. It is found in any letter case, escaped for JSON, HTML or a URL, in base64 and
// in hexadecimal digits, and so is every run of 12 characters of it.
func (f *Filter) Add(secret, label string) {
	if secret == "" {
		return
	}
	number := slices.Index(f.labels, label) + 1
	if number == 0 {
		f.labels = append(f.labels, label)
		number = len(f.labels)
	}
	f.add(secret, uint8(number))
	if escaped := url.QueryEscape(secret); escaped != secret { // a space is +
		f.add(escaped, uint8(number))
	}
	for _, form := range codings(secret) {
		if len(form) >= shortForm {
			f.add(form, uint8(number))
		}
	}
	slices.SortStableFunc(f.words, func(a, b word) int { return len(b.text) - len(a.text) }) // one may be a part of another
}

// add adds one spelling of a secret, with the label that stands in place of the secret.
func (f *Filter) add(form string, label uint8) {
	text := fold([]byte(form))
	if len(text) < Run {
		exact := len(text) < shortForm && bytes.Trim(text, "abcdefghijklmnopqrstuvwxyz") == nil
		if exact {
			text = []byte(form)
		}
		f.words = append(f.words, word{text, exact, label})
		return
	}
	if f.runs == nil {
		f.runs = map[[Run]byte]uint8{}
	}
	for k := range len(text) - Run + 1 {
		key := [Run]byte(text[k:])
		if f.runs[key] == 0 {
			f.runs[key] = label
		}
	}
	for _, c := range text {
		f.alphabet[c] = true
	}
}

// codings returns a secret in hexadecimal digits and in base64: alone, and as a part of something longer, behind 0, 1 or 2 bytes of
// a group of three. Characters that depend on what surrounds it are left out.
func codings(secret string) []string {
	list := []string{hex.EncodeToString([]byte(secret))}
	for _, code := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		list = append(list, code.EncodeToString([]byte(secret)))
		for before, from := range []int{0, 2, 3} {
			text := code.EncodeToString(append(make([]byte, before), secret...))
			if to := (before + len(secret)) * 8 / 6; from < to {
				list = append(list, text[from:to])
			}
		}
	}
	return list
}

// Replace returns a text without the secrets.
func (f *Filter) Replace(text string) string {
	if len(f.labels) == 0 || text == "" {
		return text
	}
	var found marks
	view := layer{text: []byte(text)}
	for range maxLayers {
		f.search(&view, len(text), &found)
		if !view.decode(len(text)) {
			break
		}
	}
	if found == nil {
		return text
	}
	var out strings.Builder
	for k := 0; k < len(text); {
		label := found[k]
		if label == 0 {
			out.WriteByte(text[k])
			k++
			continue
		}
		out.WriteString(f.labels[label-1])
		for ; k < len(text) && found[k] != 0; k++ {
		}
	}
	return out.String()
}

// marks has for each byte of a text the number of the label that replaces it, or 0. It is nil where nothing is replaced.
type marks []uint8

// search marks the secrets of a view of a text of n bytes.
func (f *Filter) search(v *layer, n int, found *marks) {
	mark := func(from, to int, label uint8) {
		if *found == nil {
			*found = make(marks, n)
		}
		for k := v.at(from); k < v.at(to); k++ {
			if (*found)[k] == 0 {
				(*found)[k] = label
			}
		}
	}
	folded := fold(v.text)
	length := 0 // of the bytes before k that may be in a run
	for k, c := range folded {
		length++
		if !f.alphabet[c] {
			length = 0
		}
		if length >= Run {
			if label := f.runs[[Run]byte(folded[k+1-Run:])]; label != 0 {
				mark(k+1-Run, k+1, label)
			}
		}
	}
	for _, w := range f.words {
		in := folded
		if w.exact {
			in = v.text
		}
		for from := 0; ; {
			k := bytes.Index(in[from:], w.text)
			if k < 0 {
				break
			}
			mark(from+k, from+k+len(w.text), w.label)
			from += k + len(w.text)
		}
	}
}

// fold returns a copy with ASCII letters in lower case. Unlike bytes.ToLower, it keeps every byte in its place.
func fold(text []byte) []byte {
	text = bytes.Clone(text)
	for k, c := range text {
		if 'A' <= c && c <= 'Z' {
			text[k] = c + 'a' - 'A'
		}
	}
	return text
}

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
