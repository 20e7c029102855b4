package aiperf

import (
	"bytes"
	"encoding/json"
)

// object is a JSON object whose members keep their order.
type object []member

type member struct {
	key   string
	value any
}

// add appends a member.
func (o *object) add(key string, value any) { *o = append(*o, member{key, value}) }

// find returns the value of a member, nil if there is none.
func (o object) find(key string) any {
	for _, m := range o {
		if m.key == key {
			return m.value
		}
	}
	return nil
}

// MarshalJSON returns the object.
func (o object) MarshalJSON() ([]byte, error) {
	var text bytes.Buffer
	text.WriteByte('{')
	for k, m := range o {
		if k > 0 {
			text.WriteByte(',')
		}
		for _, v := range []any{m.key, m.value} {
			data, err := compact(v)
			if err != nil {
				return nil, err
			}
			text.Write(data)
			text.WriteByte(':')
		}
		text.Truncate(text.Len() - 1) // the second colon
	}
	text.WriteByte('}')
	return text.Bytes(), nil
}

// compact returns a value as JSON without blanks, and with < > & as they are.
func compact(v any) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(text.Bytes(), []byte{'\n'}), nil
}

// indented returns a value as JSON that is indented by two blanks, with an end.
func indented(v any, end string) ([]byte, error) {
	data, err := compact(v)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	if err := json.Indent(&text, data, "", "  "); err != nil {
		return nil, err
	}
	text.WriteString(end)
	return text.Bytes(), nil
}
