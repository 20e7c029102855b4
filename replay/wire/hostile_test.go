package wire

import (
	"bytes"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
