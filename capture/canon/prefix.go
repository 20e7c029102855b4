package canon

import (
	"slices"
	"unicode/utf8"

	"github.com/agentx/agentx/capture/journal"
)

// Memory is what a session remembers of the texts of bodies that were parsed. What it has is not parsed again.
type Memory interface {
	// Messages returns the messages that were left out at a place of the text, behind the bracket of their list.
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
	name   name // of the list, unnamed to recognize nothing
	memory Memory
	value  int32 // of the list; if a body has two, of the last one
	start  int   // behind its bracket; Prefix was left out here
	ends   []int
	prefix Prefix
	found  bool
}

// begin forgets the list of another body.
func (l *messageList) begin() { l.value, l.ends, l.prefix, l.found = 0, l.ends[:0], Prefix{}, false }

// readMessages reads the elements of the list of messages, but for those that the session has seen.
func (r *reader) readMessages(list int32, element func() error) error {
	l := &r.list
	l.begin()
	l.value, l.start = list, r.lex.Pos+1
	read := func() error {
		err := element()
		l.ends = append(l.ends, r.lex.Pos-l.start)
		return err
	}
	if l.memory != nil {
		l.prefix, l.found = l.memory.Messages(l.start)
	}
	if !l.found {
		return r.lex.Array(read)
	}
	r.lex.Pos = l.start
	r.lex.MaxDepth-- // the lexer did not see the bracket
	defer func() { r.lex.MaxDepth++ }()
	for r.lex.Peek() == ',' {
		r.lex.Pos++
		if err := read(); err != nil {
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
	err = r.checkUTF8()
	r.lex.Pos += size
	r.checked = r.lex.Pos
	return true, err
}

// checkUTF8 checks what was read since tools were passed.
func (r *reader) checkUTF8() error {
	if !utf8.Valid(r.lex.Data[r.checked:r.lex.Pos]) {
		return &Error{journal.HoleParse, "the body is not UTF-8"}
	}
	return nil
}

// beginList begins with what is known of a list.
func (b *builder) beginList(list int32) {
	if l := &b.reader.list; list == l.value && l.found {
		b.role = l.prefix.Role
		b.prompt.MediaTokens = l.prefix.Media
		b.prompt.Prefix = l.prefix
	}
}

// endElement notes the end of an element of a list.
func (b *builder) endElement(list int32, index int) {
	b.endMessage()
	if l := &b.reader.list; list == l.value && l.name != unnamed {
		b.prompt.Elements = append(b.prompt.Elements, Element{
			End: l.ends[index], Segments: len(b.prompt.Segments), Role: b.role, Media: b.prompt.MediaTokens,
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
