package wire

import (
	"errors"
	"fmt"
	"slices"
)

// HeaderField is one field of a request header.
type HeaderField struct{ Name, Value string }

// Validate refuses a name that is no HTTP token, a name that the client writes itself (Content-Length, ...) and a value with
// a control character. The error names the field but never its value, which may be a secret.
func (f *HeaderField) Validate() error {
	if f.Name == "" {
		return errors.New("header field without a name")
	}
	for i := range len(f.Name) {
		if !isToken[f.Name[i]] {
			return fmt.Errorf("header name %q has byte %#x at %d", f.Name, f.Name[i], i)
		}
	}
	for _, name := range reservedFields {
		if equalFold(f.Name, name) {
			return fmt.Errorf("header %s is set by the client itself", name)
		}
	}
	if i := badValueByte(f.Value); i >= 0 {
		return fmt.Errorf("value of header %s has byte %#x at %d", f.Name, f.Value[i], i)
	}
	return nil
}

// reservedFields are written by the client, or never sent. A caller who could set the fields of framing could make two
// requests of one; a compressed answer could not be read.
var reservedFields = [...]string{
	"Host", "Accept", "Accept-Encoding", "Content-Type", "Content-Length", "Transfer-Encoding", "Connection",
	"Expect", "Trailer", "Upgrade",
}

// appendCommon appends the common fields that a request does not replace.
func (c *Client) appendCommon(b []byte, own []HeaderField) []byte {
	replaced := func(f HeaderField) bool {
		return slices.ContainsFunc(own, func(o HeaderField) bool { return equalFold(o.Name, f.Name) })
	}
	if !slices.ContainsFunc(c.common, replaced) {
		return append(b, c.rendered...)
	}
	for i, f := range c.common {
		if !replaced(f) {
			b = appendFields(b, c.common[i:i+1])
		}
	}
	return b
}

func appendFields(b []byte, fields []HeaderField) []byte {
	for i := range fields {
		b = append(b, fields[i].Name...)
		b = append(b, ": "...)
		b = append(b, fields[i].Value...)
		b = append(b, "\r\n"...)
	}
	return b
}

// isToken has the bytes that a header name may contain.
var isToken = func() (t [256]bool) {
	const tokens = "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	for i := range len(tokens) {
		t[tokens[i]] = true
	}
	return t
}()

// badPathByte returns the position of the first byte that a path must not contain, -1 when there is none.
func badPathByte(p string) int {
	for i := range len(p) {
		if p[i] <= ' ' || p[i] >= 0x7f {
			return i
		}
	}
	return -1
}

// badValueByte returns the position of the first control character other than a tab, -1 when there is none.
func badValueByte(v string) int {
	for i := range len(v) {
		if (v[i] < ' ' && v[i] != '\t') || v[i] == 0x7f {
			return i
		}
	}
	return -1
}

// equalFold compares ASCII without regard to case.
func equalFold[A, B []byte | string](a A, b B) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		x, y := a[i], b[i]
		if x != y && (x|0x20 != y|0x20 || x|0x20 < 'a' || x|0x20 > 'z') {
			return false
		}
	}
	return true
}
