package jsonobject

import (
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

// Read sets the fields of a struct that an object has keys of. It refuses keys that do not exist, with the nearest name, and those about
// which other, if it is not nil, returns an error.
func Read[T any](of string, data []byte, into *T, other func(key string) error) error {
	keys, err := Members(data)
	if err != nil {
		return fmt.Errorf("%s: %w", of, err)
	}
	c, known := Check{Of: of}, Keys[T]()
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if !slices.Contains(known, key) {
			c.Wrong("%w", Unknown(key, known))
		}
		if other != nil {
			if err := other(key); err != nil {
				c.Wrong("%w", err)
			}
		}
	}
	if err := c.Err(); err != nil {
		return err
	}
	if err := Decode(data, into); err != nil {
		return fmt.Errorf("%s: %w", of, err)
	}
	return nil
}
