package mmapcache

import "unicode/utf8"

// replacement is U+FFFD in UTF-8.
const replacement = "\uFFFD"

// illFormed returns the length of the maximal ill-formed subsequence that b begins with, 0 if b begins with a whole
// character. A decoder replaces such a subsequence, the longest start of a character or one byte, by one U+FFFD.
func illFormed(b []byte) int {
	if b[0] < utf8.RuneSelf {
		return 0
	}
	if r, n := utf8.DecodeRune(b); r != utf8.RuneError || n > 1 {
		return 0
	}
	// The second byte has a narrower range after some first bytes (Unicode, table 3-7); the others are 80 to BF.
	need, low, high := 0, byte(0x80), byte(0xBF)
	switch c := b[0]; {
	case c >= 0xC2 && c <= 0xDF:
		need = 1
	case c >= 0xE0 && c <= 0xEF:
		need = 2
		if c == 0xE0 {
			low = 0xA0
		} else if c == 0xED {
			high = 0x9F
		}
	case c >= 0xF0 && c <= 0xF4:
		need = 3
		if c == 0xF0 {
			low = 0x90
		} else if c == 0xF4 {
			high = 0x8F
		}
	}
	n := 1
	for ; n <= need && n < len(b) && b[n] >= low && b[n] <= high; n++ {
		low, high = 0x80, 0xBF
	}
	return n
}

// appendValid appends raw to dst with one U+FFFD for every maximal ill-formed subsequence. JSON escapes are ASCII and stay
// as they are, so that escaping before or after gives the same.
func appendValid(dst, raw []byte) []byte {
	for len(raw) > 0 {
		if n := illFormed(raw); n > 0 {
			dst = append(dst, replacement...)
			raw = raw[n:]
			continue
		}
		_, n := utf8.DecodeRune(raw)
		dst = append(dst, raw[:n]...)
		raw = raw[n:]
	}
	return dst
}

// validGrowth returns by how many bytes appendValid makes raw longer; below 0, shorter.
func validGrowth(raw []byte) (more int) {
	for len(raw) > 0 {
		if n := illFormed(raw); n > 0 {
			more += len(replacement) - n
			raw = raw[n:]
			continue
		}
		_, n := utf8.DecodeRune(raw)
		raw = raw[n:]
	}
	return more
}
