package measure

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agentx/agentx/replay/wire"
)

// ErrorSamples are messages of failed requests, by category. Overflows are among them, cancellations are not.
type ErrorSamples map[wire.Category][]ErrorSample

// ErrorSample is a message and how many requests had it. Messages that differ in numbers alone (ports, ids, lengths) count as
// one.
type ErrorSample struct {
	Message string `json:"message"` // of the first request
	N       int    `json:"n"`
}

// Bounds of the samples: more messages are not kept, longer ones are cut.
const (
	maxSamples = 3   // of a category
	maxMessage = 300 // bytes
)

// add adds the message of a failed request.
func (s ErrorSamples) add(e *Error) {
	list, message := s[e.Category], oneLine(e.Message)
	if message == "" {
		return
	}
	for k := range list {
		if differInNumbers(list[k].Message, message) {
			list[k].N++
			return
		}
	}
	if len(list) < maxSamples {
		s[e.Category] = append(list, ErrorSample{message, 1})
	}
}

// differInNumbers reports whether texts differ in nothing but numbers. The number that they begin with, a status, must be equal.
func differInNumbers(a, b string) bool {
	if a == b {
		return true
	}
	statusA, a := cutNumber(a)
	statusB, b := cutNumber(b)
	if statusA != statusB {
		return false
	}
	for a != "" && b != "" {
		var x, y string
		if x, a = cutNumber(a); x != "" {
			if y, b = cutNumber(b); y != "" {
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

// cutNumber returns the digits that a text begins with, and the rest of it.
func cutNumber(text string) (digits, rest string) {
	rest = strings.TrimLeft(text, "0123456789")
	return text[:len(text)-len(rest)], rest
}

// oneLine cuts a text to maxMessage and replaces all characters that a terminal does not print.
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

// clone returns a copy that later messages do not change.
func (s ErrorSamples) clone() ErrorSamples {
	c := make(ErrorSamples, len(s))
	for category, list := range s {
		c[category] = slices.Clone(list)
	}
	return c
}
