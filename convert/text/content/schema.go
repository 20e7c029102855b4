package content

import (
	"bytes"
	"strings"

	"github.com/agentx/agentx/internal/jsonlex"
)

// Schema finds members of an object by their paths, in one pass over its text.
//
//	s := NewSchema([]string{0: "type", 1: "message", 2: "message.id"})
//	err := s.Read(row, values) // values[2] is the id
type Schema struct {
	members []member
	from    int // the fields below it are from..to
	to      int
}

type member struct {
	name  string
	field int // None: it is on the way to others
	below *Schema
}

// NewSchema returns a schema of fields. Those below one object stand together, behind it.
func NewSchema(paths []string) *Schema {
	s := &Schema{}
	for field, path := range paths {
		s.add(path, field)
	}
	return s
}

func (s *Schema) add(path string, field int) {
	if s.to == 0 {
		s.from = field
	}
	s.to = field + 1
	name, rest, below := strings.Cut(path, ".")
	m := s.find([]byte(name))
	if m == nil {
		s.members = append(s.members, member{name: name, field: -1})
		m = &s.members[len(s.members)-1]
	}
	if !below {
		m.field = field
		return
	}
	if m.below == nil {
		m.below = &Schema{}
	}
	m.below.add(rest, field)
}

func (s *Schema) find(key []byte) *member {
	for k := range s.members {
		if m := &s.members[k]; len(m.name) == len(key) && m.name == string(key) {
			return m
		}
	}
	return nil
}

// Read sets the values of the fields of an object, nil for one that it lacks. The last of a key counts, and null is none. Another value
// has no fields. The error is about a text that is not one JSON value.
func (s *Schema) Read(text []byte, values []Raw) error {
	clear(values)
	l := jsonlex.Lexer{Data: text, MaxDepth: MaxDepth}
	if err := s.read(&l, values); err != nil {
		return Malformed(err)
	}
	if err := l.End(); err != nil {
		return Malformed(err)
	}
	return nil
}

func (s *Schema) read(l *jsonlex.Lexer, values []Raw) error {
	if l.Kind() != jsonlex.Object {
		return l.Skip()
	}
	return l.Object(func(key []byte) (err error) {
		m := s.find(key)
		if m == nil {
			return l.Skip()
		}
		from := l.Pos
		if m.below == nil {
			err = l.Skip()
		} else {
			clear(values[m.below.from:m.below.to])
			err = m.below.read(l, values)
		}
		if err == nil && m.field >= 0 {
			if values[m.field] = l.Data[from:l.Pos:l.Pos]; values[m.field].IsNull() {
				values[m.field] = nil
			}
		}
		return err
	})
}

// Bytes returns what a string means, where it stands if it has no escapes; nil for another value.
func (r Raw) Bytes() []byte {
	if !r.IsString() || bytes.IndexByte(r, '\\') >= 0 {
		return r.AppendString(nil)
	}
	return r[1 : len(r)-1]
}

// Name returns a name that a log gives something, "other" for one that could be text: doc/spec/text.md 10.
func Name(name []byte) string {
	if len(name) == 0 || len(name) > 64 {
		return "other"
	}
	for _, c := range name {
		if c-'0' > 9 && c|0x20-'a' > 25 && c != '_' && c != '.' && c != '/' && c != '-' {
			return "other"
		}
	}
	return string(name)
}
