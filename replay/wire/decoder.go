package wire

import (
	"bytes"
	"time"

	"github.com/agentx/agentx/internal/jsonlex"
)

// maxMessageSize bounds one message of a stream and a body that is no stream, bytes.
const maxMessageSize = 8 << 20

// decoder decodes the body of a 2xx response into a Result, piece by piece as it arrives. It has no clock: the instant of a
// message is the arrival of the piece that completed it.
type decoder struct {
	splitter splitter // of a body that is no stream, its pending bytes alone are used
	usage    []byte   // the last usage object, still JSON
	template template // of the last message with content
	contents Contents // of the response; the result gets a copy

	responseState
}

// responseState is the part of a decoder that is reset with every response.
type responseState struct {
	res      *Result
	notify   func(time.Duration) // Request.OnFirstToken
	payload  func([]byte)        // Request.OnPayload
	perChunk bool                // Request.PerChunkUsage
	lenient  bool                // Options.LenientStreams
	aiperf   bool                // Options.AIPerfForms
	textOnly bool                // Options.TextTokens
	events   bool                // the body is a stream of server-sent events, else one JSON object
	api      API                 // Request.API
	media    string              // content type of the answer, where that is no stream of events
	billed   Usage               // of the usage objects of the Messages API so far

	begun       bool          // it is known whether the body is a stream
	stray       string        // the first line of a stream that was no field, and no JSON that says more
	arrived     time.Duration // arrival of the last piece
	completion  int64         // the largest number of completion tokens in a content message
	bursts      bursts        // of the content messages
	counts      int           // messages with a usage
	finishedAt  time.Duration // the first finish reason came
	opened      bool          // a message without text has come
	silent      int           // further ones that were no sign of a token
	done        bool          // [DONE] has come: later messages are ignored
	failure     Category      // of the stream; empty: none
	failureText string        // text of the message that failed
}

// reset prepares the decoder for another response. It keeps its buffers unless they have grown large.
func (d *decoder) reset(r responseState) {
	const keep = 64 << 10
	if cap(d.splitter.pending) > keep {
		d.splitter.pending = nil
	}
	if d.splitter.emit == nil {
		d.splitter.emit = d.onMessage
	}
	d.contents.reset()
	if cap(d.usage) > keep {
		d.usage = nil
	}
	d.splitter.pending, d.usage, d.responseState = d.splitter.pending[:0], d.usage[:0], r
	d.billed, d.splitter.aiperf = NoUsage, r.aiperf
	d.begun, d.finishedAt = r.aiperf, Never
}

// feed adds the next piece of the body, which it does not keep.
func (d *decoder) feed(p []byte, arrived time.Duration) error {
	d.arrived = arrived
	if !d.begun {
		p = d.begin(p)
	}
	if d.events && d.begun {
		d.splitter.feed(p)
	} else {
		d.splitter.pending = append(d.splitter.pending, p...)
	}
	if len(d.splitter.pending) > maxMessageSize {
		return errMessageTooLong
	}
	return nil
}

// byteOrderMark may precede a text.
var byteOrderMark = []byte("\xef\xbb\xbf")

// begin looks at the first bytes of a body. It leaves out a byte order mark, and finds server-sent events also where the content type
// names something else, as it does behind some proxies. It returns what is to be decoded; as long as too little has come to tell,
// all of it so far.
func (d *decoder) begin(p []byte) []byte {
	if held := d.splitter.pending; len(held) > 0 {
		p = append(held, p...)
		d.splitter.pending = p[:0]
	}
	text, whole := bytes.CutPrefix(p, byteOrderMark)
	if !whole && bytes.HasPrefix(byteOrderMark, p) {
		return p
	}
	if !d.events {
		is, sure := startsEvents(text)
		if !sure {
			return p
		}
		d.events, d.res.EventsAs = is, ""
		if is {
			d.res.EventsAs = d.media
		}
	}
	d.begun = true
	return text
}

// startsEvents reports whether a text begins with a field of server-sent events, or a comment. It is not sure of one that is too short.
func startsEvents(text []byte) (is, sure bool) {
	text = bytes.TrimLeft(text, " \t\r\n")
	sure = true
	for _, field := range []string{"data:", "event:", "id:", "retry:", ":"} {
		n := min(len(field), len(text))
		if string(text[:n]) == field[:n] {
			is, sure = is || n == len(field), sure && n == len(field)
		}
	}
	return is, is || sure
}

// onMessage decodes one message of a stream. Nearly all messages are one data line, which is read in place.
func (d *decoder) onMessage(raw []byte) {
	if d.done || len(raw) == 0 {
		return
	}
	if d.payload == nil && d.template.matches(raw) {
		d.onEvent(&d.template.event, nil)
		return
	}
	if raw[0] == ':' && !bytes.ContainsAny(raw, "\r\n") { // a comment, such as servers send to keep a connection open
		d.res.LastMessage = d.arrived
		return
	}
	if payload, ok := d.dataOf(raw); ok {
		payload = trim(payload)
		if string(payload) == "[DONE]" {
			d.onDone()
			return
		}
		if e, ok := readEvent(payload, d.api, d.aiperf); ok && bytes.IndexByte(payload, '\n') < 0 && bytes.IndexByte(payload, '\r') < 0 {
			d.template.learn(raw, bytes.IndexByte(raw, '{'), &e)
			d.onEvent(&e, payload)
			return
		}
	}
	if !d.aiperf && hasCRCR(raw) {
		splitInner(raw, d.onMessage)
		return
	}
	d.parseMessage(raw)
}

// parseMessage decodes a message by the full rules.
func (d *decoder) parseMessage(raw []byte) {
	m := parseMessage(raw)
	if !m.hasFields {
		return
	}
	if m.isError {
		d.res.LastMessage = d.arrived
		d.fail(StreamEvent, m.errorText())
		return
	}
	if m.stray.lines > 0 && !d.aiperf {
		d.onStray(m.stray.text)
	}
	data := m.data.text
	if string(data) == "[DONE]" {
		d.onDone()
		return
	}
	e, _ := readEvent(data, d.api, d.aiperf)
	d.onEvent(&e, data)
}

// onStray looks at lines that are no field: a server that fails may write its error as it is, without "data:" before it.
func (d *decoder) onStray(text []byte) {
	e, _ := readEvent(text, d.api, d.aiperf)
	switch {
	case e.failed || e.hasData():
		d.onEvent(&e, text)
	case d.stray == "":
		d.stray = ": " + excerpt(trim(text))
	}
}

// onDone ends the stream.
func (d *decoder) onDone() {
	d.done = true
	d.res.LastMessage = d.arrived
}

// onEvent records the event of one payload in the result.
func (d *decoder) onEvent(e *event, payload []byte) {
	if d.payload != nil {
		d.payload(payload)
	}
	res := d.res
	res.LastMessage = d.arrived
	if e.failed {
		d.fail(StreamPayload, excerpt(trim(payload)))
		if !d.lenient {
			return
		}
	}
	if e.finish != "" {
		res.FinishReason = e.finish
		if d.finishedAt == Never {
			d.finishedAt = d.arrived
		}
		if !d.aiperf && (e.finish == "abort" || e.finish == "error") {
			d.fail(StreamPayload, "finish reason "+e.finish+": "+excerpt(trim(payload)))
		}
	}
	sign := !e.hasData() && d.isSign(e)
	if e.usage != nil {
		d.counts++
	}
	switch {
	case e.usage == nil:
	case d.api == MessagesAPI:
		d.billed.addBilled(e.usage, d.aiperf)
	case !d.aiperf && len(d.usage) > 0 && isZero(e.usage): // it would take away what the one before has told
	default:
		d.usage = append(d.usage[:0], e.usage...)
	}
	switch {
	case e.hasData() || sign:
		d.onContent(e)
	case e.blank:
		d.withoutSign(e)
	}
	if e.last {
		d.onDone()
	}
}

// onContent records an event with content, reasoning or a tool call, or another sign of tokens.
func (d *decoder) onContent(e *event) {
	res := d.res
	res.Chunks++
	res.LastToken = d.arrived
	if res.FirstOutput == Never && (e.content || e.toolCall) {
		res.FirstOutput = d.arrived
	}
	tokens := Unknown
	if e.usage != nil && d.perChunk {
		tokens = d.growth(d.readUsage(e.usage).Completion)
	}
	d.contents.Add(d.arrived-res.Sent, tokens)
	d.bursts.add(d.arrived)
	switch res.Chunks {
	case 1:
		res.FirstToken, res.FirstChunkTokens = d.arrived, tokens
		if d.notify != nil {
			d.notify(d.arrived)
		}
	case 2:
		res.SecondToken = d.arrived
	}
}

// growth returns the tokens that a message brought: how far the count of completion tokens has grown since the content message
// before. A count that has fallen says nothing.
func (d *decoder) growth(completion int64) int64 {
	if completion < d.completion {
		return Unknown
	}
	tokens := completion - d.completion
	d.completion = completion
	return tokens
}

// fail records the first failure of the stream. One that ends it replaces one that does not.
func (d *decoder) fail(category Category, text string) {
	if d.failure == "" || d.excusable() && category == StreamEvent {
		d.failure, d.failureText = category, text
	}
}

// finished reports whether the rest of the stream changes nothing: it has ended or failed.
func (d *decoder) finished() bool { return d.done || d.failure != "" && !d.excusable() }

// excusable reports whether content before or after the failure makes the answer a success.
func (d *decoder) excusable() bool { return d.lenient && d.failure == StreamPayload }

// finish ends the body: the pending bytes are its last message. It returns why the response failed, an empty category when
// it did not.
func (d *decoder) finish() (category Category, text string) {
	if d.events {
		d.splitter.finish()
	} else {
		d.decodeSingleBody(trim(d.splitter.pending))
	}
	if len(d.usage) > 0 {
		d.res.Usage = d.readUsage(d.usage)
	}
	if d.api == MessagesAPI {
		d.res.Usage = d.billed.withCached()
	}
	d.res.Silent = d.silentPercent()
	d.res.Contents, d.res.Burst = d.contents.clone(), d.bursts.typical()
	return d.verdict()
}

// decodeSingleBody decodes a body that is no stream.
func (d *decoder) decodeSingleBody(payload []byte) {
	if len(payload) == 0 {
		return
	}
	e, _ := readEvent(payload, d.api, d.aiperf)
	d.onEvent(&e, payload)
}

// verdict returns why a response failed whose body has ended, an empty category when it did not.
func (d *decoder) verdict() (Category, string) {
	switch {
	case d.lenient && d.res.Chunks > 0 && d.failure != StreamEvent:
		return "", ""
	case d.failure != "":
		return d.failure, d.failureText
	case d.events && !d.done && d.res.FinishReason == "":
		return StreamTruncated, "the stream ended with neither a finish reason nor [DONE]" + d.stray
	case d.res.Chunks == 0 && d.events:
		return NoContent, "the stream had no content" + d.stray
	case d.res.Chunks == 0:
		return NoContent, "the response had no content: " + excerpt(trim(d.splitter.pending))
	}
	return "", ""
}

// trim cuts blanks and line ends off both sides.
func trim(b []byte) []byte { return bytes.Trim(b, " \t\r\n") }

// template is a message without its only text and without the numbers of its usage. A message that differs from it in nothing else
// means the same event, and this comparison is many times faster than reading it. Most messages of a stream match the one before.
type template struct {
	prefix   []byte   // before the text, with its first quote
	rest     []byte   // what follows, with its last quote
	literals [][]byte // pieces of rest with a number between two
	event    event
	usage    int // where the usage begins behind the text; it ends tail before the message does
	tail     int
}

// maxTemplate bounds the messages that become a template, bytes.
const maxTemplate = 4 << 10

// learn makes the template of a message. The payload of e begins at offset in the message.
func (t *template) learn(message []byte, offset int, e *event) {
	end := offset + e.textEnd - 1
	usage := offset + e.usageStart
	if e.textCount != 1 || len(message) > maxTemplate || e.usage != nil && usage < end {
		return
	}
	t.prefix = append(t.prefix[:0], message[:offset+e.textStart+1]...)
	t.rest = append(t.rest[:0], message[end:]...)
	rest := t.rest
	t.literals, t.event = t.literals[:0], *e
	if e.usage != nil {
		t.usage, t.tail = usage-end, len(message)-usage-len(e.usage)
		rest = t.cutNumbers(rest)
	}
	t.literals = append(t.literals, rest)
}

// cutNumbers appends the literals of what follows the text, as far as the last number of the usage, and returns the rest.
func (t *template) cutNumbers(rest []byte) []byte {
	start, inText := 0, false
	for i := t.usage; i < len(rest)-t.tail; i++ {
		switch c := rest[i]; {
		case inText && c == '\\':
			i++
		case c == '"':
			inText = !inText
		case !inText && (rest[i-1] == ':' || rest[i-1] == ' '):
			if n := wholeNumber(rest[i:]); n > 0 {
				t.literals = append(t.literals, rest[start:i])
				start, i = i+n, i+n-1
			}
		}
	}
	return rest[start:]
}

// wholeNumber returns the length of a whole number as JSON has it, 0 where there is none.
func wholeNumber(b []byte) (n int) {
	for n < len(b) && b[n]-'0' <= 9 {
		n++
	}
	if n > 1 && b[0] == '0' {
		return 0
	}
	return n
}

// matches reports whether a message differs from the template in its text and in numbers of its usage alone, and the text is not
// empty. The event then has the usage of the message.
func (t *template) matches(message []byte) bool {
	if len(t.prefix) == 0 || !bytes.HasPrefix(message, t.prefix) {
		return false
	}
	end, _ := jsonlex.StringEnd(message, len(t.prefix)-1)
	if end-1 <= len(t.prefix) {
		return false
	}
	rest := message[end-1:]
	for i, literal := range t.literals {
		if i > 0 {
			n := wholeNumber(rest)
			if n == 0 {
				return false
			}
			rest = rest[n:]
		}
		if !bytes.HasPrefix(rest, literal) {
			return false
		}
		rest = rest[len(literal):]
	}
	if len(rest) > 0 {
		return false
	}
	if t.event.usage != nil {
		t.event.usage = message[end-1+t.usage : len(message)-t.tail]
	}
	return true
}

// A burst is several messages that arrive as good as together: some proxy, or the server, had held them back.
const (
	burstSpan = time.Millisecond // from its first message to its last
	burstSize = 8                // messages that it has at least
)

// bursts finds the bursts of an answer.
type bursts struct {
	start          time.Duration // of the messages that came together last
	size           int           // how many these are
	n, within, all int           // bursts before them, messages of those, and all messages but the last ones
}

// add adds a message, in the order of their arrivals.
func (b *bursts) add(at time.Duration) {
	if b.size > 0 && at-b.start <= burstSpan {
		b.size++
		return
	}
	*b = b.closed()
	b.start, b.size = at, 1
}

// closed returns b behind its last messages.
func (b *bursts) closed() bursts {
	c := bursts{n: b.n, within: b.within, all: b.all + b.size}
	if b.size >= burstSize {
		c.n, c.within = b.n+1, b.within+b.size
	}
	return c
}

// typical returns how many messages a burst has on average, where more than half of all messages came in bursts; else 0. The instants of
// such an answer tell when a buffer was emptied, not when tokens were made.
func (b *bursts) typical() int {
	c := b.closed()
	if 2*c.within <= c.all {
		return 0
	}
	return (c.within + c.n/2) / c.n
}
