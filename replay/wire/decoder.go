package wire

import (
	"bytes"
	"time"
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
	perChunk bool                // Request.PerChunkUsage
	lenient  bool                // Options.LenientStreams
	events   bool                // the body is a stream of server-sent events, else one JSON object
	api      API                 // Request.API
	billed   Usage               // of the usage objects of the Messages API so far

	arrived     time.Duration // arrival of the last piece
	completion  int64         // the largest number of completion tokens in a content message
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
	d.billed = NoUsage
}

// feed adds the next piece of the body, which it does not keep.
func (d *decoder) feed(p []byte, arrived time.Duration) error {
	d.arrived = arrived
	if d.events {
		d.splitter.feed(p)
	} else {
		d.splitter.pending = append(d.splitter.pending, p...)
	}
	if len(d.splitter.pending) > maxMessageSize {
		return errMessageTooLong
	}
	return nil
}

// onMessage decodes one message of a stream. Nearly all messages are one data line, which is read in place.
func (d *decoder) onMessage(raw []byte) {
	if d.done || len(raw) == 0 {
		return
	}
	if d.template.matches(raw) {
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
		if e, sure := d.skim(payload); sure {
			d.template.learn(raw, bytes.IndexByte(raw, '{'), &e)
			d.onEvent(&e, payload)
			return
		}
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
	data := m.data.text
	if string(data) == "[DONE]" {
		d.onDone()
		return
	}
	e := d.decode(data)
	d.onEvent(&e, data)
}

// onDone ends the stream.
func (d *decoder) onDone() {
	d.done = true
	d.res.LastMessage = d.arrived
}

// onEvent records the event of one payload in the result.
func (d *decoder) onEvent(e *event, payload []byte) {
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
	}
	switch {
	case e.usage == nil:
	case d.api == MessagesAPI:
		d.billed.addBilled(e.usage)
	default:
		d.usage = append(d.usage[:0], e.usage...)
	}
	if e.hasData() {
		d.onContent(e)
	}
	if e.last {
		d.onDone()
	}
}

// onContent records an event with content, reasoning or a tool call.
func (d *decoder) onContent(e *event) {
	res := d.res
	res.Chunks++
	res.LastToken = d.arrived
	if res.FirstOutput == Never && (e.content || e.toolCall) {
		res.FirstOutput = d.arrived
	}
	tokens := Unknown
	if e.usage != nil && d.perChunk {
		tokens = d.growth(d.completionOf(e.usage))
	}
	d.contents.Add(d.arrived-res.Sent, tokens)
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
		d.res.Usage = parseUsage(d.usage)
	}
	if d.api == MessagesAPI {
		d.res.Usage = d.billed.withCached()
	}
	d.res.Contents = d.contents.clone()
	return d.verdict()
}

// decodeSingleBody decodes a body that is no stream.
func (d *decoder) decodeSingleBody(payload []byte) {
	if len(payload) == 0 {
		return
	}
	e, sure := d.skim(payload)
	if !sure {
		e = d.decode(payload)
	}
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
		return StreamTruncated, "the stream ended with neither a finish reason nor [DONE]"
	case d.res.Chunks == 0 && d.events:
		return NoContent, "the stream had no content"
	case d.res.Chunks == 0:
		return NoContent, "the response had no content: " + excerpt(trim(d.splitter.pending))
	}
	return "", ""
}

// trim cuts blanks and line ends off both sides.
func trim(b []byte) []byte { return bytes.Trim(b, " \t\r\n") }
