package manifest

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
)

// decoder reads only what Encode writes: members in one order, indented, every string in one form. So a manifest that it
// accepts encodes to the same bytes, which need not be compared. Each method reports whether the text at the decoder's
// position has the wanted form, and moves behind it.
type decoder struct {
	data []byte
	at   int
}

// maxDepth bounds the nesting of values, as encoding/json does.
const maxDepth = 10000

// decode reads a manifest without its digest.
func (m *Manifest) decode(data []byte) bool {
	d := decoder{data: data}
	var version int64
	ok := d.take("{\n  \"facts\": ") && d.raw((*[]byte)(&m.Facts)) &&
		d.take(",\n  \"files\": ") && d.files(&m.Files) &&
		d.take(",\n  \"key\": ") && d.text(&m.Key) &&
		d.take(",\n  \"kind\": ") && d.text(&m.Kind) &&
		d.take(",\n  \"manifest\": ") && d.integer(&version)
	if ok && d.take(",\n  \"parts\": ") {
		ok = d.parts(&m.Parts)
	}
	ok = ok && d.take(",\n  \"pre_image\": ") && d.raw((*[]byte)(&m.PreImage)) && d.at == len(data)
	if ok {
		m.PreImage, m.Manifest = withoutSpace(m.PreImage), int(version)
	}
	return ok
}

// files reads the list of files, which is sorted by name.
func (d *decoder) files(to *[]File) bool {
	if d.take("null") {
		return true
	}
	*to = []File{}
	return d.sequence("[]", 1, func() bool {
		var f File
		ok := d.take("{\n      \"name\": ") && d.text(&f.Name) &&
			d.take(",\n      \"sha256\": ") && d.text(&f.SHA256) &&
			d.take(",\n      \"size\": ") && d.integer(&f.Size) && d.take("\n    }")
		n := len(*to)
		*to = append(*to, f)
		return ok && (n == 0 || (*to)[n-1].Name <= f.Name)
	})
}

// parts reads the member parts of a dataset: by kind, the digest and key of a directory.
func (d *decoder) parts(to *map[string]Part) bool {
	*to = map[string]Part{}
	return d.object(1, func(kind string) bool {
		var p Part
		ok := d.take("{\n      \"digest\": ") && d.text(&p.Digest) && d.take(",\n      \"key\": ") && d.text(&p.Key) && d.take("\n    }")
		(*to)[kind] = p
		return ok
	}) && len(*to) > 0
}

// take passes the given text.
func (d *decoder) take(text string) bool {
	if end := d.at + len(text); end <= len(d.data) && string(d.data[d.at:end]) == text {
		d.at = end
		return true
	}
	return false
}

// line passes the end of a line and the indentation of the next one.
func (d *decoder) line(depth int) bool {
	end := d.at + 1 + 2*depth
	if end > len(d.data) || d.data[d.at] != '\n' {
		return false
	}
	for _, c := range d.data[d.at+1 : end] {
		if c != ' ' {
			return false
		}
	}
	d.at = end
	return true
}

// raw passes a value of the manifest's object and returns it as written.
func (d *decoder) raw(to *[]byte) bool {
	from := d.at
	ok := d.value(1)
	*to = bytes.Clone(d.data[from:d.at])
	return ok
}

// value passes any value that begins at a depth.
func (d *decoder) value(depth int) bool {
	if depth > maxDepth || d.at == len(d.data) {
		return false
	}
	switch d.data[d.at] {
	case '{':
		return d.object(depth, func(string) bool { return d.value(depth + 1) })
	case '[':
		return d.sequence("[]", depth, func() bool { return d.value(depth + 1) })
	case '"':
		return d.text(nil)
	case 't', 'f', 'n':
		return d.take("true") || d.take("false") || d.take("null")
	}
	return d.number()
}

// sequence passes a list "[]" or object "{}" that begins at a depth.
func (d *decoder) sequence(brackets string, depth int, element func() bool) bool {
	if d.take(brackets) {
		return true
	}
	for ok := d.take(brackets[:1]); ok; ok = d.take(",") {
		if !d.line(depth+1) || !element() {
			return false
		}
		if d.line(depth) {
			return d.take(brackets[1:])
		}
	}
	return false
}

// object passes an object whose members are sorted. member passes a value.
func (d *decoder) object(depth int, member func(name string) bool) bool {
	last, n := "", 0
	return d.sequence("{}", depth, func() bool {
		var name string
		ok := d.text(&name) && (n == 0 || name > last) && d.take(": ") && member(name)
		last = name
		n++
		return ok
	})
}

// text passes a string, and keeps it where to is not nil.
func (d *decoder) text(to *string) bool {
	if d.at == len(d.data) || d.data[d.at] != '"' {
		return false
	}
	plain, end := true, d.at+1
	for ; end < len(d.data) && d.data[end] != '"'; end++ {
		switch c := d.data[end]; {
		case c == '\\':
			end++
			plain = false
		case c < 0x20 || c >= 0x80:
			plain = false
		}
	}
	if end >= len(d.data) {
		return false
	}
	quoted := d.data[d.at : end+1]
	d.at = end + 1
	if plain && to != nil {
		*to = string(quoted[1 : len(quoted)-1])
	}
	if plain {
		return true
	}
	var s string
	if json.Unmarshal(quoted, &s) != nil {
		return false
	}
	if to != nil {
		*to = s
	}
	encoded, err := compact(s)
	return err == nil && bytes.Equal(encoded, quoted)
}

// number passes a number in any of its forms.
func (d *decoder) number() bool {
	from := d.at
	for d.at < len(d.data) && (d.data[d.at] >= '0' && d.data[d.at] <= '9' || slices.Contains([]byte("+-.eE"), d.data[d.at])) {
		d.at++
	}
	return d.at > from && json.Valid(d.data[from:d.at])
}

// integer passes a whole number in its shortest form.
func (d *decoder) integer(to *int64) bool {
	from := d.at
	if !d.number() {
		return false
	}
	n, err := strconv.ParseInt(string(d.data[from:d.at]), 10, 64)
	*to = n
	return err == nil && strconv.FormatInt(n, 10) == string(d.data[from:d.at])
}

// withoutSpace returns an indented value in canonical form.
func withoutSpace(indented []byte) []byte {
	out := make([]byte, 0, len(indented))
	quoted := false
	for k := 0; k < len(indented); k++ {
		c := indented[k]
		switch {
		case c == '\\':
			out = append(out, c)
			k++
			c = indented[k]
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ' ' || c == '\n'):
			continue
		}
		out = append(out, c)
	}
	return out
}
