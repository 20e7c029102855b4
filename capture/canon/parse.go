package canon

import (
	"bytes"
	"sync"

	"github.com/agentx/agentx/capture/journal"
	"github.com/agentx/agentx/internal/jsonlex"
)

// readers has readers with room for the values of a body.
var readers = sync.Pool{New: func() any { return new(reader) }}

// Parse returns the prompt of a request's body, after decompression. The error is an *Error.
func Parse(format Format, body []byte) (*Prompt, error) { return ParseBehind(format, body, nil) }

// ParseBehind is Parse for a body that repeats texts of earlier ones. Its first messages may have been left out of the text. Prefix,
// KnownTools and Elements of the prompt say what the memory has, and where further messages end.
func ParseBehind(format Format, body []byte, memory Memory) (*Prompt, error) {
	l := messageList{memory: memory}
	switch {
	case memory == nil:
	case format == Responses:
		l.name = nInput
	case format != Completions:
		l.name = nMessages
	}
	p, err := build(body, ofBody, l, func(b *builder) error {
		if b.values[0].kind != jsonlex.Object {
			return errNoObject
		}
		b.options()
		switch format {
		case Chat:
			return b.chat()
		case Messages:
			return b.anthropic()
		case Responses:
			return b.responses()
		case Completions:
			return b.completions()
		}
		return unhashable("the format has no canonical stream")
	})
	if err == nil && len(p.Segments) == 0 && p.Previous == "" && p.Prefix.Bytes == 0 && !p.KnownTools {
		return nil, unhashable("the prompt is empty")
	}
	return p, err
}

// ParseOptions returns what a body says beside its prompt, and nothing of that. Its error is one that Parse has too.
func ParseOptions(body []byte) (*Prompt, error) {
	return build(body, ofOptions, messageList{}, func(b *builder) error {
		if b.values[0].kind != jsonlex.Object {
			return errNoObject
		}
		b.options()
		return nil
	})
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
	p.Model = b.word(b.member(0, nModel))
	p.Stream = b.isTrue(b.member(0, nStream))
	p.CacheKey = b.word(b.member(0, nCacheKey))
	if metadata := b.member(0, nMetadata); metadata != 0 {
		p.UserID = b.word(b.member(metadata, nUserID))
	}
	if tools := b.member(0, nTools); b.kind(tools) == jsonlex.Array && b.member(0, nFunctions) == 0 {
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
		return unhashable("the tools are no list")
	}
	b.prompt.KnownTools = b.prompt.KnownTools || b.values[list].known
	for i := b.values[list].first; i != 0; i = b.values[i].next {
		b.token(Tool)
		b.text(b.compactWithout(i, "cache_control"))
		b.token(End)
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
	if b.kind(field) == jsonlex.String {
		if write(field, 0) {
			b.cut(journal.Text)
		}
	} else {
		index := 0
		for i := b.values[field].first; i != 0; i = b.values[i].next {
			if write(i, index) {
				b.cut(journal.Text)
			}
			index++
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
	if err := b.tools(b.member(0, nTools)); err != nil {
		return err
	}
	if err := b.system(b.member(0, nSystem), b.systemBlock); err != nil {
		return err
	}
	return b.messages(b.member(0, nMessages), b.message)
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
		b.textBlock(rest)
		return true
	}
	b.block(block)
	return true
}

// chat writes the prompt of OpenAI's chat completions.
func (b *builder) chat() error {
	for _, n := range []name{nTools, nFunctions} {
		if err := b.tools(b.member(0, n)); err != nil {
			return err
		}
	}
	return b.messages(b.member(0, nMessages), b.chatMessage)
}

// messages writes the elements of a list of messages.
func (b *builder) messages(list int32, write func(message int32) error) error {
	if b.kind(list) != jsonlex.Array {
		return unhashable("there is no list of messages")
	}
	b.beginList(list)
	for i, index := b.values[list].first, 0; i != 0; i, index = b.values[i].next, index+1 {
		if b.kind(i) != jsonlex.Object {
			return unhashable("a message is no object")
		}
		if err := write(i); err != nil {
			return err
		}
		b.endElement(list, index)
	}
	return nil
}
