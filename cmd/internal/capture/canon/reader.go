package canon

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/agentx/agentx/cmd/internal/capture/journal"
	"github.com/agentx/agentx/internal/jsonlex"
)

// reader reads a body once, and keeps where the values are that decide about a prompt.
type reader struct {
	lex     jsonlex.Lexer
	values  []value // the first one is the body
	list    messageList
	checked int // how much of the body is UTF-8
}

// value is a JSON value of the body.
type value struct {
	start, end  int32 // of its text; of a string's without the quotes
	first, next int32 // its first member or element; the next one beside it. 0 is none
	key         *key  // as a member
	kind        jsonlex.Kind
	escaped     bool // a string with escapes
	known       bool // a list of tools whose elements are left out
}

// level says what may be looked at inside a value.
type level uint8

const (
	nothing level = iota // it is taken as a whole
	ofBody
	ofOptions // of a body, but for what the prompt is made of
	ofList    // of blocks: messages, items, content
	ofWholes  // a list whose elements are taken as wholes
	ofNothing // a list that is taken as a whole, of which the memory may have a part
	ofBlock   // a message, an item or a block of content
	ofDetail  // an object of a block, such as source
)

// key is a key at which canon looks, with what may be looked at in what it names: as a member of a body, and of a block. There the same
// key may stand for something else: input is a list of items of the body, and an argument of a tool inside a block.
type key struct {
	name            string
	inBody, inBlock level
}

// keys has them by their names.
var keys = func() map[string]*key {
	keys := map[string]*key{}
	for _, name := range strings.Fields(`arguments call_id conversation data encrypted_content file_data file_id file_url id is_error model name
		previous_response_id prompt prompt_cache_key reasoning_content refusal role stream text thinking tool_call_id tool_use_id type url user_id`) {
		keys[name] = &key{name: name}
	}
	for _, k := range []key{
		{"messages", ofList, nothing}, {"input", ofList, nothing}, {"system", ofList, nothing}, {"instructions", ofList, nothing},
		{"tools", ofWholes, nothing}, {"functions", ofWholes, nothing}, {"metadata", ofDetail, nothing},
		{"content", nothing, ofList}, {"summary", nothing, ofList}, {"output", nothing, ofList}, {"tool_calls", nothing, ofList},
		{"source", nothing, ofDetail}, {"image_url", nothing, ofDetail}, {"file", nothing, ofDetail}, {"input_audio", nothing, ofDetail},
		{"audio", nothing, ofDetail}, {"function", nothing, ofDetail}, {"custom", nothing, ofDetail}, {"function_call", nothing, ofDetail},
	} {
		keys[k.name] = &k
	}
	return keys
}()

// named reports whether a value is the member of this name.
func (v *value) named(name string) bool { return v.key != nil && v.key.name == name }

// read reads a text of JSON that is an object, or a list where a list of items is wanted.
func (r *reader) read(text []byte, at level) error {
	if len(text) > maxBody {
		return oversize("the body has more than %d bytes", maxBody)
	}
	r.lex = jsonlex.Lexer{Data: text, MaxDepth: maxDepth}
	r.values, r.checked = r.values[:0], 0
	r.list.begin(0, 0)
	_, err := r.value(at, nil)
	if err == nil {
		err = r.lex.End()
	}
	if err == nil {
		err = r.checkUTF8()
	}
	if err != nil {
		return malformed(err)
	}
	return nil
}

// value reads a value and those inside it that its level has.
func (r *reader) value(at level, k *key) (int32, error) {
	if len(r.values) >= maxValues {
		return 0, oversize("the body has more than %d values", maxValues)
	}
	i := int32(len(r.values))
	v := value{key: k, kind: r.lex.Kind()}
	v.start = int32(r.lex.Pos)
	r.values = append(r.values, v)
	var err error
	switch {
	case v.kind == jsonlex.String:
		return i, r.str(i)
	case v.kind == jsonlex.Object && at != nothing && at != ofWholes:
		err = r.members(i, at)
	case v.kind == jsonlex.Array && (at == ofList || at == ofWholes):
		known := false
		if r.values[i].named("tools") {
			known, err = r.tools()
		}
		if r.values[i].known = known; !known && err == nil {
			err = r.elements(i, at)
		}
	case v.kind == jsonlex.Array && at == ofNothing:
		err = r.skipList(i)
	default:
		err = r.lex.Skip()
	}
	r.values[i].end = int32(r.lex.Pos)
	return i, err
}

// str reads a string, and notes where its text stands between the quotes.
func (r *reader) str(i int32) error {
	text, escaped, err := r.lex.RawString()
	v := &r.values[i]
	v.start++
	v.end = v.start + int32(len(text))
	v.escaped = escaped
	return err
}

// members reads the members of an object whose names canon knows.
func (r *reader) members(object int32, at level) error {
	last := int32(0)
	return r.lex.Object(func(key []byte) error {
		k := keys[string(key)]
		if k == nil {
			return r.lex.Skip()
		}
		inside := nothing
		switch at {
		case ofBody:
			inside = k.inBody
		case ofOptions:
			switch {
			case k.name == "metadata":
				inside = ofDetail
			case r.list.memory != nil && (k.name == r.list.name || k.name == "tools"):
				inside = ofNothing
			}
		case ofBlock, ofList: // one block where a list may be
			inside = k.inBlock
		}
		i, err := r.value(inside, k)
		r.link(object, &last, i)
		return err
	})
}

// elements reads the elements of a list.
func (r *reader) elements(list int32, at level) error {
	inside := nothing
	if at == ofList {
		inside = ofBlock
	}
	last := int32(0)
	element := func() error {
		i, err := r.value(inside, nil)
		r.link(list, &last, i)
		return err
	}
	if r.list.name != "" && r.values[list].named(r.list.name) {
		return r.readMessages(list, element)
	}
	return r.lex.Array(element)
}

// link puts value i behind the last one inside another.
func (r *reader) link(outer int32, last *int32, i int32) {
	if *last == 0 {
		r.values[outer].first = i
	} else {
		r.values[*last].next = i
	}
	*last = i
}

// member returns a member of an object, 0 if it is not there or null. If a key is given twice, the last counts.
func (r *reader) member(object int32, name string) (found int32) {
	for i := r.values[object].first; i != 0; i = r.values[i].next {
		if r.values[i].named(name) {
			found = i
		}
	}
	if r.kind(found) == jsonlex.Null {
		return 0
	}
	return found
}

// kind returns the kind of a value, None for none.
func (r *reader) kind(i int32) jsonlex.Kind {
	if i == 0 {
		return jsonlex.None
	}
	return r.values[i].kind
}

// isTrue reports whether a value is true.
func (r *reader) isTrue(i int32) bool {
	return r.kind(i) == jsonlex.Bool && r.lex.Data[r.values[i].start] == 't'
}

// raw returns the text of a value; that of a string lacks its quotes.
func (r *reader) raw(i int32) []byte { return r.lex.Data[r.values[i].start:r.values[i].end] }

// bytes returns what a string means, and nil for values of other kinds. The bytes may be those of the body.
func (b *builder) bytes(i int32) []byte {
	if b.kind(i) != jsonlex.String {
		return nil
	}
	raw := b.raw(i)
	if !b.values[i].escaped {
		return raw
	}
	b.reserve(len(raw))
	from := len(b.texts)
	b.lex.Pos = int(b.values[i].start) - 1
	b.texts, _ = b.lex.AppendString(b.texts) // it was read before
	return b.texts[from:len(b.texts):len(b.texts)]
}

// word returns what a string means as a Go string; "" for values of other kinds.
func (b *builder) word(i int32) string { return string(b.bytes(i)) }

// reserve makes room for a text. Texts that were written before stay where they are.
func (b *builder) reserve(size int) {
	const room = 8 // the lexer copies so many bytes at a time
	if cap(b.texts)-len(b.texts) < size+room {
		b.texts = make([]byte, 0, max(size+room, min(len(b.lex.Data), 1<<15)))
	}
}

// Memory is what a session remembers of the texts of bodies that were parsed. What it has is not parsed again.
type Memory interface {
	// Messages returns the messages that it has at a place of the text, behind the bracket of their list.
	Messages(start int) (Prefix, bool)
	// Tools returns the length of the list of tools with which a text begins, 0 for one that it does not have.
	Tools(text []byte) int
}

// Prefix is the beginning of a list of messages, or of items of Responses, that a session has seen before, byte for byte. Its
// segments stand in no prompt again.
type Prefix struct {
	Bytes int    // from behind the bracket of the list up to the end of an element
	Role  uint32 // of the last element
	Media int    // tokens of media
}

// Element is a message of a prompt, or an item.
type Element struct {
	End      int // of its text, in List
	Segments int // of the prompt up to its end
	Role     uint32
	Media    int // tokens of media up to its end
}

// messageList is the list of messages of a body, by which bodies are recognized that begin like earlier ones.
type messageList struct {
	name   string // of the list, "" to recognize nothing
	memory Memory
	value  int32 // of the list; if a body has two, of the last one
	start  int   // behind its bracket; Prefix begins here
	prefix Prefix
	found  bool
}

// begin resets what is known, for a list whose first element stands behind start. List 0 is none.
func (l *messageList) begin(list int32, start int) {
	l.value, l.start, l.prefix, l.found = list, start, Prefix{}, false
	if list != 0 && l.memory != nil {
		l.prefix, l.found = l.memory.Messages(start)
	}
}

// readMessages reads the elements of the list of messages, but for those that the session has seen.
func (r *reader) readMessages(list int32, element func() error) error {
	r.list.begin(list, r.lex.Pos+1)
	if !r.list.found {
		return r.lex.Array(element)
	}
	return r.readFurther(element)
}

// skipList passes a list of messages or of tools.
func (r *reader) skipList(list int32) error {
	if r.values[list].named("tools") {
		if known, err := r.tools(); known || err != nil {
			return err
		}
		return r.lex.Skip()
	}
	r.list.begin(list, r.lex.Pos+1)
	if !r.list.found {
		return r.lex.Skip()
	}
	return r.readFurther(r.lex.Skip)
}

// readFurther reads the elements of the list of messages behind those that the session has seen.
func (r *reader) readFurther(element func() error) error {
	r.lex.Pos = r.list.start
	if err := r.pass(r.list.prefix.Bytes); err != nil {
		return err
	}
	r.lex.MaxDepth-- // the lexer did not see the bracket
	defer func() { r.lex.MaxDepth++ }()
	for r.lex.Peek() == ',' {
		r.lex.Pos++
		if err := element(); err != nil {
			return err
		}
	}
	if r.lex.Peek() != ']' {
		return r.lex.Expected("',' or ']'")
	}
	r.lex.Pos++
	return nil
}

// tools passes a list of tools that the session has seen. It reports false for another one.
func (r *reader) tools() (known bool, err error) {
	if r.list.memory == nil {
		return false, nil
	}
	size := r.list.memory.Tools(r.lex.Data[r.lex.Pos:])
	if size == 0 {
		return false, nil
	}
	return true, r.pass(size)
}

// pass skips size bytes, a text that the session has seen and that is UTF-8.
func (r *reader) pass(size int) error {
	err := r.checkUTF8()
	r.lex.Pos += size
	r.checked = r.lex.Pos
	return err
}

// checkUTF8 returns an error unless what was read since the last pass is UTF-8.
func (r *reader) checkUTF8() error {
	if !utf8.Valid(r.lex.Data[r.checked:r.lex.Pos]) {
		return &Error{journal.HoleParse, "the body is not UTF-8"}
	}
	return nil
}

// beginList takes role, media and prefix from the elements of a list that the session has seen.
func (b *builder) beginList(list int32) {
	if l := &b.reader.list; list == l.value && l.found {
		b.role = l.prefix.Role
		b.prompt.MediaTokens = l.prefix.Media
		b.prompt.Prefix = l.prefix
	}
}

// endElement notes where an element of the list of messages ends, and what the prompt is up to there.
func (b *builder) endElement(list, element int32) {
	b.endMessage()
	if l := &b.reader.list; list == l.value && l.name != "" {
		b.prompt.Elements = append(b.prompt.Elements, Element{
			End: int(b.values[element].end) - l.start, Segments: len(b.prompt.Segments), Role: b.role, Media: b.prompt.MediaTokens,
		})
	}
}

// listText returns the text of the list of messages behind its bracket.
func (r *reader) listText() []byte {
	if r.list.value == 0 {
		return nil
	}
	return slices.Clip(r.lex.Data[r.list.start:r.values[r.list.value].end])
}

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
