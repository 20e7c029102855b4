package reply

import (
	"math"

	"github.com/agentx/agentx/internal/jsonlex"
)

// usage is what an API counted. A count that was not given is -1.
type usage struct {
	seen   bool // there was an object
	bad    bool // of the counts one is none
	prompt int64
	extra  map[string]int64 // of prompts, by name, which the API counts apart
	output int64
}

// count reads a count: absent for null, bad for anything that is no whole number from 0 to 2^31-1 without a fraction.
func (u *usage) count(l *jsonlex.Lexer, to *int64) error {
	switch l.Kind() {
	case jsonlex.Null:
		return l.Skip()
	case jsonlex.Number:
	default:
		u.bad = true
		return l.Skip()
	}
	mark := l.Mark()
	n, err := l.Natural(math.MaxInt32)
	if err != nil {
		u.bad = true
		l.Reset(mark)
		return l.Skip()
	}
	*to = int64(n)
	return nil
}

// names of the counts in a usage. The extras are optional.
type names struct {
	prompt, output string
	extras         []string
}

// read reads a usage. Counts of an earlier one stay where this one has none.
func (u *usage) read(l *jsonlex.Lexer, n names) error {
	switch l.Kind() {
	case jsonlex.Object:
	case jsonlex.Null:
		return l.Skip()
	default:
		u.seen, u.bad = true, true
		return l.Skip()
	}
	u.seen = true
	return l.Object(func(key []byte) error {
		switch string(key) {
		case n.prompt:
			return u.count(l, &u.prompt)
		case n.output:
			return u.count(l, &u.output)
		}
		for _, extra := range n.extras {
			if string(key) == extra {
				value := int64(0)
				err := u.count(l, &value)
				u.extra[extra] = value
				return err
			}
		}
		return l.Skip()
	})
}

// total returns the tokens of the prompt, and whether both counts are there.
func (u *usage) total() (prompt int64, ok bool) {
	if u.bad || u.prompt < 0 || u.output < 0 {
		return -1, false
	}
	prompt = u.prompt
	for _, n := range u.extra {
		prompt += n
	}
	return prompt, true
}
