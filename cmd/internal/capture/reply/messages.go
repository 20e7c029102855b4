package reply

import (
	"github.com/agentx/agentx/cmd/internal/capture/journal"
	"github.com/agentx/agentx/internal/jsonlex"
)

// messages is how Anthropic's Messages API answers.
var messages = dialect{
	(*answer).messagesEvent, (*answer).message, []string{"input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"},
}

// messagesEvent reads an event, which has its name in its data, too.
func (a *answer) messagesEvent(data []byte) {
	var kind string
	var place int
	var block, delta rawText
	a.parse(data, journal.MarkReplyStream, func(l *jsonlex.Lexer) error {
		return a.object(l, []member{
			{"type", &kind}, {"index", &place}, {"content_block", &block}, {"delta", &delta}, {"message", a.message},
			{"usage", func(l *jsonlex.Lexer) error {
				a.early = false
				return a.used(l)
			}},
		})
	})
	switch kind {
	case "content_block_start":
		a.open[place] = true
		a.parse(block, journal.MarkReplyStream, func(l *jsonlex.Lexer) error { return a.block(l, place) })
	case "content_block_delta":
		if !a.open[place] {
			a.marks |= journal.MarkReplyStream
		}
		a.begin()
		a.parse(delta, journal.MarkReplyStream, func(l *jsonlex.Lexer) error { return a.block(l, place) })
	case "content_block_stop":
		delete(a.open, place)
	case "message_delta":
		a.parse(delta, journal.MarkReplyStream, func(l *jsonlex.Lexer) error { return a.optional(l, []member{{"stop_reason", a.reason}}) })
	case "message_stop":
		a.terminals++
	case "error":
		a.failed = true
	}
}

// message reads a message, which at the beginning of a stream is empty.
func (a *answer) message(l *jsonlex.Lexer) error {
	content := false
	err := a.object(l, []member{
		{"stop_reason", a.reason}, {"error", a.failure},
		{"content", func(l *jsonlex.Lexer) error {
			content = l.Kind() == jsonlex.Array
			return list(l, func(k int) error { return a.block(l, k) })
		}},
		{"usage", func(l *jsonlex.Lexer) error {
			a.early = a.stream
			return a.used(l)
		}},
	})
	if !content && !a.stream {
		a.marks |= journal.MarkReplyShape
	}
	return err
}

// block reads a block of content, or what is added to one.
func (a *answer) block(l *jsonlex.Lexer, place int) error {
	var kind, id, name, words, thought, arguments []byte
	err := a.object(l, []member{
		{"type", &kind}, {"id", &id}, {"name", &name}, {"text", &words}, {"thinking", &thought}, {"partial_json", &arguments},
		{"input", func(l *jsonlex.Lexer) (err error) {
			if arguments, err = raw(l); string(arguments) == "{}" {
				arguments = nil // of a call that begins; the input follows
			}
			return err
		}},
	})
	a.add(place, journal.Text, words)
	a.add(place, journal.Thinking, thought)
	if len(name) > 0 {
		a.called(place, id, name)
	}
	a.add(place, journal.ToolUse, arguments)
	if string(kind) == "redacted_thinking" {
		a.outputs(journal.Thinking)
	}
	return err
}

// called begins the call of a tool.
func (a *answer) called(place int, id, name []byte) {
	p := a.part(place, journal.ToolUse)
	if p.call.Name == "" {
		p.call = Call{ID: string(id), Name: string(name)}
		a.room += len(id) + len(name)
		a.keep(p, name)
	}
	a.output |= journal.ToolUse
}
