package wire

import (
	"bytes"
	"fmt"
	"time"
)

// maxEvent bounds one message of a stream, and a whole body that is no stream.
const maxEvent = 8 << 20

var errTooLong = fmt.Errorf("response has a message of more than %d bytes", maxEvent)

// decoder turns the body of a 200 response, piece by piece as it arrives, into facts of a Result. It has no clock:
// every message bears the arrival of the piece that completed it.
type decoder struct {
	stream splitter // of server-sent events; of a plain body, it only gathers the bytes
	usage  []byte   // the last usage object, still JSON
	shape  shape    // of the last message with content

	response
}

// response is the part of a decoder that starts afresh with every response.
type response struct {
	res      *Result
	notify   func(time.Duration) // Request.OnFirstToken
	lenient  bool
	perChunk bool // Request.PerChunkUsage
	events   bool // server-sent events; else one JSON body

	at      time.Duration // arrival of the last piece
	done    bool          // [DONE] came: what follows says nothing
	failure Category      // of the stream, empty when there was none
	text    string        // what the failing message said
}

// reset makes the decoder ready for another response; its buffers are kept unless they have grown large.
func (d *decoder) reset(r response) {
	const keep = 64 << 10
	if cap(d.stream.pending) > keep {
		d.stream.pending = nil
	}
	if d.stream.each == nil {
		d.stream.each = d.message
	}
	d.stream.pending, d.usage, d.response = d.stream.pending[:0], d.usage[:0], r
}

// feed takes the next piece of the body. It does not keep p.
func (d *decoder) feed(p []byte, at time.Duration) error {
	d.at = at
	if d.events {
		d.stream.feed(p)
	} else {
		d.stream.pending = append(d.stream.pending, p...)
	}
	if len(d.stream.pending) > maxEvent {
		return errTooLong
	}
	return nil
}

// message handles one message of a stream. Nearly all are one data line, which is read where it lies.
func (d *decoder) message(raw []byte) {
	if d.done || len(raw) == 0 {
		return
	}
	if d.shape.fits(raw) {
		d.event(&d.shape.event, nil)
		return
	}
	if payload, ok := bytes.CutPrefix(raw, []byte("data:")); ok {
		payload = trim(payload)
		if string(payload) == "[DONE]" {
			d.end()
			return
		}
		if e, sure := skimEvent(payload); sure {
			d.shape.learn(raw, bytes.IndexByte(raw, '{'), &e)
			d.event(&e, payload)
			return
		}
	}
	d.slowMessage(raw)
}

func (d *decoder) slowMessage(raw []byte) {
	m := parseMessage(raw)
	if len(m.fields) == 0 {
		return
	}
	data := m.data()
	if m.isError() {
		d.res.LastMessage = d.at
		d.fail(StreamEvent, m.errorText())
		return
	}
	if data == "[DONE]" {
		d.end()
		return
	}
	e := decodeEvent([]byte(data))
	d.event(&e, []byte(data))
}

// end is the [DONE] of a stream.
func (d *decoder) end() {
	d.done = true
	d.res.LastMessage = d.at
}

// event books one payload.
func (d *decoder) event(e *event, payload []byte) {
	res := d.res
	res.LastMessage = d.at
	if e.failed {
		d.fail(StreamPayload, string(trim(payload)))
		return
	}
	if e.finish != "" {
		res.FinishReason = e.finish
	}
	if e.usage != nil {
		d.usage = append(d.usage[:0], e.usage...)
	}
	if e.hasData() {
		d.content(e)
	}
}

func (d *decoder) content(e *event) {
	res := d.res
	res.Chunks++
	res.LastToken = d.at
	if res.FirstOutput == Never && (e.content || e.toolCall) {
		res.FirstOutput = d.at
	}
	switch res.Chunks {
	case 1:
		res.FirstToken = d.at
		if e.usage != nil && d.perChunk {
			res.FirstChunkTokens = parseUsage(e.usage).Completion
		}
		if d.notify != nil {
			d.notify(d.at)
		}
	case 2:
		res.SecondToken = d.at
	}
}

// fail notes the first failure of the stream.
func (d *decoder) fail(category Category, text string) {
	if d.failure == "" {
		d.failure, d.text = category, text
	}
}

// over says that the stream has ended or failed, and the rest of it changes nothing.
func (d *decoder) over() bool {
	return d.done || d.failure != "" && !d.lenient
}

// finish ends the body: what is pending is the last message. It returns the verdict on a response that ended
// cleanly, an empty category when it was good.
func (d *decoder) finish() (category Category, text string) {
	if d.events {
		d.stream.finish()
	} else {
		d.whole(trim(d.stream.pending))
	}
	if len(d.usage) > 0 {
		d.res.Usage = parseUsage(d.usage)
	}
	return d.verdict()
}

// whole handles a body that is no stream.
func (d *decoder) whole(payload []byte) {
	if len(payload) == 0 {
		return
	}
	e, sure := skimEvent(payload)
	if !sure {
		e = decodeEvent(payload)
	}
	d.event(&e, payload)
}

func (d *decoder) verdict() (Category, string) {
	forgiven := d.lenient && d.res.Chunks > 0
	switch {
	case d.failure == StreamEvent, d.failure != "" && !forgiven:
		return d.failure, d.text
	case d.events && !d.done && d.res.FinishReason == "" && !forgiven:
		return StreamTruncated, "the stream ended with neither a finish reason nor [DONE]"
	case d.res.Chunks == 0 && d.events:
		return NoContent, "the stream had no content"
	case d.res.Chunks == 0:
		return NoContent, "the response had no content: " + string(trim(d.stream.pending))
	}
	return "", ""
}

// trim cuts blanks and line ends off both sides.
func trim(b []byte) []byte { return bytes.Trim(b, " \t\r\n") }
