package wire

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// chat returns an event of a stream with a choice.
func chat(choice string) string { return `data: {"choices":[{"index":0,` + choice + "}]}\n\n" }

const finished = `"delta":{},"finish_reason":"stop"`

// Server-sent events are found under any content type, behind a byte order mark, and with any line ends. AIPerf finds them under
// their own alone. Every split of the bytes gives the same.
//
// Covers T-121.
func TestEventsAreFound(t *testing.T) {
	stream := chat(`"delta":{"content":"a"}`) + chat(`"delta":{"content":"b"}`) + chat(finished) + doneEvent
	lines := func(end, empty string) string { return strings.ReplaceAll(stream, "\n\n", end+empty) }
	for name, c := range map[string]struct {
		media, body string
		as          string
		aiperf      int // content messages that AIPerf reads
	}{
		"their own":       {"text/event-stream", stream, "", 2},
		"JSON":            {"application/json", stream, "application/json", 0},
		"text":            {"text/plain; charset=utf-8", "\n \n" + stream, "text/plain", 0},
		"bytes":           {"application/octet-stream", ": hello\n\n" + stream, "application/octet-stream", 0},
		"id first":        {"text/plain", "id: 1\n" + stream, "text/plain", 0},
		"mark":            {"text/event-stream", "\xef\xbb\xbf" + stream, "", 1},
		"mark, JSON":      {"application/json", "\xef\xbb\xbf" + stream, "application/json", 0},
		"LF, CRLF":        {"text/event-stream", lines("\n", "\r\n"), "", 0},
		"CRLF, LF":        {"text/event-stream", lines("\r\n", "\n"), "", 2},
		"CRLF":            {"text/event-stream", lines("\r\n", "\r\n"), "", 2},
		"CR":              {"text/event-stream", lines("\r", "\r"), "", 0},
		"CR, LF":          {"text/event-stream", strings.Replace(lines("\r", "\r"), "\r\r", "\n\r\n", 1), "", 0},
		"event, LF, CRLF": {"text/event-stream", "event: x\r\n" + lines("\n", "\r\n"), "", 0},
	} {
		head := "HTTP/1.1 200 OK\r\nContent-Type: " + c.media + "\r\n"
		t.Run(name, func(t *testing.T) {
			response := sized(head, c.body)
			for i := len(head); i < len(response); i++ {
				res, _ := exchange(t, Options{}, response[:i], response[i:])
				require.Nil(t, res.Err, "split at %d", i)
				require.Equal(t, 2, res.Chunks, "split at %d", i)
				require.Equal(t, c.as, res.EventsAs)
				require.False(t, res.SingleBody)
				require.Equal(t, "stop", res.FinishReason)
			}
			res, _ := exchange(t, Options{AIPerfForms: true, LenientStreams: true}, response)
			require.Equal(t, c.aiperf, res.Chunks)
			require.Empty(t, res.EventsAs)
		})
	}
	res, _ := exchange(t, Options{}, sized(jsonHead, "\xef\xbb\xbf"+`{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}]}`))
	require.Nil(t, res.Err)
	require.True(t, res.SingleBody)
}

// The two ways to split agree, unless a CR follows a CR.
func TestSplitMessageAgrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stream := []byte(rapid.StringOfN(rapid.SampledFrom([]rune("\r\na")), 0, 12, -1).Draw(t, "stream"))
		if bytes.Contains(stream, []byte("\r\r")) {
			require.True(t, hasCRCR(stream))
			return
		}
		require.False(t, hasCRCR(stream))
		message, used := splitLines(stream, 0)
		fast, n := splitMessage(stream, 0)
		require.Equal(t, used, n, "%q", stream)
		require.Equal(t, string(message), string(fast), "%q", stream)
	})
}

// What stands in another member of a choice, or in a choice that is not the first, is content. AIPerf does not look for it.
//
// Covers T-122.
func TestContentInOtherMembers(t *testing.T) {
	for name, c := range map[string]struct {
		choice string
		want   event
		aiperf event
	}{
		"refusal":                {`"delta":{"refusal":"no"}`, event{content: true}, event{}},
		"refusal of a message":   {`"message":{"refusal":"no"}`, event{content: true}, event{}},
		"function":               {`"delta":{"function_call":{"name":"f"}}`, event{toolCall: true}, event{}},
		"arguments of a call":    {`"delta":{"function_call":{"name":null,"arguments":"x"}}`, event{toolCall: true}, event{}},
		"no function":            {`"delta":{"function_call":{"name":"","arguments":{}}}`, event{}, event{}},
		"details":                {`"delta":{"reasoning_details":[{"type":"reasoning.text","text":"hm"}]}`, event{reasoning: true}, event{}},
		"summary":                {`"delta":{"reasoning_details":[{"summary":"hm"}]}`, event{reasoning: true}, event{}},
		"encrypted":              {`"delta":{"reasoning_details":[{"data":"aG0="}]}`, event{reasoning: true}, event{}},
		"details without a text": {`"delta":{"reasoning_details":[{"type":"x"}]}`, event{}, event{}},
		"object":                 {`"delta":{"tool_calls":[{"function":{"arguments":{"a":1}}}]}`, event{toolCall: true}, event{}},
		"empty object":           {`"delta":{"tool_calls":[{"function":{"arguments":{}}}]}`, event{}, event{}},
		"order":                  {`"index":1,"delta":{"content":""}},{"index":0,"delta":{"content":"x"}`, event{content: true}, event{blank: true}},
		"the second":             {`"index":0,"delta":{"content":""}},{"index":1,"delta":{"content":"x"}`, event{blank: true}, event{blank: true}},
		"no index":               {`"delta":{"content":"x"}},{"index":1,"delta":{}`, event{content: true}, event{content: true}},
	} {
		payload := []byte(`{"choices":[{` + c.choice + "}]}")
		require.Equal(t, c.want, eventOf(payload, OpenAI, false), name)
		require.Equal(t, c.aiperf, eventOf(payload, OpenAI, true), name)
		requireAgreement(t, payload)
	}
}

// Usage is read where servers put it, and what they leave out of it is added where the total shows it.
//
// Covers T-131.
func TestUsageInOtherPlaces(t *testing.T) {
	none := NoUsage
	usage := func(change func(u *Usage)) Usage {
		u := none
		u.Prompt, u.Completion, u.Total = 700, 10, 710
		change(&u)
		return u
	}
	const counts = `"prompt_tokens":700,"completion_tokens":10,"total_tokens":710`
	for name, c := range map[string]struct {
		messages     []string
		want, aiperf Usage
	}{
		"in a choice":           {[]string{`{"choices":[{"index":0,"usage":{` + counts + `}}]}`}, usage(func(*Usage) {}), none},
		"in both":               {[]string{`{"usage":{` + counts + `},"choices":[{"usage":{"prompt_tokens":1}}]}`}, usage(func(*Usage) {}), usage(func(*Usage) {})},
		"cached":                {[]string{`{"usage":{` + counts + `,"cached_tokens":300,"prompt_tokens_details":null}}`}, usage(func(u *Usage) { u.Cached = 300 }), usage(func(u *Usage) { u.Cached = 300 })},
		"hits and misses":       {[]string{`{"usage":{` + counts + `,"prompt_cache_hit_tokens":300,"prompt_cache_miss_tokens":400}}`}, usage(func(u *Usage) { u.Cached, u.CacheMiss = 300, 400 }), usage(func(u *Usage) { u.Cached, u.CacheMiss = 300, 400 })},
		"zeros at the end":      {[]string{`{"usage":{` + counts + `}}`, `{"choices":[],"usage":{"prompt_tokens":0,"completion_tokens": 0,"total_tokens":0,"x1":"2"}}`}, usage(func(*Usage) {}), Usage{0, 0, none.Reasoning, none.Cached, none.CacheWrite, none.CacheMiss, 0}},
		"zeros first":           {[]string{`{"usage":{"prompt_tokens":0,"completion_tokens":0}}`, `{"usage":{` + counts + `}}`}, usage(func(*Usage) {}), usage(func(*Usage) {})},
		"fewer at the end":      {[]string{`{"usage":{"completion_tokens":3}}`, `{"usage":{"completion_tokens":2}}`}, Usage{-1, 2, -1, -1, -1, -1, -1}, Usage{-1, 2, -1, -1, -1, -1, -1}},
		"reasoning left out":    {[]string{`{"usage":{"prompt_tokens":700,"completion_tokens":10,"total_tokens":730,"completion_tokens_details":{"reasoning_tokens":20}}}`}, Usage{700, 30, 20, -1, -1, -1, 730}, Usage{700, 10, 20, -1, -1, -1, 730}},
		"reasoning in it":       {[]string{`{"usage":{"prompt_tokens":700,"completion_tokens":30,"total_tokens":730,"completion_tokens_details":{"reasoning_tokens":20}}}`}, Usage{700, 30, 20, -1, -1, -1, 730}, Usage{700, 30, 20, -1, -1, -1, 730}},
		"reasoning, no total":   {[]string{`{"usage":{"prompt_tokens":700,"completion_tokens":10,"completion_tokens_details":{"reasoning_tokens":20}}}`}, Usage{700, 10, 20, -1, -1, -1, -1}, Usage{700, 10, 20, -1, -1, -1, -1}},
		"no reasoning, a total": {[]string{`{"usage":{"prompt_tokens":700,"completion_tokens":10,"total_tokens":730}}`}, Usage{700, 10, -1, -1, -1, -1, 730}, Usage{700, 10, -1, -1, -1, -1, 730}},
	} {
		stream := chat(`"delta":{"content":"x"},"finish_reason":"stop"`)
		for _, m := range c.messages {
			stream += "data: " + m + "\n\n"
			requireAgreement(t, []byte(m))
		}
		for aiperf, want := range map[bool]Usage{false: c.want, true: c.aiperf} {
			res, _ := exchange(t, Options{AIPerfForms: aiperf}, sized(eventHead, stream+doneEvent))
			require.Nil(t, res.Err, name)
			require.Equal(t, want, res.Usage, "%s, aiperf %v", name, aiperf)
		}
	}
}

// In the Messages API a count of 0 does not replace more.
//
// Covers T-131.
func TestBilledZeros(t *testing.T) {
	u := NoUsage
	u.addBilled([]byte(`{"input_tokens":7,"cache_read_input_tokens":0}`), false)
	u.addBilled([]byte(`{"input_tokens":0,"output_tokens":3}`), false)
	require.Equal(t, Usage{7, 3, -1, 0, -1, -1, -1}, u)
	u.addBilled([]byte(`{"input_tokens":0}`), true)
	require.EqualValues(t, 0, u.Prompt)
}

// An error under status 200 is one in any form that servers write it, and has their words.
//
// Covers T-111.
func TestErrorsInOtherForms(t *testing.T) {
	x := chat(`"delta":{"content":"x"}`)
	const bare = `{"object":"error","message":"engine died","type":"InternalServerError","param":null,"code":500}`
	const overflow = `{"object":"error","message":"This model's maximum context length is 100 tokens","code":400}`
	for name, c := range map[string]struct {
		stream   string
		category Category
		words    string
		aiperf   Category // "": a success
	}{
		"object":              {x + "data: " + bare + "\n\n" + doneEvent, StreamPayload, "engine died", ""},
		"object, no content":  {"data: " + overflow + "\n\n" + doneEvent, ContextOverflow, "maximum context", NoContent},
		"type":                {x + `data: {"type":"error","detail":"gone"}` + "\n\n" + doneEvent, StreamPayload, "gone", ""},
		"body":                {overflow, ContextOverflow, "maximum context", StreamTruncated},
		"body with an error":  {`{"error":{"message":"maximum context length"}}`, ContextOverflow, "maximum context", StreamTruncated},
		"body in lines":       {"{\n \"error\": {\n  \"message\": \"engine died\"\n }\n}\n", StreamPayload, "engine died", StreamTruncated},
		"line":                {x + `{"error":"engine died"}` + "\n\n" + doneEvent, StreamPayload, "engine died", ""},
		"line below data":     {strings.TrimSuffix(x, "\n") + `{"error":"engine died"}` + "\n\n" + doneEvent, StreamPayload, "engine died", ""},
		"words":               {x + "Internal Server Error\n\n", StreamTruncated, "[DONE]: Internal Server Error", ""},
		"words, no content":   {"upstream: no host\n\n" + doneEvent, NoContent, "no content: upstream: no host", NoContent},
		"abort":               {x + chat(`"delta":{},"finish_reason":"abort"`) + doneEvent, StreamPayload, "finish reason abort", ""},
		"error":               {x + chat(`"delta":{},"finish_reason":"error","why":"engine died"`) + doneEvent, StreamPayload, "engine died", ""},
		"other fields":        {"id: 1\nretry: 5\n: c\n" + x + chat(finished), "", "", ""},
		"words are no error":  {x + "hello: world\n\n" + chat(finished), "", "", ""},
		"a message, no code":  {x + `data: {"message":"warming up"}` + "\n\n" + doneEvent, "", "", ""},
		"a code in an answer": {x + `data: {"choices":[],"message":"x","code":1}` + "\n\n" + doneEvent, "", "", ""},
	} {
		res, _ := exchange(t, Options{}, sized(eventHead, c.stream))
		if c.category == "" {
			require.Nil(t, res.Err, name)
		} else {
			require.NotNil(t, res.Err, name)
			require.Equal(t, c.category, res.Err.Category, name)
			require.Contains(t, res.Err.Message, c.words, name)
		}
		res, _ = exchange(t, Options{AIPerfForms: true, LenientStreams: true}, sized(eventHead, c.stream))
		if c.aiperf == "" {
			require.Nil(t, res.Err, name)
		} else {
			require.Equal(t, c.aiperf, res.Err.Category, name)
		}
	}
	res, _ := exchange(t, Options{}, sized(jsonHead, overflow))
	require.Equal(t, ContextOverflow, res.Err.Category)
}
