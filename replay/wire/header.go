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

// appendHeader appends what names client, request and session, but for the fields of Request.Affinity: each field unless one with
// precedence over it has the same name.
func (c *Client) appendHeader(b []byte, r *Request) []byte {
	if !overlap(c.common, r.Affinity) && !overlap(c.common, r.Header) && !overlap(r.Header, r.Affinity) {
		return appendFields(append(b, c.rendered...), r.Header)
	}
	for i, f := range c.common {
		if !named(f, r.Affinity) && (i >= c.given || !named(f, r.Header)) {
			b = appendFields(b, c.common[i:i+1])
		}
	}
	for i, f := range r.Header {
		if !named(f, r.Affinity) && !named(f, c.common[c.given:]) {
			b = appendFields(b, r.Header[i:i+1])
		}
	}
	return b
}

// named reports whether a list has a field with the name of f.
func named(f HeaderField, list []HeaderField) bool {
	return slices.ContainsFunc(list, func(o HeaderField) bool { return equalFold(o.Name, f.Name) })
}

// overlap reports whether two lists have a field with the same name.
func overlap(a, b []HeaderField) bool {
	return slices.ContainsFunc(a, func(f HeaderField) bool { return named(f, b) })
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
