package canon

import (
	"github.com/agentx/agentx/capture/journal"
	"github.com/agentx/agentx/internal/jsonlex"
)

// idsOfSegment is how many token ids a segment has, so that a list that grows has most of its segments again.
const idsOfSegment = 1024

// completions writes the prompt of OpenAI's completions: a text, or token ids. A list of one prompt is that prompt.
func (b *builder) completions() error {
	prompt := b.member(0, nPrompt)
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
		return unhashable("there is more than one prompt")
	}
	l.Reset(mark)
	if !isText {
		return b.ids(l)
	}
	text, err := l.Text()
	if err != nil {
		return malformed(err)
	}
	b.textBlock([]byte(text))
	b.cut(journal.Text)
	return nil
}

// ids writes a list of token ids as it is.
func (b *builder) ids(l *jsonlex.Lexer) error {
	var ids []uint32
	err := l.Array(func() error {
		id, err := l.Natural(uint64(Tool - 1))
		ids = append(ids, uint32(id))
		return err
	})
	if err != nil {
		return unhashable("the prompt is no list of token ids")
	}
	for from := 0; from < len(ids); from += idsOfSegment {
		b.parts = append(b.parts, Part{Kind: TokenIDs, IDs: ids[from:min(from+idsOfSegment, len(ids))]})
		b.cut(journal.Text)
	}
	return nil
}
