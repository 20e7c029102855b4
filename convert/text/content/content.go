// Package content reads messages of the inference APIs into those of package text: blocks of Anthropic's Messages, messages of OpenAI's
// chat completions, items of Responses. What a block becomes is doc/spec/capture.md 5.2, so that a log and a capture of the same session
// have the same parts.
//
//	r := content.Reader{Data: dataset}
//	m, err := r.Message([]byte(`{"role":"user","content":"hi"}`))
//
// Values are read where they lie: a Raw is the text of one value. Errors name a byte or a key of the API, never what a message says.
package content

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agentx/agentx/convert/text"
	"github.com/agentx/agentx/internal/jsonlex"
	"github.com/agentx/agentx/internal/media"
)

// MaxDepth is how deep JSON of a log may be.
const MaxDepth = 1000

// Raw is the text of one JSON value, nil for none.
type Raw []byte

// IsNull reports whether there is no value, or null.
func (r Raw) IsNull() bool { return len(r) == 0 || r[0] == 'n' }

// IsString, IsObject and IsArray report the kind of a value.
func (r Raw) IsString() bool { return len(r) > 0 && r[0] == '"' }
func (r Raw) IsObject() bool { return len(r) > 0 && r[0] == '{' }
func (r Raw) IsArray() bool  { return len(r) > 0 && r[0] == '[' }
func (r Raw) IsTrue() bool   { return len(r) > 0 && r[0] == 't' }
func (r Raw) IsNumber() bool { return len(r) > 0 && (r[0] == '-' || r[0]-'0' <= 9) }

// Object calls member for each member of an object, in order. Another value has none.
func (r Raw) Object(member func(key []byte, value Raw) error) error {
	if !r.IsObject() {
		return nil
	}
	l := jsonlex.Lexer{Data: r, MaxDepth: MaxDepth}
	return l.Object(func(key []byte) error {
		l.Peek()
		from := l.Pos
		if err := l.Skip(); err != nil {
			return err
		}
		return member(key, r[from:l.Pos:l.Pos])
	})
}

// Array calls element for each element of a list. Another value has none.
func (r Raw) Array(element func(value Raw) error) error {
	if !r.IsArray() {
		return nil
	}
	l := jsonlex.Lexer{Data: r, MaxDepth: MaxDepth}
	return l.Array(func() error {
		l.Peek()
		from := l.Pos
		if err := l.Skip(); err != nil {
			return err
		}
		return element(r[from:l.Pos:l.Pos])
	})
}

// AppendString appends what a string means; of another value nothing. Halves of surrogate pairs are U+FFFD.
func (r Raw) AppendString(dst []byte) []byte {
	if !r.IsString() {
		return dst
	}
	l := jsonlex.Lexer{Data: r, MaxDepth: 1}
	dst, _ = l.AppendString(dst) // it was read before
	return dst
}

// String returns what a string means, "" for another value.
func (r Raw) String() string { return string(r.AppendString(nil)) }

// Int returns a whole number, and false for another value.
func (r Raw) Int() (int64, bool) {
	if !r.IsNumber() {
		return 0, false
	}
	n, err := jsonlex.Whole(r)
	return n, err == nil
}

// Instant returns the instant of a string of ISO 8601 in milliseconds since 1970, rounded down. One without a zone is of UTC.
func Instant(v Raw) (int64, bool) {
	if at, ok := plainInstant(v); ok {
		return at, true
	}
	s := v.String()
	for _, layout := range [...]string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999"} {
		if t, err := time.Parse(layout, s); err == nil && t.Year() > 1900 && t.Year() < 2200 {
			return t.UnixMilli(), true
		}
	}
	return 0, false
}

// plainInstant reads an instant as most logs have it. It is false for all others.
func plainInstant(v Raw) (int64, bool) {
	const layout = `"0000-00-00T00:00:00.000Z"`
	if len(v) != len(layout) {
		return 0, false
	}
	var n [8]int
	field := 0
	for k := range layout {
		switch c := v[k]; {
		case layout[k] == '0' && c-'0' <= 9:
			n[field] = n[field]*10 + int(c-'0')
		case c != layout[k]:
			return 0, false
		case k > 0:
			field = min(field+1, len(n)-1)
		}
	}
	t := time.Date(n[0], time.Month(n[1]), n[2], n[3], n[4], n[5], n[6]*1e6, time.UTC)
	known := n[0] > 1900 && n[0] < 2200 && int(t.Month()) == n[1] && t.Day() == n[2] && n[3] < 24 && n[4] < 60 && n[5] < 60
	return t.UnixMilli(), known
}

// Value reads a row: one JSON value and nothing behind it. A byte order mark is the caller's to skip.
func Value(row []byte) (Raw, error) {
	l := jsonlex.Lexer{Data: row, MaxDepth: MaxDepth}
	l.Peek()
	from := l.Pos
	err := l.Skip()
	to := l.Pos
	if err == nil {
		err = l.End()
	}
	if err != nil {
		return nil, Malformed(err)
	}
	return row[from:to:to], nil
}

// ErrMalformed is wrapped by the errors about a text that is no JSON.
var ErrMalformed = errors.New("malformed JSON")

// Malformed returns the error about a text that is no JSON, without what the text says.
func Malformed(err error) error {
	if syntax := (*jsonlex.SyntaxError)(nil); errors.As(err, &syntax) {
		return fmt.Errorf("%w at byte %d", ErrMalformed, syntax.Offset+1)
	}
	return ErrMalformed
}

// Reader reads messages into a dataset. After an error of the store, which Err returns, it makes no sense of anything.
type Reader struct {
	Data *text.Dataset
	err  error
	buf  []byte
}

// Err returns the first error of the store.
func (r *Reader) Err() error { return r.err }

// add returns the number of a text.
func (r *Reader) add(b []byte) text.Text {
	t, err := r.Data.Store.Add(b)
	if err != nil && r.err == nil {
		r.err = err
	}
	return t
}

// Text returns the number of what a string means, of the empty text for another value.
func (r *Reader) Text(v Raw) text.Text {
	if v.IsString() && bytes.IndexByte(v, '\\') < 0 {
		return r.add(v[1 : len(v)-1])
	}
	r.buf = v.AppendString(r.buf[:0])
	return r.add(r.buf)
}

// Plain returns a part that is a text.
func (r *Reader) Plain(b []byte) text.Part { return text.Part{Kind: text.Plain, Text: r.add(b)} }

// JSON returns the number of the compact text of a value.
func (r *Reader) JSON(v Raw) text.Text {
	r.buf = appendCompact(r.buf[:0], v)
	return r.add(r.buf)
}

// appendCompact appends a value without the white space between its tokens.
func appendCompact(dst []byte, v Raw) []byte {
	for from := 0; from < len(v); {
		at := from
		for at < len(v) && v[at] > ' ' {
			if v[at] != '"' {
				at++
			} else if at, _ = jsonlex.StringEnd(v, at); at < 0 { // it was read before
				return dst
			}
		}
		dst = append(dst, v[from:at]...)
		for from = at; from < len(v) && v[from] <= ' '; from++ {
		}
	}
	return dst
}

// Without returns the compact text of an object without members of some keys.
func (r *Reader) Without(v Raw, keys ...string) text.Text {
	if !v.IsObject() {
		return r.JSON(v)
	}
	return r.add(r.without(v, keys))
}

// Members returns the members of an object but those of some keys, without the braces around them.
func (r *Reader) Members(v Raw, but ...string) text.Text {
	b := r.without(v, but)
	return r.add(b[1 : len(b)-1])
}

// without returns the compact text of an object without members of some keys, until the next call.
func (r *Reader) without(v Raw, keys []string) []byte {
	b := bytes.NewBuffer(r.buf[:0])
	b.WriteByte('{')
	l := jsonlex.Lexer{Data: v, MaxDepth: MaxDepth}
	behind := 1 // the brace or comma before the key
	_ = l.Object(func(key []byte) error {
		raw := v[behind:l.Pos]
		l.Peek()
		from := l.Pos
		err := l.Skip()
		value := v[from:l.Pos]
		l.Peek()
		behind = l.Pos + 1
		if slices.Contains(keys, string(key)) {
			return err
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		b.Write(raw[bytes.IndexByte(raw, '"') : bytes.LastIndexByte(raw, '"')+1])
		b.WriteByte(':')
		b.Write(appendCompact(b.AvailableBuffer(), value))
		return err
	})
	b.WriteByte('}')
	r.buf = b.Bytes()
	return r.buf
}

// Tool returns the definition of a tool.
func (r *Reader) Tool(v Raw) text.Text { return r.Without(v, "cache_control") }

// Tools returns the definitions of a list of tools.
func (r *Reader) Tools(v Raw) (list []text.Text, err error) {
	err = v.Array(func(tool Raw) error {
		list = append(list, r.Tool(tool))
		return nil
	})
	return list, err
}

// ErrNoRole is about a message without a role.
var ErrNoRole = errors.New("a message without role")

// fields are the members of a message or a block that decide about it, by key. The last of a key counts, and null is none.
type fields [keys]Raw

// The keys of fields.
const (
	kRole = iota
	kContent
	kReasoningContent
	kRefusal
	kAudio
	kToolCalls
	kFunctionCall
	kToolCallId
	kName
	kType
	kText
	kThinking
	kData
	kId
	kInput
	kToolUseId
	kIsError
	kSource
	kImageUrl
	kFile
	kInputAudio
	kFunction
	kCustom
	kArguments
	kUrl
	kFileUrl
	kFileId
	kFileData
	kParts
	kResponse
	kResult
	kModality
	kMimeType
	keys
)

// keyNumbers has them by their names.
var keyNumbers = map[string]int{
	"role": kRole, "content": kContent, "reasoning_content": kReasoningContent, "refusal": kRefusal, "audio": kAudio,
	"tool_calls": kToolCalls, "function_call": kFunctionCall, "tool_call_id": kToolCallId, "name": kName, "type": kType, "text": kText,
	"thinking": kThinking, "data": kData, "id": kId, "input": kInput, "tool_use_id": kToolUseId, "is_error": kIsError, "source": kSource,
	"image_url": kImageUrl, "file": kFile, "input_audio": kInputAudio, "function": kFunction, "custom": kCustom, "arguments": kArguments,
	"url": kUrl, "file_url": kFileUrl, "file_id": kFileId, "file_data": kFileData, "parts": kParts, "response": kResponse, "result": kResult,
	"modality": kModality, "mime_type": kMimeType, "uri": kUrl,
}

func fieldsOf(v Raw) (f fields, err error) {
	if v.IsObject() {
		err = f.read(&jsonlex.Lexer{Data: v, MaxDepth: MaxDepth})
	}
	return f, err
}

// read reads an object.
func (f *fields) read(l *jsonlex.Lexer) error {
	return l.Object(func(key []byte) error {
		k, ok := keyNumbers[string(key)]
		from := l.Pos
		if err := l.Skip(); err != nil || !ok {
			return err
		}
		if f[k] = l.Data[from:l.Pos:l.Pos]; f[k].IsNull() {
			f[k] = nil
		}
		return nil
	})
}

// Message reads a message of chat completions or of Anthropic's Messages.
func (r *Reader) Message(v Raw) (m text.Message, err error) {
	f, err := fieldsOf(v)
	if err != nil {
		return m, Malformed(err)
	}
	if !f[kRole].IsString() {
		return m, ErrNoRole
	}
	if m = r.says(f[kRole]); m.Role == text.Tool {
		m.Parts = append(m.Parts, r.result(f[kToolCallId], f[kContent], false))
		return m, r.err
	}
	if v := f[kReasoningContent]; v.IsString() {
		m.Parts = append(m.Parts, text.Part{Kind: text.Thinking, Text: r.Text(v)})
	}
	m.Parts = append(m.Parts, r.Blocks(f[kContent])...)
	if v := f[kRefusal]; v.IsString() {
		m.Parts = append(m.Parts, text.Part{Kind: text.Plain, Text: r.Text(v)})
	}
	if v := f[kAudio]; v.IsObject() {
		m.Parts = append(m.Parts, r.media(text.Audio, sourceOf(v)))
	}
	_ = f[kToolCalls].Array(func(c Raw) error {
		m.Parts = append(m.Parts, r.chatCall(c))
		return nil
	})
	if v := f[kFunctionCall]; v.IsObject() {
		g, _ := fieldsOf(v)
		m.Parts = append(m.Parts, r.call(nil, g[kName], g[kArguments]))
	}
	return m, r.err
}

// says returns a message of a role, without parts.
func (r *Reader) says(role Raw) (m text.Message) {
	name := role.Bytes()
	if m.Role = text.RoleOf(name); m.Role == text.OtherRole {
		m.Name = r.add(name)
	}
	return m
}

// billing begins a block of the system prompt that a client writes for the accounts of the API. It changes with each request.
var billing = []byte("x-anthropic-billing-header:")

// System reads the system prompt that is a field of the body: a text, or a list of blocks. It is false where nothing is there.
func (r *Reader) System(v Raw) (m text.Message, ok bool) {
	m = text.Message{Role: text.System, Parts: r.Blocks(v)}
	for k := 0; k < min(2, len(m.Parts)); k++ {
		p := &m.Parts[k]
		if b, err := r.Data.Store.Append(nil, p.Text); p.Kind == text.Plain && err == nil && bytes.HasPrefix(b, billing) {
			_, rest, _ := bytes.Cut(b, []byte("\n"))
			if p.Text = r.add(rest); len(rest) == 0 {
				m.Parts = append(m.Parts[:k:k], m.Parts[k+1:]...)
				k--
			}
		}
	}
	return m, len(m.Parts) > 0
}

// Blocks reads the content of a message: a string, a block or a list of blocks.
func (r *Reader) Blocks(v Raw) (parts []text.Part) {
	switch {
	case v.IsNull():
	case v.IsArray():
		l := jsonlex.Lexer{Data: v, MaxDepth: MaxDepth}
		_ = l.Array(func() error {
			var f fields
			l.Peek()
			from, object, err := l.Pos, l.Kind() == jsonlex.Object, error(nil)
			if object {
				err = f.read(&l)
			} else {
				err = l.Skip()
			}
			parts = append(parts, r.block(v[from:l.Pos:l.Pos], &f))
			return err
		})
	default:
		parts = append(parts, r.Block(v))
	}
	return parts
}

// Block reads a block of content.
func (r *Reader) Block(v Raw) text.Part {
	f, _ := fieldsOf(v) // it was read before
	return r.block(v, &f)
}

// block reads a block whose fields are known.
func (r *Reader) block(v Raw, f *fields) text.Part {
	if v.IsString() {
		return text.Part{Kind: text.Plain, Text: r.Text(v)}
	}
	switch kind := f[kType].String(); kind {
	case "text", "input_text", "output_text", "refusal", "summary_text", "reasoning_text":
		if v := textOf(kind, f); v != nil {
			return text.Part{Kind: text.Plain, Text: r.Text(v)}
		}
	case "tool_use":
		return r.call(f[kId], f[kName], f[kInput])
	case "tool_result":
		return r.result(f[kToolUseId], f[kContent], f[kIsError].IsTrue())
	case "thinking":
		return text.Part{Kind: text.Thinking, Text: r.Text(f[kThinking])}
	case "redacted_thinking":
		return r.Redacted(f[kData])
	case "image", "image_url", "input_image":
		return r.media(text.Image, sourceOf(v))
	case "document", "file", "input_file":
		return r.media(text.Document, sourceOf(v))
	case "audio", "input_audio":
		return r.media(text.Audio, sourceOf(v))
	}
	return r.other(v, f[kType].String())
}

// textOf returns the text of a block that says that it is text, nil where it has none.
func textOf(kind string, f *fields) Raw {
	at := kText
	if kind == "refusal" {
		at = kRefusal
	}
	if v := f[at]; v.IsString() {
		return v
	}
	return nil
}

// other reads what no rule knows, as JSON. The ids that link calls and results go.
func (r *Reader) other(v Raw, kind string) text.Part {
	keys := []string{"cache_control"}
	for _, suffix := range [...]string{"tool_use", "_call", "tool_result", "_call_output"} {
		if strings.HasSuffix(kind, suffix) {
			keys = append(keys, "id", "tool_use_id", "call_id")
			break
		}
	}
	return text.Part{Kind: text.Other, Text: r.Without(v, keys...)}
}

// Redacted reads thinking that is there encrypted alone.
func (r *Reader) Redacted(v Raw) text.Part {
	t := r.Text(v)
	return text.Part{Kind: text.Redacted, Text: t, Tokens: int32(media.RedactedTokens(r.Data.Store.Len(t)))}
}

// chatCall reads an element of tool_calls.
func (r *Reader) chatCall(v Raw) text.Part {
	f, _ := fieldsOf(v)
	if g, _ := fieldsOf(f[kFunction]); f[kFunction].IsObject() {
		return r.call(f[kId], g[kName], g[kArguments])
	}
	if g, _ := fieldsOf(f[kCustom]); f[kCustom].IsObject() {
		return r.call(f[kId], g[kName], g[kInput])
	}
	return r.other(v, f[kType].String())
}

// call reads a call of a tool. Its arguments are a string, which is taken as it is, or JSON, which becomes compact.
func (r *Reader) call(id, name, arguments Raw) text.Part {
	p := text.Part{Kind: text.Call, ID: r.Text(id), Name: r.Text(name)}
	switch {
	case arguments.IsNull():
	case arguments.IsString():
		p.Text = r.Text(arguments)
	default:
		p.Text = r.JSON(arguments)
	}
	return p
}

// result reads the result of a call.
func (r *Reader) result(id, content Raw, failed bool) text.Part {
	return text.Part{Kind: text.Result, ID: r.Text(id), Failed: failed, Parts: r.Blocks(content)}
}

func (r *Reader) media(kind text.PartKind, s media.Source) text.Part {
	p := text.Part{Kind: kind, Text: r.add(s.Data), Tokens: int32(s.SizeTokens())}
	if kind == text.Image {
		p.Tokens = int32(s.ImageTokens())
	}
	return p
}

// sourceOf returns where the media of a block are.
func sourceOf(v Raw) media.Source {
	f, _ := fieldsOf(v)
	for _, n := range [...]int{kSource, kImageUrl, kFile, kInputAudio} {
		switch v := f[n]; {
		case v.IsObject():
			g, _ := fieldsOf(v)
			return sourceIn(&g)
		case v.IsString():
			return media.DataURL(v.AppendString(nil))
		}
	}
	return sourceIn(&f)
}

// sourceIn returns where the media are that an object describes.
func sourceIn(f *fields) media.Source {
	if v := f[kData]; v.IsString() {
		return media.Source{Data: v.AppendString(nil), Base64: f[kType].String() != "text", Inside: true}
	}
	if v := f[kContent]; v.IsString() {
		return media.Source{Data: v.AppendString(nil), Inside: true}
	} else if v != nil {
		return media.Source{Data: appendCompact(nil, v), Inside: true}
	}
	if v := f[kFileData]; v.IsString() {
		data := v.AppendString(nil)
		if s := media.DataURL(data); s.Inside {
			return s
		}
		return media.Source{Data: data, Base64: true, Inside: true}
	}
	for _, n := range [...]int{kUrl, kFileUrl} {
		if v := f[n]; v.IsString() {
			return media.DataURL(v.AppendString(nil))
		}
	}
	if v := f[kFileId]; v != nil {
		return media.Source{Data: v.AppendString(nil)}
	}
	return media.Source{Data: f[kId].AppendString(nil)}
}
