// Package payload turns a prompt of the cache into the JSON body of a request to an OpenAI-compatible server.
//
// An [Encoder] holds what all bodies of a run share: the [Endpoint], the position of the cache-bust [Marker], and the
// fields behind the prompt ([Fields]). Its Body method fills a pooled [Body], which writes itself to a connection straight
// from the mapped files:
//
//	encoder, warnings, err := payload.NewEncoder(cache, payload.Options{Endpoint: payload.ChatCompletions, Model: "m"})
//	...
//	body, err := encoder.Body(trace, turn, marker, maxTokens)
//	...
//	defer body.Release()
//	_, err = body.WriteTo(connection)
//
// A body in steady state allocates nothing.
package payload

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/preset"
)

// Options say how the bodies of a run are written. The zero value is a chat request with the fields that vLLM and SGLang
// take, and the marker that fits the cache.
type Options struct {
	Endpoint Endpoint
	Model    string // field "model"
	Parts    bool   // contents are lists of one text part, else strings, of an endpoint that takes messages
	Marker   MarkerTarget
	Fields   Fields
}

// Validate returns an error that names the first field that cannot be used.
func (o Options) Validate() error {
	if int(o.Endpoint) >= len(endpointTable) {
		return fmt.Errorf("endpoint %d: want %d to %d", o.Endpoint, ChatCompletions, len(endpointTable)-1)
	}
	if err := o.Marker.Validate(); err != nil {
		return err
	}
	if err := o.Fields.Validate(); err != nil {
		return err
	}
	if list := o.Contradictions(); len(list) > 0 {
		return list[0]
	}
	return nil
}

// Contradictions returns what the options of bodies have against each other, and against what their endpoint takes.
func (o Options) Contradictions() (list []preset.Text) {
	f, row := o.Fields, &endpointTable[o.Endpoint]
	if f.PerChunkUsage && f.OmitStreamOptions {
		list = append(list, "{per-chunk-usage=} and {no-stream-options}: stream_options asks for usage in every message: leave one of them out")
	}
	if f.Length != LengthByEndpoint && !slices.Contains(row.lengths, f.Length) {
		list = append(list, preset.Text("{max-tokens-field=}: {payload=} wants "+row.lengths[0]))
	}
	if o.Parts && !o.Endpoint.Roles() {
		var others []string
		for _, e := range Endpoints() {
			if e.Roles() {
				others = append(others, e.String())
			}
		}
		list = append(list, preset.Text("{content-parts=}: {payload=} sends no messages: want "+strings.Join(others, " or ")))
	}
	return list
}

// Encoder writes the bodies of one run. Its methods may be called by several goroutines at a time.
type Encoder struct {
	cache  *mmapcache.Cache
	form   form
	marker MarkerTarget
	tail   tail
	open   tail // of a request that asks for no length
}

// unknownLength is the length that is asked for where none is known, and the endpoint wants one, as AIPerf 0.13.0 asks for.
const unknownLength = 1024

// NewEncoder returns an encoder for the prompts of a cache. conflicts name, in one line each, the members of Fields.Extra
// that are left out of the bodies, because the run needs another value.
func NewEncoder(c *mmapcache.Cache, o Options) (e *Encoder, conflicts []string, err error) {
	if err := o.Validate(); err != nil {
		return nil, nil, err
	}
	if _, err := o.Endpoint.EncodingOf(c); err != nil {
		return nil, nil, err
	}
	if target := o.Marker.Resolve(c); c.HasTexts() && target != NoMarker && target.Place().After {
		return nil, nil, fmt.Errorf("marker %s: a marker stands before a recorded message, not behind it: want %s, %s or %s", target, FirstTurnPrefix, SystemPrefix, NoMarker)
	}
	e = &Encoder{cache: c, form: form{o.Endpoint, o.Parts}, marker: o.Marker.Resolve(c)}
	if e.tail, conflicts, err = newTail(o.Endpoint, o.Model, o.Fields); err != nil {
		return nil, nil, err
	}
	if slices.Contains(endpointTable[o.Endpoint].lengths, NoLength) {
		o.Fields.Length = NoLength
	}
	o.Fields.OmitIgnoreEOS = true // such an answer would not end
	e.open, _, err = newTail(o.Endpoint, o.Model, o.Fields)
	return e, conflicts, err
}

// Path returns the path of the endpoint that the bodies are for.
func (e *Encoder) Path() string { return e.form.endpoint.Path() }

// PerChunkUsage reports whether the bodies ask for token counts in every message of an answer.
func (e *Encoder) PerChunkUsage() bool { return e.tail.perChunkUsage }

// Body returns the body of one turn, which asks for maxTokens tokens, 0 for no length. The caller releases it. An error says that the cache
// cannot be read, and names the file.
func (e *Encoder) Body(t *mmapcache.RenderedTrace, turn int, m Marker, maxTokens int) (*Body, error) {
	b := bodies.Get().(*Body)
	err := e.cache.Guard(func() error {
		b.fill(e, t, turn, m, maxTokens)
		return nil
	})
	if err != nil {
		b.Release()
		return nil, err
	}
	return b, nil
}

// Probe returns a body of the same fields with the beginning of the prompt corpus as its prompt, which asks for one token.
// promptTokens is the length of that prompt, at most limit.
func (e *Encoder) Probe(limit int) (body []byte, promptTokens int, err error) {
	endpoint := e.form.endpoint
	text, promptTokens, err := e.cache.Sample(endpoint.Encoding(), limit)
	if err != nil {
		return nil, 0, err
	}
	body = append(append(body, '{'), endpointTable[endpoint].head...)
	if endpoint.Encoding() == mmapcache.IDs {
		body = append(body, bytes.TrimSuffix(text, []byte(","))...)
	} else {
		m := mmapcache.Message{Role: mmapcache.User, ToolTurn: mmapcache.None}
		body = append(append(append(body, e.form.opening(&m)...), text...), e.form.closing(&m)...)
	}
	return e.tail.append(body, 1), promptTokens, nil
}
