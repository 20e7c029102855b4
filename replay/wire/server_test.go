package wire

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/agentx/agentx/replay/preset"
)

// The command names settings so.
func init() { preset.Prefix = "--" }

// peer is the server's end of one connection, driven by a script.
type peer struct {
	t *testing.T
	*net.TCPConn
	in *bufio.Reader
}

// request reads one request and returns its bytes.
func (p *peer) request() (head string, body []byte) {
	p.t.Helper()
	var raw bytes.Buffer
	req, err := http.ReadRequest(bufio.NewReader(io.TeeReader(io.LimitReader(onlyHead{p.in}, 1<<20), &raw)))
	if err != nil {
		p.t.Errorf("request: %v", err)
		return "", nil
	}
	body = make([]byte, req.ContentLength)
	if _, err := io.ReadFull(p.in, body); err != nil {
		p.t.Errorf("request body: %v", err)
	}
	return raw.String(), body
}

// onlyHead reads line by line, so that nothing behind the head is read.
type onlyHead struct{ r *bufio.Reader }

func (h onlyHead) Read(b []byte) (int, error) {
	line, err := h.r.ReadBytes('\n')
	return copy(b, line), err
}

func (p *peer) say(parts ...string) {
	if _, err := io.WriteString(p.TCPConn, strings.Join(parts, "")); err != nil {
		p.t.Logf("server write: %v", err)
	}
}

// serve answers the i-th connection with the i-th script and returns the URL. The test waits for all scripts.
func serve(t *testing.T, scripts ...func(p *peer)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var all sync.WaitGroup
	all.Go(func() {
		for _, script := range scripts {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer nc.Close()
				script(&peer{t, nc.(*net.TCPConn), bufio.NewReader(nc)})
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		all.Wait()
	})
	return "http://" + l.Addr().String()
}

// answer returns a script that reads a request and writes an answer.
func answer(parts ...string) func(*peer) {
	return func(p *peer) {
		p.request()
		p.say(parts...)
	}
}

// sinkAddress is the address of a server that answers well.
func sinkAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		var open []net.Conn
		for {
			nc, err := l.Accept()
			if err != nil {
				break
			}
			open = append(open, nc)
			go serveGood(nc, sized(eventHead, goodStream))
		}
		for _, nc := range open {
			nc.Close()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String()
}

func newClient(t *testing.T, url string, o Options) *Client {
	t.Helper()
	c, err := New(url, o)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// textBody is a Body that writes itself in one piece.
type textBody string

func (b textBody) Size() int64 { return int64(len(b)) }
func (b textBody) WriteTo(w io.Writer) (int64, error) {
	n, err := io.WriteString(w, string(b))
	return int64(n), err
}

// post sends a small streaming request.
func post(c *Client) Result {
	return c.Do(context.Background(), &Request{Path: "/v1/chat/completions", Stream: true, Body: textBody(`{"messages":[]}`)})
}

func event1(content string) string {
	return fmt.Sprintf("data: {\"choices\":[{\"delta\":{\"content\":%q}}]}\n\n", content)
}

const (
	finishEvent = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"length\"}]}\n\n"
	usageEvent  = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":10,\"completion_tokens\":2}}\n\n"
	doneEvent   = "data: [DONE]\n\n"
	goodStream  = "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n" +
		"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"b\"}}]}\n\n" +
		finishEvent + usageEvent + doneEvent
	eventHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
	jsonHead  = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
)

// sized returns a response with a Content-Length.
func sized(head, body string) string {
	return fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(body), body)
}

// chunked returns a response in chunks of the given size.
func chunked(head, body string, size int) string {
	var b strings.Builder
	b.WriteString(head + "Transfer-Encoding: chunked\r\n\r\n")
	for len(body) > 0 {
		n := min(size, len(body))
		fmt.Fprintf(&b, "%x\r\n%s\r\n", n, body[:n])
		body = body[n:]
	}
	return b.String() + "0\r\n\r\n"
}

// serveGood gives the same answer to every request of a connection.
func serveGood(nc net.Conn, response string) {
	in := bufio.NewReader(nc)
	for {
		length := 0
		for {
			line, err := in.ReadSlice('\n')
			if err != nil {
				return
			}
			if len(line) <= 2 {
				break
			}
			if v, ok := bytes.CutPrefix(line, []byte("Content-Length: ")); ok {
				for _, c := range bytes.TrimSpace(v) {
					length = 10*length + int(c-'0')
				}
			}
		}
		if _, err := in.Discard(length); err != nil {
			return
		}
		if _, err := io.WriteString(nc, response); err != nil {
			return
		}
	}
}

// The functions here parse messages into texts and decode payloads with encoding/json: they copy all at every level. The tests
// compare parseMessage, readEvent and readUsage with them.

func plainEvent(payload []byte, aiperf bool) event {
	top, ok := object(payload)
	if !ok {
		return event{}
	}
	e := event{failed: isSet(top["error"]) || !aiperf && isErrorObject(top)}
	if usage, ok := object(top["usage"]); ok && len(usage) > 0 {
		e.usage = top["usage"]
	}
	choices := array(top["choices"])
	if len(choices) == 0 {
		return e
	}
	choice, _ := object(choices[0])
	for k := len(choices) - 1; k >= 0 && !aiperf; k-- {
		if c, _ := object(choices[k]); count(c["index"]) == 0 {
			choice = c
		}
	}
	e.finish = text(choice["finish_reason"])
	e.content, e.blank = text(choice["text"]) != "", isBlank(choice["text"])
	for _, name := range []string{"delta", "message"} {
		part, _ := object(choice[name])
		e.plainMessage(part["content"])
		e.blank = e.blank || isBlank(part["content"]) || isBlank(part["reasoning_content"]) || isBlank(part["reasoning"])
		e.reasoning = e.reasoning || text(part["reasoning_content"]) != "" || text(part["reasoning"]) != ""
		for _, raw := range array(part["tool_calls"]) {
			call, _ := object(raw)
			function, _ := object(call["function"])
			e.toolCall = e.toolCall || text(function["name"]) != "" || text(function["arguments"]) != ""
			e.toolCall = e.toolCall || !aiperf && hasMembers(function["arguments"])
		}
		if !aiperf {
			e.plainOthers(part)
		}
	}
	if usage, ok := object(choice["usage"]); ok && len(usage) > 0 && e.usage == nil && !aiperf {
		e.usage = choice["usage"]
	}
	return e
}

func isBlank(raw []byte) bool {
	var s *string
	return len(raw) > 0 && json.Unmarshal(raw, &s) == nil && s != nil && *s == ""
}

func hasMembers(raw []byte) bool {
	o, ok := object(raw)
	return ok && len(o) > 0
}

func (e *event) plainOthers(part map[string]json.RawMessage) {
	e.content = e.content || text(part["refusal"]) != ""
	call, _ := object(part["function_call"])
	e.toolCall = e.toolCall || text(call["name"]) != "" || text(call["arguments"]) != "" || hasMembers(call["arguments"])
	for _, raw := range array(part["reasoning_details"]) {
		detail, _ := object(raw)
		e.reasoning = e.reasoning || text(detail["text"])+text(detail["summary"])+text(detail["data"]) != ""
	}
}

func isErrorObject(top map[string]json.RawMessage) bool {
	if choices := top["choices"]; choices != nil && string(choices) != "null" {
		return false
	}
	return text(top["object"]) == "error" || text(top["type"]) == "error" || text(top["message"]) != "" && isSet(top["code"])
}

func (e *event) plainMessage(raw []byte) {
	e.content = e.content || text(raw) != ""
	for _, raw := range array(raw) {
		part, _ := object(raw)
		e.content = e.content || text(raw) != "" || text(part["text"]) != ""
		e.reasoning = e.reasoning || isSet(part["thinking"])
	}
}

// isSet reports whether a member has a value other than null, false, zero and empty.
func isSet(raw json.RawMessage) bool {
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return false
	}
	switch v := v.(type) {
	case bool:
		return v
	case json.Number:
		f, _ := v.Float64()
		return f != 0
	case string:
		return v != ""
	case []any:
		return len(v) > 0
	case map[string]any:
		return len(v) > 0
	}
	return false
}

func plainUsage(raw []byte) Usage {
	u := NoUsage
	top, _ := object(raw)
	u.Prompt = count(top["prompt_tokens"])
	u.Completion = count(top["completion_tokens"])
	u.Total = count(top["total_tokens"])
	u.CacheWrite = count(top["cache_creation_input_tokens"])
	u.CacheMiss = count(top["prompt_cache_miss_tokens"])
	details, _ := object(top["completion_tokens_details"])
	u.Reasoning = count(details["reasoning_tokens"])
	details, _ = object(top["prompt_tokens_details"])
	u.Cached = count(details["cached_tokens"])
	if u.Cached < 0 {
		details, _ = object(top["input_tokens_details"])
		u.Cached = count(details["cached_tokens"])
	}
	for _, name := range []string{"cache_read_input_tokens", "prompt_cache_hit_tokens", "cached_tokens"} {
		if u.Cached < 0 {
			u.Cached = count(top[name])
		}
	}
	return u
}

func object(raw []byte) (map[string]json.RawMessage, bool) {
	var m map[string]json.RawMessage
	if len(raw) == 0 || json.Unmarshal(raw, &m) != nil {
		return nil, false
	}
	return m, m != nil // null decodes to nil
}

func array(raw []byte) []json.RawMessage {
	var a []json.RawMessage
	if len(raw) == 0 || json.Unmarshal(raw, &a) != nil {
		return nil
	}
	return a
}

func text(raw []byte) string {
	var s string
	if len(raw) == 0 || json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

func count(raw []byte) int64 {
	var f *float64
	if len(raw) == 0 || json.Unmarshal(raw, &f) != nil || f == nil {
		return Unknown
	}
	if *f < 0 || *f > maxCount || *f != math.Trunc(*f) {
		return Unknown
	}
	return int64(*f)
}

func plainMessagesEvent(payload []byte, aiperf bool) event {
	top, ok := object(payload)
	if !ok {
		return event{}
	}
	e := event{failed: isSet(top["error"]) || !aiperf && isErrorObject(top), last: text(top["type"]) == "message_stop"}
	e.plainAnswer(top)
	message, _ := object(top["message"]) // of message_start
	e.plainAnswer(message)
	for _, name := range []string{"delta", "content_block"} {
		part, _ := object(top[name])
		e.plainBlock(part)
		e.blank = e.blank || name == "delta" && (isBlank(part["text"]) || isBlank(part["thinking"]))
		if reason := text(part["stop_reason"]); reason != "" {
			e.finish = reason
		}
	}
	return e
}

func (e *event) plainAnswer(message map[string]json.RawMessage) {
	if usage, ok := object(message["usage"]); ok && len(usage) > 0 {
		e.usage = message["usage"]
	}
	if reason := text(message["stop_reason"]); reason != "" {
		e.finish = reason
	}
	for _, raw := range array(message["content"]) {
		part, _ := object(raw)
		e.plainBlock(part)
	}
}

func (e *event) plainBlock(part map[string]json.RawMessage) {
	e.content = e.content || text(part["text"]) != ""
	e.reasoning = e.reasoning || text(part["thinking"]) != ""
	e.toolCall = e.toolCall || text(part["name"]) != "" || text(part["partial_json"]) != ""
}

func plainBilled(raw []byte) Usage {
	u := NoUsage
	top, _ := object(raw)
	u.Prompt, u.Completion = count(top["input_tokens"]), count(top["output_tokens"])
	u.Cached, u.CacheWrite = count(top["cache_read_input_tokens"]), count(top["cache_creation_input_tokens"])
	return u
}

type plainMessage struct{ fields []plainField }

type plainField struct {
	name, value string
	hasValue    bool
}

func parsePlainly(raw []byte) plainMessage {
	var m plainMessage
	for line := range plainLines(string([]rune(string(raw)))) {
		if n := len(m.fields); n > 0 && plainContinues(m.fields[n-1].value, line) {
			m.fields[n-1].value += `\n` + line
			continue
		}
		name, value, hasValue := strings.Cut(line, ":")
		name = strings.TrimSpace(name)
		if hasValue && name == "" {
			name = "comment"
		}
		m.fields = append(m.fields, plainField{name, strings.TrimSpace(value), hasValue})
	}
	return m
}

func plainContinues(value, line string) bool {
	return strings.HasPrefix(value, "{") && !strings.HasSuffix(value, "}") && !strings.HasPrefix(line, "data:")
}

func plainLines(s string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for line := range strings.FieldsFuncSeq(s, func(r rune) bool { return r == '\n' || r == '\r' }) {
			if strings.TrimSpace(line) != "" && !yield(line) {
				return
			}
		}
	}
}

func (m *plainMessage) data() string { return m.join("data") }

func (m *plainMessage) isError() bool {
	for _, f := range m.fields {
		if f.name == "event" && f.value == "error" {
			return true
		}
	}
	return false
}

func (m *plainMessage) errorText() string {
	return strings.TrimSpace(m.join("comment") + "\n" + m.data())
}

func (m *plainMessage) join(name string) string {
	var values []string
	for _, f := range m.fields {
		if f.name == name && f.hasValue {
			values = append(values, f.value)
		}
	}
	return strings.Join(values, "\n")
}

func TestMain(m *testing.M) {
	if os.Getenv(sinkEnv) != "" {
		runSink()
		return
	}
	goleak.VerifyTestMain(m)
}
