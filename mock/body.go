package mock

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"

	"github.com/agentx/agentx/internal/jsonlex"
)

const (
	// defaultOutput is the number of tokens of an answer to a request that does not limit them.
	defaultOutput = 16
	// maxOutput bounds the tokens that a request may ask for, and with them the memory of an answer that is not streamed.
	maxOutput = 1 << 20
)

// request is what the server reads of a body.
type request struct {
	model           []byte // as the body has it, with its quotes; nil when absent
	stream          bool
	includeUsage    bool
	continuousUsage bool
	ignoreEOS       bool
	tool            []byte // that the answer must call, as model; nil: none
	prompt          prompt

	maxCompletionTokens, maxTokens int // 0 where absent; the first has precedence
}

// prompt is the input of the prefix cache and of the token count. Its stream has the role and content of each message,
// without separators, or each token id as four bytes, little-endian.
type prompt struct {
	stream   []byte
	contents []span // the places of texts in stream
	isIDs    bool
	pairs    pairs
}

type span struct{ from, to int }

// tokens estimates the number of tokens of a prompt. For token ids it is exact.
func (p *prompt) tokens() int {
	n := 0
	for _, c := range p.contents {
		n += c.to - c.from
	}
	return (n + 2) / 4
}

// count returns the sum of tokens over all texts.
func (p *prompt) count(tokens func([]byte) int) int {
	n := 0
	for _, c := range p.contents {
		n += tokens(p.stream[c.from:c.to])
	}
	return n
}

// clear resets q and keeps its buffers.
func (q *request) clear() {
	*q = request{prompt: prompt{stream: q.prompt.stream[:0], contents: q.prompt.contents[:0], pairs: q.prompt.pairs.empty()}}
}

// parse reads body, a request to an endpoint, into q, which must be clear. q.model is a slice of body.
func (q *request) parse(body []byte, e *served) error {
	l := jsonlex.New(body)
	err := l.Object(func(key []byte) error {
		if err := q.parseField(l, e, key); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		return nil
	})
	if err == nil {
		err = l.End()
	}
	switch {
	case err != nil:
		return err
	case len(q.prompt.contents) == 0:
		return fmt.Errorf("%s: missing or empty", e.Prompt)
	case e.needsLimit && q.maxTokens == 0:
		return errors.New("max_tokens: missing")
	}
	return nil
}

// parseField reads the value of one key of a body.
func (q *request) parseField(l *jsonlex.Lexer, e *served, key []byte) (err error) {
	switch string(key) {
	case e.Prompt:
		err = q.prompt.parse(l, e)
	case cmp.Or(e.System, e.Prompt):
		err = q.prompt.parseSystem(l)
	case "model":
		if !l.Null() {
			q.model, err = quotedString(l)
		}
	case "stream":
		q.stream, err = boolean(l)
	case "ignore_eos":
		q.ignoreEOS, err = boolean(l)
	case "max_tokens":
		q.maxTokens, err = outputLimit(l)
	case "max_completion_tokens", "max_output_tokens":
		q.maxCompletionTokens, err = outputLimit(l)
	case "stream_options":
		err = q.parseStreamOptions(l)
	case "tool_choice":
		q.tool, err = forcedTool(l)
	default:
		err = l.Skip()
	}
	return err
}

// quotedString reads a string and returns it as the body has it, with its quotes.
func quotedString(l *jsonlex.Lexer) ([]byte, error) {
	raw, _, err := l.RawString()
	return l.Data[max(0, l.Pos-len(raw)-2):l.Pos], err
}

// boolean reads true, false, or null for false.
func boolean(l *jsonlex.Lexer) (bool, error) {
	if l.Null() {
		return false, nil
	}
	return l.Bool()
}

// outputLimit reads a number of tokens to generate, or null for 0.
func outputLimit(l *jsonlex.Lexer) (int, error) {
	if l.Null() {
		return 0, nil
	}
	l.Peek()
	mark := l.Mark()
	n, err := l.Natural(maxOutput)
	if err == nil && n == 0 {
		l.Reset(mark)
		err = l.Expected("at least 1")
	}
	return int(n), err
}

// parseStreamOptions reads whether a stream has a usage, at its end or in each chunk.
func (q *request) parseStreamOptions(l *jsonlex.Lexer) error {
	if l.Null() {
		return nil
	}
	return l.Object(func(key []byte) (err error) {
		switch string(key) {
		case "include_usage":
			q.includeUsage, err = boolean(l)
		case "continuous_usage_stats":
			q.continuousUsage, err = boolean(l)
		default:
			err = l.Skip()
		}
		return err
	})
}

// forcedTool reads which tool a tool_choice names, directly or as its function; nil where the model may choose.
func forcedTool(l *jsonlex.Lexer) (name []byte, err error) {
	if l.Kind() != jsonlex.Object {
		return nil, l.Skip()
	}
	err = l.Object(func(key []byte) (err error) {
		switch string(key) {
		case "name":
			name, err = quotedString(l)
			return err
		case "function":
			name, err = forcedTool(l)
			return err
		}
		return l.Skip()
	})
	return name, err
}

// parse reads the prompt in the form of its endpoint: messages, a text, or token ids.
func (p *prompt) parse(l *jsonlex.Lexer, e *served) error {
	if l.Null() {
		return nil
	}
	if e.messages && (!e.text || l.Kind() != jsonlex.String) {
		if err := l.Array(func() error { return p.parseMessage(l) }); err != nil {
			return err
		}
		return p.pairs.end()
	}
	if l.Kind() == jsonlex.Array {
		return p.parseIDs(l)
	}
	return p.parseText(l)
}

// parseText reads a string as the next text.
func (p *prompt) parseText(l *jsonlex.Lexer) (err error) {
	from := len(p.stream)
	p.stream, err = l.AppendString(p.stream)
	p.contents = append(p.contents, span{from, len(p.stream)})
	return err
}

// parseMessage reads one message. In the stream its role precedes its content whatever the order of its keys, so that equal
// messages give equal streams.
func (p *prompt) parseMessage(l *jsonlex.Lexer) error {
	start := len(p.stream)
	content := len(p.contents)
	p.contents = append(p.contents, span{start, start})
	err := l.Object(func(key []byte) (err error) {
		switch string(key) {
		case "tool_calls":
			return p.pairs.parseCalls(l)
		case "tool_call_id":
			return p.pairs.add(&p.pairs.results, l)
		case "role":
			role, err := l.ShortString()
			p.stream = slices.Insert(p.stream, start, role...)
			p.contents[content].from += len(role)
			p.contents[content].to += len(role)
			return err
		case "content", "arguments", "output": // of a message; of a call and of its result in the Responses API
			err := p.parseContent(l, true)
			p.contents[content].to = len(p.stream)
			return err
		}
		return l.Skip()
	})
	if err == nil {
		err = p.pairs.message()
	}
	return err
}

// parseSystem reads the system prompt, a string or a list of blocks, as the first message, wherever it stands in the body.
func (p *prompt) parseSystem(l *jsonlex.Lexer) error {
	if l.Null() {
		return nil
	}
	from := len(p.stream)
	p.stream = append(p.stream, "system"...)
	if err := p.parseContent(l, false); err != nil {
		return err
	}
	size := len(p.stream) - from
	if from > 0 {
		system := slices.Clone(p.stream[from:])
		copy(p.stream[size:], p.stream[:from])
		copy(p.stream, system)
	}
	for k := range p.contents {
		p.contents[k].from += size
		p.contents[k].to += size
	}
	p.contents = slices.Insert(p.contents, 0, span{len("system"), size})
	return nil
}

// parseContent reads a string, the texts of an array of parts, or null for nothing. Parts may have contents, which have no parts
// with contents in turn.
func (p *prompt) parseContent(l *jsonlex.Lexer, nested bool) (err error) {
	if l.Null() {
		return nil
	}
	if l.Kind() == jsonlex.Array {
		return l.Array(func() error { return p.parsePart(l, nested) })
	}
	p.stream, err = l.AppendString(p.stream)
	return err
}

// parsePart reads one part of a content: its text, the content of a tool's result, and which call it is, or answers.
func (p *prompt) parsePart(l *jsonlex.Lexer, nested bool) error {
	var id []byte
	isCall := false
	err := l.Object(func(key []byte) (err error) {
		switch {
		case string(key) == "text":
			p.stream, err = l.AppendString(p.stream)
		case string(key) == "content" && nested:
			err = p.parseContent(l, false)
		case string(key) == "tool_use_id" && nested:
			err = p.pairs.add(&p.pairs.results, l)
		case string(key) == "id" && nested && l.Kind() == jsonlex.String:
			id, _, err = l.RawString()
		case string(key) == "type" && nested && l.Kind() == jsonlex.String:
			var kind []byte
			kind, _, err = l.RawString()
			isCall = string(kind) == "tool_use"
		default:
			err = l.Skip()
		}
		return err
	})
	if isCall {
		p.pairs.calls = append(p.pairs.calls, id)
	}
	return err
}

// parseIDs reads an array of token ids as the whole prompt.
func (p *prompt) parseIDs(l *jsonlex.Lexer) error {
	p.isIDs = true
	from := len(p.stream)
	err := l.Array(func() error {
		switch l.Kind() {
		case jsonlex.String, jsonlex.Array:
			return l.Expected("one prompt, a string or an array of token ids; a batch is not served")
		}
		id, err := l.Natural(math.MaxUint32)
		p.stream = binary.LittleEndian.AppendUint32(p.stream, uint32(id))
		return err
	})
	if len(p.stream) > from {
		p.contents = append(p.contents, span{from, len(p.stream)})
	}
	return err
}

var errTooLong = errors.New("the body is longer than this server reads")

// readBody reads the body of r into buf and returns it. It grows buf at once to the Content-Length, where there is one. The
// error is errTooLong where the body is longer than limit bytes; no more than limit is allocated.
func readBody(buf []byte, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return buf[:0], errTooLong
	}
	if r.ContentLength >= 0 {
		buf = slices.Grow(buf[:0], int(r.ContentLength))[:r.ContentLength]
		n, err := io.ReadFull(r.Body, buf)
		return buf[:n], err
	}
	buf = buf[:0]
	body := io.LimitReader(r.Body, limit+1)
	for {
		buf = slices.Grow(buf, 4096)
		n, err := body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		switch {
		case int64(len(buf)) > limit:
			return buf, errTooLong
		case err == io.EOF:
			return buf, nil
		case err != nil:
			return buf, err
		}
	}
}
