package canon

import (
	"bytes"
	"encoding/json"
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
	b := bytes.NewBuffer(dst)
	_ = json.Compact(b, text) // it was read before
	return b.Bytes()
}
