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
	var e struct {
		kind     string
		place    int
		item     []byte // raw, as response
		response []byte
		delta    []byte
	}
	r.parse(data, journal.MarkReplyStream, func(l *jsonlex.Lexer) error {
		return r.object(l, func(key []byte) (err error) {
			var value []byte
			switch string(key) {
			case "type":
				value, err = text(l)
				e.kind = string(value)
			case "output_index":
				e.place, err = index(l)
			case "item":
				e.item, err = raw(l)
			case "response":
				e.response, err = raw(l)
			case "delta":
				e.delta, err = text(l)
			default:
				err = l.Skip()
			}
			return err
		})
	})
	switch e.kind {
	case "response.output_item.added":
		if r.open == nil {
			r.open = map[int]bool{}
		}
		r.open[e.place] = true
		r.parse(e.item, journal.MarkReplyStream, func(l *jsonlex.Lexer) error { return r.item(l, e.place) })
	case "response.completed", "response.incomplete", "response.failed":
		r.terminals++
		r.failed = r.failed || e.kind == "response.failed"
		r.forget()
		r.parse(e.response, journal.MarkReplyStream, r.response)
		if r.word == "" {
			r.word = strings.TrimPrefix(e.kind, "response.")
		}
	case "error":
		r.failed = true
	default:
		r.added(e.kind, e.place, e.delta)
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
	err := r.object(l, func(key []byte) (err error) {
		var value []byte
		switch string(key) {
		case "id":
			value, err = text(l)
			r.id = string(value)
		case "status":
			value, err = text(l)
			status = string(value)
		case "incomplete_details":
			err = r.optional(l, func(key []byte) (err error) {
				if string(key) == "reason" {
					value, err = text(l)
					why = string(value)
					return err
				}
				return l.Skip()
			})
		case "output":
			output = l.Kind() == jsonlex.Array
			if value, err = raw(l); err == nil && output {
				r.items = bytes.Clone(value)
				r.parse(value, journal.MarkReplyShape, r.list)
			}
		case "usage":
			err = r.usage.read(l, responsesNames)
		case "error":
			var failed bool
			failed, err = set(l)
			r.failed = r.failed || failed
		default:
			err = l.Skip()
		}
		return err
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
	k := -1
	return l.Array(func() error { k++; return r.item(l, k) })
}

// item reads an item of the output.
func (r *responses) item(l *jsonlex.Lexer, place int) error {
	var kind, id, call, name, arguments []byte
	err := r.object(l, func(key []byte) (err error) {
		switch string(key) {
		case "type":
			kind, err = text(l)
		case "id":
			id, err = text(l)
		case "call_id":
			call, err = text(l)
		case "name":
			name, err = text(l)
		case "arguments", "input":
			arguments, err = text(l)
		case "content":
			err = r.content(l, place, journal.Text)
		case "summary":
			err = r.content(l, place, journal.Thinking)
		default:
			err = l.Skip()
		}
		return err
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

// content reads the parts of a message, or the summary of some thinking.
func (r *responses) content(l *jsonlex.Lexer, place int, kind journal.Kinds) error {
	if l.Kind() != jsonlex.Array {
		return l.Skip()
	}
	return l.Array(func() error {
		return r.object(l, func(key []byte) error {
			switch string(key) {
			case "text", "refusal":
				words, err := text(l)
				r.add(place, kind, words)
				return err
			}
			return l.Skip()
		})
	})
}
