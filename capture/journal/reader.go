package journal

import (
	"bytes"
	"errors"
	"fmt"
)

// ErrNoHead is wrapped by the error about a journal of which not even the first line is whole: nothing is known of its session.
var ErrNoHead = errors.New("no whole first line")

// Read reads a journal up to the first line that is torn, fails its CRC or breaks a rule; Torn then says which. The session
// keeps nothing of data.
func Read(data []byte) (*Session, error) {
	s := &Session{Agents: map[int]Agent{}, byQ: map[int]int{}, applied: -1}
	for number := 1; len(data) > 0; number++ {
		end := bytes.IndexByte(data, '\n')
		err := errors.New("it has no end")
		if end >= 0 {
			err = s.read(number, data[:end])
		}
		if err != nil && number == 1 {
			return nil, fmt.Errorf("line 1: %w: %w", ErrNoHead, err)
		}
		if err != nil {
			s.Torn = &Torn{number, err.Error()}
			return s, nil
		}
		data = data[end+1:]
	}
	if s.Trace == "" {
		return nil, fmt.Errorf("%w: it is empty", ErrNoHead)
	}
	return s, nil
}

// read reads one line.
func (s *Session) read(number int, text []byte) error {
	e, err := parse(text)
	if err != nil {
		return err
	}
	head, ok := e.(Head)
	if number > 1 {
		return s.apply(e)
	}
	if !ok {
		return errors.New("it is no head")
	}
	s.Head = head
	return nil
}
