package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// commonEvents are payloads that servers send. Skimming must be sure of all of them.
var commonEvents = []struct {
	payload string
	want    event
}{
	{`{"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}`,
		event{blank: true}},
	{`{"id":"c1","choices":[{"index":0,"delta":{"content":" tok\n\u00e9"},"logprobs":null,"finish_reason":null,"stop_reason":null}],"usage":null}`,
		event{content: true}},
	{`{"choices": [{"index": 0, "delta": {"reasoning_content": "hm", "content": null}}]}`,
		event{reasoning: true}},
	{`{"choices":[{"delta":{"reasoning":"hm","content":"x"},"finish_reason":"stop"}]}`,
		event{reasoning: true, content: true, finish: "stop"}},
	{`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"ls","arguments":""}}]}}]}`,
		event{toolCall: true}},
	{`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"a\":1}"}},{"index":1,"function":{"arguments":""}}]},"finish_reason":"tool_calls"}]}`,
		event{toolCall: true, finish: "tool_calls"}},
	{`{"choices":[{"index":0,"delta":{"tool_calls":[]},"finish_reason":"length"},{"index":1,"delta":{"content":"other"},"finish_reason":"stop"}]}`,
		event{finish: "length"}},
	{`{"choices":[{"index": 0,"delta":{"content":"x","refusal":null,"function_call":null,"reasoning_details":[]},"usage":null}]}`,
		event{content: true}},
	{`{"choices":[{"delta":{"reasoning_details":null}}]}`, event{}},
	{`{"object":"text_completion","choices":[{"index":0,"text":"abc","logprobs":{"top":[1.5e-3,-2,true,false]},"finish_reason":null}]}`,
		event{content: true}},
	{`{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"whole"},"finish_reason":"stop"}],"usage":{"prompt_tokens":3}}`,
		event{content: true, finish: "stop", usage: []byte(`{"prompt_tokens":3}`)}},
	{`{"choices":[{"index":0,"delta":{"content":"x"}}],"usage":{"prompt_tokens":3, "completion_tokens": 10,"p5":"a:6 7","f":1.5,"more":{"n":-8,"z":0}},"n":5}`,
		event{content: true, usage: []byte(`{"prompt_tokens":3, "completion_tokens": 10,"p5":"a:6 7","f":1.5,"more":{"n":-8,"z":0}}`)}},
	{`{"usage":{"prompt_tokens":3},"choices":[{"index":0,"delta":{"content":"x"}}]}`,
		event{content: true, usage: []byte(`{"prompt_tokens":3}`)}},
	{`{"choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":11,"prompt_tokens_details":{"cached_tokens":64}},"error":null}`,
		event{usage: []byte(`{"prompt_tokens":1000,"completion_tokens":11,"prompt_tokens_details":{"cached_tokens":64}}`)}},
	{`{"choices":[]}`, event{}},
}

func TestSkimCommonEvents(t *testing.T) {
	for _, c := range commonEvents {
		got, ok := readEvent([]byte(c.payload), OpenAI, false)
		require.True(t, ok, c.payload)
		require.Equal(t, c.want, withoutText(got), c.payload)
	}
}

func TestEventsWithoutWhatIsRead(t *testing.T) {
	for _, payload := range []string{
		``, `[DONE]`, `null`, `[]`, `"x"`, `{`, `{"a":1}x`, `{"a":1,}`, `{"a"}`, `{,}`, `{"a":01}`, `{"a":1.}`, `{"a":-}`, `{"a":1e}`,
		`{"a":"\x"}`, `{"a":"\u12g4"}`, "{\"a\":\"\n\"}", `{"a":tru}`, `{"a":[1,]}`, `{"a":[1 2]}`,
	} {
		e, ok := readEvent([]byte(payload), OpenAI, false)
		require.False(t, ok, payload)
		require.Zero(t, e, payload)
	}
	for _, payload := range []string{
		`{"error":{"message":"x"}}`, `{"error":""}`, `{"choices":5}`, `{"choices":[5]}`, `{"choices":[null]}`,
		`{"choices":[{"delta":{"content":5}}]}`, `{"choices":[{"delta":{"content":"a","content":""}}]}`,
		`{}`, `{"choices":null}`, `{"choices":[{"index":1}]}`, `{"choices":[{},{"index":0}]}`, `{"choices":[{"usage":{"a":1}}]}`,
		`{"choices":[{"delta":{"refusal":"no"}}]}`, `{"choices":[{"delta":{"function_call":{}}}]}`, `{"choices":[{"delta":{"reasoning_details":[{}]}}]}`,
		`{"choices":[{"finish_reason":"odd"}]}`, `{"choi\u0063es":[]}`, `{"usage":{}}`, `{"usage":7}`,
		strings.Repeat(`{"a":`, 100) + `1` + strings.Repeat(`}`, 100),
	} {
		_, ok := readEvent([]byte(payload), OpenAI, false)
		require.True(t, ok, payload)
		requireAgreement(t, []byte(payload))
	}
}

func TestDecodeEventOdd(t *testing.T) {
	for payload, want := range map[string]event{
		`hello`:                     {},
		`null`:                      {},
		`[1]`:                       {},
		`{"error":{"message":"x"}}`: {failed: true},
		`{"error":"x"}`:             {failed: true},
		`{"error":1}`:               {failed: true},
		`{"error":true}`:            {failed: true},
		`{"error":["x"]}`:           {failed: true},
		`{"error":null}`:            {},
		`{"error":""}`:              {},
		`{"error":{}}`:              {},
		`{"error":false}`:           {},
		`{"usage":{}}`:              {},
		`{"choices":{"text":"x"}}`:  {},
		`{"choices":{"text":""}}`:   {},
		`{"choices":[{"finish_reason":"odd","delta":{"content":["x"]}}]}`:                                   {finish: "odd", content: true},
		`{"choices":[{"delta":{"content":[{"type":"text","text":"x"}]}}]}`:                                  {content: true},
		`{"choices":[{"message":{"content":[{"type":"text","text":""},{"type":"text","text":"x"}]}}]}`:      {content: true},
		`{"choices":[{"delta":{"content":[{"type":"text","text":""},{"type":"image_url"},"",7,null]}}]}`:    {},
		`{"choices":[{"delta":{"content":[]}}]}`:                                                            {},
		`{"choices":[{"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"x"}]}]}}]}`: {reasoning: true},
	} {
		require.Equal(t, want, eventOf([]byte(payload), OpenAI, false), payload)
		require.Equal(t, want, eventOf([]byte(payload), OpenAI, true), payload)
	}
}

// eventOf returns what a payload says, without where its text lies.
func eventOf(payload []byte, api API, aiperf bool) event {
	e, _ := readEvent(payload, api, aiperf)
	return withoutText(e)
}

func withoutText(e event) event {
	e.textCount, e.textStart, e.textEnd, e.usageStart = 0, 0, 0, 0
	return e
}

// requireAgreement requires that a payload is read as encoding/json reads it, also where it is read with care, which most are not.
func requireAgreement(t require.TestingT, payload []byte) {
	for _, aiperf := range []bool{false, true} {
		require.Equal(t, plainEvent(payload, aiperf), eventOf(payload, OpenAI, aiperf), "%q", payload)
	}
	require.Equal(t, plainUsage(payload), readUsage(payload, OpenAI), "%q", payload)
	requireCare(t, payload, OpenAI)
}

func requireCare(t require.TestingT, payload []byte, api API) {
	for _, s := range []shape{eventShapes[api], usageShapes[api]} {
		for _, aiperf := range []bool{false, true} {
			quick, careful := reading{aiperf: aiperf}, reading{aiperf: aiperf, careful: true}
			ok := quick.read(payload, s)
			require.Equal(t, ok, careful.read(payload, s), "%q", payload)
			if ok {
				require.Equal(t, withoutText(quick.event), withoutText(careful.event), "%q", payload)
				require.Equal(t, []any{quick.said, quick.counts}, []any{careful.said, careful.counts}, "%q", payload)
			}
			_, isObject := object(payload)
			require.Equal(t, isObject, ok, "%q", payload)
		}
	}
}

// genValue generates JSON values of any type.
func genValue(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		kinds := 7
		if depth <= 0 {
			kinds = 5
		}
		switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
		case 0:
			return rapid.SampledFrom([]string{"null", "true", "false", "0", "-1", "12", "3.5", "1e3", "007", "1234567890123456789"}).Draw(t, "word")
		case 1, 2:
			return rapid.SampledFrom([]string{`""`, `"x"`, `"stop"`, `"length"`, `"a\nb"`, `"\u00e9\ud83d\ude00"`, `"long enough for eight bytes"`, `"odd\"reason"`, "\"\xff\""}).Draw(t, "string")
		case 3, 4:
			s, err := json.Marshal(rapid.String().Draw(t, "text"))
			if err != nil {
				t.Fatal(err)
			}
			return string(s)
		case 5:
			items := rapid.SliceOfN(genValue(depth-1), 0, 3).Draw(t, "items")
			return "[" + strings.Join(items, ", ") + "]"
		default:
			return genObject(depth-1).Draw(t, "object")
		}
	})
}

var eventNames = []string{
	"choices", "delta", "message", "text", "content", "reasoning_content", "reasoning", "tool_calls", "function",
	"name", "arguments", "finish_reason", "usage", "error", "id", "prompt_tokens", "completion_tokens",
	"completion_tokens_details", "reasoning_tokens", "prompt_tokens_details", "cached_tokens",
	"input_tokens_details", "cache_read_input_tokens", "prompt_cache_hit_tokens", "object", "type", "message", "code", "index", "refusal",
	"function_call", "reasoning_details", "Choices", `us\u0061ge`,
}

func genObject(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		names := rapid.SliceOfN(rapid.SampledFrom(eventNames), 0, 4).Draw(t, "names")
		var members []string
		for _, n := range names {
			members = append(members, fmt.Sprintf(`"%s":%s`, n, genValue(depth).Draw(t, n)))
		}
		return "{" + strings.Join(members, ",") + "}"
	})
}

// genEvent generates payloads that resemble those of servers.
func genEvent() *rapid.Generator[string] {
	member := func(t *rapid.T, name string, g *rapid.Generator[string]) string {
		return fmt.Sprintf(`"%s":%s`, name, g.Draw(t, name))
	}
	return rapid.Custom(func(t *rapid.T) string {
		v := genValue(1)
		function := "{" + member(t, "name", v) + "," + member(t, "arguments", v) + "}"
		other := rapid.SampledFrom([]string{"refusal", "function_call", "reasoning_details", "x"}).Draw(t, "other")
		odd := rapid.OneOf(v, rapid.SampledFrom([]string{function, "null", "[]", `[{"text":"x"}]`, `[{"data":""},{"summary":"y"}]`}))
		delta := "{" + member(t, "content", v) + "," + member(t, "reasoning_content", v) + `,"tool_calls":[{"function":` + function + "}]," + member(t, other, odd) + "}"
		index := rapid.SampledFrom([]string{"0", "1", "null", `"0"`, "0.0"})
		carrier := rapid.SampledFrom([]string{"delta", "message", "other"}).Draw(t, "carrier")
		choice := fmt.Sprintf(`{%s,"%s":%s,%s,%s,%s}`, member(t, "index", index), carrier, delta, member(t, "finish_reason", v), member(t, "text", v),
			member(t, "usage", rapid.SampledFrom([]string{"null", `{"prompt_tokens":1}`})))
		second := rapid.SampledFrom([]string{"", `,{"index":0,"text":"x"}`, `,{"text":"x"}`, `,{"index":1}`}).Draw(t, "second")
		return fmt.Sprintf(`{"id":"x","choices":[%s%s],%s,%s}`, choice, second, member(t, "usage", genObject(2)), member(t, "error", v))
	})
}

func TestSkimAgrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		requireAgreement(t, []byte(rapid.OneOf(genEvent(), genObject(5)).Draw(t, "payload")))
	})
}

func TestSkimAgreesOnMutations(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := []byte(rapid.OneOf(genEvent(), genObject(3)).Draw(t, "payload"))
		for range rapid.IntRange(1, 3).Draw(t, "mutations") {
			i := rapid.IntRange(0, len(b)-1).Draw(t, "at")
			switch rapid.IntRange(0, 2).Draw(t, "how") {
			case 0:
				b[i] = rapid.Byte().Draw(t, "byte")
			case 1:
				b = append(b[:i:i], b[i+1:]...)
			default:
				b = b[:max(1, i)]
			}
			if len(b) == 0 {
				return
			}
		}
		requireAgreement(t, b)
	})
}

// TestSkimCutsAndFlips truncates and changes common events at every byte.
func TestSkimCutsAndFlips(t *testing.T) {
	for _, c := range commonEvents {
		for i := range len(c.payload) {
			requireAgreement(t, []byte(c.payload[:i]))
			for _, x := range []byte("\x00\"\\{}[],: 0n\xff") {
				b := []byte(c.payload)
				b[i] = x
				requireAgreement(t, b)
			}
		}
	}
}

func FuzzSkim(f *testing.F) {
	for _, c := range commonEvents {
		f.Add([]byte(c.payload))
	}
	f.Fuzz(func(t *testing.T, payload []byte) { requireAgreement(t, payload) })
}

// FuzzSplit splits a stream into pieces: the messages do not depend on them.
func FuzzSplit(f *testing.F) {
	f.Add([]byte("data: a\n\ndata: b\r\n\r\ndata: c\n\r\n\r\n\n"), uint8(3))
	f.Fuzz(func(t *testing.T, stream []byte, size uint8) {
		var pieces [][]byte
		for rest := stream; len(rest) > 0; {
			n := min(len(rest), int(size)+1)
			pieces = append(pieces, rest[:n])
			rest = rest[n:]
		}
		require.Equal(t, messages(stream), messages(pieces...))
	})
}

func TestSplitAgrees(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stream := []byte(rapid.StringOfN(rapid.SampledFrom([]rune("\r\nda:{} ")), 0, 60, -1).Draw(t, "stream"))
		i := rapid.IntRange(0, len(stream)).Draw(t, "i")
		j := rapid.IntRange(i, len(stream)).Draw(t, "j")
		require.Equal(t, messages(stream), messages(stream[:i], stream[i:j], stream[j:]))
	})
}

// TestTemplateAgrees learns the template of one message. Every message that matches must decode to the same event.
func TestTemplateAgrees(t *testing.T) {
	learned, counted := 0, 0
	for _, c := range commonEvents {
		raw := []byte("data:  " + c.payload + " ")
		e, _ := readEvent([]byte(c.payload), OpenAI, false)
		var s template
		s.learn(raw, 7, &e)
		if len(s.prefix) == 0 {
			continue
		}
		learned++
		changed := string(s.prefix) + "other text"
		for i, literal := range s.literals {
			if i > 0 {
				changed += "1234"
			}
			changed += string(literal)
		}
		if len(s.literals) > 1 {
			counted++
		}
		require.True(t, s.matches([]byte(changed)), changed)
		require.Equal(t, withoutText(s.event), eventOf([]byte(changed[7:len(changed)-1]), OpenAI, false), changed)
	}
	require.Positive(t, learned)
	require.Positive(t, counted)
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.SampledFrom(commonEvents).Draw(t, "event")
		raw := []byte("data:  " + c.payload + " ")
		e, _ := readEvent([]byte(c.payload), OpenAI, false)
		var s template
		s.learn(raw, 7, &e)
		if len(s.prefix) == 0 {
			return
		}
		require.True(t, s.matches(raw))
		hole := rapid.OneOf(
			rapid.StringOfN(rapid.SampledFrom([]rune("ab\"\\nu0{},:\n")), 0, 12, -1), rapid.String(),
			rapid.Just(`","x":"`), rapid.Just(`\u00e9`),
		).Draw(t, "hole")
		changed := string(s.prefix) + hole
		for i, literal := range s.literals {
			if i > 0 {
				changed += rapid.SampledFrom([]string{"0", "7", "1234", "00", "01", "", "9007199254740993", "1.5", "x"}).Draw(t, "number")
			}
			changed += string(literal)
		}
		if s.matches([]byte(changed)) {
			require.Equal(t, withoutText(s.event), eventOf([]byte(changed[7:len(changed)-1]), OpenAI, false), changed)
		}
		b := []byte(changed)
		b[rapid.IntRange(0, len(b)-1).Draw(t, "at")] ^= rapid.Byte().Draw(t, "flip")
		if s.matches(b) {
			require.Equal(t, withoutText(s.event), eventOf(b[7:len(b)-1], OpenAI, false), "%q", b)
		}
	})
}

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

// Every list of messages comes back as it was added.
func TestContentsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gaps := rapid.SliceOf(rapid.Int64Range(0, int64(time.Hour))).Draw(t, "gaps")
		var c Contents
		var at time.Duration
		type message struct {
			at     time.Duration
			tokens int64
		}
		var want, got []message
		for _, gap := range gaps {
			at += time.Duration(gap)
			tokens := rapid.Int64Range(Unknown, 1<<40).Draw(t, "tokens")
			c.Add(at, tokens)
			want = append(want, message{at, tokens})
		}
		back, err := UnpackContents(c.Packed())
		require.NoError(t, err)
		require.Equal(t, c.last, back.last)
		require.Equal(t, len(gaps), c.Len())
		require.Equal(t, len(gaps), back.Len())
		for at, tokens := range back.All() {
			got = append(got, message{at, tokens})
		}
		require.Equal(t, want, got)
	})
}

// FuzzUnpackContents never panics, and what it accepts can be read to its end.
func FuzzUnpackContents(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{1})
	f.Add([]byte{3, 4, 0x80})
	f.Fuzz(func(t *testing.T, packed []byte) {
		c, err := UnpackContents(packed)
		if err != nil {
			return
		}
		for range c.All() {
		}
	})
}

// chunkWith is a content message with a count of completion tokens.
func chunkWith(completion string) string {
	return fmt.Sprintf("data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}],\"usage\":{\"completion_tokens\":%s}}\n\n", completion)
}

// The tokens of a content message are the growth of its count of completion tokens. A count that falls, lags or is missing is none.
func TestContentsTokens(t *testing.T) {
	stream := []string{chunkWith("4"), chunkWith("4"), event1("x"), chunkWith("9"), chunkWith("3"), chunkWith("1.5"), chunkWith("12"), doneEvent}
	for _, perChunk := range []bool{true, false} {
		res := newResult(5)
		var d decoder
		d.reset(responseState{res: &res, events: true, perChunk: perChunk})
		for i, message := range stream {
			require.NoError(t, d.feed([]byte(message), time.Duration(10*(i+1))))
		}
		category, _ := d.finish()
		require.Empty(t, category)
		var at []time.Duration
		var tokens []int64
		for instant, n := range res.Contents.All() {
			at, tokens = append(at, instant), append(tokens, n)
		}
		require.Equal(t, []time.Duration{5, 15, 25, 35, 45, 55, 65}, at)
		want := []int64{Unknown, Unknown, Unknown, Unknown, Unknown, Unknown, Unknown}
		if perChunk {
			want = []int64{4, 0, Unknown, 5, Unknown, Unknown, 3}
		}
		require.Equal(t, want, tokens)
	}
}

// A result keeps its contents when the connection that made them decodes another answer.
func TestContentsAreCopied(t *testing.T) {
	decode := func(d *decoder, arrived time.Duration) Result {
		res := newResult(0)
		d.reset(responseState{res: &res, events: true})
		require.NoError(t, d.feed([]byte(event1("a")+event1("b")+doneEvent), arrived))
		d.finish()
		return res
	}
	var d decoder
	first := decode(&d, 1000)
	packed := string(first.Contents.Packed())
	require.Equal(t, len(packed), cap(first.Contents.Packed()))
	decode(&d, 3)
	require.Equal(t, packed, string(first.Contents.Packed()))
}

// gap is the time between the messages of an answer in the tests of signs.
const gap = 50 * time.Millisecond

// answerOf decodes an answer whose messages come a gap apart, the first at 0. Messages behind a blank come with the one before.
func answerOf(r responseState, messages ...string) Result {
	res := newResult(0)
	r.res, r.events = &res, true
	var d decoder
	d.reset(r)
	at := time.Duration(0)
	for _, m := range messages {
		if !strings.HasPrefix(m, " ") {
			at += gap
		}
		if d.feed([]byte(strings.TrimPrefix(m, " ")), at-gap) != nil {
			panic(m)
		}
	}
	if category, text := d.finish(); category != "" {
		res.Err = &Failure{Category: category, Message: text}
	}
	return res
}

// delta is a message with a delta, a finish reason and a usage, as JSON; "": none.
func delta(delta, finish, usage string) string {
	m := `{"choices":[{"index":0,"delta":{` + delta + `},"finish_reason":null}]`
	if finish != "" {
		m = strings.Replace(m, "null", `"`+finish+`"`, 1)
	}
	if usage != "" {
		m += `,"usage":` + usage
	}
	return "data: " + m + "}\n\n"
}

// counted is a usage of completion tokens.
func counted(n int) string { return fmt.Sprintf(`{"prompt_tokens":700,"completion_tokens":%d}`, n) }

// silentAnswer is an answer of ten tokens, those from a first to a last one with a text; usage is in every message, or in the last.
func silentAnswer(first, last int, usage bool) (list []string) {
	told := func(n int) string {
		if usage {
			return counted(n)
		}
		return ""
	}
	list = append(list, " "+delta(`"role":"assistant","content":""`, "", told(0)))
	for k := 1; k <= 10; k++ {
		text := `"content":""`
		if k >= first && k <= last {
			text = `"content":"x"`
		}
		list = append(list, delta(text, "", told(k)))
	}
	return append(list, delta("", "stop", told(10)), ` data: {"choices":[],"usage":`+counted(10)+"}\n\n", " "+doneEvent)
}

// The last token of an answer is the last message that tells of one, with a text or without. TextTokens has those with a text.
//
// Covers T-201.
func TestTokensWithoutText(t *testing.T) {
	for name, c := range map[string]struct {
		messages    []string
		first, last int // gaps since the request was sent
		chunks      int
		silent      int
		textFirst   int // the same of TextTokens
		textLast    int
		textSilent  int
	}{
		"all with text":       {silentAnswer(1, 10, false), 0, 9, 10, 0, 0, 9, 0},
		"behind the text":     {silentAnswer(1, 3, false), 0, 9, 10, 0, 0, 2, 70},
		"the same with usage": {silentAnswer(1, 3, true), 0, 9, 10, 0, 0, 2, 70},
		"before the text":     {silentAnswer(9, 10, false), 8, 9, 2, 80, 8, 9, 80},
		"usage tells":         {silentAnswer(9, 10, true), 0, 9, 10, 0, 8, 9, 80},
		"in the middle":       {silentAnswer(10, 10, true), 0, 9, 10, 0, 9, 9, 90},
	} {
		t.Run(name, func(t *testing.T) {
			for _, textOnly := range []bool{false, true} {
				first, last, silent := c.first, c.last, c.silent
				if textOnly {
					first, last, silent = c.textFirst, c.textLast, c.textSilent
				}
				res := answerOf(responseState{textOnly: textOnly}, c.messages...)
				require.Nil(t, res.Err)
				require.Equal(t, time.Duration(first)*gap, res.FirstToken)
				require.Equal(t, time.Duration(last)*gap, res.LastToken)
				require.Equal(t, silent, res.Silent)
				require.Equal(t, res.Chunks, res.Contents.Len())
				if !textOnly {
					require.Equal(t, c.chunks, res.Chunks)
				}
			}
		})
	}
}

// What is a sign of a token, and what is none.
//
// Covers T-201.
func TestSigns(t *testing.T) {
	text, blank, role := delta(`"content":"x"`, "", ""), delta(`"content":""`, "", ""), delta(`"role":"assistant"`, "", "")
	end := delta("", "stop", "")
	usage := ` data: {"choices":[],"usage":` + counted(10) + "}\n\n"
	for name, c := range map[string]struct {
		messages            []string
		first, last, silent int
	}{
		"a role is none":                    {[]string{role, text, end, usage}, 1, 1, 100},
		"a role between":                    {[]string{text, role, " " + end}, 0, 0, 0},
		"the finish reason is the last":     {[]string{text, blank, delta(`"content":""`, "length", ""), blank, usage}, 0, 2, 0},
		"usage behind it is none":           {[]string{text, " " + end, usage, doneEvent}, 0, 0, 0},
		"usage that grows without text":     {[]string{delta("", "", counted(0)), delta("", "", counted(1)), delta("", "", counted(3)), end}, 1, 2, 0},
		"the same count again":              {[]string{delta(`"content":"x"`, "", counted(1)), delta("", "", counted(1)), " " + end}, 0, 0, 0},
		"a count that falls":                {[]string{delta(`"content":"x"`, "", counted(5)), delta("", "", counted(1)), " " + end}, 0, 0, 0},
		"the first count, without anything": {[]string{text, delta("", "", counted(5)), " " + end}, 0, 0, 100},
		"growth with the finish reason":     {[]string{delta(`"content":"x"`, "", counted(1)), delta("", "stop", counted(2))}, 0, 1, 0},
		"the only count, with it":           {[]string{text, delta("", "stop", counted(1))}, 0, 0, 0},
		"silence before the finish reason":  {[]string{text, text, text, role, role, role, end, usage}, 0, 2, 66},
		"silence of no counted token":       {[]string{text, role, role, end, ` data: {"choices":[],"usage":` + counted(1) + "}\n\n"}, 0, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			res := answerOf(responseState{}, append(c.messages, " "+doneEvent)...)
			require.Nil(t, res.Err)
			require.Equal(t, time.Duration(c.first)*gap, res.FirstToken)
			require.Equal(t, time.Duration(c.last)*gap, res.LastToken)
			require.Equal(t, c.silent, res.Silent)
		})
	}
	require.NotNil(t, answerOf(responseState{}, role, blank, blank, end, usage).Err, "neither text nor usage has told of a token")
	require.Equal(t, NoContent, answerOf(responseState{textOnly: true}, delta("", "", counted(1)), delta("", "", counted(2)), end).Err.Category)
}

// The Messages API begins with a usage, and ends with one: neither is growth. One in every message is.
//
// Covers T-201.
func TestSignsOfMessages(t *testing.T) {
	event := func(name, rest string) string {
		return "event: " + name + "\ndata: {\"type\":\"" + name + "\"" + rest + "}\n\n"
	}
	start := event("message_start", `,"message":{"content":[],"usage":{"input_tokens":700,"output_tokens":1}}`)
	block := " " + event("content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`)
	text := func(text, usage string) string {
		return event("content_block_delta", `,"index":0,"delta":{"type":"text_delta","text":"`+text+`"}`+usage)
	}
	count := func(n int) string { return fmt.Sprintf(`,"usage":{"output_tokens":%d}`, n) }
	end := event("message_delta", `,"delta":{"stop_reason":"end_turn"}`+count(10))
	stop := " " + event("message_stop", "")
	for name, c := range map[string]struct {
		messages    []string
		first, last int
	}{
		"as they are":           {[]string{start, block, text("x", ""), text("x", ""), end, stop}, 1, 2},
		"without text":          {[]string{start, block, text("x", ""), text("", ""), end, stop}, 1, 2},
		"usage in every delta":  {[]string{start, block, text("", count(2)), text("x", count(3)), text("", count(4)), end, stop}, 1, 4},
		"the start of a block":  {[]string{start, block, text("x", ""), event("content_block_start", `,"index":1,"content_block":{"type":"text","text":""}`), end, stop}, 1, 1},
		"an empty first of all": {[]string{start, block, text("", ""), text("x", ""), end, stop}, 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			res := answerOf(responseState{api: MessagesAPI}, c.messages...)
			require.Nil(t, res.Err)
			require.Equal(t, time.Duration(c.first)*gap, res.FirstToken)
			require.Equal(t, time.Duration(c.last)*gap, res.LastToken)
		})
	}
}
