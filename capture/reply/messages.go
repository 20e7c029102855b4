package reply

import (
	"math"

	"github.com/agentx/agentx/capture/journal"
	"github.com/agentx/agentx/internal/jsonlex"
)

// messages reads what Anthropic's Messages API answers.
type messages struct {
	*answer
	open map[int]bool // blocks, by index
}

var messagesNames = names{prompt: "input_tokens", output: "output_tokens", extras: []string{"cache_creation_input_tokens", "cache_read_input_tokens"}}

// An event has its name in its data, too.
func (m *messages) event(_, data []byte) {
	var kind string
	var place int
	var block, delta rawText
	m.parse(data, journal.MarkReplyStream, func(l *jsonlex.Lexer) error {
		return m.object(l, []member{
			{"type", &kind}, {"index", &place}, {"content_block", &block}, {"delta", &delta}, {"message", m.message},
			{"usage", func(l *jsonlex.Lexer) error {
				m.early = false
				return m.usage.read(l, messagesNames)
			}},
		})
	})
	switch kind {
	case "content_block_start":
		if m.open == nil {
			m.open = map[int]bool{}
		}
		m.open[place] = true
		m.parse(block, journal.MarkReplyStream, func(l *jsonlex.Lexer) error { return m.block(l, place) })
	case "content_block_delta":
		if !m.open[place] {
			m.marks |= journal.MarkReplyStream
		}
		m.begin()
		m.parse(delta, journal.MarkReplyStream, func(l *jsonlex.Lexer) error { return m.block(l, place) })
	case "content_block_stop":
		delete(m.open, place)
	case "message_delta":
		m.parse(delta, journal.MarkReplyStream, func(l *jsonlex.Lexer) error { return m.optional(l, []member{{"stop_reason", m.reason}}) })
	case "message_stop":
		m.terminals++
	case "error":
		m.failed = true
	}
}

// index reads the place of a block; anything else is a place of its own.
func index(l *jsonlex.Lexer) (int, error) {
	mark := l.Mark()
	n, err := l.Natural(math.MaxInt32)
	if err != nil {
		l.Reset(mark)
		return -1, l.Skip()
	}
	return int(n), nil
}

// message reads a message, which at the beginning of a stream is empty.
func (m *messages) message(l *jsonlex.Lexer) error {
	content := false
	err := m.object(l, []member{
		{"stop_reason", m.reason}, {"error", m.failure},
		{"content", func(l *jsonlex.Lexer) error {
			content = l.Kind() == jsonlex.Array
			return list(l, func(k int) error { return m.block(l, k) })
		}},
		{"usage", func(l *jsonlex.Lexer) error {
			m.early = m.stream
			return m.usage.read(l, messagesNames)
		}},
	})
	if !content && !m.stream {
		m.marks |= journal.MarkReplyShape
	}
	return err
}

// block reads a block of content, or what is added to one.
func (m *messages) block(l *jsonlex.Lexer, place int) error {
	var kind, id, name, words, thought, arguments []byte
	err := m.object(l, []member{
		{"type", &kind}, {"id", &id}, {"name", &name}, {"text", &words}, {"thinking", &thought}, {"partial_json", &arguments},
		{"input", func(l *jsonlex.Lexer) (err error) {
			if arguments, err = raw(l); string(arguments) == "{}" {
				arguments = nil // of a call that begins; the input follows
			}
			return err
		}},
	})
	m.add(place, journal.Text, words)
	m.add(place, journal.Thinking, thought)
	if len(name) > 0 {
		m.called(place, id, name)
	}
	m.add(place, journal.ToolUse, arguments)
	if string(kind) == "redacted_thinking" {
		m.outputs(journal.Thinking)
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

func (m *messages) whole(body []byte) {
	m.parse(body, journal.MarkReplyJSON, m.message)
}
