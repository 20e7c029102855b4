package payload

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"slices"

	"github.com/agentx/agentx/mmapcache"
)

// A session whose turns hold what is new is sent with its history: the messages of the turns before, as they were sent, and the
// answers of the server to them. Its history is kept as it is written into a body of a chat, with a comma after each message.

// Behind puts the messages of a history, which AppendTo and Answer.Append have made, before those of the prompt. A marker has its place
// in the first message of a session: a body behind a history has none of its own. The body keeps the bytes until it is released.
func (b *Body) Behind(history []byte) {
	if len(history) == 0 {
		return
	}
	b.before, b.marker, b.markerAt = history, b.marker[:0], -1
	b.size = b.promptSize() + int64(len(b.tail))
}

// AppendTo appends the messages of the prompt to a history. A page of the mapped files that cannot be read gives an error.
func (b *Body) AppendTo(history []byte) ([]byte, error) {
	s := sink{buf: history, limit: math.MaxInt} // writes nothing
	err := b.prompt.Guard(func() error {
		b.writeMessages(&s, &mmapcache.Cursor{Message: b.lead})
		s.text(endpointTable[ChatCompletions].separator)
		return nil
	})
	return s.buf, err
}

// Answer collects the answer of a server to a chat request, as AIPerf 0.13.0 reads it: doc/spec/replay.md 4.13. The zero value has nothing.
type Answer struct {
	text    []byte // what a message without tool calls says: its content, and reasoning where a chunk has no content
	content []byte // what one with tool calls says
	calls   map[int]*toolCall
}

type toolCall struct {
	ID       word      `json:"id,omitempty"`
	Type     word      `json:"type,omitempty"`
	Function *function `json:"function,omitempty"`
}

type function struct {
	Name      word  `json:"name,omitempty"`
	Arguments *word `json:"arguments,omitempty"`
}

// word is a string; another value reads as an empty one.
type word string

func (w *word) UnmarshalJSON(value []byte) error {
	*w = ""
	if value[0] != '"' {
		return nil
	}
	return json.Unmarshal(value, (*string)(w))
}

// spoken is the delta or the message of a choice.
type spoken struct {
	Content      word      `json:"content"`
	Thought      word      `json:"reasoning_content"`
	Reasoning    word      `json:"reasoning"`
	FunctionCall *function `json:"function_call"`
	ToolCalls    []struct {
		Index *int `json:"index"`
		toolCall
	} `json:"tool_calls"`
}

// Add reads a payload of the answer: an event of a stream, or all of it.
func (a *Answer) Add(payload []byte) {
	var p struct {
		Object  word `json:"object"`
		Choices []struct{ Delta, Message spoken }
	}
	if json.Unmarshal(payload, &p) != nil || len(p.Choices) == 0 {
		return
	}
	switch p.Object {
	case "chat.completion.chunk":
		a.add(&p.Choices[0].Delta)
	case "chat.completion":
		a.add(&p.Choices[0].Message)
	}
}

func (a *Answer) add(s *spoken) {
	a.content = append(a.content, s.Content...)
	s.Content = cmp.Or(s.Content, s.Thought, s.Reasoning)
	a.text = append(a.text, s.Content...)
	for k := range s.ToolCalls {
		c := &s.ToolCalls[k]
		index := len(a.calls)
		if c.Index != nil {
			index = *c.Index
		}
		a.call(index).merge(&c.toolCall)
	}
	if f := s.FunctionCall; f != nil { // of older servers: a name in pieces
		c := a.call(0)
		if c.Type = "function"; c.Function != nil {
			f.Name = c.Function.Name + f.Name
		}
		c.merge(&toolCall{Function: f})
	}
}

// call returns the tool call with an index.
func (a *Answer) call(index int) *toolCall {
	if a.calls == nil {
		a.calls = map[int]*toolCall{}
	}
	if a.calls[index] == nil {
		a.calls[index] = &toolCall{}
	}
	return a.calls[index]
}

// merge adds what a chunk says of a call: its arguments come in pieces.
func (c *toolCall) merge(piece *toolCall) {
	if piece.ID != "" {
		c.ID = piece.ID
	}
	if piece.Type != "" {
		c.Type = piece.Type
	}
	f := piece.Function
	if f == nil || f.Name == "" && f.Arguments == nil {
		return
	}
	if c.Function == nil {
		c.Function = &function{}
	}
	if f.Name != "" {
		c.Function.Name = f.Name
	}
	if f.Arguments != nil {
		all := *f.Arguments
		if c.Function.Arguments != nil {
			all = *c.Function.Arguments + all
		}
		c.Function.Arguments = &all
	}
}

// Append appends the answer to a history, as a message of the assistant. An answer that says nothing is none.
func (a *Answer) Append(history []byte) []byte {
	message := struct {
		Role      string      `json:"role"`
		Content   *string     `json:"content"`
		ToolCalls []*toolCall `json:"tool_calls,omitempty"`
	}{Role: "assistant"}
	text := string(a.text)
	if len(a.calls) > 0 {
		text = string(a.content)
		for _, index := range slices.Sorted(maps.Keys(a.calls)) {
			message.ToolCalls = append(message.ToolCalls, a.calls[index])
		}
	}
	if text == "" && len(a.calls) == 0 {
		return history
	}
	if text != "" {
		message.Content = &text
	}
	out := bytes.NewBuffer(history)
	e := json.NewEncoder(out)
	e.SetEscapeHTML(false)
	e.Encode(message) //nolint:errcheck // strings always encode
	b := out.Bytes()
	b[len(b)-1] = ',' // for the line end
	return b
}
