package tokenizer

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	streamBuffer = 1 << 20 // bytes that EncodeReader reads at a time
	maxStretch   = 8 << 20 // bytes without a place to cut: to encode them takes ninety times their memory
)

// EncodeReader encodes a text of any length, and calls each with the ids of its parts in turn. Joined they are those that Encode returns
// for the whole text. It holds a part of the text at a time: about a megabyte, or more where the text has no blank and no line break.
// The ids are valid until each returns. size is the number of bytes of the text.
func (t *Tokenizer) EncodeReader(r io.Reader, each func(ids []uint32) error) (size int64, err error) {
	return t.encodeReader(r, streamBuffer, each)
}

func (t *Tokenizer) encodeReader(r io.Reader, step int, each func(ids []uint32) error) (size int64, err error) {
	var text []byte
	var ids []uint32
	for end := false; !end; {
		if len(text) > maxStretch {
			return size, fmt.Errorf("tokenizer: %d bytes from byte %d on without a blank or a line break: they are too long to be encoded", len(text), size-int64(len(text)))
		}
		from := len(text)
		text = append(text, make([]byte, max(step, from))...) // twice as much where it could not be cut
		n, err := io.ReadFull(r, text[from:])
		text = text[:from+n]
		size += int64(n)
		end = err == io.EOF || err == io.ErrUnexpectedEOF
		if err != nil && !end {
			return size, err
		}
		cut := len(text)
		if !end {
			cut = t.lastCut(text)
		}
		if cut == 0 {
			continue
		}
		ids = t.AppendIDs(ids[:0], string(text[:cut]))
		if err := each(ids); err != nil {
			return size, err
		}
		text = append(text[:0], text[cut:]...)
	}
	return size, nil
}

// lastCut returns the last place where a text can be cut, so that its parts have the ids of the whole, whatever follows it; 0: there is
// none. It is before a blank behind a character that is no white space, or behind a line break before a letter: a piece begins there
// under every pattern. No added token may lie across it.
func (t *Tokenizer) lastCut(text []byte) int {
	if f := t.added.normalized; f != nil && t.nfc && slices.ContainsFunc(f.tokens, func(a addedToken) bool { return strings.ContainsAny(a.content, " \n") }) {
		return 0 // such a token may be found in a text that differs from it
	}
	for cut := len(text) - utf8.UTFMax - t.added.longest(); cut > 0; cut-- {
		if isCut(text, cut) && !t.added.across(string(text[max(0, cut-t.added.longest()):min(len(text), cut+t.added.longest())]), min(cut, t.added.longest())) {
			return cut
		}
	}
	return 0
}

func isCut(text []byte, at int) bool {
	if text[at-1] == '\n' {
		return text[at]|0x20 >= 'a' && text[at]|0x20 <= 'z'
	}
	if text[at] != ' ' {
		return false
	}
	before, _ := utf8.DecodeLastRune(text[:at])
	return classes()[before]&space == 0
}

// longest returns the number of bytes of the longest added token.
func (a *addedTokens) longest() (n int) {
	for _, f := range []*tokenFinder{a.raw, a.normalized} {
		if f != nil {
			n = max(n, f.longest)
		}
	}
	return n
}

// across reports whether an added token lies across a place in a text.
func (a *addedTokens) across(text string, at int) bool {
	for _, f := range []*tokenFinder{a.raw, a.normalized} {
		for from := 0; f != nil && from < at; from++ {
			if f.first[text[from]] {
				if _, length := f.at(text[from:]); from+length > at {
					return true
				}
			}
		}
	}
	return false
}
