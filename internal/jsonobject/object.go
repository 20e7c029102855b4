// Package jsonobject reads JSON objects that people write, such as the configuration of a simulated engine. Its errors name the key, what
// was written and what is wanted.
package jsonobject

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/agentx/agentx/internal/suggest"
)

// Members returns the members of an object by their keys. It refuses other values, text behind the object, and a key that stands twice.
func Members(data []byte) (map[string]json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return nil, fmt.Errorf("want a JSON object, not %.60s", bytes.TrimSpace(data))
	}
	list := map[string]json.RawMessage{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, notAnObject(err)
		}
		name := key.(string) // of an object that goes on
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, notAnObject(err)
		}
		if _, twice := list[name]; twice {
			return nil, fmt.Errorf("%s: twice", name)
		}
		list[name] = value
	}
	if _, err := d.Token(); err != nil {
		return nil, notAnObject(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("want one JSON object, and nothing behind it")
	}
	return list, nil
}

func notAnObject(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("want a JSON object: %w", err)
}

// decode is json.Unmarshal, with errors about a value of the wrong kind in words.
func decode(data []byte, into any) error {
	err := json.Unmarshal(data, into)
	var kind *json.UnmarshalTypeError
	if !errors.As(err, &kind) {
		return err
	}
	want := map[reflect.Kind]string{reflect.Bool: "true or false", reflect.String: "a text", reflect.Float64: "a number", reflect.Int: "a whole number", reflect.Slice: "a list", reflect.Struct: "an object", reflect.Map: "an object"}[kind.Type.Kind()]
	if want == "" {
		return err
	}
	have, ok := map[string]string{"string": "a text", "bool": "true or false", "number": "a number", "object": "an object", "array": "a list"}[kind.Value]
	if !ok { // the digits of a number
		have = strings.TrimPrefix(kind.Value, "number ")
	}
	return fmt.Errorf("%s: want %s, not %s", kind.Field, want, have)
}

// Unknown returns the error about a key that does not exist, with the known one that was most likely meant.
func Unknown(key string, known []string) error {
	if near := suggest.Closest(key, known); near != "" {
		return fmt.Errorf("unknown key %q; did you mean %q?", key, near)
	}
	return fmt.Errorf("unknown key %q; the keys are %s", key, strings.Join(known, ", "))
}

// Keys lists the keys of a struct with tags of encoding/json.
func Keys[T any]() (list []string) {
	for field := range reflect.TypeFor[T]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		list = append(list, name)
	}
	return list
}

// Check collects what is wrong with the values of an object's keys. Its errors begin with what the object is.
type Check struct {
	Of   string
	errs []error
}

// Wrong adds an error.
func (c *Check) Wrong(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf(c.Of+": "+format, args...))
}

// Word wants one of some words; "" among them is not named.
func (c *Check) Word(key, value string, choices ...string) {
	if !slices.Contains(choices, value) {
		c.Wrong("%s %q: want %s", key, value, strings.Join(slices.DeleteFunc(choices, func(s string) bool { return s == "" }), " or "))
	}
}

// Count wants a whole number from least to most.
func (c *Check) Count(key string, value, least, most int) {
	if value < least || value > most {
		c.Wrong("%s %d: want %d to %d", key, value, least, most)
	}
}

// Number wants a number for which good holds, which want says in words.
func (c *Check) Number(key string, value float64, good bool, want string, bounds ...any) {
	if !good {
		c.Wrong("%s %g: want "+want, append([]any{key, value}, bounds...)...)
	}
}

// Err returns everything that is wrong, joined.
func (c *Check) Err() error { return errors.Join(c.errs...) }

// Read sets the fields of a struct that an object has keys of. translate, if it is not nil, returns a key and its value as the struct has
// them, "" for one that sets nothing. Read refuses keys that do not exist, with the nearest name, and those that translate refuses.
func Read[T any](of string, data []byte, into *T, translate func(key string, value json.RawMessage) (string, json.RawMessage, error)) error {
	keys, err := Members(data)
	if err != nil {
		return fmt.Errorf("%s: %w", of, err)
	}
	c, known := Check{Of: of}, Keys[T]()
	own, said, renamed := map[string]json.RawMessage{}, map[string]string{}, false
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		name, value := key, keys[key]
		if translate != nil {
			name, value, err = translate(key, value)
		}
		switch other, twice := said[name]; {
		case err != nil:
			c.Wrong("%w", err)
		case twice:
			c.Wrong("%s and %s are the same key", other, key)
		case name != "" && !slices.Contains(known, name):
			c.Wrong("%w", Unknown(key, known))
		case name != "":
			own[name], said[name] = value, key
		}
		renamed = renamed || name != key
	}
	if err = c.Err(); err == nil && renamed {
		data, err = json.Marshal(own)
	}
	if err != nil {
		return err
	}
	if err := decode(data, into); err != nil {
		return fmt.Errorf("%s: %w", of, err)
	}
	return nil
}
