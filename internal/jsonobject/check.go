package jsonobject

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

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
