package measure

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agentx/agentx/replay/wire"
)

// ErrorSamples are messages of failed requests, by category: overflows too, but nothing that we cancelled.
type ErrorSamples map[wire.Category][]ErrorSample

// ErrorSample is a message and how many requests it was of, counted with those that differ in numbers alone: ports, ids, lengths.
type ErrorSample struct {
	Message string `json:"message"` // the first
	N       int    `json:"n"`
}

// Bounds of the samples.
const (
	maxSamples = 3   // of a category; of further messages there is no sample
	maxMessage = 300 // bytes of a message
)

// add takes the message of a failed request.
func (s ErrorSamples) add(e *Error) {
	list, message := s[e.Category], oneLine(e.Message)
	if message == "" {
		return
	}
	for k := range list {
		if alike(list[k].Message, message) {
			list[k].N++
			return
		}
	}
	if len(list) < maxSamples {
		s[e.Category] = append(list, ErrorSample{message, 1})
	}
}

// alike reports whether texts differ at most in numbers, but for the one that they begin with: a status.
func alike(a, b string) bool {
	if a == b {
		return true
	}
	status, a := number(a)
	other, b := number(b)
	if status != other {
		return false
	}
	for a != "" && b != "" {
		var in, is string
		if in, a = number(a); in != "" {
			if is, b = number(b); is != "" {
				continue
			}
			return false
		}
		if a[0] != b[0] {
			return false
		}
		a, b = a[1:], b[1:]
	}
	return a == b
}

// number cuts the digits off that a text begins with.
func number(text string) (digits, rest string) {
	rest = strings.TrimLeft(text, "0123456789")
	return text[:len(text)-len(rest)], rest
}

// oneLine makes a text short and free of all that acts on a terminal.
func oneLine(text string) string {
	text = strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) {
			return ' '
		}
		return c
	}, text[:min(len(text), 4*maxMessage)])
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= maxMessage {
		return text
	}
	cut := maxMessage
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "..."
}

// clone returns a copy that further messages leave alone.
func (s ErrorSamples) clone() ErrorSamples {
	c := make(ErrorSamples, len(s))
	for category, list := range s {
		c[category] = slices.Clone(list)
	}
	return c
}
