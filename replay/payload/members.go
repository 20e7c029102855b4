package payload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// member is one member of a JSON object.
type member struct {
	name  string
	value json.RawMessage // as it was written, without blanks
}

// continuousUsage is the member of stream_options that asks for token counts in every message.
const continuousUsage = "continuous_usage_stats"

// asksForUsagePerChunk reports whether the member of stream_options asks for token counts in every message.
func (m member) asksForUsagePerChunk() bool {
	return m.name == continuousUsage && string(m.value) == "true"
}

// appendMembers appends members with commas between them.
func appendMembers(b []byte, list []member) []byte {
	for k, m := range list {
		if k > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, `%s:%s`, quote(m.name), m.value)
	}
	return b
}

// membersOf returns the members of a JSON object in their order. An empty text has none.
func membersOf(object []byte) (list []member, err error) {
	if len(bytes.TrimSpace(object)) == 0 {
		return nil, nil
	}
	d := json.NewDecoder(bytes.NewReader(object))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, errors.New("want a JSON object")
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("want a JSON object: %w", err)
		}
		m := member{name: name.(string)}
		if err := d.Decode(&m.value); err != nil {
			return nil, fmt.Errorf("want a JSON object: %s: %w", quote(m.name), err)
		}
		var value bytes.Buffer
		if err := json.Compact(&value, m.value); err != nil {
			return nil, err
		}
		m.value = value.Bytes()
		if slices.ContainsFunc(list, func(o member) bool { return o.name == m.name }) {
			return nil, fmt.Errorf("%s occurs twice", quote(m.name))
		}
		list = append(list, m)
	}
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("want a JSON object: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("want one JSON object and nothing after it")
	}
	return list, nil
}

// quote returns a name as JSON.
func quote(name string) []byte {
	q, _ := json.Marshal(name) // a string always marshals
	return q
}
