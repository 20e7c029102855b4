package reply

import (
	"bytes"

	"github.com/agentx/agentx/cmd/internal/capture/journal"
	"github.com/agentx/agentx/internal/jsonlex"
)

// completions is how OpenAI's chats and completions answer.
var completions = dialect{(*answer).chunk, (*answer).completion, []string{"prompt_tokens", "completion_tokens"}}

// partsOfChoice is how many keys of parts a choice has: its text, its thinking, and its calls.
const partsOfChoice = 1 << 12

func (a *answer) chunk(data []byte) {
	a.unasked = true
	if bytes.Equal(bytes.TrimSpace(data), []byte("[DONE]")) {
		if a.word != "" { // some servers say [DONE] behind an error
			a.terminals++
		}
		return
	}
	a.parse(data, journal.MarkReplyStream, a.completion)
}

// completion reads an answer, or a chunk of one.
func (a *answer) completion(l *jsonlex.Lexer) error {
	choices := 0
	err := a.object(l, []member{
		{"choices", func(l *jsonlex.Lexer) error {
			return list(l, func(k int) error { choices++; return a.choice(l, k) })
		}},
		{"usage", a.used}, {"error", a.failure},
	})
	if choices == 0 && !a.stream {
		a.marks |= journal.MarkReplyShape
	}
	return err
}

// choice reads one of the answers of a request. In a chunk it may name its place.
func (a *answer) choice(l *jsonlex.Lexer, place int) error {
	message := false
	var content rawText // what comes before the place is known
	var words []byte
	inside := func(l *jsonlex.Lexer) (err error) {
		message = l.Kind() == jsonlex.Object
		content, err = raw(l)
		return err
	}
	err := a.object(l, []member{
		{"index", &place}, {"message", inside}, {"delta", inside}, {"finish_reason", a.reason},
		{"text", func(l *jsonlex.Lexer) (err error) {
			message = true
			words, err = text(l)
			return err
		}},
	})
	if !message && !a.stream {
		a.marks |= journal.MarkReplyShape
	}
	key := place * partsOfChoice
	a.add(key, journal.Text, words)
	if message && len(content) > 0 {
		a.parse(content, journal.MarkReplyJSON, func(l *jsonlex.Lexer) error { return a.chatMessage(l, key) })
	}
	return err
}

// message reads the message of a choice, or what is added to it.
func (a *answer) chatMessage(l *jsonlex.Lexer, key int) error {
	words, thought := a.adds(key, journal.Text), a.adds(key, journal.Thinking)
	return a.object(l, []member{
		{"content", words}, {"refusal", words}, {"reasoning_content", thought}, {"reasoning", thought},
		{"tool_calls", func(l *jsonlex.Lexer) error {
			return list(l, func(k int) error { return a.call(l, key+1+k) })
		}},
		{"function_call", func(l *jsonlex.Lexer) error { return a.function(l, key+1, nil) }},
	})
}

// call reads the call of a tool. In a chunk it names its place.
func (a *answer) call(l *jsonlex.Lexer, key int) error {
	place := -1
	var id []byte
	var function rawText
	err := a.object(l, []member{{"index", &place}, {"id", &id}, {"function", &function}, {"custom", &function}})
	if place >= 0 {
		key = key/partsOfChoice*partsOfChoice + 1 + place%(partsOfChoice-1)
	}
	if len(function) > 0 {
		a.parse(function, journal.MarkReplyJSON, func(l *jsonlex.Lexer) error { return a.function(l, key, id) })
	}
	return err
}

// function reads what is called, and with what.
func (a *answer) function(l *jsonlex.Lexer, key int, id []byte) error {
	var name, arguments []byte
	err := a.optional(l, []member{{"name", &name}, {"arguments", &arguments}, {"input", &arguments}})
	if len(name) > 0 {
		a.called(key, id, name)
		a.begin()
	}
	a.add(key, journal.ToolUse, arguments)
	return err
}
