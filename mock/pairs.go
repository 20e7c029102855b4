package mock

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/agentx/agentx/internal/jsonlex"
)

// pairs checks, as the APIs of OpenAI and Anthropic do, that results of tools stand right behind the message with their calls, and that each
// call has one. Its ids are slices of a body, as it writes them.
type pairs struct {
	open           [][]byte // calls of the messages before without a result
	calls, results [][]byte // of the message that is being read
}

// empty returns pairs without an id, with the same buffers.
func (p *pairs) empty() pairs { return pairs{p.open[:0], p.calls[:0], p.results[:0]} }

// add reads an id, or null for none.
func (p *pairs) add(to *[][]byte, l *jsonlex.Lexer) error {
	if l.Null() {
		return nil
	}
	id, _, err := l.RawString()
	*to = append(*to, id)
	return err
}

// parseCalls reads the ids of the calls of a message of a chat.
func (p *pairs) parseCalls(l *jsonlex.Lexer) error {
	if l.Null() {
		return nil
	}
	return l.Array(func() error {
		return l.Object(func(key []byte) error {
			if string(key) == "id" {
				return p.add(&p.calls, l)
			}
			return l.Skip()
		})
	})
}

// message ends a message.
func (p *pairs) message() error {
	for _, id := range p.results {
		at := slices.IndexFunc(p.open, func(call []byte) bool { return bytes.Equal(call, id) })
		if at < 0 {
			return fmt.Errorf("the result of %q answers no call of the message before", id)
		}
		p.open = slices.Delete(p.open, at, at+1)
	}
	if len(p.results) == 0 || len(p.calls) > 0 {
		if err := p.end(); err != nil {
			return err
		}
	}
	p.open = append(p.open, p.calls...)
	p.calls, p.results = p.calls[:0], p.results[:0]
	return nil
}

// end ends the prompt.
func (p *pairs) end() error {
	if len(p.open) > 0 {
		return fmt.Errorf("the call %q has no result in the messages behind it", p.open[0])
	}
	return nil
}
