package wire

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/fixtures"
	"github.com/agentx/agentx/replay/preset"
)

type wantMessage struct {
	Fields [][]*string
	Data   string
}

func toWant(raw []byte) wantMessage {
	m := parseMessage(raw)
	w := wantMessage{Data: excerpt(m.data.text)}
	for l := range sseLines(raw) {
		name, value := string(l.name), excerpt(l.value)
		if l.goesOn {
			*w.Fields[len(w.Fields)-1][1] += `\n` + value
			continue
		}
		pair := []*string{&name, nil}
		if l.hasValue {
			pair[1] = &value
		}
		w.Fields = append(w.Fields, pair)
	}
	return w
}

// messages returns the messages of a stream that arrives in the given pieces.
func messages(pieces ...[]byte) []wantMessage {
	var got []wantMessage
	s := splitter{}
	s.emit = func(raw []byte) {
		if hasCRCR(raw) {
			splitInner(raw, s.emit)
		} else if m := toWant(raw); len(m.Fields) > 0 {
			got = append(got, m)
		}
	}
	for _, p := range pieces {
		s.feed(p)
	}
	s.finish()
	return got
}

// Covers T-40.
func TestVectorsSSE(t *testing.T) {
	type in struct{ Text, Hex string }
	type want struct{ Messages []wantMessage }
	fixtures.EachCase(t, "sse", fixtures.Counts{13, 13, 13}, func(t *testing.T, _ fixtures.Case, in in, want want) {
		data := []byte(in.Text)
		if in.Hex != "" {
			var err error
			data, err = hex.DecodeString(in.Hex)
			require.NoError(t, err)
		}
		for i := range len(data) + 1 {
			require.Equal(t, want.Messages, messages(data[:i], data[i:]), "split at %d", i)
			for j := i; j <= len(data); j++ {
				require.Equal(t, want.Messages, messages(data[:i], data[i:j], data[j:]), "split at %d and %d", i, j)
			}
		}
	})
}

// Covers T-39.
func TestVectorsUsage(t *testing.T) {
	type in struct{ Usage json.RawMessage }
	type want struct {
		Input, Output, Reasoning, OSL *int64
		CacheRead                     *int64 `json:"cache_read"`
		CacheWrite                    *int64 `json:"cache_write"`
		CacheMiss                     *int64 `json:"cache_miss"`
	}
	known := func(n int64) *int64 {
		if n == Unknown {
			return nil
		}
		return &n
	}
	fixtures.EachCase(t, "usage", fixtures.Counts{13, 13, 13}, func(t *testing.T, _ fixtures.Case, in in, want want) {
		u := readUsage(eventOf([]byte(`{"usage":`+string(in.Usage)+`}`), OpenAI, false).usage, OpenAI)
		require.Equal(t, want.Input, known(u.Prompt))
		require.Equal(t, want.Output, known(u.Output()))
		require.Equal(t, want.Reasoning, known(u.Reasoning))
		require.Equal(t, want.OSL, known(u.OSL()))
		require.Equal(t, want.CacheRead, known(u.Cached))
		require.Equal(t, want.CacheWrite, known(u.CacheWrite))
		require.Equal(t, want.CacheMiss, known(u.CacheMiss))
	})
}

func TestVectorsOverflowText(t *testing.T) {
	type in struct {
		Body    string
		Needles []string
	}
	type want struct{ Overflow bool }
	fixtures.EachCase(t, "overflow_text", fixtures.Counts{11, 11, 11}, func(t *testing.T, _ fixtures.Case, in in, want want) {
		c, err := New("http://host", Options{OverflowPatterns: in.Needles})
		require.NoError(t, err)
		require.Equal(t, want.Overflow, c.newFailure(HTTPStatus, 400, "400 Bad Request: "+in.Body).Category == ContextOverflow)
	})
}

type requestEvent struct {
	AtNS   int64 `json:"at_ns"`
	Data   *string
	Fields [][2]string
}

func (e *requestEvent) text() string {
	var b strings.Builder
	if e.Data != nil {
		b.WriteString("data: " + *e.Data + "\n")
	}
	for _, f := range e.Fields {
		if f[0] != "comment" {
			b.WriteString(f[0])
		}
		b.WriteString(": " + f[1] + "\n")
	}
	return b.String() + "\n"
}

// kind returns the name of an event in the vectors.
func (e *requestEvent) kind() string {
	m := parseMessage([]byte(e.text()))
	if m.isError {
		return "error_event"
	}
	if string(m.data.text) == "[DONE]" {
		return "done"
	}
	switch ev := eventOf(m.data.text, OpenAI, false); {
	case ev.failed:
		return "error"
	case ev.reasoning:
		return "reasoning"
	case ev.toolCall:
		return "tool_call"
	case ev.content:
		return "content"
	case ev.usage != nil:
		return "usage"
	case ev.finish != "":
		return "finish"
	}
	return "ignored"
}

// requestIn is the input of a vector of the group request.
type requestIn struct {
	Start       int64 `json:"start_ns"`
	Events      []requestEvent
	Status      int
	Body        string
	Transport   string
	CancelledAt int64 `json:"cancelled_at"`
	Strict      *bool `json:"strict_streams"`
	PerChunk    bool  `json:"per_chunk_usage"`
}

// failure returns how a request fails whose answer is that of the vector, on a connection.
func (in *requestIn) failure(t *testing.T, o Options) *Failure {
	stream := eventHead + "\r\n"
	for _, e := range in.Events {
		stream += e.text()
	}
	switch {
	case in.Status != 0:
		res, _ := exchange(t, o, sized(fmt.Sprintf("HTTP/1.1 %d Why\r\n", in.Status), in.Body))
		return res.Err
	case in.Transport == "" && in.CancelledAt == 0:
		res, _ := exchange(t, o, stream)
		return res.Err
	}
	if in.Transport == "timeout" {
		o.Timeout = time.Millisecond
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c := newClient(t, serve(t, func(p *peer) {
		switch {
		case in.Transport == "timeout": // it may come before the request is written
		case in.Transport == "connection":
			p.request()
			p.SetLinger(0)
			return
		default:
			p.request()
			p.say(stream)
		}
		io.Copy(io.Discard, p.in) // until the client is gone
	}), o)
	return c.Do(ctx, &Request{Path: "/", Stream: true, Body: textBody("{}"), OnFirstToken: func(time.Duration) { cancel() }}).Err
}

// TestVectorsRequest feeds the events of the group to the decoder, under each preset that a vector names; those that fail also through
// a connection. Package report tests the metrics of the instants.
//
// Covers T-39, T-54.
func TestVectorsRequest(t *testing.T) {
	type want struct {
		Kinds []string
		Valid bool
		Error *struct {
			Type Category
			Code *int // nil: any
		}
		Metrics map[string]any
	}
	fixtures.EachCase(t, "request", fixtures.Counts{28, 27, 27}, func(t *testing.T, c fixtures.Case, in requestIn, want want) {
		switches, ok := preset.Named(c.Preset)
		require.True(t, ok)
		if in.Strict != nil { // the input overrides the preset
			switches.LenientStreams = !*in.Strict
		}
		res := newResult(time.Duration(in.Start))
		var d decoder
		d.reset(responseState{res: &res, events: true, perChunk: in.PerChunk, textOnly: switches.TextTokens, lenient: switches.LenientStreams, aiperf: switches.AIPerfForms})
		kinds := []string{}
		for _, e := range in.Events {
			kinds = append(kinds, e.kind())
			require.NoError(t, d.feed([]byte(e.text()), time.Duration(e.AtNS)))
		}
		require.Equal(t, want.Kinds, kinds)
		category, _ := d.finish()
		if !want.Valid {
			f := in.failure(t, Options{LenientStreams: switches.LenientStreams})
			require.NotNil(t, f)
			require.Equal(t, want.Error.Type, f.Category)
			if want.Error.Code != nil {
				require.Equal(t, *want.Error.Code, f.Code)
			}
			return
		}
		require.Empty(t, category)
		require.Equal(t, want.Metrics["inter_chunk_latency_ns"], gaps(res.Contents))
		for name, got := range map[string]time.Duration{
			"time_to_first_token_ns":        since(res.FirstToken, res.Sent),
			"time_to_second_token_ns":       since(res.SecondToken, res.FirstToken),
			"time_to_first_output_token_ns": since(res.FirstOutput, res.Sent),
			"request_latency_ns":            since(res.LastToken, res.Sent),
			"request_end_ns":                res.LastMessage,
			"input_sequence_length":         time.Duration(res.Usage.Prompt),
			"output_token_count":            time.Duration(res.Usage.Output()),
			"reasoning_token_count":         time.Duration(res.Usage.Reasoning),
			"output_sequence_length":        time.Duration(res.Usage.OSL()),
			"first_chunk_tokens":            time.Duration(res.FirstChunkTokens),
		} {
			switch w := want.Metrics[name].(type) {
			case float64:
				require.EqualValues(t, w, got, name)
			case nil:
				if name != "first_chunk_tokens" || !in.PerChunk { // a report leaves out a count that cannot be used
					require.Equal(t, Never, got, name)
				}
			}
		}
	})
}

// gaps returns the times between content messages, as a vector has them.
func gaps(c Contents) any {
	var list []any
	last := Never
	for at := range c.All() {
		if last != Never {
			list = append(list, float64(at-last))
		}
		last = at
	}
	if list == nil {
		return nil
	}
	return list
}

func since(t, from time.Duration) time.Duration {
	if t == Never {
		return Never
	}
	return t - from
}
