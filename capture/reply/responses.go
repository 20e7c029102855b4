package reply

import (
	"bytes"
	"strings"

	"github.com/agentx/agentx/capture/journal"
	"github.com/agentx/agentx/internal/jsonlex"
)

// responses reads what OpenAI's Responses API answers.
type responses struct {
	*answer
	open map[int]bool // items that have begun, by place
}

var responsesNames = names{prompt: "input_tokens", output: "output_tokens"}

func (r *responses) event(_, data []byte) {
	var kind string
	var place int
	var item, response rawText
	var delta []byte
	r.parse(data, journal.MarkReplyStream, func(l *jsonlex.Lexer) error {
		return r.object(l, []member{{"type", &kind}, {"output_index", &place}, {"item", &item}, {"response", &response}, {"delta", &delta}})
	})
	switch kind {
	case "response.output_item.added":
		if r.open == nil {
			r.open = map[int]bool{}
		}
		r.open[place] = true
		r.parse(item, journal.MarkReplyStream, func(l *jsonlex.Lexer) error { return r.item(l, place) })
	case "response.completed", "response.incomplete", "response.failed":
		r.terminals++
		r.failed = r.failed || kind == "response.failed"
		r.forget()
		r.parse(response, journal.MarkReplyStream, r.response)
		if r.word == "" {
			r.word = strings.TrimPrefix(kind, "response.")
		}
	case "error":
		r.failed = true
	default:
		r.added(kind, place, delta)
	}
}

// added adds the delta of an event, if it has one.
func (r *responses) added(kind string, place int, delta []byte) {
	if !strings.HasSuffix(kind, ".delta") {
		return
	}
	if !r.open[place] {
		r.marks |= journal.MarkReplyStream
	}
	r.begin()
	switch {
	case strings.Contains(kind, "reasoning"):
		r.add(place, journal.Thinking, delta)
	case strings.Contains(kind, "arguments"), strings.Contains(kind, "_call_"):
		r.add(place, journal.ToolUse, delta)
	default:
		r.add(place, journal.Text, delta)
	}
}

// forget drops the output so far: the whole response follows, and repeats it.
func (r *responses) forget() { r.parts, r.texts, r.room = nil, 0, 0 }

func (r *responses) whole(body []byte) {
	r.parse(body, journal.MarkReplyJSON, r.response)
}

// response reads a whole response.
func (r *responses) response(l *jsonlex.Lexer) error {
	output := false
	var status, why string
	err := r.object(l, []member{
		{"id", &r.id}, {"status", &status}, {"error", r.failure},
		{"incomplete_details", func(l *jsonlex.Lexer) error { return r.optional(l, []member{{"reason", &why}}) }},
		{"output", func(l *jsonlex.Lexer) error {
			output = l.Kind() == jsonlex.Array
			value, err := raw(l)
			if err == nil && output {
				r.items = bytes.Clone(value)
				r.parse(value, journal.MarkReplyShape, r.list)
			}
			return err
		}},
		{"usage", func(l *jsonlex.Lexer) error { return r.usage.read(l, responsesNames) }},
	})
	if !output {
		r.marks |= journal.MarkReplyShape
	}
	r.word = status
	if why != "" {
		r.word = why
	}
	if status == "completed" && r.output&journal.ToolUse != 0 {
		r.word = "function_call"
	}
	return err
}

func (r *responses) list(l *jsonlex.Lexer) error {
	return list(l, func(k int) error { return r.item(l, k) })
}

// item reads an item of the output.
func (r *responses) item(l *jsonlex.Lexer, place int) error {
	var kind, id, call, name, arguments []byte
	err := r.object(l, []member{
		{"type", &kind}, {"id", &id}, {"call_id", &call}, {"name", &name}, {"arguments", &arguments}, {"input", &arguments},
		{"content", r.content(place, journal.Text)}, {"summary", r.content(place, journal.Thinking)},
	})
	switch {
	case string(kind) == "reasoning":
		r.output |= journal.Thinking
	case strings.HasSuffix(string(kind), "_call"):
		if len(call) == 0 {
			call = id
		}
		if len(name) == 0 {
			name = kind
		}
		r.called(place, call, name)
		r.add(place, journal.ToolUse, arguments)
	}
	return err
}

// content returns what reads the parts of a message, or the summary of some thinking.
func (r *responses) content(place int, kind journal.Kinds) func(*jsonlex.Lexer) error {
	words := r.adds(place, kind)
	return func(l *jsonlex.Lexer) error {
		return list(l, func(int) error { return r.object(l, []member{{"text", words}, {"refusal", words}}) })
	}
}
