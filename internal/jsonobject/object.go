// Package jsonobject reads JSON objects that people write, such as the configuration of a simulated engine. Its errors name the key, what
// was written and what is wanted.
package jsonobject

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
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
	want := map[reflect.Kind]string{reflect.Bool: "true or false", reflect.String: "a text", reflect.Float64: "a number", reflect.Int: "a whole number"}[kind.Type.Kind()]
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
