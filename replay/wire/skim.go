package wire

import (
	"encoding/binary"
	"math/bits"
)

// The skimmer walks the JSON of one event once, building nothing. It checks the whole grammar, so that it never
// takes for JSON what encoding/json would not; where it meets something rare (an escaped name, a name twice, deep
// nesting, an odd type, a line end) it says that it is not sure. Tests hold it to decodeEvent.

// skimDepth is the deepest nesting that is skimmed.
const skimDepth = 32

// skimEvent reads a payload; the result counts only when sure.
func skimEvent(b []byte) (e event, sure bool) {
	m := openObject(b, skipSpace(b, 0))
	var seen names
	for m.next() {
		switch string(m.name) {
		case "choices":
			seen.add(0, &m)
			skimChoices(&m, &e)
		case "usage":
			seen.add(1, &m)
			skimUsageSpan(&m, &e)
		case "error":
			seen.add(2, &m)
			m.null()
		default:
			m.skip()
		}
	}
	if m.at < 0 || skipSpace(b, m.at) != len(b) {
		return event{}, false
	}
	e.json = true
	return e, true
}

// skimChoices reads the first choice and skips the others.
func skimChoices(m *members, e *event) {
	if m.isNull() {
		return
	}
	i := m.enter('[')
	if i < 0 {
		m.at = -1
		return
	}
	if m.b[i] == ']' {
		m.at = i + 1
		return
	}
	choice := openObject(m.b, i)
	var seen names
	for choice.next() {
		switch string(choice.name) {
		case "delta", "message":
			seen.add(0, &choice) // both at once is odd
			skimDelta(&choice, e)
		case "text":
			seen.add(1, &choice)
			e.content = choice.text(e) || e.content
		case "finish_reason":
			seen.add(2, &choice)
			skimFinish(&choice, e)
		default:
			choice.skip()
		}
	}
	m.at = skipRest(m.b, choice.at, 2)
}

func skimDelta(outer *members, e *event) {
	if outer.isNull() {
		return
	}
	m := openObject(outer.b, outer.at)
	var seen names
	for m.next() {
		switch string(m.name) {
		case "content":
			seen.add(0, &m)
			e.content = m.text(e) || e.content
		case "reasoning_content":
			seen.add(1, &m)
			e.reasoning = m.text(e) || e.reasoning
		case "reasoning":
			seen.add(2, &m)
			e.reasoning = m.text(e) || e.reasoning
		case "tool_calls":
			seen.add(3, &m)
			skimToolCalls(&m, e)
		default:
			m.skip()
		}
	}
	outer.at = m.at
}

func skimToolCalls(outer *members, e *event) {
	if outer.isNull() {
		return
	}
	i := outer.enter('[')
	for i >= 0 && outer.b[i] != ']' {
		m := openObject(outer.b, i)
		var seen names
		for m.next() {
			if string(m.name) == "function" {
				seen.add(0, &m)
				skimFunction(&m, e)
			} else {
				m.skip()
			}
		}
		i = skipComma(outer.b, m.at)
	}
	if i >= 0 {
		i++
	}
	outer.at = i
}

func skimFunction(outer *members, e *event) {
	if outer.isNull() {
		return
	}
	m := openObject(outer.b, outer.at)
	var seen names
	for m.next() {
		switch string(m.name) {
		case "name":
			seen.add(0, &m)
			e.toolCall = m.text(e) || e.toolCall
		case "arguments":
			seen.add(1, &m)
			e.toolCall = m.text(e) || e.toolCall
		default:
			m.skip()
		}
	}
	outer.at = m.at
}

// skimFinish takes the reasons that servers give; any other is left to the slow path.
func skimFinish(m *members, e *event) {
	if m.isNull() {
		return
	}
	start := m.at
	m.skip()
	if m.at < 0 {
		return
	}
	switch string(m.b[start:m.at]) {
	case `"stop"`:
		e.finish = "stop"
	case `"length"`:
		e.finish = "length"
	case `"tool_calls"`:
		e.finish = "tool_calls"
	case `"content_filter"`:
		e.finish = "content_filter"
	default:
		m.at = -1
	}
}

// skimUsageSpan notes where the usage object lies; it is read when the response is over.
func skimUsageSpan(m *members, e *event) {
	if m.isNull() {
		return
	}
	start := m.at
	if i := m.enter('{'); i < 0 || m.b[i] == '}' {
		m.at = -1
		return
	}
	m.skip()
	if m.at >= 0 {
		e.usage = m.b[start:m.at]
	}
}

// parseUsage reads a usage object that an event pointed to.
func parseUsage(b []byte) Usage {
	if u, sure := skimUsage(b); sure {
		return u
	}
	return decodeUsage(b)
}

func skimUsage(b []byte) (u Usage, sure bool) {
	u = NoUsage
	second, third := Unknown, Unknown // the other places of Cached
	m := openObject(b, skipSpace(b, 0))
	var seen names
	for m.next() {
		switch string(m.name) {
		case "prompt_tokens":
			seen.add(0, &m)
			u.Prompt = m.count()
		case "completion_tokens":
			seen.add(1, &m)
			u.Completion = m.count()
		case "completion_tokens_details":
			seen.add(2, &m)
			u.Reasoning = skimDetail(&m, "reasoning_tokens")
		case "prompt_tokens_details":
			seen.add(3, &m)
			u.Cached = skimDetail(&m, "cached_tokens")
		case "input_tokens_details":
			seen.add(4, &m)
			second = skimDetail(&m, "cached_tokens")
		case "cache_read_input_tokens":
			seen.add(5, &m)
			third = m.count()
		case "cache_creation_input_tokens":
			seen.add(6, &m)
			u.CacheWrite = m.count()
		case "prompt_cache_miss_tokens":
			seen.add(7, &m)
			u.CacheMiss = m.count()
		default:
			m.skip()
		}
	}
	if u.Cached < 0 {
		u.Cached = second
	}
	if u.Cached < 0 {
		u.Cached = third
	}
	return u, m.at >= 0 && skipSpace(b, m.at) == len(b)
}

// skimDetail reads one count of a nested object.
func skimDetail(outer *members, name string) int64 {
	n := Unknown
	if outer.isNull() {
		return n
	}
	m := openObject(outer.b, outer.at)
	var seen names
	for m.next() {
		if string(m.name) == name {
			seen.add(0, &m)
			n = m.count()
		} else {
			m.skip()
		}
	}
	outer.at = m.at
	return n
}

// names is the set of members met so far: a name that comes twice is left to the slow path.
type names uint8

func (s *names) add(bit int, m *members) {
	if *s&(1<<bit) != 0 {
		m.at = -1
	}
	*s |= 1 << bit
}

// members walks the members of one object. After next, at is the start of a value, and the caller moves it behind
// the value; after the last member it is behind the object. A negative at means not sure, and ends every walk.
type members struct {
	b     []byte
	at    int
	begun bool
	name  []byte
}

// openObject starts at the brace of an object.
func openObject(b []byte, i int) members {
	if i < 0 || i >= len(b) || b[i] != '{' {
		return members{b: b, at: -1}
	}
	return members{b: b, at: i + 1}
}

func (m *members) next() bool {
	i := skipSpace(m.b, m.at)
	if i < 0 || i >= len(m.b) {
		m.at = -1
		return false
	}
	switch {
	case m.b[i] == '}':
		m.at = i + 1
		return false
	case !m.begun:
		m.begun = true
	case m.b[i] == ',':
		i = skipSpace(m.b, i+1)
	default:
		m.at = -1
		return false
	}
	end, plain := skipString(m.b, i)
	if end < 0 || !plain {
		m.at = -1
		return false
	}
	m.name = m.b[i+1 : end-1]
	i = skipSpace(m.b, end)
	if i >= len(m.b) || m.b[i] != ':' {
		m.at = -1
		return false
	}
	m.at = skipSpace(m.b, i+1)
	return true
}

// skip moves behind a value of any kind.
func (m *members) skip() { m.at = skipValue(m.b, m.at, 0) }

// isNull moves behind null, if that is the value.
func (m *members) isNull() bool {
	if end := skipWord(m.b, m.at, "null"); end >= 0 {
		m.at = end
		return true
	}
	return false
}

// null wants null.
func (m *members) null() { m.at = skipWord(m.b, m.at, "null") }

// text moves behind a string or null and reports whether it is a string with something in it. The event notes
// where it was.
func (m *members) text(e *event) bool {
	if m.at < 0 || m.at >= len(m.b) || m.b[m.at] != '"' {
		m.null()
		return false
	}
	start := m.at
	m.at, _ = skipString(m.b, start)
	if m.at <= start+2 {
		return false
	}
	e.texts++
	e.from, e.to = start, m.at
	return true
}

// count moves behind a whole number or null.
func (m *members) count() int64 {
	if m.isNull() || m.at < 0 {
		return Unknown
	}
	var n int64
	i := m.at
	for ; i < len(m.b) && m.b[i]-'0' <= 9 && i-m.at < 15; i++ {
		n = n*10 + int64(m.b[i]-'0')
	}
	odd := i == m.at || (m.b[m.at] == '0' && i > m.at+1) || i >= len(m.b)
	if odd || (m.b[i] != ',' && m.b[i] != '}' && !isSpace(m.b[i])) {
		m.at = -1
		return Unknown
	}
	m.at = i
	return n
}

// enter returns the position of the first thing inside an array or object, or -1.
func (m *members) enter(open byte) int {
	if m.at < 0 || m.at >= len(m.b) || m.b[m.at] != open {
		return -1
	}
	if i := skipSpace(m.b, m.at+1); i < len(m.b) {
		return i
	}
	return -1
}

// The skip functions return the position behind something that starts at i, or -1. They take -1 for i.

// isSpace leaves out line ends: inside an event they have a meaning of their own, so the skimmer is not sure.
func isSpace(c byte) bool { return c == ' ' || c == '\t' }

func skipSpace(b []byte, i int) int {
	for uint(i) < uint(len(b)) && isSpace(b[i]) {
		i++
	}
	return i
}

func skipWord(b []byte, i int, word string) int {
	if i < 0 || len(b)-i < len(word) || string(b[i:i+len(word)]) != word {
		return -1
	}
	return i + len(word)
}

// skipComma is the position of the element after a comma, or of the closing bracket.
func skipComma(b []byte, i int) int {
	i = skipSpace(b, i)
	if uint(i) >= uint(len(b)) {
		return -1
	}
	if b[i] == ']' {
		return i
	}
	if b[i] != ',' {
		return -1
	}
	if i = skipSpace(b, i+1); i >= len(b) || b[i] == ']' {
		return -1
	}
	return i
}

// skipRest is the position behind an array of which an element ends at i.
func skipRest(b []byte, i, depth int) int {
	for i = skipComma(b, i); i >= 0 && b[i] != ']'; {
		i = skipComma(b, skipValue(b, i, depth))
	}
	if i < 0 {
		return -1
	}
	return i + 1
}

func skipValue(b []byte, i, depth int) int {
	if uint(i) >= uint(len(b)) || depth > skimDepth {
		return -1
	}
	switch c := b[i]; c {
	case '"':
		end, _ := skipString(b, i)
		return end
	case '{':
		m := openObject(b, i)
		for m.next() {
			m.at = skipValue(b, m.at, depth+1)
		}
		return m.at
	case '[':
		i = skipSpace(b, i+1)
		if i < len(b) && b[i] == ']' {
			return i + 1
		}
		return skipRest(b, skipValue(b, i, depth+1), depth+1)
	case 't':
		return skipWord(b, i, "true")
	case 'f':
		return skipWord(b, i, "false")
	case 'n':
		return skipWord(b, i, "null")
	default:
		return skipNumber(b, i)
	}
}

func skipNumber(b []byte, i int) int {
	if b[i] == '-' {
		i++
	}
	switch {
	case i < len(b) && b[i] == '0':
		i++
	default:
		if i = skipDigits(b, i); i < 0 {
			return -1
		}
	}
	if i < len(b) && b[i] == '.' {
		if i = skipDigits(b, i+1); i < 0 {
			return -1
		}
	}
	if i < len(b) && b[i]|0x20 == 'e' {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		return skipDigits(b, i)
	}
	return i
}

// skipDigits wants one digit at least.
func skipDigits(b []byte, i int) int {
	start := i
	for i < len(b) && b[i]-'0' <= 9 {
		i++
	}
	if i == start {
		return -1
	}
	return i
}

// skipString is the position behind a string, and whether it has no escapes. Eight bytes at a time: the strings of
// an event are most of its bytes.
func skipString(b []byte, i int) (end int, plain bool) {
	if uint(i) >= uint(len(b)) || b[i] != '"' {
		return -1, false
	}
	plain = true
	for i++; ; {
		for i+8 <= len(b) {
			stop := stops(binary.LittleEndian.Uint64(b[i:]))
			if stop != 0 {
				i += bits.TrailingZeros64(stop) >> 3
				break
			}
			i += 8
		}
		for i < len(b) && b[i] != '"' && b[i] != '\\' && b[i] >= ' ' {
			i++
		}
		switch {
		case i >= len(b) || b[i] < ' ':
			return -1, false
		case b[i] == '"':
			return i + 1, plain
		}
		plain = false
		if i = skipEscape(b, i); i < 0 {
			return -1, false
		}
	}
}

// stops marks, in the top bit of its byte, the first byte of w that is a quote, a backslash or a control character;
// marks above the first may be wrong.
func stops(w uint64) uint64 {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	quote, slash := w^('"'*ones), w^('\\'*ones)
	return ((quote-ones)&^quote | (slash-ones)&^slash | (w-' '*ones)&^w) & tops
}

func skipEscape(b []byte, i int) int {
	if i+1 >= len(b) {
		return -1
	}
	switch b[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2
	case 'u':
		if i+6 > len(b) {
			return -1
		}
		for _, c := range b[i+2 : i+6] {
			if lower := c | 0x20; c-'0' > 9 && (lower < 'a' || lower > 'f') {
				return -1
			}
		}
		return i + 6
	}
	return -1
}
