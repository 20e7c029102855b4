package messages

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"

	"github.com/zeebo/xxh3"

	"github.com/agentx/agentx/convert/text"
	"github.com/agentx/agentx/convert/text/content"
)

// prefix is the digest of the tools and the first messages of a prompt.
type prefix = xxh3.Uint128

// sessionOf returns the session of a request: the one that it names, or whose last prompt it continues by an answer of the assistant.
func (r *Reader) sessionOf(x *record, list []int32, number int) (*text.Trace, error) {
	if x.session != "" {
		t := r.sessions[x.session]
		if t == nil {
			var err error
			if t, err = r.newTrace(x.session, x, number); err != nil {
				return nil, err
			}
			r.sessions[x.session] = t
		}
		return t, nil
	}
	tools, err := r.Tools(x.tools)
	if err != nil {
		return nil, err
	}
	digests := r.prefixes(tools, list)
	if x.id == "" {
		for k := len(list) - 1; k > 0; k-- {
			waiting := r.ends[digests[k-1]]
			if len(waiting) == 0 || r.Data.Messages[list[k]].Role != text.Assistant {
				continue
			}
			t := waiting[0]
			if waiting = waiting[1:]; len(waiting) == 0 {
				delete(r.ends, digests[k-1])
			} else {
				r.ends[digests[k-1]] = waiting
			}
			r.remember(digests, t)
			r.Data.Warn("joined_by_prefix")
			return t, nil
		}
	}
	t, err := r.newTrace(x.id, x, number)
	if err == nil && x.id == "" {
		r.remember(digests, t)
	}
	return t, err
}

func (r *Reader) remember(digests []prefix, t *text.Trace) {
	last := digests[len(digests)-1]
	r.ends[last] = append(r.ends[last], t)
}

// prefixes returns the digest of each beginning of a prompt, of one message first.
func (r *Reader) prefixes(tools []text.Text, list []int32) []prefix {
	var b []byte
	for _, t := range tools {
		b = binary.LittleEndian.AppendUint32(b, uint32(t))
	}
	digests := make([]prefix, len(list))
	d := xxh3.Hash128(b)
	for k, m := range list {
		b = binary.LittleEndian.AppendUint64(b[:0], d.Hi)
		b = binary.LittleEndian.AppendUint64(b, d.Lo)
		d = xxh3.Hash128(binary.LittleEndian.AppendUint32(b, uint32(m)))
		digests[k] = d
	}
	return digests
}

// response reads the answer to a request: that of chat completions, or of Anthropic's Messages; of a batch its body.
func (r *Reader) response(v content.Raw, turn *text.Turn) error {
	var choices, message, usage, stop, body content.Raw
	_ = v.Object(func(key []byte, v content.Raw) error {
		switch string(key) {
		case "choices":
			choices = v
		case "usage":
			usage = v
		case "stop_reason":
			stop = v
		case "body":
			body = v
		}
		return nil
	})
	if body.IsObject() {
		return r.response(body, turn)
	}
	n := 0
	_ = choices.Array(func(choice content.Raw) error {
		if n++; n > 1 {
			return nil
		}
		return choice.Object(func(key []byte, v content.Raw) error {
			switch string(key) {
			case "message":
				message = v
			case "finish_reason":
				stop = v
			}
			return nil
		})
	})
	if n > 1 {
		r.Data.Warn("choices")
	}
	if message == nil && stop != nil {
		message = v // of Anthropic
	}
	turn.Stop = stop.String()
	if !message.IsObject() {
		r.Data.Warn("no_output")
		return nil
	}
	m, err := r.Message(message)
	if err != nil {
		return err
	}
	turn.Output = []int32{r.Data.Message(m)}
	if !usage.IsObject() {
		r.Data.Warn("no_usage")
		return nil
	}
	readUsage(usage, turn)
	return nil
}

// readUsage reads the counts of an answer, of either API.
func readUsage(v content.Raw, turn *text.Turn) {
	var in, created, read, anthropic int64
	_ = v.Object(func(key []byte, v content.Raw) error {
		n, ok := v.Int()
		switch string(key) {
		case "prompt_tokens":
			in = n
		case "input_tokens":
			in, anthropic = n, 1
		case "cache_creation_input_tokens":
			created = n
		case "cache_read_input_tokens":
			read = n
			turn.Cached = text.Tokens(n)
		case "completion_tokens", "output_tokens":
			if ok {
				turn.Out = text.Tokens(n)
			}
		case "prompt_tokens_details":
			return v.Object(func(key []byte, v content.Raw) error {
				if n, ok := v.Int(); ok && string(key) == "cached_tokens" {
					turn.Cached = text.Tokens(n)
				}
				return nil
			})
		}
		return nil
	})
	if in += anthropic * (created + read); in > 0 {
		turn.In = text.Tokens(in)
	}
}

// number64 returns a number.
func number64(v content.Raw) (float64, bool) {
	f, err := strconv.ParseFloat(string(v), 64)
	return f, err == nil && len(v) > 0 && !math.IsInf(f, 0)
}

// instant reads an instant in milliseconds since 1970: an ISO time, or a number of microseconds, milliseconds or seconds by its size.
func instant(v content.Raw) (int64, bool) {
	if v.IsString() {
		return content.Instant(v)
	}
	f, ok := number64(v)
	switch {
	case !ok || math.Abs(f) > 1e18:
		return 0, false
	case f > 1e14:
		return int64(math.Floor(f / 1000)), true
	case f > 1e11:
		return int64(math.Floor(f)), true
	}
	return int64(math.Floor(f * 1000)), true
}

// sharers are the roles of the names of ShareGPT.
var sharers = map[string]text.Role{
	"human": text.User, "user": text.User, "system": text.System,
	"gpt": text.Assistant, "chatgpt": text.Assistant, "bing": text.Assistant, "bard": text.Assistant, "model": text.Assistant, "assistant": text.Assistant,
	"observation": text.Tool, "tool": text.Tool, "function": text.Tool, "function_response": text.Tool,
	"function_call": text.Assistant,
}

// shareGPT reads a row of ShareGPT.
func (r *Reader) shareGPT(x *record, number int) error {
	list := r.ids[:0]
	err := x.conversations.Array(func(v content.Raw) error {
		var from, value content.Raw
		_ = v.Object(func(key []byte, v content.Raw) error {
			switch string(key) {
			case "from", "role":
				from = v
			case "value", "content":
				value = v
			}
			return nil
		})
		if !from.IsString() {
			return content.ErrNoRole
		}
		name := from.String()
		role, known := sharers[name]
		m := text.Message{Role: role}
		if !known {
			m.Role, m.Name = text.OtherRole, r.Text(from)
		}
		switch {
		case name == "function_call":
			m.Parts = []text.Part{{Kind: text.Call, Text: r.Text(value)}}
		case role == text.Tool:
			m.Parts = []text.Part{{Kind: text.Result, Parts: r.Blocks(value)}}
		default:
			m.Parts = r.Blocks(value)
		}
		list = append(list, r.Data.Message(m))
		return nil
	})
	r.ids = list
	if err != nil {
		return err
	}
	return r.conversation(x, slices.Clone(list), number)
}
