package wire

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// messagesEvents are payloads of the Messages API as Anthropic, vLLM and llama.cpp send them. Skimming must be sure of all of
// them but the last, a complete message.
var messagesEvents = []struct {
	payload string
	want    event
}{
	{`{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[],"model":"m","stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":25,"output_tokens":1}}}`,
		event{usage: []byte(`{"input_tokens":25,"output_tokens":1}`)}},
	{`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`, event{}},
	{`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`, event{}},
	{`{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"toolu_1","name":"ls","input":{}}}`, event{toolCall: true}},
	{`{"type": "ping"}`, event{}},
	{`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" tok\n"}}`, event{content: true}},
	{`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":""}}`, event{blank: true}},
	{`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}`, event{reasoning: true}},
	{`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"EqQB"}}`, event{}},
	{`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":""}}`, event{}},
	{`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"path\":"}}`, event{toolCall: true}},
	{`{"type":"content_block_stop","index":0}`, event{}},
	{`{"type":"message_delta","delta":{"stop_reason":"max_tokens","stop_sequence":null},"usage":{"output_tokens":15}}`,
		event{finish: "max_tokens", usage: []byte(`{"output_tokens":15}`)}},
	{`{"delta":{"stop_reason":"end_turn"},"type":"message_delta"}`, event{finish: "end_turn"}},
	{`{"type":"message_stop"}`, event{last: true}},
	{`{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"thinking","thinking":"hm"},{"type":"text","text":"x"},{"type":"tool_use","name":"ls","input":{}}],"stop_reason":"tool_use","usage":{"input_tokens":3}}`,
		event{content: true, reasoning: true, toolCall: true, finish: "tool_use", usage: []byte(`{"input_tokens":3}`)}},
}

func TestMessagesEvents(t *testing.T) {
	for _, c := range messagesEvents {
		require.Equal(t, c.want, eventOf([]byte(c.payload), MessagesAPI, false), c.payload)
	}
	for payload, want := range map[string]event{
		`null`: {}, `[1]`: {}, `x`: {}, `{"error":null}`: {}, `{"message":[]}`: {}, `{"delta":7}`: {}, `{"content":[null,7,"x"]}`: {},
		`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`: {failed: true},
		`{"object":"error","message":"engine died","code":500}`:                       {failed: true},
		`{"type":"error"}`: {failed: true},
		`{"type":"message_delta","delta":{"stop_reason":"odd"}}`:  {finish: "odd"},
		`{"delta":{"text":["x"],"thinking":1,"partial_json":{}}}`: {},
	} {
		require.Equal(t, want, eventOf([]byte(payload), MessagesAPI, false), payload)
	}
}

// requireMessagesAgreement is requireAgreement of the Messages API.
func requireMessagesAgreement(t require.TestingT, payload []byte) {
	for _, aiperf := range []bool{false, true} {
		require.Equal(t, plainMessagesEvent(payload, aiperf), eventOf(payload, MessagesAPI, aiperf), "%q", payload)
	}
	require.Equal(t, plainBilled(payload), readUsage(payload, MessagesAPI), "%q", payload)
	requireCare(t, payload, MessagesAPI)
}

func TestMessagesSkimAgrees(t *testing.T) {
	names := []string{
		"type", "delta", "content_block", "message", "usage", "error", "content", "stop_reason", "text", "thinking", "partial_json", "name",
		"input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "id", "object", "code", "choices", "Type", `te\u0078t`,
	}
	var object func(depth int) *rapid.Generator[string]
	object = func(depth int) *rapid.Generator[string] {
		return rapid.Custom(func(t *rapid.T) string {
			var members []string
			for _, name := range rapid.SliceOfN(rapid.SampledFrom(names), 0, 4).Draw(t, "names") {
				value := genValue(1)
				if depth > 0 {
					value = rapid.OneOf(value, object(depth-1), rapid.SampledFrom([]string{`"message_stop"`, `"error"`, `"end_turn"`, "[]", "[ ]"}))
				}
				members = append(members, fmt.Sprintf(`"%s":%s`, name, value.Draw(t, name)))
			}
			return "{" + strings.Join(members, ",") + "}"
		})
	}
	rapid.Check(t, func(t *rapid.T) {
		requireMessagesAgreement(t, []byte(object(3).Draw(t, "payload")))
	})
	for _, c := range messagesEvents {
		for i := range len(c.payload) {
			requireMessagesAgreement(t, []byte(c.payload[:i]))
			for _, x := range []byte("\x00\"\\{}[],: 0n\xff") {
				b := []byte(c.payload)
				b[i] = x
				requireMessagesAgreement(t, b)
			}
		}
	}
}

func FuzzMessages(f *testing.F) {
	for _, c := range messagesEvents {
		f.Add([]byte(c.payload))
	}
	f.Fuzz(func(t *testing.T, payload []byte) { requireMessagesAgreement(t, payload) })
}

// namedEvent returns an event as the Messages API sends it: its name in a line before its payload.
func namedEvent(payload string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(payload, `{"type":"`), `"`)
	return "event: " + name + "\ndata: " + payload + "\n\n"
}

const (
	messageStart = `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[],"usage":{"input_tokens":20,"cache_read_input_tokens":300,"cache_creation_input_tokens":5,"output_tokens":1}}}`
	messageDelta = `{"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":15}}`
	messageStop  = `{"type":"message_stop"}`
)

// messagesStream is a whole answer with thinking, text and a tool call.
var messagesStream = namedEvent(messageStart) + namedEvent(`{"type":"ping"}`) +
	namedEvent(`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}`) +
	namedEvent(`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"hm"}}`) +
	namedEvent(`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"EqQB"}}`) +
	namedEvent(`{"type":"content_block_stop","index":0}`) +
	namedEvent(`{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}`) +
	namedEvent(`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"a"}}`) +
	namedEvent(`{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":" b"}}`) +
	namedEvent(`{"type":"content_block_stop","index":1}`) +
	namedEvent(`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"t","name":"ls","input":{}}}`) +
	namedEvent(`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{}"}}`) +
	namedEvent(`{"type":"content_block_stop","index":2}`) + namedEvent(messageDelta) + namedEvent(messageStop)

// decodeMessages decodes a stream of the Messages API that arrives in pieces, one each second.
func decodeMessages(lenient bool, pieces ...string) (Result, Category, string) {
	var d decoder
	res := newResult(0)
	d.reset(responseState{res: &res, events: true, api: MessagesAPI, lenient: lenient})
	for k, p := range pieces {
		if d.finished() {
			break
		}
		if err := d.feed([]byte(p), time.Duration(k)*time.Second); err != nil {
			return res, Connection, err.Error()
		}
	}
	category, text := d.finish()
	return res, category, text
}

// A stream of the Messages API has the same counts and instants as one of a chat, at every split.
//
// Covers T-40.
func TestMessagesStream(t *testing.T) {
	want := Usage{Prompt: 325, Completion: 15, Reasoning: Unknown, Cached: 300, CacheWrite: 5, CacheMiss: Unknown, Total: Unknown}
	events := strings.SplitAfter(messagesStream, "\n\n")
	res, category, _ := decodeMessages(false, events...)
	require.Empty(t, category)
	require.Equal(t, []any{5, "tool_use", want}, []any{res.Chunks, res.FinishReason, res.Usage})
	require.Equal(t, []time.Duration{3, 7, 7, 11, 14}, []time.Duration{
		res.FirstToken / time.Second, res.SecondToken / time.Second, res.FirstOutput / time.Second, res.LastToken / time.Second, res.LastMessage / time.Second,
	})
	for _, stream := range []string{messagesStream, strings.ReplaceAll(messagesStream, "\n", "\r\n"), strings.TrimSpace(messagesStream), messagesStream + "data: [DONE]\n\n"} {
		for i := range len(stream) + 1 {
			res, category, text := decodeMessages(false, stream[:i], stream[i:])
			require.Equal(t, []any{Category(""), 5, "tool_use", want}, []any{category, res.Chunks, res.FinishReason, res.Usage}, "split at %d: %s", i, text)
		}
	}
}

// Counts of message_delta replace those of message_start; what neither has is unknown.
func TestMessagesUsage(t *testing.T) {
	delta := func(usage string) string {
		return namedEvent(strings.Replace(messageDelta, `{"output_tokens":15}`, usage, 1)) + namedEvent(messageStop)
	}
	text := namedEvent(`{"type":"content_block_delta","delta":{"text":"a"}}`)
	usage := func(prompt, completion, cached, written int64) Usage {
		return Usage{Prompt: prompt, Completion: completion, Reasoning: Unknown, Cached: cached, CacheWrite: written, CacheMiss: Unknown, Total: Unknown}
	}
	for _, test := range []struct {
		stream string
		want   Usage
	}{
		{namedEvent(messageStart) + text + delta(`{"output_tokens":15}`), usage(325, 15, 300, 5)},
		{namedEvent(messageStart) + text + delta(`{"input_tokens":20,"cache_read_input_tokens":300,"cache_creation_input_tokens":5,"output_tokens":15}`), usage(325, 15, 300, 5)},
		{namedEvent(messageStart) + text + delta(`{"input_tokens":null,"cache_read_input_tokens":null,"output_tokens":2}`), usage(325, 2, 300, 5)},
		{text + delta(`{"input_tokens":7,"output_tokens":2}`), usage(7, 2, Unknown, Unknown)}, // vLLM without details
		{text + delta(`{"output_tokens":2}`), usage(Unknown, 2, Unknown, Unknown)},
		{text + delta(`{}`), NoUsage},
		{text + delta(`{"input_tokens":1.5,"output_tokens":-1}`), NoUsage},
	} {
		res, category, _ := decodeMessages(false, test.stream)
		require.Empty(t, category)
		require.Equal(t, test.want, res.Usage, test.stream)
	}
}

// Dynamo has usage in every event of content, and in the first an estimate of the prompt.
//
// Covers T-54.
func TestMessagesUsageInEveryEvent(t *testing.T) {
	delta := func(text string, output int) string {
		return namedEvent(fmt.Sprintf(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":%q},"usage":{"input_tokens":18,"output_tokens":%d,"cache_creation_input_tokens":0,"total_tokens":1}}`, text, output))
	}
	stream := namedEvent(`{"type":"message_start","message":{"content":[],"usage":{"input_tokens":9,"output_tokens":0}}}`) + delta("a", 4) + delta("b", 5) +
		namedEvent(messageStop)
	for _, perChunk := range []bool{true, false} {
		var d decoder
		res := newResult(0)
		d.reset(responseState{res: &res, events: true, api: MessagesAPI, perChunk: perChunk})
		require.NoError(t, d.feed([]byte(stream), time.Second))
		category, _ := d.finish()
		require.Empty(t, category)
		require.Equal(t, Usage{Prompt: 18, Completion: 5, Reasoning: Unknown, Cached: Unknown, CacheWrite: 0, CacheMiss: Unknown, Total: Unknown}, res.Usage)
		want := Unknown
		if perChunk {
			want = 4
		}
		require.Equal(t, want, res.FirstChunkTokens)
	}
}

// Dynamo's word for a prompt that does not fit is a failure of its own in the Messages API, before any content.
func TestDynamoOverflowOfMessages(t *testing.T) {
	start := namedEvent(`{"type":"message_start","message":{"content":[],"usage":{"input_tokens":500001}}}`)
	failed := func(message string) string {
		return namedEvent(`{"type":"error","error":{"type":"api_error","message":"` + message + `"}}`)
	}
	text := namedEvent(`{"type":"content_block_delta","delta":{"text":"a"}}`)
	for _, c := range []struct {
		stream  string
		options Options
		want    Category
	}{
		{start + failed("Internal server error"), Options{}, ContextOverflow},
		{start + text + failed("Internal server error"), Options{}, StreamEvent},
		{start + failed("Overloaded"), Options{}, StreamEvent},
		{start + failed("Internal server error"), Options{OverflowPatterns: []string{}}, StreamEvent},
	} {
		o := c.options
		o.KeepAlive = -1
		client := newClient(t, serve(t, answer(sized(eventHead, c.stream))), o)
		res := client.Do(context.Background(), &Request{Path: "/v1/messages", API: MessagesAPI, Stream: true, Body: textBody("{}")})
		require.Equal(t, c.want, res.Err.Category, c.stream)
	}
}

// Failures of the Messages API under status 200 have the categories of a chat.
//
// Covers T-40.
func TestMessagesFailures(t *testing.T) {
	text := namedEvent(`{"type":"content_block_delta","delta":{"text":"a"}}`)
	failed := `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`
	for _, c := range []struct {
		name, stream     string
		strict, tolerant Category
	}{
		{"error event", namedEvent(messageStart) + text + namedEvent(failed), StreamEvent, StreamEvent},
		{"error event before content", namedEvent(failed), StreamEvent, StreamEvent},
		{"error object without its name", text + "data: " + failed + "\n\n", StreamPayload, ""},
		{"cut between events", namedEvent(messageStart) + text, StreamTruncated, ""},
		{"cut inside an event", namedEvent(messageStart) + text + `event: content_block_delta` + "\n" + `data: {"type":"content_block_del`, StreamTruncated, ""},
		{"no message_stop", namedEvent(messageStart) + text + namedEvent(messageDelta), "", ""},
		{"no stop reason", namedEvent(messageStart) + text + namedEvent(messageStop), "", ""},
		{"no content", namedEvent(messageStart) + namedEvent(messageDelta) + namedEvent(messageStop), NoContent, NoContent},
		{"text behind the end", namedEvent(messageStop) + text, NoContent, NoContent},
		{"nothing", "", StreamTruncated, StreamTruncated},
	} {
		for lenient, want := range map[bool]Category{false: c.strict, true: c.tolerant} {
			_, category, _ := decodeMessages(lenient, c.stream)
			require.Equal(t, want, category, "%s, lenient %v", c.name, lenient)
		}
	}
}

// An answer without a stream is one message, and an error with its status is an error.
func TestMessagesWhole(t *testing.T) {
	whole := `{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"text","text":"x"}],"stop_reason":"end_turn","usage":{"input_tokens":3,"cache_read_input_tokens":4,"output_tokens":2}}`
	failed := `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`
	c := newClient(t, serve(t, answer(sized(jsonHead, whole)), answer(sized(jsonHead, failed)),
		answer(sized("HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\n", failed)), answer(sized("HTTP/1.1 529 Overloaded\r\n", failed[:20]))), Options{KeepAlive: -1})
	for _, want := range []Category{"", ContextOverflow, ContextOverflow, Overload} {
		res := c.Do(context.Background(), &Request{Path: "/v1/messages", API: MessagesAPI, Body: textBody("{}")})
		if want != "" {
			require.Equal(t, want, res.Err.Category)
			continue
		}
		require.Nil(t, res.Err)
		require.True(t, res.SingleBody)
		require.Equal(t, []any{1, "end_turn", int64(7), int64(4), int64(2)}, []any{res.Chunks, res.FinishReason, res.Usage.Prompt, res.Usage.Cached, res.Usage.Completion})
	}
}

// Events of the usual form are read in place.
func TestMessagesDecodingDoesNotAllocate(t *testing.T) {
	var d decoder
	res := newResult(0)
	stream := []byte(messagesStream)
	decode := func() {
		d.reset(responseState{res: &res, events: true, api: MessagesAPI})
		if d.feed(stream, 0) != nil || !d.finished() {
			t.Error("not read to its end")
		}
	}
	decode()
	require.Zero(t, testing.AllocsPerRun(100, decode))
}

// BenchmarkDecodeMessages is BenchmarkDecode of the Messages API.
func BenchmarkDecodeMessages(b *testing.B) {
	delta := namedEvent(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":" word"}}`)
	data := []byte(namedEvent(messageStart) + strings.Repeat(delta, 500) + namedEvent(messageDelta) + namedEvent(messageStop))
	var d decoder
	var res Result
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		res = newResult(0)
		d.reset(responseState{res: &res, events: true, api: MessagesAPI})
		for p := data; len(p) > 0; p = p[min(len(p), maxBuffer):] {
			if err := d.feed(p[:min(len(p), maxBuffer)], 1); err != nil {
				b.Fatal(err)
			}
		}
		if category, _ := d.finish(); category != "" || res.Chunks != 500 {
			b.Fatal(category, res.Chunks)
		}
	}
	b.ReportMetric(500*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}
