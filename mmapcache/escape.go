package mmapcache

import "bytes"

// appendEscaped appends b as part of a JSON string: it escapes quotes, backslashes and control characters.
func appendEscaped(dst, b []byte) []byte {
	const hex = "0123456789abcdef"
	for _, c := range b {
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c >= 0x20:
			dst = append(dst, c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c == '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
	}
	return dst
}

// appendUnescaped appends text without the escapes of appendEscaped. dst may be the beginning of text. It is not ok where
// text ends inside an escape.
func appendUnescaped(dst, text []byte) (_ []byte, ok bool) {
	for len(text) > 0 {
		k := bytes.IndexByte(text, '\\')
		if k < 0 {
			return append(dst, text...), true
		}
		dst = append(dst, text[:k]...)
		if text = text[k:]; len(text) < 2 || text[1] == 'u' && len(text) < 6 {
			return dst, false
		}
		c, n := text[1], 2
		switch c {
		case 'n':
			c = '\n'
		case 'r':
			c = '\r'
		case 't':
			c = '\t'
		case 'u':
			c, n = hexDigit(text[4])<<4|hexDigit(text[5]), 6
		}
		dst = append(dst, c)
		text = text[n:]
	}
	return dst, true
}

func hexDigit(c byte) byte {
	if c >= 'a' {
		return c - 'a' + 10
	}
	return c - '0'
}
