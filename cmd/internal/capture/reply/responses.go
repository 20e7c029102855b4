package reply

import (
	"bytes"
	"strings"

	"github.com/agentx/agentx/cmd/internal/capture/journal"
	"github.com/agentx/agentx/internal/jsonlex"
)

// responses is how OpenAI's Responses API answers.
var responses = dialect{(*answer).responsesEvent, (*answer).response, []string{"input_tokens", "output_tokens"}}

func (a *answer) responsesEvent(data []byte) {
	var kind string
	var place int
	var item, response rawText
	var delta []byte
	a.parse(data, journal.MarkReplyStream, func(l *jsonlex.Lexer) error {
		return a.object(l, []member{{"type", &kind}, {"output_index", &place}, {"item", &item}, {"response", &response}, {"delta", &delta}})
	})
	switch kind {
	case "response.output_item.added":
		a.open[place] = true
		a.parse(item, journal.MarkReplyStream, func(l *jsonlex.Lexer) error { return a.item(l, place) })
	case "response.completed", "response.incomplete", "response.failed":
		a.terminals++
		a.failed = a.failed || kind == "response.failed"
		a.parts, a.texts, a.room = nil, 0, 0 // the whole response follows, and repeats the output so far
		a.parse(response, journal.MarkReplyStream, a.response)
		if a.word == "" {
			a.word = strings.TrimPrefix(kind, "response.")
		}
	case "error":
		a.failed = true
	default:
		a.added(kind, place, delta)
	}
}

// added adds the delta of an event, if it has one.
func (a *answer) added(kind string, place int, delta []byte) {
	if !strings.HasSuffix(kind, ".delta") {
		return
	}
	if !a.open[place] {
		a.marks |= journal.MarkReplyStream
	}
	a.begin()
	switch {
	case strings.Contains(kind, "reasoning"):
		a.add(place, journal.Thinking, delta)
	case strings.Contains(kind, "arguments"), strings.Contains(kind, "_call_"):
		a.add(place, journal.ToolUse, delta)
	default:
		a.add(place, journal.Text, delta)
	}
}

// response reads a whole response.
func (a *answer) response(l *jsonlex.Lexer) error {
	output := false
	var status, why string
	err := a.object(l, []member{
		{"id", &a.id}, {"status", &status}, {"error", a.failure},
		{"incomplete_details", func(l *jsonlex.Lexer) error { return a.optional(l, []member{{"reason", &why}}) }},
		{"output", func(l *jsonlex.Lexer) error {
			output = l.Kind() == jsonlex.Array
			value, err := raw(l)
			if err == nil && output {
				a.items = bytes.Clone(value)
				a.parse(value, journal.MarkReplyShape, func(l *jsonlex.Lexer) error {
					return list(l, func(k int) error { return a.item(l, k) })
				})
			}
			return err
		}},
		{"usage", a.used},
	})
	if !output {
		a.marks |= journal.MarkReplyShape
	}
	a.word = status
	if why != "" {
		a.word = why
	}
	if status == "completed" && a.output&journal.ToolUse != 0 {
		a.word = "function_call"
	}
	return err
}

// item reads an item of the output.
func (a *answer) item(l *jsonlex.Lexer, place int) error {
	var kind, id, call, name, arguments []byte
	err := a.object(l, []member{
		{"type", &kind}, {"id", &id}, {"call_id", &call}, {"name", &name}, {"arguments", &arguments}, {"input", &arguments},
		{"content", a.content(place, journal.Text)}, {"summary", a.content(place, journal.Thinking)},
	})
	switch {
	case string(kind) == "reasoning":
		a.output |= journal.Thinking
	case strings.HasSuffix(string(kind), "_call"):
		if len(call) == 0 {
			call = id
		}
		if len(name) == 0 {
			name = kind
		}
		a.called(place, call, name)
		a.add(place, journal.ToolUse, arguments)
	}
	return err
}

// content returns what reads the parts of a message, or the summary of some thinking.
func (a *answer) content(place int, kind journal.Kinds) func(*jsonlex.Lexer) error {
	words := a.adds(place, kind)
	return func(l *jsonlex.Lexer) error {
		return list(l, func(int) error { return a.object(l, []member{{"text", words}, {"refusal", words}}) })
	}
}
