package measure

import (
	"cmp"
	"fmt"
	"maps"
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

// ErrorCounts counts failed requests by category, without cancellations and overflows.
type ErrorCounts map[wire.Category]int

// Failed returns how many requests failed.
func (e ErrorCounts) Failed() (n int) {
	for _, of := range e {
		n += of
	}
	return n
}

// CommonestFirst returns the categories.
func (e ErrorCounts) CommonestFirst() []wire.Category {
	categories := slices.Sorted(maps.Keys(e))
	slices.SortStableFunc(categories, func(x, y wire.Category) int { return e[y] - e[x] })
	return categories
}

// rates describes the share of each category in a number of requests, the commonest first.
func (e ErrorCounts) rates(ended int) string {
	var parts []string
	for _, c := range e.CommonestFirst() {
		parts = append(parts, fmt.Sprintf("%s %s", c, FormatShare(shareOf(e[c], ended))))
	}
	return strings.Join(parts, ", ")
}

// AddRates adds the shares of failures and overflows.
func (s *Summary) AddRates() {
	failed := ErrorCounts(s.Errors).Failed()
	ended := s.Completed + failed
	s.ErrorRate, s.ErrorRates = shareOf(failed, ended), map[wire.Category]Number{}
	for c, n := range s.Errors {
		s.ErrorRates[c] = shareOf(n, ended)
	}
	s.OverflowRate = shareOf(s.Buckets.ContextOverflow, ended+s.Buckets.ContextOverflow)
}

// shareOf returns n of all as a share, 0 of nothing.
func shareOf(n, all int) Number {
	if all == 0 {
		return 0
	}
	return Number(n) / Number(all)
}

// FinishReasons count requests that ended well by the finish reasons of their answers, those without one as "none".
type FinishReasons map[string]int

// contentFilter is the finish reason of an answer that the server's filter has cut or replaced.
const contentFilter = "content_filter"

// Bounds of what is kept of the texts of a server.
const (
	maxReasons = 16 // different ones: all others are "other"
	maxReason  = 40 // bytes
)

// add counts a finish reason, cut to maxReason; beyond maxReasons different ones it counts as "other".
func (f FinishReasons) add(reason string) {
	if reason = oneLine(reason); reason == "" {
		reason = "none"
	}
	reason = strings.ToValidUTF8(reason[:min(len(reason), maxReason)], "")
	if _, known := f[reason]; !known && len(f) >= maxReasons {
		reason = "other"
	}
	f[reason]++
}

// allFiltered reports whether every answer has been ended by a filter.
func (f FinishReasons) allFiltered() bool { return len(f) == 1 && f[contentFilter] > 0 }

// row writes the counts, the commonest first, where there are several.
func (f FinishReasons) row(b *strings.Builder) {
	if len(f) <= 1 {
		return
	}
	reasons := slices.SortedFunc(maps.Keys(f), func(x, y string) int { return cmp.Or(f[y]-f[x], strings.Compare(x, y)) })
	for k, reason := range reasons {
		reasons[k] = fmt.Sprintf("%d %s", f[reason], reason)
	}
	row(b, "finished", "%s", strings.Join(reasons, ", "))
}
