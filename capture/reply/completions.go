package reply

import (
	"bytes"

	"github.com/agentx/agentx/capture/journal"
	"github.com/agentx/agentx/internal/jsonlex"
)

// completions reads what OpenAI's chats and completions answer.
type completions struct{ *answer }

var completionsNames = names{prompt: "prompt_tokens", output: "completion_tokens"}

// partsOfChoice is how many keys of parts a choice has: its text, its thinking, and its calls.
const partsOfChoice = 1 << 12

func (c *completions) event(_, data []byte) {
	c.unasked = true
	if bytes.Equal(bytes.TrimSpace(data), []byte("[DONE]")) {
		if c.word != "" { // some servers say [DONE] behind an error
			c.terminals++
		}
		return
	}
	c.parse(data, journal.MarkReplyStream, c.completion)
}

func (c *completions) whole(body []byte) {
	c.parse(body, journal.MarkReplyJSON, c.completion)
}

// completion reads an answer, or a chunk of one.
func (c *completions) completion(l *jsonlex.Lexer) error {
	choices := 0
	err := c.object(l, []member{
		{"choices", func(l *jsonlex.Lexer) error {
			return list(l, func(k int) error { choices++; return c.choice(l, k) })
		}},
		{"usage", func(l *jsonlex.Lexer) error { return c.usage.read(l, completionsNames) }},
		{"error", c.failure},
	})
	if choices == 0 && !c.stream {
		c.marks |= journal.MarkReplyShape
	}
	return err
}

// choice reads one of the answers of a request. In a chunk it may name its place.
func (c *completions) choice(l *jsonlex.Lexer, place int) error {
	message := false
	var content rawText // what comes before the place is known
	var words []byte
	inside := func(l *jsonlex.Lexer) (err error) {
		message = l.Kind() == jsonlex.Object
		content, err = raw(l)
		return err
	}
	err := c.object(l, []member{
		{"index", &place}, {"message", inside}, {"delta", inside}, {"finish_reason", c.reason},
		{"text", func(l *jsonlex.Lexer) (err error) {
			message = true
			words, err = text(l)
			return err
		}},
	})
	if !message && !c.stream {
		c.marks |= journal.MarkReplyShape
	}
	key := place * partsOfChoice
	c.add(key, journal.Text, words)
	if message && len(content) > 0 {
		c.parse(content, journal.MarkReplyJSON, func(l *jsonlex.Lexer) error { return c.message(l, key) })
	}
	return err
}

// message reads the message of a choice, or what is added to it.
func (c *completions) message(l *jsonlex.Lexer, key int) error {
	words, thought := c.adds(key, journal.Text), c.adds(key, journal.Thinking)
	return c.object(l, []member{
		{"content", words}, {"refusal", words}, {"reasoning_content", thought}, {"reasoning", thought},
		{"tool_calls", func(l *jsonlex.Lexer) error {
			return list(l, func(k int) error { return c.call(l, key+1+k) })
		}},
		{"function_call", func(l *jsonlex.Lexer) error { return c.function(l, key+1, nil) }},
	})
}

// call reads the call of a tool. In a chunk it names its place.
func (c *completions) call(l *jsonlex.Lexer, key int) error {
	place := -1
	var id []byte
	var function rawText
	err := c.object(l, []member{{"index", &place}, {"id", &id}, {"function", &function}, {"custom", &function}})
	if place >= 0 {
		key = key/partsOfChoice*partsOfChoice + 1 + place%(partsOfChoice-1)
	}
	if len(function) > 0 {
		c.parse(function, journal.MarkReplyJSON, func(l *jsonlex.Lexer) error { return c.function(l, key, id) })
	}
	return err
}

// function reads what is called, and with what.
func (c *completions) function(l *jsonlex.Lexer, key int, id []byte) error {
	var name, arguments []byte
	err := c.optional(l, []member{{"name", &name}, {"arguments", &arguments}, {"input", &arguments}})
	if len(name) > 0 {
		c.called(key, id, name)
		c.begin()
	}
	c.add(key, journal.ToolUse, arguments)
	return err
}
