// Package foreign names files of other programs, which hold no trace that agentx reads. One table says how each is
// recognized, and what its owner can do.
package foreign

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
)

// Format is what a file is.
type Format struct {
	name string // completes "it is ..."
	try  string // what the owner can do; FILE stands for the path
	file string // path in try; "" where it is not known

	magic []string       // any of them begins the file
	tar   bool           // at byte 257, where tar has its magic
	text  *regexp.Regexp // matches the beginning of its text, without white space in front of it

	// rows are signs of a JSON row: members that it has, all those of one sign. "name=value" wants a string that begins with value.
	rows []string
	// among are members each of which no plain Mooncake row has.
	among []string
}

// Name says what it is, such as "a log of Codex".
func (f *Format) Name() string { return f.name }

func (f *Format) Error() string { return "it is " + f.name }

// Hint returns what the owner of the file can do.
func (f *Format) Hint() string {
	if f.file == "" {
		return strings.ReplaceAll(f.try, "FILE", "the file")
	}
	return strings.ReplaceAll(f.try, "FILE", f.file)
}

// HeadBytes is how many bytes of a file OfBytes looks at.
const HeadBytes = 512

// OfBytes recognizes a format by the first bytes of a file, or of its text after decompression. It returns nil for what it does
// not know, JSON for one.
func OfBytes(head []byte, path string) *Format {
	text := bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n")
	isTar := len(head) >= 262 && string(head[257:262]) == "ustar"
	for _, f := range table {
		if f.tar && isTar || f.text != nil && f.text.Match(text) ||
			slices.ContainsFunc(f.magic, func(m string) bool { return bytes.HasPrefix(head, []byte(m)) }) {
			found := *f
			found.file = path
			return &found
		}
	}
	return nil
}

// OfRow recognizes a format by the members of a JSON object. value returns the text of a member that is a string, else "".
func OfRow(value func(member string) (text string, has bool)) *Format {
	for _, f := range table {
		for _, sign := range f.rows {
			if !slices.ContainsFunc(strings.Fields(sign), func(word string) bool {
				member, wanted, _ := strings.Cut(word, "=")
				text, has := value(member)
				return !has || !strings.HasPrefix(text, wanted)
			}) {
				return f
			}
		}
	}
	return nil
}

// OfMember recognizes a variant of Mooncake rows by a member that plain ones do not have.
func OfMember(name string) *Format {
	if k := slices.IndexFunc(table, func(f *Format) bool { return slices.Contains(f.among, name) }); k >= 0 {
		return table[k]
	}
	return nil
}
