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
	var e struct {
		kind  string
		index int
		block []byte // raw, as delta and message
		delta []byte
	}
	m.parse(data, journal.MarkReplyStream, func(l *jsonlex.Lexer) error {
		return m.object(l, func(key []byte) (err error) {
			var value []byte
			switch string(key) {
			case "type":
				value, err = text(l)
				e.kind = string(value)
			case "index":
				e.index, err = index(l)
			case "content_block":
				e.block, err = raw(l)
			case "delta":
				e.delta, err = raw(l)
			case "message":
				err = m.message(l)
			case "usage":
				err, m.early = m.usage.read(l, messagesNames), false
			default:
				err = l.Skip()
			}
			return err
		})
	})
	switch e.kind {
	case "content_block_start":
		if m.open == nil {
			m.open = map[int]bool{}
		}
		m.open[e.index] = true
		m.parse(e.block, journal.MarkReplyStream, func(l *jsonlex.Lexer) error { return m.block(l, e.index) })
	case "content_block_delta":
		if !m.open[e.index] {
			m.marks |= journal.MarkReplyStream
		}
		m.begin()
		m.parse(e.delta, journal.MarkReplyStream, func(l *jsonlex.Lexer) error { return m.block(l, e.index) })
	case "content_block_stop":
		delete(m.open, e.index)
	case "message_delta":
		m.parse(e.delta, journal.MarkReplyStream, m.stopReason)
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

func (m *messages) stopReason(l *jsonlex.Lexer) error {
	return m.optional(l, func(key []byte) error {
		if string(key) == "stop_reason" {
			return m.reason(l)
		}
		return l.Skip()
	})
}

func (m *messages) reason(l *jsonlex.Lexer) error {
	word, err := text(l)
	if len(word) > 0 {
		m.word = string(word)
	}
	return err
}

// message reads a message, which at the beginning of a stream is empty.
func (m *messages) message(l *jsonlex.Lexer) error {
	content := false
	err := m.object(l, func(key []byte) error {
		switch string(key) {
		case "content":
			if content = l.Kind() == jsonlex.Array; !content {
				return l.Skip()
			}
			k := -1
			return l.Array(func() error { k++; return m.block(l, k) })
		case "stop_reason":
			return m.reason(l)
		case "usage":
			m.early = m.stream
			return m.usage.read(l, messagesNames)
		case "error":
			failed, err := set(l)
			m.failed = m.failed || failed
			return err
		}
		return l.Skip()
	})
	if !content && !m.stream {
		m.marks |= journal.MarkReplyShape
	}
	return err
}

// block reads a block of content, or what is added to one.
func (m *messages) block(l *jsonlex.Lexer, place int) error {
	var kind, id, name, words, thought, arguments []byte
	err := m.object(l, func(key []byte) (err error) {
		switch string(key) {
		case "type":
			kind, err = text(l)
		case "id":
			id, err = text(l)
		case "name":
			name, err = text(l)
		case "text":
			words, err = text(l)
		case "thinking":
			thought, err = text(l)
		case "partial_json":
			arguments, err = text(l)
		case "input":
			arguments, err = raw(l)
			if string(arguments) == "{}" {
				arguments = nil // of a call that begins; the input follows
			}
		default:
			err = l.Skip()
		}
		return err
	})
	m.add(place, journal.Text, words)
	m.add(place, journal.Thinking, thought)
	if len(name) > 0 {
		m.called(place, id, name)
	}
	if len(arguments) > 0 {
		m.add(place, journal.ToolUse, arguments)
	}
	switch string(kind) {
	case "redacted_thinking":
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
