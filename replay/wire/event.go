package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/agentx/agentx/internal/jsonlex"
)

// event is what a replay needs of one payload of a response.
type event struct {
	failed    bool   // its member error is set
	content   bool   // choice 0 has text
	reasoning bool   // choice 0 has reasoning
	toolCall  bool   // choice 0 has the name or arguments of a tool call
	finish    string // finish reason of choice 0
	blank     bool   // choice 0 has a text or reasoning that is empty
	usage     []byte // the usage object, a slice of the payload; nil when absent, null or empty
	last      bool   // the stream ends here: message_stop of the Messages API

	usageStart int // where the usage object lies in the payload

	textCount, textStart, textEnd int // how many strings the content consists of, and where the last one lies, quotes included
}

func (e *event) hasData() bool { return e.content || e.reasoning || e.toolCall }

// reading reads those members of a JSON text that a shape names. It checks the whole grammar, and allocates nothing but for a name
// with escapes or a rare finish reason.
type reading struct {
	lex    jsonlex.Lexer
	aiperf bool // members that AIPerf does not read are passed over

	// careful passes over an object first, to find the last member of each name, and reads these in the order of their shape. Without,
	// members are read as they come, and errCareful says that this is not enough: a name stands there twice, or what is told once.
	careful bool

	said   meaning
	event  event            // what else there is
	zero   bool             // the choice that was read last has the index 0
	counts [numCounts]int64 // of a usage, plus 1; 0: unknown
}

var (
	errCareful  = errors.New("to be read with care")
	errNoObject = errors.New("no object")
)

// readEvent reads a payload and reports whether it is an object. The last of several equal names counts. With aiperf it reads what
// AIPerf 0.13.0 reads.
func readEvent(payload []byte, api API, aiperf bool) (e event, ok bool) {
	r := reading{aiperf: aiperf}
	if !r.read(payload, eventShapes[api]) {
		return event{}, false
	}
	said := func(m meaning) bool { return r.said&m != 0 }
	e = r.event
	e.failed, e.last, e.blank = said(failure), said(lastEvent), said(blank)
	e.content, e.reasoning, e.toolCall = said(content), said(reasoning), said(toolCall)
	if !aiperf && !said(someChoices) { // older servers write an error without a member error around it
		e.failed = e.failed || said(namedError) || said(errorText) && said(errorCode)
	}
	return e, true
}

// read reads a text and reports whether it is an object.
func (r *reading) read(text []byte, s shape) bool {
	r.lex = jsonlex.Lexer{Data: text, MaxDepth: jsonlex.DefaultMaxDepth}
	err := errNoObject
	if r.lex.Peek() == '{' {
		err = r.object(s)
	}
	if err == errCareful {
		*r = reading{aiperf: r.aiperf, careful: true}
		return r.read(text, s)
	}
	return err == nil && r.lex.AtEnd()
}

// object reads an object, and passes over a value of another kind.
func (r *reading) object(s shape) error {
	switch {
	case r.lex.Kind() != jsonlex.Object:
		return r.lex.Skip()
	case r.careful:
		return r.lastOfEach(s)
	}
	var had uint16
	return r.lex.Object(func(name []byte) error {
		i := s.index(name, r.aiperf)
		if i < 0 {
			return r.lex.Skip()
		}
		if had&(1<<i) != 0 {
			return errCareful
		}
		had |= 1 << i
		return r.value(&s[i])
	})
}

// lastOfEach reads the last member of each name.
func (r *reading) lastOfEach(s shape) error {
	var at [16]jsonlex.Mark
	var had uint16
	err := r.lex.Object(func(name []byte) error {
		if i := s.index(name, r.aiperf); i >= 0 {
			at[i] = r.lex.Mark()
			had |= 1 << i
		}
		return r.lex.Skip()
	})
	end := r.lex.Mark()
	for i := range s {
		if had&(1<<i) != 0 && err == nil {
			r.lex.Reset(at[i])
			err = r.value(&s[i])
		}
	}
	r.lex.Reset(end)
	return err
}

// value reads the value of a member.
func (r *reading) value(m *member) (err error) {
	kind := r.lex.Kind()
	start := r.lex.Pos
	switch {
	case kind == jsonlex.Array && m.says == someChoices && m.in != nil:
		err = r.choices(m.in)
	case kind == jsonlex.Array && m.each:
		err = r.lex.Array(func() error { return r.element(m) })
	case kind == jsonlex.Object && m.in != nil && !m.each:
		err = r.object(m.in)
	default:
		err = r.lex.Skip()
	}
	if err != nil || m.says == 0 {
		return err
	}
	return r.take(m, r.lex.Data[start:r.lex.Pos], start)
}

// element reads an element of an array: an object, or a text, which says what it says without an array.
func (r *reading) element(m *member) error {
	if r.lex.Kind() != jsonlex.String {
		return r.object(m.in)
	}
	return r.value(&member{says: m.says &^ blank})
}

// maxChoices bounds the choices of a payload that are looked at.
const maxChoices = 128

// choices reads the choice with the index 0, and the first where none has it. AIPerf reads the first.
func (r *reading) choices(s shape) error {
	n := 0
	var zero jsonlex.Mark
	err := r.lex.Array(func() error {
		n++
		in := s
		switch {
		case n > 1 && (r.zero || r.aiperf || n > maxChoices):
			return r.lex.Skip()
		case r.careful:
			in = choiceIndex
		case n > 1:
			return errCareful
		}
		at := r.lex.Mark()
		r.zero = false
		err := r.object(in)
		if n == 1 || r.zero {
			zero = at
		}
		return err
	})
	if r.careful && n > 0 && err == nil {
		end := r.lex.Mark()
		r.lex.Reset(zero)
		err = r.object(s)
		r.lex.Reset(end)
	}
	return err
}

// take takes what the value of a member says. It begins at start in the text.
func (r *reading) take(m *member, value jsonValue, start int) error {
	text, object := value[0] == '"', value[0] == '{'
	switch says := m.says; {
	case says == tokenCount:
		r.counts[m.count] = value.count() + 1
	case says == choiceNumber:
		r.zero = value.count() == 0
	case says == someChoices:
		if value[0] != 'n' {
			r.said |= someChoices
		}
	case says&(objectName|eventName) != 0 && text && value.is("error"):
		r.said |= namedError
	case says == eventName && text && value.is("message_stop"):
		r.said |= lastEvent
	case says == finishReason && text && len(value) > 2:
		if r.event.finish != "" {
			return r.again()
		}
		r.event.finish = value.text()
	case says == usageObject && object && value.isSet():
		if r.event.usage != nil {
			return r.again()
		}
		r.event.usage, r.event.usageStart = value, start
	case says&texts == 0:
	case text && len(value) == 2:
		r.said |= says & blank
	case text:
		r.event.textCount++
		r.event.textStart, r.event.textEnd = start, start+len(value)
		r.said |= says &^ blank
	case says&anyValue != 0 && value.isSet(), says&orObject != 0 && object && value.isSet() && !r.aiperf:
		r.said |= says
	}
	return nil
}

// again is about what is told twice, in different members: the first in the order of the shape counts.
func (r *reading) again() error {
	if r.careful {
		return nil
	}
	return errCareful
}

// jsonValue is a value of a JSON text, in place: a message may be as large as maxMessageSize, on each of thousands of connections.
type jsonValue []byte

// is reports whether a string has a value.
func (v jsonValue) is(text string) bool {
	return string(v[1:len(v)-1]) == text || bytes.IndexByte(v, '\\') >= 0 && v.text() == text
}

// finishReasons are those that servers are known to give.
var finishReasons = [...]string{"stop", "length", "tool_calls", "content_filter", "end_turn", "max_tokens", "tool_use", "stop_sequence", "pause_turn", "refusal"}

// text returns the value of a string. Of a long one it returns the beginning as it was written.
func (v jsonValue) text() string {
	for _, reason := range finishReasons {
		if string(v[1:len(v)-1]) == reason {
			return reason
		}
	}
	if len(v) > maxFailureText {
		return clip(string(v[1:maxFailureText]), maxFailureText)
	}
	text := new(string)
	json.Unmarshal(v, text) //nolint:errcheck // it is valid
	return *text
}

// isSet reports whether the value is another than null, false, zero and empty.
func (v jsonValue) isSet() bool {
	switch v[0] {
	case 'n', 'f':
		return false
	case 't':
		return true
	case '"':
		return len(v) > 2
	case '{', '[':
		return v[1] > ' ' && len(v) > 2 || len(trim(v[1:len(v)-1])) > 0
	}
	f, _ := strconv.ParseFloat(string(v), 64) // infinite where it is too large
	return f != 0
}

// maxCount is the largest count that is believed. The sum over millions of requests is a number, whatever their server says.
const maxCount = 1 << 40

// count returns a whole number, Unknown for another value.
func (v jsonValue) count() int64 {
	if v[0] != '-' && (v[0] < '0' || v[0] > '9') {
		return Unknown
	}
	n, err := jsonlex.Rounded(v)
	if err != nil || n < 0 || n > maxCount {
		return Unknown
	}
	return n
}

// A server makes tokens that have no text: those behind the end of the text under ignore_eos, parts of a character, what a parser of
// reasoning or tools holds back. The count of usage divides by all of them, so the instants must be those of all, too.

// isSign reports whether a message without text tells of a token nevertheless: usage has grown in it, or it is one without text behind
// the first token. Behind the finish reason nothing is.
func (d *decoder) isSign(e *event) bool {
	if d.finishedAt != Never && e.finish == "" || d.textOnly {
		return false
	}
	counts := 1 // of usage that must have come before, for this one to have grown
	switch {
	case e.finish != "" && d.api == MessagesAPI:
		counts = 2 // its first message has a count, and its last: others need not
	case e.blank && e.finish == "":
		counts = 0
	}
	if e.usage != nil && d.counts >= counts && d.readUsage(e.usage).Completion > d.lastCount() {
		return true
	}
	return e.blank && d.res.Chunks > 0
}

// lastCount returns the completion tokens of the usage before, 0 where there was none.
func (d *decoder) lastCount() int64 {
	switch {
	case d.api == MessagesAPI:
		return max(0, d.billed.Completion)
	case len(d.usage) > 0:
		return max(0, d.readUsage(d.usage).Completion)
	}
	return 0
}

// withoutSign counts a message without text that is no sign of a token, though one may have been made. The first of a stream opens it.
func (d *decoder) withoutSign(e *event) {
	if e.finish == "" && d.finishedAt == Never {
		if d.opened {
			d.silent++
		}
		d.opened = true
	}
}

// Bounds of what counts as silent.
const (
	silentShare = 5                     // percent, from which on it is told
	silentTail  = 10 * time.Millisecond // and two gaps between messages: a shorter time before the finish reason is no silence
)

// silentPercent estimates how many of the tokens of an answer no message shows, in percent; 0 where they are few. They are messages without
// text that are no sign, or the time between the last token and the finish reason, where more tokens are counted than messages have come.
func (d *decoder) silentPercent() int {
	res := d.res
	if res.Chunks == 0 {
		return 0
	}
	percent := 100 * d.silent / (d.silent + res.Chunks)
	tail, all := d.finishedAt-res.LastToken, d.finishedAt-res.FirstToken
	gap := (res.LastToken - res.FirstToken) / time.Duration(max(1, res.Chunks-1))
	if d.finishedAt != Never && tail > max(silentTail, 2*gap) && res.Usage.OSL() > int64(res.Chunks+d.silent) {
		percent = max(percent, int(100*tail/all))
	}
	if percent < silentShare {
		return 0
	}
	return percent
}
