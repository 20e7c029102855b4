package canon

import (
	"bytes"
	"slices"

	"github.com/agentx/agentx/internal/jsonlex"
)

// compact returns the text of a value without the white space outside of strings. Strings stand as they do in the body.
func (b *builder) compact(i int32) []byte {
	text := b.lex.Data[b.values[i].start:b.values[i].end]
	if b.values[i].kind == jsonlex.String {
		return b.lex.Data[b.values[i].start-1 : b.values[i].end+1]
	}
	b.reserve(len(text))
	from := len(b.texts)
	b.texts = appendCompact(b.texts, text)
	return b.texts[from:len(b.texts):len(b.texts)]
}

// compactWithout returns the text of a value as compact does. If it is an object, it lacks members with some keys.
func (b *builder) compactWithout(i int32, keys ...string) []byte {
	text := b.raw(i)
	if b.values[i].kind != jsonlex.Object || !slices.ContainsFunc(keys, func(k string) bool { return bytes.Contains(text, []byte(k)) }) &&
		!bytes.ContainsRune(text, '\\') {
		return b.compact(i)
	}
	b.reserve(len(text))
	from := len(b.texts)
	b.texts = append(b.texts, '{')
	eachMember(text, func(key, rawKey, member []byte) {
		if slices.Contains(keys, string(key)) {
			return
		}
		if len(b.texts) > from+1 {
			b.texts = append(b.texts, ',')
		}
		b.texts = append(append(b.texts, rawKey...), ':')
		b.texts = appendCompact(b.texts, member)
	})
	b.texts = append(b.texts, '}')
	return b.texts[from:len(b.texts):len(b.texts)]
}

// eachMember calls use for the members of an object that was read before: what the key means, the key in its quotes, and
// the text of the value.
func eachMember(object []byte, use func(key, rawKey, member []byte)) {
	l := jsonlex.Lexer{Data: object, MaxDepth: maxDepth}
	before := 1 // behind the brace or comma before the key
	_ = l.Object(func(key []byte) error {
		rawKey := object[before:l.Pos]
		rawKey = rawKey[bytes.IndexByte(rawKey, '"') : bytes.LastIndexByte(rawKey, '"')+1]
		l.Peek()
		start := l.Pos
		err := l.Skip()
		use(key, rawKey, object[start:l.Pos])
		l.Peek()
		before = l.Pos + 1
		return err
	})
}

// appendCompact appends a text of JSON without the white space outside of strings.
func appendCompact(dst, text []byte) []byte {
	for len(text) > 0 {
		switch n := plain(text); {
		case n > 0:
			dst = append(dst, text[:n]...)
			text = text[n:]
		case text[0] == '"':
			n = stringLength(text)
			dst = append(dst, text[:n]...)
			text = text[n:]
		default:
			text = text[1:]
		}
	}
	return dst
}

// plain counts the bytes before the next string or white space.
func plain(text []byte) int {
	for i, c := range text {
		if c == '"' || c <= ' ' {
			return i
		}
	}
	return len(text)
}

// stringLength returns the length of the string with which a text begins, its quotes included.
func stringLength(text []byte) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(text)
}
