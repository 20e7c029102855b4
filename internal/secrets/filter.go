// Package secrets takes secrets out of texts of servers, which echo them in many shapes.
package secrets

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"
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
