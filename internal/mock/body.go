package mock

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
)

const (
	// defaultOutput is the number of tokens of an answer to a request that sets none.
	defaultOutput = 16
	// maxOutput bounds what a request may ask for, and with it the memory of an
	// answer that is not streamed.
	maxOutput = 1 << 20
)

// A request is what the server reads out of a body.
type request struct {
	model           []byte // as it stands in the body, with its quotes; nil when absent
	stream          bool
	includeUsage    bool
	continuousUsage bool
	ignoreEOS       bool
	maxTokens       int // max_completion_tokens, else max_tokens, else 0
	prompt          prompt
}

// A prompt is what the prefix cache and the token count see. Of messages: each
// one's role and content, one after the other, nothing between. Of token ids:
// each as four bytes, the lowest first.
type prompt struct {
	stream   []byte
	contents []span // the places of texts in stream
	ids      bool
}

type span struct{ from, to int }

// tokens estimates the tokens of a prompt, or counts them where they are ids.
func (p *prompt) tokens() int {
	n := 0
	for _, c := range p.contents {
		n += c.to - c.from
	}
	return (n + 2) / 4
}

// count asks for the tokens of each text.
func (p *prompt) count(tokens func([]byte) int) int {
	n := 0
	for _, c := range p.contents {
		n += tokens(p.stream[c.from:c.to])
	}
	return n
}

// clear forgets q but keeps its buffers.
func (q *request) clear() {
	*q = request{prompt: prompt{stream: q.prompt.stream[:0], contents: q.prompt.contents[:0]}}
}

// parse reads body, a request of form f, into q, which must be clear. q.model
// lies in body.
func (q *request) parse(body []byte, f *form) error {
	s := scanner{data: body}
	var legacyMax uint64
	var newMax uint64
	err := s.object(func(key []byte) error {
		var err error
		switch string(key) {
		case f.promptKey:
			err = q.prompt.parse(&s, f)
		case "model":
			if !s.null() {
				q.model, err = s.rawString()
			}
		case "stream":
			q.stream, err = s.boolean()
		case "ignore_eos":
			q.ignoreEOS, err = s.boolean()
		case "max_tokens":
			legacyMax, err = s.outputLimit()
		case "max_completion_tokens":
			newMax, err = s.outputLimit()
		case "stream_options":
			err = q.parseStreamOptions(&s)
		default:
			return s.skip()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := s.end(); err != nil {
		return err
	}
	if len(q.prompt.contents) == 0 {
		return fmt.Errorf("%s: missing or empty", f.promptKey)
	}
	q.maxTokens = int(legacyMax)
	if newMax != 0 {
		q.maxTokens = int(newMax)
	}
	return nil
}

// outputLimit consumes a number of tokens to generate, or null for 0.
func (s *scanner) outputLimit() (uint64, error) {
	if s.null() {
		return 0, nil
	}
	n, err := s.natural(maxOutput)
	if err == nil && n == 0 {
		err = s.fail("want at least 1")
	}
	return n, err
}

func (q *request) parseStreamOptions(s *scanner) error {
	if s.null() {
		return nil
	}
	return s.object(func(key []byte) (err error) {
		switch string(key) {
		case "include_usage":
			q.includeUsage, err = s.boolean()
		case "continuous_usage_stats":
			q.continuousUsage, err = s.boolean()
		default:
			err = s.skip()
		}
		return err
	})
}

func (p *prompt) parse(s *scanner, f *form) error {
	if s.null() {
		return nil
	}
	if f == &chatForm {
		return s.array(func() error { return p.parseMessage(s) })
	}
	if s.peek() == '[' {
		return p.parseIDs(s)
	}
	return p.parseText(s)
}

// parseText takes the string at hand for the next text.
func (p *prompt) parseText(s *scanner) (err error) {
	from := len(p.stream)
	p.stream, err = s.string(p.stream)
	p.contents = append(p.contents, span{from, len(p.stream)})
	return err
}

// parseMessage takes one message. Whatever the order of its keys, the role comes
// to stand before the content, so that equal messages make equal streams.
func (p *prompt) parseMessage(s *scanner) error {
	start := len(p.stream)
	content := len(p.contents)
	p.contents = append(p.contents, span{start, start})
	return s.object(func(key []byte) error {
		switch string(key) {
		case "role":
			role, err := s.hold()
			p.stream = slices.Insert(p.stream, start, role...)
			p.contents[content].from += len(role)
			p.contents[content].to += len(role)
			return err
		case "content":
			err := p.parseContent(s)
			p.contents[content].to = len(p.stream)
			return err
		}
		return s.skip()
	})
}

// parseContent takes a string, the strings under "text" of an array of parts, or
// null for nothing.
func (p *prompt) parseContent(s *scanner) (err error) {
	switch s.peek() {
	case 'n':
		return s.word("null")
	case '[':
		return s.array(func() error {
			return s.object(func(key []byte) error {
				if string(key) == "text" {
					p.stream, err = s.string(p.stream)
					return err
				}
				return s.skip()
			})
		})
	}
	p.stream, err = s.string(p.stream)
	return err
}

// parseIDs takes an array of token ids for the whole prompt.
func (p *prompt) parseIDs(s *scanner) error {
	p.ids = true
	from := len(p.stream)
	err := s.array(func() error {
		switch s.peek() {
		case '"', '[':
			return s.fail("want one prompt, a string or an array of token ids; a batch is not served")
		}
		id, err := s.natural(math.MaxUint32)
		p.stream = binary.LittleEndian.AppendUint32(p.stream, uint32(id))
		return err
	})
	if len(p.stream) > from {
		p.contents = append(p.contents, span{from, len(p.stream)})
	}
	return err
}

var errTooLong = errors.New("the body is longer than this server reads")

// readBody reads the body of r into buf, which it grows to the Content-Length at
// once where there is one, and returns it. The error is errTooLong when the body
// is longer than limit bytes, which costs no allocation beyond limit.
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
