package canon

import (
	"bytes"
	"strings"
	"sync"

	"github.com/agentx/agentx/cmd/internal/capture/journal"
	"github.com/agentx/agentx/internal/jsonlex"
	"github.com/agentx/agentx/internal/media"
)

// readers has readers with room for the values of a body.
var readers = sync.Pool{New: func() any { return new(reader) }}

// Parse returns the prompt of a request's body, after decompression. The error is an *Error.
func Parse(format Format, body []byte) (*Prompt, error) { return ParseBehind(format, body, nil) }

// ParseBehind is Parse for a body that repeats texts of earlier ones. Prefix, KnownTools and Elements of the prompt say what the memory has,
// and where further messages end.
func ParseBehind(format Format, body []byte, memory Memory) (*Prompt, error) {
	d, l := format.dialect(), messageList{memory: memory}
	if memory != nil {
		l.name = d.list
	}
	p, err := build(body, ofBody, l, func(b *builder) error {
		if b.values[0].kind != jsonlex.Object {
			return errNoObject
		}
		b.options()
		return d.read(b)
	})
	if err == nil && len(p.Segments) == 0 && p.Previous == "" && p.Prefix.Bytes == 0 && !p.KnownTools {
		return nil, unhashable("the prompt is empty")
	}
	return p, err
}

// ParseOptions returns what a body says beside its prompt, and nothing of that. It does not look at the texts that the memory, which may be
// nil, has. Its error is one that Parse has too.
func ParseOptions(format Format, body []byte, memory Memory) (*Prompt, error) {
	l := messageList{memory: memory}
	if memory != nil {
		l.name = format.dialect().list
	}
	p, err := build(body, ofOptions, l, func(b *builder) error {
		if b.values[0].kind != jsonlex.Object {
			return errNoObject
		}
		b.options()
		return nil
	})
	if err == nil {
		p.List, p.ListStart = nil, 0
	}
	return p, err
}

// ParseOutput returns the segments that the output of a response of OpenAI's Responses adds to its prompt: a JSON list of
// items. The prompt that names the response goes on behind them.
func ParseOutput(output []byte) (*Prompt, error) {
	return build(output, ofList, messageList{}, func(b *builder) error { return b.items(0) })
}

// build reads a text and makes a prompt of it.
func build(text []byte, at level, l messageList, write func(b *builder) error) (*Prompt, error) {
	r := readers.Get().(*reader)
	defer func() {
		r.lex, r.list.memory = jsonlex.Lexer{}, nil // the body is the caller's
		readers.Put(r)
	}()
	r.list.name, r.list.memory = l.name, l.memory
	b := &builder{reader: r, prompt: &Prompt{}}
	err := r.read(text, at)
	if err == nil {
		err = write(b)
	}
	if err == nil {
		err = b.finish()
	}
	if err != nil {
		return nil, err
	}
	return b.prompt, nil
}

// options reads what a body says beside the prompt.
func (b *builder) options() {
	p := b.prompt
	p.Model = b.word(b.member(0, "model"))
	p.Stream = b.isTrue(b.member(0, "stream"))
	p.CacheKey = b.word(b.member(0, "prompt_cache_key"))
	if metadata := b.member(0, "metadata"); metadata != 0 {
		p.UserID = b.word(b.member(metadata, "user_id"))
	}
	if tools := b.member(0, "tools"); b.kind(tools) == jsonlex.Array && b.member(0, "functions") == 0 {
		p.ToolsText = b.raw(tools)
	}
}

// tools writes the definitions of tools: the head of a stream begins with them.
func (b *builder) tools(list int32) error {
	switch b.kind(list) {
	case jsonlex.None:
		return nil
	case jsonlex.Array:
	default:
		return unhashable("tools is not a list")
	}
	b.prompt.KnownTools = b.prompt.KnownTools || b.values[list].known
	for i := b.values[list].first; i != 0; i = b.values[i].next {
		b.segment(Tool, b.compactWithout(i, "cache_control"))
		b.cut(0)
	}
	b.prompt.Tools = len(b.prompt.Segments)
	b.prompt.Head = b.prompt.Tools
	return nil
}

// system writes a system prompt that is a field of the body: a text, or a list of blocks.
func (b *builder) system(field int32, write func(block int32, index int) bool) error {
	switch b.kind(field) {
	case jsonlex.None:
		return nil
	case jsonlex.String, jsonlex.Array:
	default:
		return unhashable("the system prompt is neither text nor a list")
	}
	b.beginMessage([]byte("system"))
	blocks := len(b.prompt.Segments)
	block, index := field, 0
	if b.kind(field) == jsonlex.Array {
		block = b.values[field].first
	}
	for ; block != 0; block, index = b.values[block].next, index+1 {
		if write(block, index) {
			b.cut(journal.Text)
		}
		if block == field {
			break
		}
	}
	if len(b.prompt.Segments) == blocks { // nothing is left: as without the field
		b.parts = b.parts[:b.start]
	}
	b.prompt.Head = len(b.prompt.Segments)
	return nil
}

// anthropic writes the prompt of Anthropic's Messages.
func (b *builder) anthropic() error {
	if err := b.tools(b.member(0, "tools")); err != nil {
		return err
	}
	if err := b.system(b.member(0, "system"), b.systemBlock); err != nil {
		return err
	}
	return b.messages(b.member(0, "messages"), b.message)
}

// billing begins a block of the system prompt that a client writes for the accounts of the API. It changes with each
// request and would change every block of the trace.
var billing = []byte("x-anthropic-billing-header:")

// systemBlock writes a block of an Anthropic system prompt, and returns false if nothing of it is left.
func (b *builder) systemBlock(block int32, index int) bool {
	text := block
	if b.kind(block) == jsonlex.Object {
		text = b.textOf(block)
	}
	if content := b.bytes(text); index < 2 && bytes.HasPrefix(content, billing) {
		header, rest, _ := bytes.Cut(content, []byte("\n"))
		b.prompt.Subagent = b.prompt.Subagent || bytes.Contains(header, []byte("cc_is_subagent=true"))
		if len(rest) == 0 {
			return false
		}
		b.segment(Text, rest)
		return true
	}
	b.block(block)
	return true
}

// chat writes the prompt of OpenAI's chat completions.
func (b *builder) chat() error {
	for _, n := range []string{"tools", "functions"} {
		if err := b.tools(b.member(0, n)); err != nil {
			return err
		}
	}
	return b.messages(b.member(0, "messages"), b.chatMessage)
}

// messages writes the elements of a list of messages.
func (b *builder) messages(list int32, write func(message int32) error) error {
	if b.kind(list) != jsonlex.Array {
		return unhashable("messages is missing, or not a list")
	}
	b.beginList(list)
	for i := b.values[list].first; i != 0; i = b.values[i].next {
		if b.kind(i) != jsonlex.Object {
			return unhashable("a message is not an object")
		}
		if err := write(i); err != nil {
			return err
		}
		b.endElement(list, i)
	}
	return nil
}

// idsOfSegment is how many token ids a segment has, so that a list that grows has most of its segments again.
const idsOfSegment = 1024

// completions writes the prompt of OpenAI's completions: a text, or token ids. A list of one prompt is that prompt.
func (b *builder) completions() error {
	prompt := b.member(0, "prompt")
	if b.kind(prompt) == jsonlex.String {
		b.content(prompt)
		return nil
	}
	if b.kind(prompt) != jsonlex.Array {
		return unhashable("the prompt is neither text nor a list")
	}
	l := jsonlex.Lexer{Data: b.raw(prompt), MaxDepth: maxDepth}
	l.Pos++
	switch l.Kind() {
	case jsonlex.String, jsonlex.Array:
		return b.onlyPrompt(&l)
	}
	l.Pos = 0
	return b.ids(&l)
}

// onlyPrompt writes the prompt of a list of one. l is before the first element.
func (b *builder) onlyPrompt(l *jsonlex.Lexer) error {
	mark, isText := l.Mark(), l.Kind() == jsonlex.String
	if err := l.Skip(); err != nil {
		return malformed(err)
	}
	if l.Peek() != ']' {
		return unhashable("the request has more than one prompt")
	}
	l.Reset(mark)
	if !isText {
		return b.ids(l)
	}
	text, err := l.Text()
	if err != nil {
		return malformed(err)
	}
	b.segment(Text, []byte(text))
	b.cut(journal.Text)
	return nil
}

// ids writes a list of token ids as segments of at most idsOfSegment ids.
func (b *builder) ids(l *jsonlex.Lexer) error {
	var ids []uint32
	err := l.Array(func() error {
		id, err := l.Natural(uint64(Tool - 1))
		ids = append(ids, uint32(id))
		return err
	})
	if err != nil {
		return unhashable("prompt is neither one text nor a list of token ids")
	}
	for from := 0; from < len(ids); from += idsOfSegment {
		b.parts = append(b.parts, Part{Kind: TokenIDs, IDs: ids[from:min(from+idsOfSegment, len(ids))]})
		b.cut(journal.Text)
	}
	return nil
}

// responses writes the prompt of OpenAI's Responses, or what it adds to an earlier one.
func (b *builder) responses() error {
	if b.member(0, "conversation") != 0 || b.member(0, "prompt") != 0 {
		return unhashable("a part of the prompt is on the server, to which conversation or prompt refers")
	}
	if previous := b.member(0, "previous_response_id"); previous != 0 {
		if b.prompt.Previous = b.word(previous); b.prompt.Previous == "" {
			return unhashable("previous_response_id is empty, or not a text")
		}
	}
	if err := b.tools(b.member(0, "tools")); err != nil {
		return err
	}
	plain := func(block int32, _ int) bool { b.block(block); return true }
	if err := b.system(b.member(0, "instructions"), plain); err != nil {
		return err
	}
	input := b.member(0, "input")
	switch b.kind(input) {
	case jsonlex.None:
		return nil
	case jsonlex.String:
		b.beginMessage([]byte("user"))
		b.content(input)
		return nil
	}
	return b.items(input)
}

// items writes the items of a list.
func (b *builder) items(list int32) error {
	if b.values[list].kind != jsonlex.Array {
		return unhashable("the input is neither text nor a list")
	}
	b.role = 0
	b.beginList(list)
	for i := b.values[list].first; i != 0; i = b.values[i].next {
		if err := b.item(i); err != nil {
			return err
		}
		b.endElement(list, i)
	}
	return nil
}

// item writes an item of the input or the output of Responses.
func (b *builder) item(i int32) error {
	if b.kind(i) != jsonlex.Object {
		return unhashable("an item of the input is not an object")
	}
	switch kind := b.word(b.member(i, "type")); kind {
	case "", "message":
		return b.message(i)
	case "item_reference":
		return unhashable("an item of the prompt is on the server, to which an item_reference refers")
	case "function_call":
		b.ofAssistant(func() journal.Kinds { b.call(i, "arguments"); return journal.ToolUse })
	case "custom_tool_call":
		b.ofAssistant(func() journal.Kinds { b.call(i, "input"); return journal.ToolUse })
	case "reasoning":
		b.ofAssistant(func() journal.Kinds { b.reasoning(i); return journal.Thinking })
	case "function_call_output", "custom_tool_call_output":
		b.beginMessage([]byte("tool"))
		b.result(b.member(i, "call_id"), b.member(i, "output"), false)
		b.cut(journal.ToolResult)
	default:
		b.otherItem(i, kind)
	}
	return nil
}

// otherItem writes an item that no rule knows. What is no output of a tool comes from the assistant.
func (b *builder) otherItem(i int32, kind string) {
	write := func() journal.Kinds { return b.otherWithout(i, "id", "status", "call_id") }
	if strings.HasSuffix(kind, "_output") {
		b.beginMessage([]byte("tool"))
		b.cut(write())
		return
	}
	b.ofAssistant(write)
}

// ofAssistant writes an item that needs no role behind another one of the assistant.
func (b *builder) ofAssistant(write func() journal.Kinds) {
	first := b.role == 0
	if b.role == RoleAssistant {
		b.endMessage()
	} else {
		b.beginMessage([]byte("assistant"))
	}
	b.cut(write())
	b.prompt.Segments[len(b.prompt.Segments)-1].Follows = first
}

// reasoning writes an item of reasoning: what can be read of it, then what is encrypted.
func (b *builder) reasoning(i int32) {
	encrypted := b.bytes(b.member(i, "encrypted_content"))
	texts := b.member(i, "summary")
	if b.kind(texts) != jsonlex.Array || b.values[texts].first == 0 {
		texts = b.member(i, "content")
	}
	if readable := b.kind(texts) == jsonlex.Array && b.values[texts].first != 0; readable || len(encrypted) == 0 {
		b.token(Thinking)
		if readable {
			for i := b.values[texts].first; i != 0; i = b.values[i].next {
				if b.kind(i) == jsonlex.Object {
					b.text(b.bytes(b.member(i, "text")))
				}
			}
		}
		b.token(End)
	}
	if len(encrypted) > 0 {
		b.redacted(encrypted)
	}
}

// block writes a block of content, and returns which type of content it is.
func (b *builder) block(i int32) journal.Kinds {
	switch b.kind(i) {
	case jsonlex.String:
		b.segment(Text, b.bytes(i))
		return journal.Text
	case jsonlex.Object:
	default:
		return b.other(i)
	}
	switch kind := b.word(b.member(i, "type")); kind {
	case "text", "input_text", "output_text", "refusal":
		return b.textOrOther(i)
	case "tool_use":
		b.call(i, "input")
		return journal.ToolUse
	case "tool_result":
		b.result(b.member(i, "tool_use_id"), b.member(i, "content"), b.isTrue(b.member(i, "is_error")))
		return journal.ToolResult
	case "thinking":
		b.segment(Thinking, b.bytes(b.member(i, "thinking")))
		return journal.Thinking
	case "redacted_thinking":
		b.redacted(b.bytes(b.member(i, "data")))
		return journal.Thinking
	case "image", "image_url", "input_image":
		b.image(i)
		return journal.Text
	case "document", "file", "input_file":
		b.bySize(Document, i)
		return journal.Text
	case "audio", "input_audio":
		b.bySize(Audio, i)
		return journal.Text
	}
	return b.other(i)
}

// textOf returns the text of a block that is text, 0 for other blocks.
func (b *builder) textOf(i int32) int32 {
	if b.kind(i) != jsonlex.Object {
		return 0
	}
	at := "text"
	switch b.word(b.member(i, "type")) {
	case "text", "input_text", "output_text":
	case "refusal":
		at = "refusal"
	default:
		return 0
	}
	if text := b.member(i, at); b.kind(text) == jsonlex.String {
		return text
	}
	return 0
}

// textOrOther writes a block whose type is text: as text if it has one, else as JSON.
func (b *builder) textOrOther(i int32) journal.Kinds {
	text := b.textOf(i)
	if text == 0 {
		return b.other(i)
	}
	b.segment(Text, b.bytes(text))
	return journal.Text
}

// segment writes a segment whose body is a text.
func (b *builder) segment(kind uint32, text []byte) {
	b.token(kind)
	b.text(text)
	b.token(End)
}

// call writes the call of a tool. Its arguments are a string, which is taken as it is, or JSON, which becomes compact.
func (b *builder) call(i int32, arguments string) {
	b.token(ToolCall)
	b.text(b.bytes(b.member(i, "name")))
	b.token(Sep)
	switch a := b.member(i, arguments); b.kind(a) {
	case jsonlex.None:
	case jsonlex.String:
		b.text(b.bytes(a))
	default:
		b.text(b.compact(a))
	}
	b.token(End)
}

// result writes the result of a call: texts bare, what else it has as segments inside.
func (b *builder) result(call, content int32, failed bool) {
	if id := b.word(call); id != "" {
		b.prompt.Results = append(b.prompt.Results, id)
	}
	b.token(ToolResult)
	switch b.kind(content) {
	case jsonlex.None:
	case jsonlex.String:
		b.text(b.bytes(content))
	case jsonlex.Array:
		for i := b.values[content].first; i != 0; i = b.values[i].next {
			b.resultPart(i)
		}
	default:
		b.other(content)
	}
	if failed {
		b.token(Sep)
	}
	b.token(End)
}

// resultPart writes a part of the result of a call.
func (b *builder) resultPart(i int32) {
	text := b.textOf(i)
	if b.kind(i) == jsonlex.String {
		text = i
	}
	if text != 0 {
		b.text(b.bytes(text))
		return
	}
	b.block(i)
}

// other writes what no rule knows, as JSON. The ids that link calls and results go.
func (b *builder) other(i int32) journal.Kinds {
	if b.otherKinds(i) == journal.Text {
		return b.otherWithout(i)
	}
	return b.otherWithout(i, "id", "tool_use_id", "call_id")
}

// otherKinds returns the type of content that a value is by the name of its type.
func (b *builder) otherKinds(i int32) journal.Kinds {
	if b.kind(i) != jsonlex.Object {
		return journal.Text
	}
	return KindsOf(b.word(b.member(i, "type")))
}

// KindsOf returns the type of content that a block is which no rule knows, by the name of its type.
func KindsOf(kind string) journal.Kinds {
	switch {
	case strings.HasSuffix(kind, "tool_use"), strings.HasSuffix(kind, "_call"):
		return journal.ToolUse
	case strings.HasSuffix(kind, "tool_result"), strings.HasSuffix(kind, "_call_output"):
		return journal.ToolResult
	}
	return journal.Text
}

// otherWithout writes a value as JSON without cache_control and further members.
func (b *builder) otherWithout(i int32, keys ...string) journal.Kinds {
	b.segment(Other, b.compactWithout(i, append(keys, "cache_control")...))
	return b.otherKinds(i)
}

// message writes a message whose content is all that it has: those of Anthropic, and messages among the items of Responses.
func (b *builder) message(m int32) error {
	role := b.member(m, "role")
	if b.kind(role) != jsonlex.String {
		return unhashable("a message has no role")
	}
	b.beginMessage(b.bytes(role))
	b.content(b.member(m, "content"))
	return nil
}

// chatMessage writes a message of chat completions, which has calls of tools and reasoning beside its content.
func (b *builder) chatMessage(m int32) error {
	role := b.member(m, "role")
	if b.kind(role) != jsonlex.String {
		return unhashable("a message has no role")
	}
	name := b.bytes(role)
	b.beginMessage(name)
	if string(name) == "tool" {
		b.result(b.member(m, "tool_call_id"), b.member(m, "content"), false)
		b.cut(journal.ToolResult)
		return nil
	}
	if reasoning := b.member(m, "reasoning_content"); b.kind(reasoning) == jsonlex.String {
		b.segment(Thinking, b.bytes(reasoning))
		b.cut(journal.Thinking)
	}
	b.content(b.member(m, "content"))
	if refusal := b.member(m, "refusal"); b.kind(refusal) == jsonlex.String {
		b.segment(Text, b.bytes(refusal))
		b.cut(journal.Text)
	}
	if audio := b.member(m, "audio"); b.kind(audio) == jsonlex.Object {
		b.bySize(Audio, audio)
		b.cut(journal.Text)
	}
	b.chatCalls(m)
	return nil
}

// chatCalls writes the calls of a message, those of today and the one of before.
func (b *builder) chatCalls(m int32) {
	if list := b.member(m, "tool_calls"); b.kind(list) == jsonlex.Array {
		for i := b.values[list].first; i != 0; i = b.values[i].next {
			b.chatCall(i)
			b.cut(journal.ToolUse)
		}
	}
	if call := b.member(m, "function_call"); b.kind(call) == jsonlex.Object {
		b.call(call, "arguments")
		b.cut(journal.ToolUse)
	}
}

// chatCall writes an element of tool_calls.
func (b *builder) chatCall(i int32) {
	if b.kind(i) == jsonlex.Object {
		if f := b.member(i, "function"); b.kind(f) == jsonlex.Object {
			b.call(f, "arguments")
			return
		}
		if f := b.member(i, "custom"); b.kind(f) == jsonlex.Object {
			b.call(f, "input")
			return
		}
	}
	b.other(i)
}

// content writes the content of a message, one segment per block.
func (b *builder) content(i int32) {
	switch b.kind(i) {
	case jsonlex.None:
	case jsonlex.Array:
		for i := b.values[i].first; i != 0; i = b.values[i].next {
			b.cut(b.block(i))
		}
	default:
		b.cut(b.block(i))
	}
}

// media writes a segment of media.
func (b *builder) media(kind uint32, s media.Source, count int) {
	b.token(kind)
	b.mediaPart(s, count)
	b.token(End)
}

// mediaPart writes the part of a segment that stands for media, as so many tokens.
func (b *builder) mediaPart(s media.Source, count int) {
	b.prompt.MediaTokens += count
	b.parts = append(b.parts, Part{Kind: MediaTokens, Data: s.Data, Base64: s.Base64, Count: count})
}

// image writes an image.
func (b *builder) image(i int32) {
	s := b.sourceOf(i)
	b.media(Image, s, s.ImageTokens())
}

// bySize writes media that count by their bytes: a document, or speech and other sound.
func (b *builder) bySize(kind uint32, i int32) {
	s := b.sourceOf(i)
	b.media(kind, s, s.SizeTokens())
}

// redacted writes thinking that is only there encrypted.
func (b *builder) redacted(text []byte) {
	b.token(Thinking)
	if len(text) > 0 {
		b.mediaPart(media.Source{Data: text}, media.RedactedTokens(len(text)))
	}
	b.token(End)
}

// sourceOf returns where the media of a block are.
func (b *builder) sourceOf(i int32) media.Source {
	for _, n := range [...]string{"source", "image_url", "file", "input_audio"} {
		switch v := b.member(i, n); b.kind(v) {
		case jsonlex.Object:
			return b.sourceIn(v)
		case jsonlex.String:
			return media.DataURL(b.bytes(v))
		}
	}
	return b.sourceIn(i)
}

// sourceIn returns where the media are that an object describes.
func (b *builder) sourceIn(i int32) media.Source {
	if data := b.member(i, "data"); b.kind(data) == jsonlex.String {
		return media.Source{Data: b.bytes(data), Base64: b.word(b.member(i, "type")) != "text", Inside: true}
	}
	if content := b.member(i, "content"); b.kind(content) == jsonlex.String {
		return media.Source{Data: b.bytes(content), Inside: true}
	} else if content != 0 {
		return media.Source{Data: b.compact(content), Inside: true}
	}
	if data := b.member(i, "file_data"); b.kind(data) == jsonlex.String {
		if s := media.DataURL(b.bytes(data)); s.Inside {
			return s
		}
		return media.Source{Data: b.bytes(data), Base64: true, Inside: true}
	}
	for _, n := range [...]string{"url", "file_url"} {
		if url := b.member(i, n); b.kind(url) == jsonlex.String {
			return media.DataURL(b.bytes(url))
		}
	}
	if id := b.member(i, "file_id"); id != 0 {
		return media.Source{Data: b.bytes(id)}
	}
	return media.Source{Data: b.bytes(b.member(i, "id"))}
}

// Bytes returns the bytes of media of which their tokens are a digest: what the base64 text means, or the text itself, if
// it is none.
func (p Part) Bytes() []byte {
	if !p.Base64 {
		return p.Data
	}
	decoded, err := media.Decode(p.Data)
	if err != nil {
		return p.Data
	}
	return decoded
}
