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
	err := c.object(l, func(key []byte) (err error) {
		switch string(key) {
		case "choices":
			if l.Kind() != jsonlex.Array {
				return l.Skip()
			}
			return l.Array(func() error { choices++; return c.choice(l, choices-1) })
		case "usage":
			return c.usage.read(l, completionsNames)
		case "error":
			failed, err := set(l)
			c.failed = c.failed || failed
			return err
		}
		return l.Skip()
	})
	if choices == 0 && !c.stream {
		c.marks |= journal.MarkReplyShape
	}
	return err
}

// choice reads one of the answers of a request. In a chunk it may name its place.
func (c *completions) choice(l *jsonlex.Lexer, place int) error {
	message := false
	var content []byte // raw: what comes before the place is known
	var words []byte
	err := c.object(l, func(key []byte) (err error) {
		var word []byte
		switch string(key) {
		case "index":
			place, err = index(l)
		case "message", "delta":
			message = l.Kind() == jsonlex.Object
			content, err = raw(l)
		case "text":
			message = true
			words, err = text(l)
		case "finish_reason":
			if word, err = text(l); len(word) > 0 {
				c.word = string(word)
			}
		default:
			err = l.Skip()
		}
		return err
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
	return c.object(l, func(name []byte) error {
		switch string(name) {
		case "content", "refusal":
			words, err := text(l)
			c.add(key, journal.Text, words)
			return err
		case "reasoning_content", "reasoning":
			words, err := text(l)
			c.add(key, journal.Thinking, words)
			return err
		case "tool_calls":
			if l.Kind() != jsonlex.Array {
				return l.Skip()
			}
			k := 0
			return l.Array(func() error { k++; return c.call(l, key+k) })
		case "function_call":
			return c.function(l, key+1, nil)
		}
		return l.Skip()
	})
}

// call reads the call of a tool. In a chunk it names its place.
func (c *completions) call(l *jsonlex.Lexer, key int) error {
	var id, function []byte
	err := c.object(l, func(name []byte) (err error) {
		switch string(name) {
		case "index":
			var k int
			if k, err = index(l); k >= 0 {
				key = key/partsOfChoice*partsOfChoice + 1 + k%(partsOfChoice-1)
			}
		case "id":
			id, err = text(l)
		case "function", "custom":
			function, err = raw(l)
		default:
			err = l.Skip()
		}
		return err
	})
	if len(function) > 0 {
		c.parse(function, journal.MarkReplyJSON, func(l *jsonlex.Lexer) error { return c.function(l, key, id) })
	}
	return err
}

// function reads what is called, and with what.
func (c *completions) function(l *jsonlex.Lexer, key int, id []byte) error {
	var name, arguments []byte
	err := c.optional(l, func(member []byte) (err error) {
		switch string(member) {
		case "name":
			name, err = text(l)
		case "arguments", "input":
			arguments, err = text(l)
		default:
			err = l.Skip()
		}
		return err
	})
	if len(name) > 0 {
		c.called(key, id, name)
		c.begin()
	}
	c.add(key, journal.ToolUse, arguments)
	return err
}
