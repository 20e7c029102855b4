package wire

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

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
