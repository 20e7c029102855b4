// Package foreign names files of other programs, which hold no trace that agentx reads. One table says how each is
// recognized, and what its owner can do.
package foreign

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// Format is what a file is.
type Format struct {
	name string // completes "it is ..."
	try  string // what the owner can do; FILE stands for the path
	file string // path in try; "" where it is not known

	magic []string              // any of them begins the file
	tar   bool                  // at byte 257, where tar has its magic
	text  func() *regexp.Regexp // matches the beginning of its text, without white space in front of it

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
		if f.tar && isTar || f.text != nil && f.text().Match(text) ||
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

// textBytes is how many bytes of a text OfText looks at.
const textBytes = 1 << 20

// OfText is OfRow for the object that a JSON text is, or for the first of its list. What is cut off counts as far as it goes. It
// returns nil for a trace and for a Mooncake row.
func OfText(text []byte) *Format {
	d := json.NewDecoder(bytes.NewReader(text[:min(len(text), textBytes)]))
	begin, err := d.Token()
	if begin == json.Delim('[') {
		begin, err = d.Token()
	}
	members := map[string]string{}
	for begin == json.Delim('{') && err == nil && d.More() {
		name, _ := d.Token() // an error comes again
		var value json.Token
		if value, err = d.Token(); err == nil {
			word, _ := name.(string)
			members[word], _ = value.(string)
		}
		for depth := depthOf(value); depth > 0 && err == nil; depth += depthOf(value) {
			value, err = d.Token()
		}
	}
	for _, ours := range []string{"requests", "hash_ids"} {
		if _, has := members[ours]; has {
			return nil
		}
	}
	return OfRow(func(name string) (string, bool) { text, has := members[name]; return text, has })
}

// depthOf says what a token adds to the number of lists and objects that are open.
func depthOf(t json.Token) int {
	switch t {
	case json.Delim('{'), json.Delim('['):
		return 1
	case json.Delim('}'), json.Delim(']'):
		return -1
	}
	return 0
}

// OfMember recognizes a variant of Mooncake rows by a member that plain ones do not have.
func OfMember(name string) *Format {
	if k := slices.IndexFunc(table, func(f *Format) bool { return slices.Contains(f.among, name) }); k >= 0 {
		return table[k]
	}
	return nil
}
