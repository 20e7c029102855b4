package wire

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/replay/preset"
)

// pieces is a connection that accepts every write and returns the given pieces, one per read, then io.EOF.
type pieces struct {
	net.Conn
	list      [][]byte
	deadlines []time.Time // of reads
}

func (p *pieces) SetReadDeadline(at time.Time) error {
	p.deadlines = append(p.deadlines, at)
	return nil
}
func (p *pieces) Write(b []byte) (int, error) { return len(b), nil }
func (p *pieces) Read(b []byte) (int, error) {
	for len(p.list) > 0 && len(p.list[0]) == 0 {
		p.list = p.list[1:]
	}
	if len(p.list) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.list[0])
	p.list[0] = p.list[0][n:]
	return n, nil
}

// exchange runs one exchange whose response arrives in the given pieces. Read i returns at instant i.
func exchange(t *testing.T, o Options, list ...string) (Result, bool) {
	t.Helper()
	p := &pieces{}
	for _, s := range list {
		p.list = append(p.list, []byte(s))
	}
	return exchangeOn(t, o, p)
}

// exchangeOn runs one exchange on a connection.
func exchangeOn(t *testing.T, o Options, p *pieces) (Result, bool) {
	t.Helper()
	c, err := New("http://host", o)
	require.NoError(t, err)
	var reads time.Duration
	cn := &conn{Conn: p, in: reader{conn: p, now: func() time.Duration { reads++; return reads }}, out: requestWriter{conn: p}}
	res := newResult(0)
	r := &Request{Path: "/v1/chat/completions", Stream: true, Body: textBody("{}")}
	f, clean := (&call{Client: c, ctx: context.Background(), request: r, res: &res}).exchange(cn)
	res.Err = f
	return res, clean
}

// facts returns the parts of a result that do not depend on the arrival of its bytes.
func facts(res Result) Result {
	r := newResult(0)
	r.Status, r.Chunks, r.Usage, r.FirstChunkTokens, r.FinishReason, r.Err = res.Status, res.Chunks, res.Usage, res.FirstChunkTokens, res.FinishReason, res.Err
	return r
}

// Covers T-40.
func TestResponseSplitAnywhere(t *testing.T) {
	good := newResult(0)
	good.Status, good.Chunks, good.FinishReason = 200, 2, "length"
	good.Usage.Prompt, good.Usage.Completion = 10, 2
	for name, c := range map[string]struct {
		response string
		clean    bool
	}{
		"length":          {sized(eventHead, goodStream), true},
		"chunk per event": {chunked(eventHead, goodStream, 60), true},
		"small chunks":    {chunked(eventHead, goodStream, 7), true},
		"extensions, trailers": {strings.NewReplacer("\r\n0\r\n", "\r\n000;a=b\r\nX-Sum: 1\r\n", "\r\n3c\r\n", "\r\n3C ;x\r\n").
			Replace(chunked(eventHead, goodStream, 60)), true},
		"until close":          {eventHead + "\r\n" + goodStream, false},
		"HTTP/1.0":             {strings.Replace(sized(eventHead, goodStream), "1.1", "1.0", 1), false},
		"HTTP/1.0 keep-alive":  {strings.Replace(sized(eventHead+"Connection: Keep-Alive\r\n", goodStream), "1.1", "1.0", 1), true},
		"connection close":     {sized(eventHead+"connection: x, CLOSE\r\n", goodStream), false},
		"informational first":  {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + sized(eventHead, goodStream), true},
		"bare line feeds":      {strings.ReplaceAll(sized(eventHead, goodStream), "\r\n", "\n"), true},
		"carriage returns":     {sized(eventHead, strings.ReplaceAll(goodStream, "\n", "\r\n")), true},
		"no reason, odd lines": {sized("HTTP/1.1 200\r\nno colon\r\n folded: x\r\ncontent-TYPE:text/event-stream\r\n", goodStream), true},
		"no content type":      {sized("HTTP/1.1 200 OK\r\n", goodStream), true},
		"no last separator":    {sized(eventHead, strings.TrimRight(goodStream, "\n")), true},
		"something behind":     {sized(eventHead, goodStream) + "x", false},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range len(c.response) {
				res, clean := exchange(t, Options{}, c.response[:i], c.response[i:])
				require.Equal(t, good, facts(res), "split at %d", i)
				if name != "something behind" {
					require.Equal(t, c.clean, clean, "split at %d", i)
				}
			}
			res, _ := exchange(t, Options{}, strings.Split(c.response, "")...)
			require.Equal(t, good, facts(res), "byte by byte")
		})
	}
}

func TestResponseInstants(t *testing.T) {
	res, _ := exchange(t, Options{},
		eventHead+"Transfer-Encoding: chunked\r\n\r\n", // 1
		"100\r\n",                                      // 2
		": "+strings.Repeat("x", 10)+"\n\n",            // 3
		event1("a")[:20], event1("a")[20:]+event1("b"), // 4, 5
		finishEvent[:10], // 6
	)
	require.Equal(t, []time.Duration{5, 5, 5, 5}, []time.Duration{res.FirstToken, res.SecondToken, res.FirstOutput, res.LastToken})
	require.Equal(t, Connection, res.Err.Category)
	require.Equal(t, 200, res.Err.Code)
	require.Contains(t, res.Err.Message, "the server closed the connection")
}

// The instant of a last message without separator is the arrival of its last bytes, not the end of the body.
func TestTrailingMessage(t *testing.T) {
	res, _ := exchange(t, Options{}, eventHead+"Content-Length: 1\r\n\r\n")
	require.Equal(t, Connection, res.Err.Category)
	last := strings.TrimRight(event1("b"), "\n")
	res, _ = exchange(t, Options{}, eventHead+"Connection: close\r\n\r\n", event1("a")+finishEvent, last)
	require.Nil(t, res.Err)
	require.Equal(t, []time.Duration{2, 3, 3}, []time.Duration{res.FirstToken, res.LastToken, res.LastMessage})
}

func TestResponseVerdicts(t *testing.T) {
	whole := `{"choices":[{"message":{"content":"whole"}}],"usage":{"prompt_tokens":3,"completion_tokens":4}}`
	dynamo := `{"error":{"message":"Internal server error","type":"internal_server_error","code":500}}`
	llama := `{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error"}}`
	overflow := `{"error":{"message":"Prompt\u0020is too long: 9 tokens"}}`
	for _, c := range []struct {
		name, response string
		want           Category
		code           int
		message        string
		kept           bool // the connection can serve another request
	}{
		{name: "plain body", response: sized(jsonHead, whole)},
		{name: "plain body, indented", response: sized(jsonHead, strings.ReplaceAll(whole, ",", ",\n  "))},
		{name: "plain body until close", response: jsonHead + "\r\n" + whole},
		{name: "plain body is no JSON", response: sized(jsonHead, "busy"), want: NoContent, code: 200, message: "the response had no content: busy", kept: true},
		{name: "plain error", response: sized(jsonHead, `{"error":"out of memory"}`), want: StreamPayload, code: 200, message: `{"error":"out of memory"}`, kept: true},
		{name: "empty plain body", response: sized(jsonHead, ""), want: NoContent, code: 200, message: "the response had no content: ", kept: true},
		{name: "no body", response: "HTTP/1.1 204 No Content\r\n\r\n", want: NoContent, code: 204, message: "status 204: an answer without a body", kept: true},
		{name: "server error", response: sized("HTTP/1.1 500 Internal Server Error\r\n", "oops\n"), want: HTTPStatus, code: 500, message: "500 Internal Server Error: oops", kept: true},
		{name: "redirect", response: "HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", want: HTTPStatus, code: 302, message: "302 Found: redirected to /x, which is not followed: only 307 and 308 keep the method", kept: true},
		{name: "redirect to another origin", response: "HTTP/1.1 307 Moved\r\nLocation: https://user:pw@host/x?token=t\r\nContent-Length: 3\r\n\r\nbye", want: HTTPStatus, code: 307, message: "307 Moved: redirected to https://host, which is not followed: name it in the URL: bye", kept: true},
		{name: "redirect to nowhere", response: "HTTP/1.1 307 Moved\r\nLocation: http://[\r\nContent-Length: 0\r\n\r\n", want: HTTPStatus, code: 307, message: "307 Moved: redirected to what is no URL", kept: true},
		{name: "compressed", response: sized(eventHead+"Content-Encoding: gzip\r\n", "\x1f\x8b\x08"), want: NoContent, code: 200, message: "the answer is compressed (Content-Encoding gzip), which was not asked for", kept: true},
		{name: "compressed error", response: sized("HTTP/1.1 400 Bad Request\r\nContent-Encoding: br\r\n", "\x1f\x8b\x08"), want: HTTPStatus, code: 400, message: "400 Bad Request: compressed (Content-Encoding br), which was not asked for", kept: true},
		{name: "not compressed", response: sized(eventHead+"Content-Encoding: identity\r\n", goodStream)},
		{name: "identity, chunked", response: chunked(eventHead+"Transfer-Encoding: identity\r\n", goodStream, 50)},
		{name: "identity and chunked", response: strings.Replace(chunked(eventHead, goodStream, 50), ": chunked", ": identity, chunked", 1)},
		{name: "HTTP/2", response: "\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x80", want: Connection, message: "the server speaks only HTTP/2: use one that speaks HTTP/1.1"},
		{name: "HTTP/2 says goodbye", response: "\x00\x00\x08\x07\x00\x00\x00\x00\x00\x00", want: Connection, message: "the server speaks only HTTP/2: use one that speaks HTTP/1.1"},
		{name: "preface of HTTP/2", response: "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", want: Connection, message: "the server speaks only HTTP/2: use one that speaks HTTP/1.1"},
		{name: "HTTP/2 in words", response: "HTTP/2 200\r\n\r\n", want: Connection, message: "the server speaks only HTTP/2: use one that speaks HTTP/1.1"},
		{name: "TLS", response: "\x15\x03\x01\x00\x02\x02\x46", want: Connection, message: "the server speaks TLS: the URL should begin with https"},
		{name: "binary", response: "\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a", want: Connection, message: `not an HTTP/1.1 response: "\x00\x01\x02\x03\x04\x05\x06\a\b"`},
		{name: "not modified", response: "HTTP/1.1 304 Not Modified\r\n\r\n", want: HTTPStatus, code: 304, message: "304 Not Modified", kept: true},
		{name: "overload", response: sized("HTTP/1.1 529 Overloaded\r\n", "later"), want: Overload, code: 529, message: "529 Overloaded: later", kept: true},
		{name: "overflow in an overload", response: sized("HTTP/1.1 503 Busy\r\n", overflow), want: ContextOverflow, code: 503, message: "503 Busy: " + overflow, kept: true},
		{name: "error body cut", response: "HTTP/1.1 503 Busy\r\nContent-Length: 100\r\n\r\nlater", want: Overload, code: 503, message: "503 Busy: later"},
		{name: "overflow in status", response: sized("HTTP/1.1 400 Bad Request\r\n", overflow), want: ContextOverflow, code: 400, message: "400 Bad Request: " + overflow, kept: true},
		{name: "overflow in stream", response: sized(eventHead, event1("a")+"data: "+overflow+"\n\n"), want: ContextOverflow, code: 200, message: overflow, kept: true},
		{name: "overflow of Dynamo", response: sized(eventHead, "data: "+dynamo+"\n\n"+doneEvent), want: ContextOverflow, code: 200, message: dynamo, kept: true},
		{name: "the same words after content", response: sized(eventHead, event1("a")+"data: "+dynamo+"\n\n"+doneEvent), want: StreamPayload, code: 200, message: dynamo, kept: true},
		{name: "the same words in a status", response: sized("HTTP/1.1 500 Internal Server Error\r\n", dynamo), want: HTTPStatus, code: 500, message: "500 Internal Server Error: " + dynamo, kept: true},
		{name: "overflow of llama.cpp", response: sized("HTTP/1.1 400 Bad Request\r\n", llama), want: ContextOverflow, code: 400, message: "400 Bad Request: " + llama, kept: true},
		{name: "overflow by a pattern", response: sized("HTTP/1.1 400 Bad Request\r\n", "window of 42 is too small"), want: ContextOverflow, code: 400, message: "400 Bad Request: window of 42 is too small", kept: true},
		{name: "overflow by a pattern, escaped", response: sized("HTTP/1.1 400 Bad Request\r\n", `{"error":"window\u0020of 42"}`), want: ContextOverflow, code: 400, message: `400 Bad Request: {"error":"window\u0020of 42"}`, kept: true},
		{name: "error payload", response: sized(eventHead, event1("a")+"data: {\"error\":{\"message\":\"died\"}}\n\n"+doneEvent), want: StreamPayload, code: 200, message: `{"error":{"message":"died"}}`, kept: true},
		{name: "error event", response: sized(eventHead, event1("a")+": gone\nevent: error\ndata: {}\n\n"), want: StreamEvent, code: 502, message: "gone\n{}", kept: true},
		{name: "truncated", response: sized(eventHead, event1("a")+usageEvent), want: StreamTruncated, code: 200, message: "the stream ended with neither a finish reason nor [DONE]", kept: true},
		{name: "finish without done", response: sized(eventHead, event1("a")+finishEvent)},
		{name: "done without finish", response: sized(eventHead, event1("a")+doneEvent)},
		{name: "nothing after done counts", response: sized(eventHead, event1("a")+doneEvent+"data: {\"error\":1}\n\n")},
		{name: "cut after done", response: eventHead + "Content-Length: 9999\r\n\r\n" + event1("a") + doneEvent},
		{name: "cut after finish", response: eventHead + "Content-Length: 9999\r\n\r\n" + event1("a") + finishEvent, want: Connection, code: 200, message: "the server closed the connection before its answer ended"},
		{name: "cut in a chunk", response: eventHead + "Transfer-Encoding: chunked\r\n\r\nff\r\n" + event1("a"), want: Connection, code: 200, message: "the server closed the connection before its answer ended"},
		{name: "no content", response: sized(eventHead, finishEvent+usageEvent+doneEvent), want: NoContent, code: 200, message: "the stream had no content", kept: true},
		{name: "hang-up", response: "", want: Connection, message: "the server closed the connection before its answer ended"},
		{name: "cut head", response: "HTTP/1.1 200 OK\r\nConte", want: Connection, message: "the server closed the connection before its answer ended"},
		{name: "other protocol", response: "SSH-2.0-x\r\n", want: Connection, message: `not an HTTP/1.1 response: "SSH-2.0-x"`},
		{name: "bad status", response: "HTTP/1.1 2x0 OK\r\n\r\n", want: Connection, message: `not an HTTP status: "HTTP/1.1 2x0 OK"`},
		{name: "long status", response: "HTTP/1.1 2000 OK\r\n\r\n", want: Connection, message: `not an HTTP status: "HTTP/1.1 2000 OK"`},
		{name: "switch", response: "HTTP/1.1 101 Go\r\n\r\n", want: Connection, message: "server switched protocols"},
		{name: "two lengths", response: "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", want: Connection, message: "response has two values of Content-Length, 1 and 2"},
		{name: "bad length", response: "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", want: Connection, message: `response has Content-Length "-1": want a whole number`},
		{name: "huge length", response: "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", want: Connection, message: `response has Content-Length "99999999999999999999": want a whole number`},
		{name: "empty length", response: "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n", want: Connection, message: "response has an empty Content-Length"},
		{name: "unknown coding", response: "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", want: Connection, message: `response has transfer encoding "gzip": only chunked is read`},
		{name: "chunked twice", response: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n", want: Connection, message: `response has transfer encoding "chunked, chunked": only chunked is read`},
		{name: "bad chunk size", response: eventHead + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n", want: Connection, code: 200, message: `response has a malformed chunk: "xyz"`},
		{name: "huge chunk size", response: eventHead + "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n", want: Connection, code: 200, message: `response has a malformed chunk: "fffffffffffffffff"`},
		{name: "no chunk size", response: eventHead + "Transfer-Encoding: chunked\r\n\r\n\r\n", want: Connection, code: 200, message: `response has a malformed chunk: ""`},
		{name: "bad chunk end", response: eventHead + "Transfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n", want: Connection, code: 200, message: `response has a malformed chunk: "c"`},
		{name: "endless line", response: "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 2*maxBuffer), want: Connection, message: errLineTooLong.Error()},
		{name: "endless head", response: "HTTP/1.1 200 OK\r\n" + strings.Repeat("X: x\r\n", maxHead/4), want: Connection, message: errHeadTooLong.Error()},
		{name: "endless informational", response: strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", maxHead/10), want: Connection, message: errHeadTooLong.Error()},
		{name: "endless trailer", response: eventHead + "Transfer-Encoding: chunked\r\n\r\n0\r\n" + strings.Repeat("X: x\r\n", maxHead/4), want: Connection, code: 200, message: errHeadTooLong.Error()},
		{name: "endless event", response: eventHead + "\r\ndata: " + strings.Repeat("x", 2*maxMessageSize), want: Connection, code: 200, message: errMessageTooLong.Error()},
		{name: "endless body", response: jsonHead + "\r\n" + strings.Repeat("x", 2*maxMessageSize), want: Connection, code: 200, message: errMessageTooLong.Error()},
	} {
		t.Run(c.name, func(t *testing.T) {
			res, clean := exchange(t, Options{OverflowRegexps: []*regexp.Regexp{regexp.MustCompile("window of [0-9]+")}}, c.response)
			if c.want == "" {
				require.Nil(t, res.Err)
				return
			}
			require.Equal(t, &Failure{Category: c.want, Message: c.message, Code: c.code}, res.Err)
			require.Equal(t, c.kept, clean, "kept")
			require.Equal(t, fmt.Sprintf("%s: %s", c.want, c.message), res.Err.Error())
		})
	}
}

// With LenientStreams content makes an answer under status 200 a success, whatever stands beside it in the stream (H10).
//
// Covers T-40.
func TestLenientStreams(t *testing.T) {
	died := "data: {\"error\":{\"message\":\"prompt is too long\"}}\n\n"
	for _, c := range []struct {
		name, response string
		want           Category
		chunks         int
	}{
		{name: "error object after content", response: sized(eventHead, event1("a")+died+doneEvent), chunks: 1},
		{name: "error object before content", response: sized(eventHead, died+event1("a")+doneEvent), chunks: 1},
		{name: "content on both sides", response: chunked(eventHead, event1("a")+died+event1("b")+usageEvent, 9), chunks: 2},
		{name: "truncated", response: sized(eventHead, event1("a")+usageEvent), chunks: 1},
		{name: "error object in one body", response: sized(jsonHead, `{"choices":[{"message":{"content":"x"}}],"error":"late"}`), chunks: 1},
		{name: "error object alone", response: sized(eventHead, died+doneEvent), want: ContextOverflow},
		{name: "one body that is an error", response: sized(jsonHead, `{"error":"out of memory"}`), want: StreamPayload},
		{name: "truncated before content", response: sized(eventHead, usageEvent), want: StreamTruncated},
		{name: "no content", response: sized(eventHead, finishEvent+doneEvent), want: NoContent},
		{name: "error event", response: sized(eventHead, event1("a")+": gone\nevent: error\ndata: {}\n\n"), want: StreamEvent, chunks: 1},
		{name: "error event after an error object", response: sized(eventHead, "data: {\"error\":1}\n\n: gone\nevent: error\ndata: {}\n\n"+event1("a")), want: StreamEvent, chunks: 1},
		{name: "cut", response: eventHead + "Content-Length: 9999\r\n\r\n" + event1("a"), want: Connection, chunks: 1},
		{name: "server error", response: sized("HTTP/1.1 500 Internal Server Error\r\n", "oops\n"), want: HTTPStatus},
	} {
		t.Run(c.name, func(t *testing.T) {
			res, _ := exchange(t, Options{LenientStreams: true}, c.response)
			require.Equal(t, c.chunks, res.Chunks)
			if c.want == "" {
				require.Nil(t, res.Err)
			} else {
				require.Equal(t, c.want, res.Err.Category)
			}
			if res, _ := exchange(t, Options{}, c.response); c.want == "" {
				require.NotNil(t, res.Err, "a failure without the option")
			}
		})
	}
}

// Of an endless error body 64 KiB are matched against overflow patterns and 4 KiB are kept.
func TestErrorTextIsBounded(t *testing.T) {
	require.Equal(t, []int{4 << 10, 8 << 20}, []int{maxFailureText, maxMessageSize}, "as doc/spec/replay.md 9.3 and 9.5 say")
	long := "HTTP/1.1 500 Oops\r\n\r\n" + strings.Repeat("é", 20<<10)
	res, _ := exchange(t, Options{}, long+" prompt is too long "+strings.Repeat("x", 1<<20))
	require.Equal(t, ContextOverflow, res.Err.Category)
	require.LessOrEqual(t, len(res.Err.Message), maxFailureText)
	require.True(t, strings.HasSuffix(res.Err.Message, "éé... [cut at 4 KiB]"))
	require.GreaterOrEqual(t, len(res.Err.Message), maxFailureText-1)
	res, _ = exchange(t, Options{}, long+strings.Repeat("x", 64<<10)+" prompt is too long ")
	require.Equal(t, HTTPStatus, res.Err.Category)
}

func TestClip(t *testing.T) {
	require.Equal(t, "aé", clip("aéé", 3))
	require.Equal(t, "aé", clip("aéé", 4))
	require.Equal(t, "a?", clip("a\xff", 4))
	require.Len(t, clip(strings.Repeat("\x80", 100), 10), 1) // a run of broken bytes becomes one mark
}

// A read counts when it brings bytes of the body: neither one with the head alone nor one with the end of the chunks does.
//
// Covers T-56.
func TestBodyCounts(t *testing.T) {
	head := eventHead + "Transfer-Encoding: chunked\r\n\r\n"
	message := func(text string) string { return fmt.Sprintf("%x\r\n%s\r\n", len(text), text) }
	first, last := `data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}`+"\n\n", "data: [DONE]\n\n"
	size := int64(len(first) + len(last))
	for name, c := range map[string]struct {
		pieces []string
		reads  int
	}{
		"apart":             {[]string{head, message(first), message(last), "0\r\n\r\n"}, 2},
		"with the head":     {[]string{head + message(first), message(last) + "0\r\n\r\n"}, 2},
		"two in one":        {[]string{head, message(first) + message(last), "0\r\n\r\n"}, 1},
		"one in two":        {[]string{head, message(first)[:20], message(first)[20:] + message(last) + "0\r\n\r\n"}, 2},
		"all":               {[]string{head + message(first) + message(last) + "0\r\n\r\n"}, 1},
		"length of a chunk": {[]string{head, message(first)[:2], message(first)[2:], message(last), "0\r\n\r\n"}, 2},
	} {
		res, _ := exchange(t, Options{}, c.pieces...)
		require.Nil(t, res.Err, name)
		require.Equal(t, []int64{2, size, int64(c.reads)}, []int64{res.BodySent, res.BodyReceived, int64(res.BodyReads)}, name)
	}
}

// A stream that fails after status 200 has the same category, text and code at every split of its bytes: strictly under the preset
// default; under those of AIPerf any content makes some of them a success.
//
// Covers T-40.
func TestFailuresSplitAnywhere(t *testing.T) {
	died := `{"error":{"message":"died"}}`
	long := `{"error":{"message":"prompt is too long"}}`
	leaked := "data: {\"choices\":[{\"delta\":{\"content\":\"x\ny\"}}]}\n\n"
	for name, c := range map[string]struct {
		stream  string
		want    Category
		text    string
		lenient Category // with LenientStreams; "": a success
	}{
		"error event":             {event1("a") + ": gone\nevent: error\ndata: {}\n\n", StreamEvent, "gone\n{}", StreamEvent},
		"error event, CRLF":       {event1("a") + "event: error\r\n: gone\r\n\r\n", StreamEvent, "gone", StreamEvent},
		"error event, unfinished": {event1("a") + "event: error\ndata: gone", StreamEvent, "gone", StreamEvent},
		"error payload":           {event1("a") + "data: " + died + "\n\n" + doneEvent, StreamPayload, died, ""},
		"error payload first":     {"data: " + died + "\n\n" + event1("a") + doneEvent, StreamPayload, died, ""},
		"error payload alone":     {"data: " + died + "\n\n" + doneEvent, StreamPayload, died, StreamPayload},
		"overflow in the stream":  {event1("a") + "data: " + long + "\r\n\r\n", ContextOverflow, long, ""},
		"overflow in an event":    {"event: error\ndata: " + long + "\n\n", ContextOverflow, long, ContextOverflow},
		"cut off":                 {event1("a") + usageEvent, StreamTruncated, "the stream ended with neither a finish reason nor [DONE]", ""},
		"cut off in a message":    {event1("a") + event1("b")[:20], StreamTruncated, "the stream ended with neither a finish reason nor [DONE]", ""},
		"cut off, leaked newline": {leaked, StreamTruncated, "the stream ended with neither a finish reason nor [DONE]", ""},
		"no content":              {finishEvent + usageEvent + doneEvent, NoContent, "the stream had no content", NoContent},
	} {
		t.Run(name, func(t *testing.T) {
			response := sized(eventHead, c.stream)
			for _, name := range preset.Names {
				switches, _ := preset.Named(name)
				want := &Failure{Category: c.want, Message: c.text, Code: 200}
				if c.want == StreamEvent || strings.HasPrefix(c.stream, "event: error") {
					want.Code = 502
				}
				if switches.LenientStreams {
					if want.Category = c.lenient; c.lenient == "" {
						want = nil
					}
				}
				o := Options{LenientStreams: switches.LenientStreams}
				for i := range len(response) {
					res, _ := exchange(t, o, response[:i], response[i:])
					require.Equal(t, want, res.Err, "split at %d", i)
				}
				res, _ := exchange(t, o, strings.Split(response, "")...)
				require.Equal(t, want, res.Err, "byte by byte")
			}
		})
	}
}

// endless is a connection whose answer never ends: a head, then the same bytes again and again.
type endless struct {
	net.Conn
	head, again string
	n           int
}

func (e *endless) SetReadDeadline(time.Time) error { return nil }
func (e *endless) Write(b []byte) (int, error)     { return len(b), nil }
func (e *endless) Read(b []byte) (n int, err error) {
	for n < len(b) {
		rest := e.head
		if rest == "" {
			rest = e.again[e.n:]
		}
		k := copy(b[n:], rest)
		n += k
		if e.head != "" {
			e.head = e.head[k:]
		} else {
			e.n = (e.n + k) % len(e.again)
		}
	}
	return n, nil
}

// An answer that never ends is broken off, whatever it consists of, and has not taken much memory.
func TestEndlessAnswer(t *testing.T) {
	for name, again := range map[string]string{
		"deltas":           strings.Repeat(event1("a"), 100),
		"deltas and usage": chunkWith("1") + chunkWith("2"),
		"comments":         strings.Repeat(": keep-alive\n\n", 1000),
		"blank lines":      strings.Repeat("\n", 1<<16),
	} {
		t.Run(name, func(t *testing.T) {
			c, err := New("http://host", Options{})
			require.NoError(t, err)
			require.EqualValues(t, 256<<20, c.maxAnswer)
			c.maxAnswer = 4 << 20
			e := &endless{head: eventHead + "\r\n", again: again}
			cn := &conn{Conn: e, in: reader{conn: e, now: c.now, first: Never}, out: requestWriter{conn: e}}
			res := newResult(c.now())
			r := &Request{Path: "/", Stream: true, Body: textBody("{}")}
			f, clean := (&call{Client: c, ctx: context.Background(), request: r, res: &res}).exchange(cn)
			require.Equal(t, &Failure{Connection, 200, errAnswerTooLong.Error()}, f)
			require.False(t, clean)
			require.LessOrEqual(t, cn.in.received, c.maxAnswer+2*maxBuffer)
			require.Equal(t, res.Chunks, res.Contents.Len())
			require.Equal(t, len(res.Contents.Packed()), cap(res.Contents.Packed()))
			require.LessOrEqual(t, len(res.Contents.Packed()), 2*res.Chunks+16)
			require.LessOrEqual(t, cap(cn.dec.splitter.pending), 1<<20)
		})
	}
}

// A server that tells nonsense is heard, and what cannot be true is unknown.
func TestLyingServer(t *testing.T) {
	said := func(usage string) string {
		return "data: {\"choices\":[],\"usage\":" + usage + "}\n\n"
	}
	known := NoUsage
	known.Prompt, known.Completion = 10, 2
	for name, c := range map[string]struct {
		stream string
		want   Usage
	}{
		"negative":         {said(`{"prompt_tokens":-5,"completion_tokens":-1}`), NoUsage},
		"fraction":         {said(`{"prompt_tokens":1.5,"completion_tokens":2e-1}`), NoUsage},
		"exponent":         {said(`{"prompt_tokens":1e1,"completion_tokens":20E-1}`), known},
		"infinite":         {said(`{"prompt_tokens":1e999,"completion_tokens":2}`), Usage{Unknown, 2, Unknown, Unknown, Unknown, Unknown, Unknown}},
		"huge":             {said(`{"prompt_tokens":1099511627777,"completion_tokens":999999999999999,"total_tokens":99999999999999999999}`), NoUsage},
		"large":            {said(`{"prompt_tokens":1099511627777,"completion_tokens":1099511627776}`), Usage{Unknown, 1 << 40, Unknown, Unknown, Unknown, Unknown, Unknown}},
		"text":             {said(`{"prompt_tokens":"10","completion_tokens":[2],"total_tokens":true}`), NoUsage},
		"no JSON":          {said(`{"prompt_tokens":NaN,"completion_tokens":Infinity}`), NoUsage}, // the whole payload is ignored
		"NaN beside it":    {said(`{"prompt_tokens":NaN}`) + usageEvent, known},
		"twice in a row":   {said(`{"prompt_tokens":1,"completion_tokens":1}`) + usageEvent, known},
		"twice in one":     {`data: {"usage":{"prompt_tokens":1},"usage":{"prompt_tokens":10,"completion_tokens":2}}` + "\n\n", known},
		"a count twice":    {said(`{"prompt_tokens":1,"prompt_tokens":10,"completion_tokens":2}`), known},
		"empty at the end": {usageEvent + said(`{}`), known},
		"half an event":    {usageEvent + "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1\n\n", known},
	} {
		t.Run(name, func(t *testing.T) {
			res, _ := exchange(t, Options{}, sized(eventHead, event1("a")+finishEvent+c.stream+doneEvent))
			require.Nil(t, res.Err)
			require.Equal(t, 1, res.Chunks)
			require.Equal(t, c.want, res.Usage)
		})
	}
}

// Reasoning is the first token, and content the first output: the caller learns of the first at once.
//
// Covers T-40.
func TestReasoningIsTheFirstToken(t *testing.T) {
	reasoning := "data: {\"choices\":[{\"delta\":{\"reasoning_content\":\"hm\"}}]}\n\n"
	tool := "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"function\":{\"arguments\":\"{\"}}]}}]}\n\n"
	for _, output := range []string{event1("a"), tool} {
		var told []time.Duration
		res := newResult(0)
		d := decoder{}
		d.reset(responseState{res: &res, events: true, notify: func(at time.Duration) { told = append(told, at) }})
		for at, message := range []string{": hello\n\n", "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n", usageEvent, reasoning, reasoning, output, output, finishEvent} {
			require.NoError(t, d.feed([]byte(message), time.Duration(at+1)))
			require.Len(t, told, min(1, max(0, at-2)), "message %d", at)
		}
		category, _ := d.finish()
		require.Empty(t, category)
		require.Equal(t, []time.Duration{4}, told)
		require.Equal(t, []time.Duration{4, 5, 6, 7, 8}, []time.Duration{res.FirstToken, res.SecondToken, res.FirstOutput, res.LastToken, res.LastMessage})
		require.Equal(t, 4, res.Chunks)
	}
}

// FuzzResponse: whatever a server sends, the result is the same however the bytes arrive, has a verdict, and its instants are in
// order.
func FuzzResponse(f *testing.F) {
	for _, s := range []string{
		sized(eventHead, goodStream), chunked(eventHead, goodStream, 7), sized(jsonHead, `{"choices":[{"message":{"content":"x"}}]}`),
		"HTTP/1.1 500 Oops\r\nContent-Length: 2\r\n\r\nno", eventHead + "\r\n: a\n\nevent: error\ndata: {}\n\n", "HTTP/1.1 100 Go\r\n\r\n" + sized(eventHead, chunkWith("3")),
		eventHead + "\r\ndata: {\"error\":{\"message\":\"context length\"}}\r\n\r\n", "\x15\x03\x01", "HTTP/1.1 307 X\r\nLocation: /y\r\n\r\n",
	} {
		f.Add([]byte(s), uint16(3), uint16(99), false)
		f.Add([]byte(s), uint16(40), uint16(41), true)
	}
	f.Fuzz(func(t *testing.T, data []byte, i, j uint16, lenient bool) {
		a := min(int(i), len(data))
		b := min(max(int(j), a), len(data))
		whole, _ := exchange(t, Options{LenientStreams: lenient}, string(data))
		split, _ := exchange(t, Options{LenientStreams: lenient}, string(data[:a]), string(data[a:b]), string(data[b:]))
		require.Equal(t, facts(whole), facts(split))
		for _, res := range []Result{whole, split} {
			require.Equal(t, res.Chunks, res.Contents.Len())
			require.Equal(t, res.Chunks > 0, res.FirstToken != Never)
			require.LessOrEqual(t, res.FirstToken, res.LastToken)
			require.LessOrEqual(t, res.LastToken, res.LastMessage)
			if res.Err == nil {
				require.Positive(t, res.Chunks)
				require.Equal(t, 2, res.Status/100)
			} else {
				require.NotEmpty(t, res.Err.Category)
				require.LessOrEqual(t, len(res.Err.Message), maxFailureText)
			}
		}
	})
}

// A comment costs no allocation: servers may send them for hours.
func TestCommentsDoNotAllocate(t *testing.T) {
	var d decoder
	res := newResult(0)
	d.reset(responseState{res: &res, events: true})
	comments := bytes.Repeat([]byte(": keep-alive\r\n\r\n"), 10)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if d.feed(comments, 7) != nil {
			t.Error(io.ErrShortBuffer)
		}
	}))
	require.Equal(t, 7*time.Nanosecond, res.LastMessage)
}

// hugeMessages are messages of about 1 MiB that skimming is not sure of.
func hugeMessages() map[string]string {
	const size = 1 << 20
	fill := func(head, again, tail string) string {
		return head + strings.Repeat(again, (size-len(head)-len(tail))/len(again)) + tail
	}
	var members strings.Builder
	for k := 0; members.Len() < size-100; k++ {
		fmt.Fprintf(&members, `,"%x":1`, k)
	}
	return map[string]string{
		"text":          fill(`data: {"choices":[{"delta":{"content":"`, "word ", `"},"finish_reason":"odd"}]}`),
		"bad UTF-8":     fill(`data: {"choices":[{"delta":{"content":"`, "\xff", `"},"finish_reason":"odd"}]}`),
		"parts":         fill(`data: {"choices":[{"delta":{"content":[""`, `,{"text":""}`, `]}}]}`),
		"calls":         fill(`data: {"choices":[{"delta":{"content":"x","tool_calls":[{}`, `,{}`, `]},"finish_reason":"odd"}]}`),
		"choices":       fill(`data: {"choices":[{"finish_reason":"odd"}`, `,0`, `]}`),
		"members":       `data: {"choices":[{"finish_reason":"odd"}]` + members.String() + `}`,
		"finish reason": fill(`data: {"choices":[{"finish_reason":"`, `x`, `"}]}`),
		"usage":         fill("data: {\"usage\":{\"prompt_tokens\":1", `,"a":0`, "}}\nid: 1"),
		"error":         fill(`data: {"error":{"message":"`, `x`, `"}}`),
		"error list":    fill(`data: {"error":[0`, `,0`, `]}`),
		"error event":   fill("event: error\n: x\ndata: ", `x`, ""),
		"comments":      fill("event: error\n", ":x\n", "data: x"),
		"lines":         fill("", "a\n", "data: x"),
		"data lines":    fill("", "data:x\n", "data: x"),
		"open object":   fill("data: {\n", "a\n", "}"),
		"no JSON":       fill("data: ", "[", ""),
	}
}

// A message costs at most twice its size, whatever is in it, on top of the bytes that are gathered until it is complete.
func TestMemoryOfAHugeMessage(t *testing.T) {
	for name, message := range hugeMessages() {
		for api := range MessagesAPI + 1 {
			t.Run(fmt.Sprint(name, " ", api), func(t *testing.T) {
				require.InDelta(t, 1<<20, len(message), 4<<10)
				c, err := New("http://host", Options{})
				require.NoError(t, err)
				raw := []byte(message)
				var d decoder
				res := newResult(0)
				d.reset(responseState{res: &res, events: true, api: api})
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				d.onMessage(raw)
				category, text := d.finish()
				if category != "" {
					res.Err = c.newFailure(category, 200, text)
				}
				runtime.ReadMemStats(&after)
				ratio := float64(after.TotalAlloc-before.TotalAlloc) / float64(len(raw))
				t.Logf("%.2f times the message", ratio)
				require.LessOrEqual(t, ratio, 2.0)
				require.LessOrEqual(t, len(res.FinishReason), maxFailureText)
			})
		}
	}
}

// The bytes of a message are gathered in one buffer, which is at most a quarter larger.
func TestBufferOfAHugeMessage(t *testing.T) {
	var d decoder
	res := newResult(0)
	d.reset(responseState{res: &res, events: true})
	piece := []byte(strings.Repeat("x", maxBuffer))
	for range maxMessageSize / maxBuffer {
		require.NoError(t, d.feed(piece, 1))
	}
	require.LessOrEqual(t, cap(d.splitter.pending), maxMessageSize*5/4)
	require.ErrorIs(t, d.feed(piece[:1], 1), errMessageTooLong)
	d.reset(responseState{res: &res})
	require.Zero(t, cap(d.splitter.pending))
}

// A message that is parsed in place has the fields of one that is parsed into texts.
func TestMessageAgrees(t *testing.T) {
	word := rapid.SampledFrom([]string{"data:", "data", "event:", "error", ":", "{", "}", "x", " ", "\t", "\n", "\r", "\r\n", "\u0085", "\xff", "[DONE]"})
	rapid.Check(t, func(t *rapid.T) {
		raw := strings.Join(rapid.SliceOfN(word, 0, 20).Draw(t, "words"), "")
		m, plain := parseMessage([]byte(raw)), parsePlainly([]byte(raw))
		require.Equal(t, len(plain.fields) > 0, m.hasFields, "%q", raw)
		require.Equal(t, plain.isError(), m.isError, "%q", raw)
		require.Equal(t, plain.data(), excerpt(m.data.text), "%q", raw)
		require.Equal(t, plain.errorText(), m.errorText(), "%q", raw)
	})
}
