package canon

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	_ "image/gif"
	_ "image/jpeg"
	_ "image/png"
	"slices"
	"strings"
	"unicode/utf8"
)

// oracle writes canonical streams the slow way: with encoding/json, maps and copies. It has the parts of a stream as words:
// tokens of structure in hexadecimal, texts in quotes, media as M, their number and their data. A bar ends a segment.
type oracle struct {
	words []string
	role  string
	open  bool // there are words behind the last bar
}

type members map[string]json.RawMessage

var errOracle = errors.New("no stream")

// oracleStream returns the words of a body.
func oracleStream(f Format, body []byte) (words string, err error) {
	if !utf8.Valid(body) || !json.Valid(body) || depth(body) > maxDepth || kindOf(body) != '{' {
		return "", errOracle
	}
	o := &oracle{}
	defer func() {
		if r := recover(); r != nil {
			if r != errOracle {
				panic(r)
			}
			err = errOracle
		}
	}()
	m := object(body)
	switch f {
	case Chat:
		o.tools(m["tools"])
		o.tools(m["functions"])
		o.messages(m["messages"], o.chatMessage)
	case Messages:
		o.tools(m["tools"])
		o.system(m["system"], true)
		o.messages(m["messages"], o.message)
	case Responses:
		o.responses(m)
	case Completions:
		o.completions(m["prompt"])
	}
	o.bar()
	if len(o.words) == 0 && (f != Responses || kindOf(m["previous_response_id"]) != '"') {
		return "", errOracle
	}
	return strings.Join(o.words, " "), nil
}

// kindOf returns the first byte of a value; 0 for none and for null.
func kindOf(v json.RawMessage) byte {
	v = bytes.TrimLeft(v, " \t\r\n")
	if len(v) == 0 || v[0] == 'n' {
		return 0
	}
	return v[0]
}

func depth(text []byte) (most int) {
	d := json.NewDecoder(bytes.NewReader(text))
	for at := 0; ; {
		token, err := d.Token()
		if err != nil {
			return most
		}
		switch token {
		case json.Delim('{'), json.Delim('['):
			at++
			most = max(most, at)
		case json.Delim('}'), json.Delim(']'):
			at--
		}
	}
}

func object(v json.RawMessage) (m members) {
	if kindOf(v) == '{' {
		_ = json.Unmarshal(v, &m)
	}
	return m
}

func list(v json.RawMessage) (l []json.RawMessage) {
	if json.Unmarshal(v, &l) != nil || kindOf(v) != '[' {
		panic(errOracle)
	}
	return l
}

func text(v json.RawMessage) (s string) {
	if kindOf(v) == '"' {
		_ = json.Unmarshal(v, &s)
	}
	return s
}

func (o *oracle) token(t uint32) { o.words, o.open = append(o.words, fmt.Sprintf("%08X", t)), true }

func (o *oracle) text(s string) {
	if s != "" {
		o.words = append(o.words, fmt.Sprintf("%q", s))
	}
}

func (o *oracle) bar() {
	if o.open {
		o.words, o.open = append(o.words, "|"), false
	}
}

// without returns a value as compact JSON without some members.
func without(v json.RawMessage, keys ...string) string {
	var compacted bytes.Buffer
	_ = json.Compact(&compacted, v)
	if kindOf(v) != '{' {
		return compacted.String()
	}
	v = compacted.Bytes()
	var kept []string
	d := json.NewDecoder(bytes.NewReader(v))
	_, _ = d.Token()
	for d.More() {
		from := d.InputOffset()
		key, _ := d.Token()
		var value json.RawMessage
		behindKey := d.InputOffset()
		_ = d.Decode(&value)
		if !slices.Contains(keys, key.(string)) {
			kept = append(kept, strings.TrimLeft(string(v[from:behindKey]), ",")+":"+string(value))
		}
	}
	return "{" + strings.Join(kept, ",") + "}"
}

func (o *oracle) tools(v json.RawMessage) {
	if kindOf(v) == 0 {
		return
	}
	for _, tool := range list(v) {
		o.token(Tool)
		o.text(without(tool, "cache_control"))
		o.token(End)
		o.bar()
	}
}

func (o *oracle) system(v json.RawMessage, anthropic bool) {
	var blocks []json.RawMessage
	switch kindOf(v) {
	case 0:
		return
	case '"':
		blocks = []json.RawMessage{v}
	default:
		blocks = list(v)
	}
	inner := &oracle{}
	for i, block := range blocks {
		s := textOfBlock(block)
		if anthropic && i < 2 && strings.HasPrefix(s, "x-anthropic-billing-header:") {
			if _, rest, _ := strings.Cut(s, "\n"); rest != "" {
				inner.segment(Text, rest)
				inner.bar()
			}
			continue
		}
		inner.block(block)
		inner.bar()
	}
	if len(inner.words) > 0 {
		o.token(RoleSystem)
		o.words = append(o.words, inner.words...)
		o.open = false
	}
}

func textOfBlock(v json.RawMessage) string {
	m := object(v)
	switch text(m["type"]) {
	case "text", "input_text", "output_text":
		return text(m["text"])
	case "refusal":
		return text(m["refusal"])
	}
	return text(v)
}

func (o *oracle) begin(role string) {
	o.bar()
	o.role = role
	if token, known := roles[role]; known {
		o.token(token)
		return
	}
	o.token(RoleOther)
	o.text(role)
	o.token(Sep)
}

func (o *oracle) messages(v json.RawMessage, write func(members)) {
	for _, m := range list(v) {
		if kindOf(m) != '{' {
			panic(errOracle)
		}
		write(object(m))
	}
}

func (o *oracle) message(m members) {
	if kindOf(m["role"]) != '"' {
		panic(errOracle)
	}
	o.begin(text(m["role"]))
	o.content(m["content"])
}

func (o *oracle) content(v json.RawMessage) {
	switch kindOf(v) {
	case 0:
	case '[':
		for _, block := range list(v) {
			o.block(block)
			o.bar()
		}
	default:
		o.block(v)
		o.bar()
	}
}

func (o *oracle) chatMessage(m members) {
	if kindOf(m["role"]) != '"' {
		panic(errOracle)
	}
	o.begin(text(m["role"]))
	if o.role == "tool" {
		o.result(m["content"], false)
		o.bar()
		return
	}
	if kindOf(m["reasoning_content"]) == '"' {
		o.segment(Thinking, text(m["reasoning_content"]))
		o.bar()
	}
	o.content(m["content"])
	if kindOf(m["refusal"]) == '"' {
		o.segment(Text, text(m["refusal"]))
		o.bar()
	}
	if kindOf(m["audio"]) == '{' {
		o.media(Audio, m["audio"])
		o.bar()
	}
	if kindOf(m["tool_calls"]) == '[' {
		for _, call := range list(m["tool_calls"]) {
			switch c := object(call); {
			case kindOf(c["function"]) == '{':
				o.call(object(c["function"]), "arguments")
			case kindOf(c["custom"]) == '{':
				o.call(object(c["custom"]), "input")
			default:
				o.other(call)
			}
			o.bar()
		}
	}
	if kindOf(m["function_call"]) == '{' {
		o.call(object(m["function_call"]), "arguments")
		o.bar()
	}
}

func (o *oracle) segment(kind uint32, s string) {
	o.token(kind)
	o.text(s)
	o.token(End)
}

func (o *oracle) call(m members, arguments string) {
	o.token(ToolCall)
	o.text(text(m["name"]))
	o.token(Sep)
	switch kindOf(m[arguments]) {
	case 0:
	case '"':
		o.text(text(m[arguments]))
	default:
		var compacted bytes.Buffer
		_ = json.Compact(&compacted, m[arguments])
		o.text(compacted.String())
	}
	o.token(End)
}

func (o *oracle) result(v json.RawMessage, failed bool) {
	o.token(ToolResult)
	switch kindOf(v) {
	case 0:
	case '"':
		o.text(text(v))
	case '[':
		for _, part := range list(v) {
			if isText(part) {
				o.text(textOfBlock(part))
			} else {
				o.block(part)
			}
		}
	default:
		o.other(v)
	}
	if failed {
		o.token(Sep)
	}
	o.token(End)
}

// isText reports whether a block is text, with a text.
func isText(v json.RawMessage) bool {
	m := object(v)
	switch text(m["type"]) {
	case "text", "input_text", "output_text":
		return kindOf(m["text"]) == '"'
	case "refusal":
		return kindOf(m["refusal"]) == '"'
	}
	return kindOf(v) == '"'
}

func (o *oracle) block(v json.RawMessage) {
	m := object(v)
	kind := text(m["type"])
	switch {
	case isText(v):
		o.segment(Text, textOfBlock(v))
	case kind == "tool_use":
		o.call(m, "input")
	case kind == "tool_result":
		o.result(m["content"], string(m["is_error"]) == "true")
	case kind == "thinking":
		o.segment(Thinking, text(m["thinking"]))
	case kind == "redacted_thinking":
		o.token(Thinking)
		o.sealed(text(m["data"]))
		o.token(End)
	case slices.Contains([]string{"image", "image_url", "input_image"}, kind):
		o.media(Image, v)
	case slices.Contains([]string{"document", "file", "input_file"}, kind):
		o.media(Document, v)
	case slices.Contains([]string{"audio", "input_audio"}, kind):
		o.media(Audio, v)
	default:
		o.other(v)
	}
}

// sealed writes reasoning that cannot be read.
func (o *oracle) sealed(data string) {
	if data != "" {
		o.words = append(o.words, fmt.Sprintf("M%d:%q", (3*len(data)+15)/16, data))
	}
}

func (o *oracle) other(v json.RawMessage) {
	keys := []string{"cache_control"}
	for _, end := range []string{"tool_use", "_call", "tool_result", "_call_output"} {
		if strings.HasSuffix(text(object(v)["type"]), end) {
			keys = append(keys, "id", "tool_use_id", "call_id")
		}
	}
	o.token(Other)
	o.text(without(v, keys...))
	o.token(End)
}

func (o *oracle) responses(m members) {
	if kindOf(m["conversation"]) != 0 || kindOf(m["prompt"]) != 0 {
		panic(errOracle)
	}
	if previous := m["previous_response_id"]; kindOf(previous) != 0 && text(previous) == "" {
		panic(errOracle)
	}
	o.tools(m["tools"])
	o.system(m["instructions"], false)
	switch kindOf(m["input"]) {
	case 0:
		return
	case '"':
		o.begin("user")
		o.content(m["input"])
		return
	}
	for _, item := range list(m["input"]) {
		if kindOf(item) != '{' {
			panic(errOracle)
		}
		o.item(item, object(item))
		o.bar()
	}
}

func (o *oracle) item(item json.RawMessage, m members) {
	kind := text(m["type"])
	switch {
	case kind == "" || kind == "message":
		o.message(m)
		return
	case kind == "item_reference":
		panic(errOracle)
	case strings.HasSuffix(kind, "_output"):
		o.begin("tool")
	case o.role != "assistant":
		o.begin("assistant")
	}
	switch kind {
	case "function_call":
		o.call(m, "arguments")
	case "custom_tool_call":
		o.call(m, "input")
	case "function_call_output", "custom_tool_call_output":
		o.result(m["output"], false)
	case "reasoning":
		o.reasoning(m)
	default:
		o.token(Other)
		o.text(without(item, "id", "status", "call_id", "cache_control"))
		o.token(End)
	}
}

func (o *oracle) reasoning(m members) {
	var texts []json.RawMessage
	for _, n := range []string{"content", "summary"} {
		if kindOf(m[n]) == '[' && len(list(m[n])) > 0 {
			texts = list(m[n])
		}
	}
	if encrypted := text(m["encrypted_content"]); len(texts) > 0 || encrypted == "" {
		o.token(Thinking)
		for _, t := range texts {
			o.text(text(object(t)["text"]))
		}
		o.token(End)
	}
	if encrypted := text(m["encrypted_content"]); encrypted != "" {
		o.token(Thinking)
		o.sealed(encrypted)
		o.token(End)
	}
}

func (o *oracle) completions(v json.RawMessage) {
	if kindOf(v) == '"' {
		o.segment(Text, text(v))
		return
	}
	l := list(v)
	if len(l) > 0 && (kindOf(l[0]) == '"' || kindOf(l[0]) == '[') {
		if len(l) > 1 {
			panic(errOracle)
		}
		if kindOf(l[0]) == '"' {
			o.segment(Text, text(l[0]))
			return
		}
		l = list(l[0])
	}
	for i, v := range l {
		var id uint32
		if json.Unmarshal(v, &id) != nil || id >= Tool || kindOf(v) == 0 {
			panic(errOracle)
		}
		o.words, o.open = append(o.words, fmt.Sprint(id)), true
		if i%1024 == 1023 {
			o.bar()
		}
	}
}

// media writes media, whose size the standard library reads.
func (o *oracle) media(kind uint32, v json.RawMessage) {
	data, plain, inBody := sourceOf(v)
	count := 1000
	var bytesOf []byte
	if inBody {
		bytesOf = []byte(data)
		if !plain {
			bytesOf = lenient(data)
		}
		if kind != Image {
			count = min(max((len(bytesOf)+63)/64, 1), 65536)
		} else if c, _, err := image.DecodeConfig(bytes.NewReader(bytesOf)); err == nil {
			count = min(max((c.Width*c.Height+749)/750, 1), 1600)
		}
	}
	o.token(kind)
	o.words = append(o.words, fmt.Sprintf("M%d:%q", count, data))
	o.token(End)
}

// lenient decodes base64 text until it ends to be any.
func lenient(data string) []byte {
	data = strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(data), "=\r\n")
	decoded, _ := base64.RawStdEncoding.DecodeString(data)
	return decoded
}

func sourceOf(v json.RawMessage) (data string, plain, inBody bool) {
	m := object(v)
	for _, n := range []string{"source", "image_url", "file", "input_audio"} {
		switch kindOf(m[n]) {
		case '"':
			return dataOf(text(m[n]))
		case '{':
			return sourceIn(object(m[n]))
		}
	}
	return sourceIn(m)
}

func sourceIn(m members) (data string, plain, inBody bool) {
	if kindOf(m["data"]) == '"' {
		return text(m["data"]), text(m["type"]) == "text", true
	}
	if kindOf(m["content"]) == '"' {
		return text(m["content"]), true, true
	} else if kindOf(m["content"]) != 0 {
		return without(m["content"]), true, true
	}
	if kindOf(m["file_data"]) == '"' {
		data, _, inBody := dataOf(text(m["file_data"]))
		if !inBody {
			data = text(m["file_data"])
		}
		return data, false, true
	}
	for _, n := range []string{"url", "file_url"} {
		if kindOf(m[n]) == '"' {
			return dataOf(text(m[n]))
		}
	}
	if kindOf(m["file_id"]) != 0 {
		return text(m["file_id"]), false, false
	}
	return text(m["id"]), false, false
}

func dataOf(url string) (data string, plain, inBody bool) {
	if head, data, found := strings.Cut(url, ","); found && strings.HasPrefix(strings.ToLower(head), "data:") && strings.HasSuffix(head, ";base64") {
		return data, false, true
	}
	return url, false, false
}

// words returns the segments of a prompt as the oracle writes them.
func words(segments []Segment) string {
	var list []string
	for _, s := range segments {
		for _, p := range s.Parts {
			switch p.Kind {
			case Structure:
				list = append(list, fmt.Sprintf("%08X", p.Token))
			case PlainText:
				list = append(list, fmt.Sprintf("%q", p.Data))
			case MediaTokens:
				list = append(list, fmt.Sprintf("M%d:%q", p.Count, p.Data))
			case TokenIDs:
				for _, id := range p.IDs {
					list = append(list, fmt.Sprint(id))
				}
			}
		}
		list = append(list, "|")
	}
	return strings.Join(list, " ")
}
