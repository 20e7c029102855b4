package wire

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/fixtures"
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

// slowBody is a body of zeros whose size takes time to tell. The client asks for it while it waits for a connection, before it
// sends, and while it sends: so a test says how long these steps take.
type slowBody struct {
	size  int
	waits []time.Duration
}

func (b *slowBody) Size() int64 {
	if len(b.waits) > 0 {
		time.Sleep(b.waits[0])
		b.waits = b.waits[1:]
	}
	return int64(b.size)
}

func (b *slowBody) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(make([]byte, b.size))
	return int64(n), err
}

// traced is a vector of the steps of a request.
type traced struct {
	WaitStart     int64 `json:"wait_start_ns"`
	WaitEnd       int64 `json:"wait_end_ns"`
	ConnectStart  int64 `json:"connect_start_ns"`
	ConnectEnd    int64 `json:"connect_end_ns"`
	SendStart     int64 `json:"send_start_ns"`
	SendEnd       int64 `json:"send_end_ns"`
	FirstByte     int64 `json:"first_byte_ns"`
	LastByte      int64 `json:"last_byte_ns"`
	BytesSent     int   `json:"bytes_sent"`
	BytesReceived int   `json:"bytes_received"`
	Reused        bool
}

// answerSlowly reads a request and answers it, each step as long as the vector says.
func (v *traced) answerSlowly(nc net.Conn) {
	last := make([]byte, 1)
	_, _ = io.ReadFull(nc, make([]byte, v.BytesSent-1))
	time.Sleep(time.Duration(v.SendEnd - v.SendStart))
	_, _ = io.ReadFull(nc, last)
	time.Sleep(time.Duration(v.FirstByte - v.SendEnd))
	head := eventHead + "Content-Length: %05d\r\n\r\n"
	size := v.BytesReceived - len(fmt.Sprintf(head, 0))
	answer := fmt.Sprintf(head, size) + ": " + strings.Repeat("x", size-len(": \n\n")-len(goodStream)) + "\n\n" + goodStream
	first := len(answer)
	if v.LastByte > v.FirstByte {
		first = 1
	}
	_, _ = io.WriteString(nc, answer[:first])
	if first < len(answer) {
		time.Sleep(time.Duration(v.LastByte - v.FirstByte))
		_, _ = io.WriteString(nc, answer[first:])
	}
}

// The steps of a request on its connection are those of the group, to the nanosecond. Time is virtual, the connection a pipe.
//
// Covers T-56.
func TestVectorsHTTPTrace(t *testing.T) {
	fixtures.EachCase(t, "http_trace", fixtures.Counts{2, 2, 2}, func(t *testing.T, _ fixtures.Case, in traced, want map[string]float64) {
		synctest.Test(t, func(t *testing.T) {
			c, err := New("http://127.0.0.1:1", Options{KeepAlive: time.Hour})
			require.NoError(t, err)
			served := make(chan struct{})
			c.connect = func(context.Context, netip.AddrPort) (net.Conn, error) {
				time.Sleep(time.Duration(in.ConnectEnd - in.ConnectStart))
				near, far := net.Pipe()
				go func() {
					defer close(served)
					defer far.Close()
					if in.Reused {
						serveOnce(far)
					}
					in.answerSlowly(far)
				}()
				return near, nil
			}
			if in.Reused {
				require.Nil(t, post(c).Err)
			}
			time.Sleep(time.Duration(in.WaitStart) - c.now())
			connected := max(in.WaitEnd, in.ConnectEnd)
			body := &slowBody{waits: []time.Duration{time.Duration(in.WaitEnd - in.WaitStart), time.Duration(in.SendStart - connected), 0}}
			r := &Request{Path: "/", Stream: true, Body: body}
			body.size = in.BytesSent - headSize(c, r, in.BytesSent)
			res := c.Do(t.Context(), r)
			require.Nil(t, res.Err)
			c.Close()
			<-served

			orNever := func(ns int64) time.Duration {
				if ns == 0 {
					return Never
				}
				return time.Duration(ns)
			}
			require.Equal(t, Exchange{
				time.Duration(in.WaitEnd), orNever(in.ConnectStart), orNever(in.ConnectEnd), time.Duration(in.SendStart), time.Duration(in.SendEnd),
				time.Duration(in.FirstByte), time.Duration(in.LastByte),
			}, res.Exchange)
			x := res.Exchange
			require.Equal(t, time.Duration(in.WaitStart), res.Sent)
			require.Equal(t, in.Reused, res.Reused)
			ms := func(d time.Duration) float64 { return float64(d) / 1e6 }
			got := map[string]float64{
				"http_req_blocked": ms(x.WaitEnd - res.Sent), "http_req_connecting": ms(x.ConnectEnd - x.ConnectStart),
				"http_req_sending": ms(x.SendEnd - x.SendStart), "http_req_waiting": ms(x.FirstByte - x.SendEnd), "http_req_receiving": ms(x.LastByte - x.FirstByte),
				"http_req_data_sent": float64(res.BytesSent) / 1024, "http_req_data_received": float64(res.BytesReceived) / 1024,
				"http_req_connection_reused": 0,
			}
			if res.Reused {
				got["http_req_connection_reused"] = 1
			}
			require.Equal(t, want, got)
		})
	})
}

// serveOnce gives one good answer.
func serveOnce(nc net.Conn) {
	in := bufio.NewReader(nc)
	for line := ""; line != "\r\n"; {
		line, _ = in.ReadString('\n')
	}
	_, _ = in.Discard(len(`{"messages":[]}`)) // the body of post
	_, _ = io.WriteString(nc, sized(eventHead, goodStream))
}

// headSize returns the size of the head of a request of the given size in all.
func headSize(c *Client, r *Request, total int) int {
	probe := *r
	probe.Body = textBody(strings.Repeat("x", total))
	res := newResult(0)
	n := len((&call{Client: c, request: &probe, res: &res}).appendHead(nil))
	probe.Body = textBody(strings.Repeat("x", total-n))
	return len((&call{Client: c, request: &probe, res: &res}).appendHead(nil))
}

// A request that failed has ended when it was over for the client, to the nanosecond: with the last byte of an error body, with the
// refusal, with the timeout, with the cancellation.
//
// Covers T-56.
func TestEndOfFailures(t *testing.T) {
	const ms = time.Millisecond
	for name, c := range map[string]struct {
		connect error // after 3 ms; nil: a connection
		script  func(nc net.Conn)
		cancel  time.Duration
		want    Category
		acknow  time.Duration
		end     time.Duration
	}{
		"500 after 50 ms": {want: HTTPStatus, acknow: 53 * ms, end: 60 * ms, script: func(nc net.Conn) {
			time.Sleep(50 * ms)
			_, _ = io.WriteString(nc, "HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\n")
			time.Sleep(7 * ms)
			_, _ = io.WriteString(nc, "oops")
		}},
		"error body that never ends": {want: Overload, acknow: 3 * ms, end: 3*ms + errorWait, script: func(nc net.Conn) {
			_, _ = io.WriteString(nc, "HTTP/1.1 503 Busy\r\n\r\nla")
			time.Sleep(time.Hour)
		}},
		"refusal": {connect: syscall.ECONNREFUSED, want: Connection, acknow: Never, end: 3 * ms},
		"hang-up": {want: Connection, acknow: Never, end: 8 * ms, script: func(net.Conn) { time.Sleep(5 * ms) }},
		"timeout": {want: Timeout, acknow: 13 * ms, end: 90 * time.Second, script: func(nc net.Conn) {
			time.Sleep(10 * ms)
			_, _ = io.WriteString(nc, eventHead+"\r\n"+event1("a"))
			time.Sleep(time.Hour)
		}},
		"nothing but comments": {want: Timeout, acknow: 3 * ms, end: 90 * time.Second, script: func(nc net.Conn) {
			_, err := io.WriteString(nc, eventHead+"\r\n")
			for err == nil {
				time.Sleep(time.Second)
				_, err = io.WriteString(nc, ": keep-alive\n\n")
			}
		}},
		"cancelled": {want: Cancelled, cancel: 40 * ms, acknow: Never, end: 40 * ms, script: func(net.Conn) { time.Sleep(time.Hour) }},
		"truncated": {want: StreamTruncated, acknow: 3 * ms, end: 5 * ms, script: func(nc net.Conn) {
			_, _ = io.WriteString(nc, eventHead+"\r\n"+event1("a"))
			time.Sleep(2 * ms)
		}},
		"error event": {want: StreamEvent, acknow: 3 * ms, end: 3 * ms, script: func(nc net.Conn) {
			_, _ = io.WriteString(nc, eventHead+"\r\n"+event1("a")+"event: error\ndata: {}\n\n")
			time.Sleep(time.Hour)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, err := New("http://127.0.0.1:1", Options{Timeout: 90 * time.Second})
				require.NoError(t, err)
				r := &Request{Path: "/", Stream: true, Body: textBody("{}")}
				client.connect = func(context.Context, netip.AddrPort) (net.Conn, error) {
					time.Sleep(3 * ms)
					if c.connect != nil {
						return nil, c.connect
					}
					near, far := net.Pipe()
					go func() {
						defer far.Close()
						head := (&call{Client: client, request: r, res: new(Result)}).appendHead(nil)
						_, _ = io.ReadFull(far, make([]byte, len(head)+len("{}")))
						c.script(far)
					}()
					return near, nil
				}
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				if c.cancel > 0 {
					time.AfterFunc(c.cancel, func() { cancel(io.EOF) })
				}
				res := client.Do(ctx, r)
				time.Sleep(2 * time.Hour) // until the server's side has ended, too
				require.NotNil(t, res.Err)
				require.Equal(t, c.want, res.Err.Category)
				require.Equal(t, c.acknow, res.Acknowledged)
				require.Equal(t, c.end, res.End)
				require.Greater(t, res.End, res.Sent)
			})
		})
	}
}

// refusals are what servers say of a prompt that is too long, and whether AIPerf knows the words.
var refusals = map[string]struct {
	text   string
	aiperf bool
}{
	"OpenAI":                {"Your input exceeds the context window of this model. Please adjust your input and try again.", false},
	"OpenAI's code":         {"too big (code context_length_exceeded)", true},
	"Anthropic":             {"prompt is too long: 205000 tokens > 200000 maximum", true},
	"Anthropic's output":    {"input length and `max_tokens` exceed context limit: 90402 + 116650 > 204648", false},
	"vLLM":                  {"This model's maximum context length is 4096 tokens. However, you requested 10 output tokens and your prompt contains at least 5000 input tokens", true},
	"vLLM's engine":         {"The decoder prompt (length 8357) is longer than the maximum model length of 8192. Make sure that `max_model_len` is no smaller", false},
	"SGLang":                {"The input (5000 tokens) is longer than the model's context length (4096 tokens).", true},
	"SGLang's scheduler":    {"Input length (5000 tokens) exceeds the maximum allowed length (4095 tokens). Use a shorter input", false},
	"TensorRT-LLM":          {"The sum of prompt length (9000.0), query length (0) should not exceed max_num_tokens (8192)", false},
	"TensorRT-LLM's input":  {"Prompt length (5000) exceeds maximum input length (2048)", false},
	"TensorRT-LLM's length": {"Prompt length (5000) exceeds maximum sequence length (2048)", false},
	"TensorRT-LLM's rest":   {"`default_max_tokens` (-93) must be greater than 0, `default_max_tokens` (-93) = max_seq_len (16385) - `splited_prompt_len` (16478)", false},
	"TGI":                   {"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 10 `max_new_tokens`", false},
	"TGI's input":           {"Input validation error: `inputs` must have less than 4096 tokens. Given: 5000", false},
	"MLC":                   {"Request prompt has 2015 tokens in total, larger than the model input length limit 1416.", false},
	"OpenRouter":            {"Input length 5000 exceeds the maximum allowed input length of 4096 tokens.", false},
	"ATLAS":                 {"Prompt too long: 5000 tokens exceeds max_seq_len 2048 (leave room for output tokens)", false},
	"Bedrock":               {"Input is too long for requested model.", false},
	"llama.cpp":             {"the request exceeds the available context size, try increasing it", false},
	"llama.cpp's type":      {"n_prompt_tokens 5000, exceed_context_size_error", false},
	"Google":                {"The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).", false},
	"xAI":                   {"This model's maximum prompt length is 131072 but the request contains 537812 tokens.", false},
	"Cohere":                {"too many tokens: total number of tokens in the prompt cannot exceed 8192 - received 9000.", false},
	"ds4":                   {"Prompt tokens (5000) exceeds context size (4096)", false},
}

// The refusal of each server is an overflow, in JSON of any form, and every text of the table is said by one of them.
//
// Covers T-101.
func TestOverflowTexts(t *testing.T) {
	all, err := New("http://host", Options{})
	require.NoError(t, err)
	imitated, err := New("http://host", Options{OverflowPatterns: AIPerfOverflowPatterns})
	require.NoError(t, err)
	said := map[string]bool{}
	for server, r := range refusals {
		quoted, err := json.Marshal(r.text)
		require.NoError(t, err)
		for _, body := range []string{r.text, `{"error":{"message":` + string(quoted) + `}}`, `{"object":"error","message":` + string(quoted) + `,"code":400}`, `{"error":` + string(quoted) + `,"error_type":"Validation"}`} {
			require.Equal(t, ContextOverflow, all.newFailure(HTTPStatus, 400, "400 Bad Request: "+body).Category, "%s: %s", server, body)
			require.Equal(t, r.aiperf, imitated.newFailure(HTTPStatus, 400, "400 Bad Request: "+body).Category == ContextOverflow, "%s: %s", server, body)
		}
		for _, text := range DefaultOverflowPatterns {
			said[text] = said[text] || strings.Contains(strings.ToLower(r.text), text)
		}
	}
	for _, text := range DefaultOverflowPatterns {
		require.True(t, said[text], "no server says %q", text)
	}
	for _, o := range overflowTexts {
		require.NotEmpty(t, o.source)
	}
	for _, text := range []string{"rate limit exceeded: 30000 input tokens per minute", "max_tokens must be at least 1", "the prompt is empty", "`inputs` cannot be empty"} {
		require.Equal(t, HTTPStatus, all.newFailure(HTTPStatus, 400, text).Category, text)
	}
}
