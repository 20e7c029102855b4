// Package messages reads conversations in OpenAI's and Anthropic's form, logs of requests, payloads of Dynamo, files of batches, and ShareGPT:
// doc/spec/text.md 7.
//
//	{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"hello"}]}
//	{"session_id":"s1","timestamp":1767366000000,"request":{"model":"m","messages":[...]},"response":{"choices":[...]}}
//
// A row whose last message is of the assistant is a conversation: each message of the assistant is a turn. Another row is a request,
// and its session is the one that it names, or whose prompt it continues.
package messages

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/agentx/agentx/convert/text"
	"github.com/agentx/agentx/convert/text/content"
)

// Is reports whether a row has messages: bare, below request, body or payload, or of ShareGPT.
func Is(row content.Raw) bool {
	found, other := false, false
	_ = row.Object(func(key []byte, v content.Raw) error {
		switch string(key) {
		case "messages", "conversations":
			found = found || v.IsArray()
		case "request", "body", "payload":
			_ = v.Object(func(key []byte, v content.Raw) error {
				found = found || string(key) == "messages" && v.IsArray()
				return nil
			})
		case "input_length", "trajectory_format": // Mooncake's rows, trajectories of SWE-agent
			other = true
		}
		return nil
	})
	return found && !other
}

// Reader reads rows.
type Reader struct {
	content.Reader
	kind     string                   // conversation or request, for all rows; "": each row says it
	sessions map[string]*text.Trace   // by the id that rows of requests give them
	names    map[string]bool          // ids of conversations
	ends     map[prefix][]*text.Trace // of sessions without an id, by the prompt that is their last
	ids      []int32                  // messages of the row being read
	dynamo   dynamo
}

// New returns a reader that adds to a dataset. kind says what all rows are: "conversation", "request", or "" where each row says it.
func New(d *text.Dataset, kind string) *Reader {
	return &Reader{Reader: content.Reader{Data: d}, kind: kind, sessions: map[string]*text.Trace{}, names: map[string]bool{}, ends: map[prefix][]*text.Trace{}}
}

// record is what decides about a row.
type record struct {
	messages, conversations, tools, system content.Raw
	request, response                      content.Raw
	id, session                            string
	timestamp, duration                    content.Raw
	model                                  content.Raw
	maxTokens                              [3]content.Raw // max_completion_tokens, max_tokens, output_length
}

// Row reads a row. Its number among those of the input names it where nothing else does.
func (r *Reader) Row(row []byte, at text.Place) error {
	v, err := content.Value(row)
	if err != nil {
		return err
	}
	if row, is := dynamoRow(v); is {
		return r.dynamoRow(row, at.Number)
	}
	return r.row(v, at.Number)
}

// End reads requests of which a row is missing.
func (r *Reader) End() error { return errors.Join(r.endDynamo(), r.Err()) }

func (r *Reader) row(v content.Raw, number int) error {
	if !v.IsObject() {
		return errors.New("the row is no JSON object")
	}
	var x record
	if err := x.read(v, true); err != nil {
		return content.Malformed(err)
	}
	if x.conversations != nil {
		return r.shareGPT(&x, number)
	}
	if x.messages == nil {
		return errors.New("the row has no messages: neither in messages nor below request, body or payload")
	}
	list, err := r.messages(&x)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		r.Data.Warn("empty_prompt")
		return nil
	}
	last := r.Data.Messages[list[len(list)-1]].Role
	if r.kind == "conversation" || r.kind == "" && last == text.Assistant && x.response.IsNull() {
		return r.conversation(&x, list, number)
	}
	return r.requested(&x, list, number)
}

// read reads the members of a row, or of the request inside it.
func (x *record) read(v content.Raw, outer bool) error {
	return v.Object(func(key []byte, v content.Raw) error {
		if v.IsNull() {
			return nil
		}
		switch string(key) {
		case "messages":
			if v.IsArray() {
				x.messages = v
			}
		case "conversations":
			if outer && v.IsArray() {
				x.conversations = v
			}
		case "request", "body", "payload":
			if outer && v.IsObject() {
				x.request = v
				return x.read(v, false)
			}
		case "response":
			x.response = v
		case "tools":
			x.tools = v
		case "system":
			x.system = v
		case "model":
			x.model = v
		case "max_completion_tokens":
			x.maxTokens[0] = v
		case "max_tokens":
			x.maxTokens[1] = v
		case "output_length":
			x.maxTokens[2] = v
		}
		if !outer {
			return nil
		}
		switch string(key) {
		case "id", "custom_id":
			x.id = v.String()
		case "session_id", "conversation_id", "chat_id":
			if x.session = v.String(); x.session == "" {
				x.session = string(v) // a number
			}
		case "timestamp":
			x.timestamp = v
		case "duration_ms":
			x.duration = v
		}
		return nil
	})
}

// messages reads the messages of a row, its system prompt first.
func (r *Reader) messages(x *record) (list []int32, err error) {
	list = r.ids[:0]
	if m, ok := r.System(x.system); ok {
		list = append(list, r.Data.Message(m))
	}
	err = x.messages.Array(func(v content.Raw) error {
		m, err := r.Message(v)
		list = append(list, r.Data.Message(m))
		return err
	})
	r.ids = list
	return list, err
}

// Head reads the tools and the system prompt of a body of chat completions or of Anthropic's Messages: its messages up to the first that is
// neither of the system nor of a developer. What is no JSON object is the text of a system prompt.
func Head(d *text.Dataset, body []byte) (tools []text.Text, list []int32, err error) {
	r := New(d, "")
	body = bytes.TrimSpace(body)
	if !content.Raw(body).IsObject() {
		if list = append(list, d.Message(text.Message{Role: text.System, Parts: []text.Part{r.Plain(body)}})); len(body) == 0 {
			err = errNoHead
		}
		return nil, list, errors.Join(err, r.Err())
	}
	v, err := content.Value(body)
	var x record
	if err == nil {
		err = x.read(v, true)
	}
	if err == nil {
		tools, err = r.Tools(x.tools)
	}
	if err == nil {
		list, err = r.messages(&x)
	}
	if err != nil {
		return nil, nil, err
	}
	if k := slices.IndexFunc(list, func(m int32) bool { return d.Messages[m].Role > text.Developer }); k >= 0 {
		list = list[:k]
	}
	for k, m := range list {
		list[k] = d.Message(text.Message{Role: text.System, Parts: d.Messages[m].Parts})
	}
	if len(tools)+len(list) == 0 {
		return nil, nil, errNoHead
	}
	return tools, list, r.Err()
}

var errNoHead = errors.New("neither a system prompt nor tools are there: want a body with system, messages or tools, or the text of a system prompt")

// newTrace begins a session of an id that conversations may have twice.
func (r *Reader) newTrace(id string, x *record, number int) (*text.Trace, error) {
	if id == "" {
		id = fmt.Sprintf("row-%06d", number)
	}
	if r.names[id] {
		r.Data.Warn("repeated_id")
		id = fmt.Sprintf("%s#%d", id, number)
	}
	r.names[id] = true
	t := r.Data.NewTrace(id)
	t.GapAlone = true
	tools, err := r.Tools(x.tools)
	t.Sessions[0].Tools = tools
	return t, err
}

// conversation reads a row each of whose messages of the assistant is a turn.
func (r *Reader) conversation(x *record, list []int32, number int) error {
	id := x.session
	if id == "" {
		id = x.id
	}
	t, err := r.newTrace(id, x, number)
	if err != nil {
		return err
	}
	model := r.Text(x.model)
	s, last := &t.Sessions[0], int32(text.None)
	open := 0 // messages behind the last answer
	for k, m := range list {
		if r.Data.Messages[m].Role != text.Assistant {
			open++
		} else if k == 0 {
			r.Data.Warn("assistant_first")
		} else {
			turn := text.NewTurn()
			turn.Last, turn.Output, turn.Model, turn.Counted = last, []int32{m}, model, text.WithStructure
			if len(s.Turns) == 0 {
				turn.At = 0 // a conversation has no times: its first request is at the beginning
			} else {
				turn.Before = int32(len(s.Turns) - 1)
			}
			s.Turns = append(s.Turns, turn)
			open = 0
		}
		last = t.Child(last, m)
	}
	if open > 0 {
		r.Data.Warn("open_end")
	}
	if len(s.Turns) == 0 {
		r.Data.Warn("no_turn")
	}
	return r.Err()
}

// requested reads a row that is one request.
func (r *Reader) requested(x *record, list []int32, number int) error {
	turn := text.NewTurn()
	turn.Model = r.Text(x.model)
	for _, v := range x.maxTokens {
		if n, ok := v.Int(); ok && n > 0 && turn.Out == text.None {
			turn.Out = text.Tokens(n)
		}
	}
	if at, ok := instant(x.timestamp); ok {
		turn.At, turn.End = at, at
		if ms, ok := number64(x.duration); ok && ms >= 0 {
			turn.End += int64(ms)
		}
	} else {
		r.Data.Warn("no_timestamp")
	}
	if err := r.response(x.response, &turn); err != nil {
		return err
	}
	t, err := r.sessionOf(x, list, number)
	if err != nil {
		return err
	}
	s, last := &t.Sessions[0], int32(text.None)
	for _, m := range list {
		last = t.Child(last, m)
	}
	turn.Last = last
	turn.Before = before(t, last)
	s.Turns = append(s.Turns, turn)
	return r.Err()
}

// before returns the turn of a session whose prompt is the longest proper beginning of another.
func before(t *text.Trace, last int32) int32 {
	for n := t.Nodes[last].Parent; n != text.None; n = t.Nodes[n].Parent {
		for k := len(t.Sessions[0].Turns) - 1; k >= 0; k-- {
			if t.Sessions[0].Turns[k].Last == n {
				return int32(k)
			}
		}
	}
	return text.None
}
