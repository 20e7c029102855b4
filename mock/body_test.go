package mock

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// oracle is a request as encoding/json reads it.
type oracle struct {
	Model               *string `json:"model"`
	Stream              bool    `json:"stream"`
	IgnoreEOS           bool    `json:"ignore_eos"`
	MaxTokens           int     `json:"max_tokens"`
	MaxCompletionTokens int     `json:"max_completion_tokens"`
	StreamOptions       struct {
		IncludeUsage    bool `json:"include_usage"`
		ContinuousUsage bool `json:"continuous_usage_stats"`
	} `json:"stream_options"`
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	Prompt json.RawMessage `json:"prompt"`
}

// texts are the contents of a chat request.
func (o *oracle) texts(t require.TestingT) (texts []string) {
	for _, m := range o.Messages {
		var text string
		switch {
		case bytes.HasPrefix(m.Content, []byte("[")):
			var parts []struct {
				Text string `json:"text"`
			}
			require.NoError(t, json.Unmarshal(m.Content, &parts))
			for _, p := range parts {
				text += p.Text
			}
		case m.Content != nil:
			require.NoError(t, json.Unmarshal(m.Content, &text))
		}
		texts = append(texts, text)
	}
	return texts
}

// The generators below write JSON by hand, to write the same value in different ways.

func genSpace() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{"", "", "", "", " ", "\n\t", "\r\n  "})
}

// genString draws a string with its quotes: plain runs of every length around the lexer's stride of eight, short escapes, \u
// escapes, whole and half surrogate pairs.
func genString() *rapid.Generator[string] {
	piece := rapid.OneOf(
		rapid.StringMatching(`[a-zA-Z0-9 ,.:{}\[\]]{0,20}`),
		rapid.SampledFrom([]string{`\"`, `\\`, `\/`, `\b`, `\f`, `\n`, `\r`, `\t`}),
		rapid.SampledFrom([]string{"é", "漢", "🙂", "\u2028", "\x7f"}),
		rapid.Custom(func(t *rapid.T) string {
			return fmt.Sprintf(`\u%04`+rapid.SampledFrom([]string{"x", "X"}).Draw(t, "case"), rapid.IntRange(0, 0xffff).Draw(t, "unit"))
		}),
		rapid.Custom(func(t *rapid.T) string {
			return fmt.Sprintf(`\u%x\u%x`, rapid.IntRange(0xd800, 0xdbff).Draw(t, "high"), rapid.IntRange(0xdc00, 0xdfff).Draw(t, "low"))
		}),
	)
	return rapid.Custom(func(t *rapid.T) string {
		return `"` + strings.Join(rapid.SliceOfN(piece, 0, 12).Draw(t, "pieces"), "") + `"`
	})
}

func genValue(depth int) *rapid.Generator[string] {
	leaf := rapid.OneOf(
		genString(),
		rapid.SampledFrom([]string{"null", "true", "false", "0", "-0", "-1.5", "2e3", "1E-7", "12.50e+2", "[]", "{}", "[ ]", "{ }"}),
		rapid.Map(rapid.Float64(), func(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }),
	)
	if depth == 0 {
		return leaf
	}
	inner := genValue(depth - 1)
	return rapid.OneOf(
		leaf,
		rapid.Custom(func(t *rapid.T) string {
			return "[" + strings.Join(rapid.SliceOfN(inner, 1, 3).Draw(t, "items"), ",") + "]"
		}),
		rapid.Custom(func(t *rapid.T) string {
			var fields []string
			for range rapid.IntRange(1, 3).Draw(t, "fields") {
				fields = append(fields, genString().Draw(t, "key")+":"+inner.Draw(t, "value"))
			}
			return "{" + strings.Join(fields, ",") + "}"
		}),
	)
}

// genObject draws an object with fields, each the text of a value, in any order, some left out, and with unknown fields.
func genObject(t *rapid.T, fields map[string]*rapid.Generator[string], always ...string) string {
	var written []string
	space := func() string { return genSpace().Draw(t, "space") }
	for _, name := range rapid.Permutation([]string{
		"messages", "prompt", "model", "stream", "ignore_eos", "max_tokens", "max_completion_tokens", "stream_options",
		"include_usage", "continuous_usage_stats", "role", "content", "text", "type", "tools", "x_other",
	}).Draw(t, "order") {
		g, known := fields[name]
		if !known {
			if name == "tools" || name == "x_other" {
				g = genValue(2)
			} else {
				continue
			}
		}
		if !slices.Contains(always, name) && rapid.Bool().Draw(t, "omit "+name) {
			continue
		}
		written = append(written, space()+`"`+name+`"`+space()+":"+space()+g.Draw(t, name)+space())
	}
	return space() + "{" + strings.Join(written, ",") + space() + "}" + space()
}

func genLiteral(words ...string) *rapid.Generator[string] { return rapid.SampledFrom(words) }

func genTokens() *rapid.Generator[string] {
	return rapid.OneOf(genLiteral("null"), rapid.Map(rapid.IntRange(1, maxOutput), strconv.Itoa))
}

func genMessages() *rapid.Generator[string] {
	part := rapid.Custom(func(t *rapid.T) string {
		return genObject(t, map[string]*rapid.Generator[string]{"type": genLiteral(`"text"`, `"image_url"`), "text": genString()})
	})
	content := rapid.OneOf(genString(), genLiteral("null", "[]"), rapid.Custom(func(t *rapid.T) string {
		return "[" + strings.Join(rapid.SliceOfN(part, 1, 3).Draw(t, "parts"), ",") + "]"
	}))
	message := rapid.Custom(func(t *rapid.T) string {
		return genObject(t, map[string]*rapid.Generator[string]{"role": genString(), "content": content})
	})
	return rapid.Custom(func(t *rapid.T) string {
		return "[" + strings.Join(rapid.SliceOfN(message, 1, 4).Draw(t, "messages"), ",") + "]"
	})
}

func genBody(prompt string, value *rapid.Generator[string]) *rapid.Generator[string] {
	flag := genLiteral("true", "false", "null")
	return rapid.Custom(func(t *rapid.T) string {
		return genObject(t, map[string]*rapid.Generator[string]{
			prompt:                  value,
			"model":                 rapid.OneOf(genString(), genLiteral("null")),
			"stream":                flag,
			"ignore_eos":            flag,
			"max_tokens":            genTokens(),
			"max_completion_tokens": genTokens(),
			"stream_options": rapid.OneOf(genLiteral("null"), rapid.Custom(func(t *rapid.T) string {
				return genObject(t, map[string]*rapid.Generator[string]{"include_usage": flag, "continuous_usage_stats": flag})
			})),
		}, prompt)
	})
}

// contents are the texts of q's prompt.
func contents(q *request) (texts []string) {
	for _, c := range q.prompt.contents {
		texts = append(texts, string(q.prompt.stream[c.from:c.to]))
	}
	return texts
}

func requireSameFields(t require.TestingT, o *oracle, q *request) {
	if o.Model == nil {
		require.Nil(t, q.model)
	} else {
		var model string
		require.NoError(t, json.Unmarshal(q.model, &model))
		require.Equal(t, *o.Model, model)
	}
	require.Equal(t, o.Stream, q.stream)
	require.Equal(t, o.IgnoreEOS, q.ignoreEOS)
	require.Equal(t, o.StreamOptions.IncludeUsage, q.includeUsage)
	require.Equal(t, o.StreamOptions.ContinuousUsage, q.continuousUsage)
	require.Equal(t, cmp.Or(o.MaxCompletionTokens, o.MaxTokens), q.limit())
}

func TestChatBodyReadsAsEncodingJSONReadsIt(t *testing.T) {
	var q request
	rapid.Check(t, func(t *rapid.T) {
		body := genBody("messages", genMessages()).Draw(t, "body")
		var o oracle
		require.NoError(t, json.Unmarshal([]byte(body), &o))
		q.clear()
		require.NoError(t, q.parse([]byte(body), &chatEndpoint))
		requireSameFields(t, &o, &q)
		texts := o.texts(t)
		require.Equal(t, texts, contents(&q))
		var stream string
		for i, m := range o.Messages {
			stream += m.Role + texts[i]
		}
		require.Equal(t, stream, string(q.prompt.stream))
	})
}

func TestTextPromptReadsAsEncodingJSONReadsIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body := genBody("prompt", genString()).Draw(t, "body")
		var o oracle
		var text string
		require.NoError(t, json.Unmarshal([]byte(body), &o))
		require.NoError(t, json.Unmarshal(o.Prompt, &text))
		var q request
		require.NoError(t, q.parse([]byte(body), &textEndpoint))
		requireSameFields(t, &o, &q)
		require.Equal(t, []string{text}, contents(&q))
		require.False(t, q.prompt.isIDs)
	})
}

func TestIDPromptReadsAsEncodingJSONReadsIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfN(rapid.Uint32(), 1, 50).Draw(t, "ids")
		list, err := json.Marshal(ids)
		require.NoError(t, err)
		var q request
		require.NoError(t, q.parse([]byte(genBody("prompt", rapid.Just(string(list))).Draw(t, "body")), &textEndpoint))
		require.True(t, q.prompt.isIDs)
		require.Equal(t, len(ids), q.prompt.tokens())
		for i, id := range ids {
			b := q.prompt.stream[4*i:]
			require.Equal(t, id, uint32(b[0])|uint32(b[1])<<8|uint32(b[2])<<16|uint32(b[3])<<24)
		}
	})
}

// requireServedOnlyJSON requires that parse accepts nothing that encoding/json refuses.
func requireServedOnlyJSON(t require.TestingT, body []byte) {
	for _, e := range []*served{&chatEndpoint, &textEndpoint, &messagesEndpoint, &responsesEndpoint} {
		var q request
		if q.parse(body, e) == nil {
			require.True(t, json.Valid(body), "%q is served as a %s", body, e.Prompt)
		}
	}
}

func TestMutatedBodiesAreServedOnlyIfTheyAreJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body := []byte(genBody("messages", genMessages()).Draw(t, "body"))
		for range rapid.IntRange(1, 4).Draw(t, "mutations") {
			i := rapid.IntRange(0, max(0, len(body)-1)).Draw(t, "place")
			switch rapid.IntRange(0, 3).Draw(t, "mutation") {
			case 0:
				body = body[:i]
			case 1:
				body = append(body[:i:i], body[min(i+1, len(body)):]...)
			case 2:
				body = append(body[:i:i], append([]byte{rapid.Byte().Draw(t, "byte")}, body[i:]...)...)
			case 3:
				if len(body) > 0 {
					body[i] = rapid.SampledFrom([]byte("\"\\{}[],:u0-.eEtfn \x00\x1f\x20\xff")).Draw(t, "byte")
				}
			}
		}
		requireServedOnlyJSON(t, body)
	})
}

func FuzzBody(f *testing.F) {
	for _, seed := range []string{
		`{"messages":[{"role":"user","content":"a\u00e9\ud83d\ude42\n"}],"stream":true}`,
		`{"prompt":[1,2,3],"max_tokens":5,"stream_options":{"include_usage":true}}`,
		`{"prompt":"\ud800"}`, `{"prompt":[01]}`, `{"messages":[{"content":[{"text":"x"}]}],}`, `[`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) { requireServedOnlyJSON(t, body) })
}

func TestBodiesThatAreNotServed(t *testing.T) {
	const messages = `"messages":[{"role":"user","content":"x"}]`
	for _, c := range []struct {
		form *served
		body string
		want string
	}{
		{&chatEndpoint, ``, `cut off after 0 bytes, want '{'`},
		{&chatEndpoint, `[]`, `byte 0: want '{', found '['`},
		{&chatEndpoint, `{}`, `messages: missing or empty`},
		{&chatEndpoint, `{"messages":[]}`, `messages: missing or empty`},
		{&chatEndpoint, `{"messages":null}`, `messages: missing or empty`},
		{&chatEndpoint, `{"messages":"x"}`, `messages: byte 12: want '[', found '"'`},
		{&chatEndpoint, `{"messages":["x"]}`, `messages: byte 13: want '{', found '"'`},
		{&chatEndpoint, `{"messages":[{"content":5}]}`, `messages: byte 24: want a string, found '5'`},
		{&chatEndpoint, `{"messages":[{"content":["x"]}]}`, `messages: byte 25: want '{', found '"'`},
		{&chatEndpoint, `{"messages":[{"role":null}]}`, `messages: byte 21: want a string, found 'n'`},
		{&chatEndpoint, `{"messages":[{"content":"x"}]`, `cut off after 29 bytes, want ',' or '}'`},
		{&chatEndpoint, `{` + messages + `}}`, `byte 44: want the end of the text, found '}'`},
		{&chatEndpoint, `{` + messages + `,}`, `byte 44: want a key, found '}'`},
		{&chatEndpoint, `{` + messages + `,"stream":1}`, `stream: byte 53: want true or false, found '1'`},
		{&chatEndpoint, `{` + messages + `,"model":1}`, `model: byte 52: want a string, found '1'`},
		{&chatEndpoint, `{` + messages + `,"max_tokens":0}`, `max_tokens: byte 57: want at least 1, found '0'`},
		{&chatEndpoint, `{` + messages + `,"max_tokens":-1}`, `max_tokens: byte 57: want a whole number that is not negative, found '-'`},
		{&chatEndpoint, `{` + messages + `,"max_tokens":1.0}`, `max_tokens: byte 58: want a whole number, found '.'`},
		{&chatEndpoint, `{` + messages + `,"max_tokens":1048577}`, `max_tokens: byte 57: want a number of at most 1048576`},
		{&chatEndpoint, `{` + messages + `,"stream_options":true}`, `stream_options: byte 61: want '{', found 't'`},
		{&textEndpoint, `{` + messages + `}`, `prompt: missing or empty`},
		{&textEndpoint, `{"prompt":[]}`, `prompt: missing or empty`},
		{&textEndpoint, `{"prompt":{}}`, `prompt: byte 10: want a string, found '{'`},
		{&textEndpoint, `{"prompt":["x"]}`, `prompt: byte 11: want one prompt, a string or an array of token ids; a batch is not served, found '"'`},
		{&textEndpoint, `{"prompt":[4294967296]}`, `prompt: byte 11: want a number of at most 4294967295`},
		{&textEndpoint, `{"prompt":[01]}`, `prompt: byte 11: want a whole number that is not negative, found '0'`},
		{&textEndpoint, `{"prompt":[1 2]}`, `prompt: byte 13: want ',' or ']', found '2'`},
		{&chatEndpoint, chatOf(chatCalls, `{"role":"tool","tool_call_id":"a"}`), `messages: the call "b" has no result in the messages behind it`},
		{&chatEndpoint, chatOf(chatCalls, `{"role":"tool","tool_call_id":"a"}`, `{"role":"user"}`, `{"role":"tool","tool_call_id":"b"}`), `messages: the call "b" has no result in the messages behind it`},
		{&chatEndpoint, chatOf(chatCalls, chatCalls), `messages: the call "a" has no result in the messages behind it`},
		{&chatEndpoint, chatOf(`{"role":"user"}`, `{"role":"tool","tool_call_id":"a"}`), `messages: the result of "a" answers no call of the message before`},
		{&chatEndpoint, chatOf(chatCalls, `{"role":"tool","tool_call_id":"a"}`, `{"role":"tool","tool_call_id":"a"}`), `messages: the result of "a" answers no call of the message before`},
		{&messagesEndpoint, chatOf(messagesCalls, messagesResult("a")), `messages: the call "b" has no result in the messages behind it`},
		{&messagesEndpoint, chatOf(messagesCalls, `{"role":"user","content":"x"}`, messagesResult("a", "b")), `messages: the call "a" has no result in the messages behind it`},
		{&messagesEndpoint, chatOf(messagesResult("a")), `messages: the result of "a" answers no call of the message before`},
	} {
		var q request
		require.EqualError(t, q.parse([]byte(c.body), c.form), c.want, c.body)
	}
}

const (
	chatCalls     = `{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}},{"id":"b"}],"role":"assistant","content":null}`
	messagesCalls = `{"role":"assistant","content":[{"id":"a","type":"tool_use","input":{"id":"c"}},{"type":"tool_use","id":"b"},{"type":"text","id":"d","text":"x"}]}`
)

func chatOf(messages ...string) string {
	return `{"max_tokens":1,"messages":[` + strings.Join(messages, ",") + `]}`
}

func messagesResult(ids ...string) string {
	var blocks []string
	for _, id := range ids {
		blocks = append(blocks, `{"type":"tool_result","tool_use_id":"`+id+`","content":[{"type":"text","text":"x"}]}`)
	}
	return `{"role":"user","content":[` + strings.Join(blocks, ",") + `]}`
}

// Results right behind their calls are served, in one message or in several.
func TestCallsWithResultsAreServed(t *testing.T) {
	var q request
	for _, c := range []struct {
		form *served
		body string
	}{
		{&chatEndpoint, chatOf(chatCalls, `{"role":"tool","tool_call_id":"b","content":"x"}`, `{"role":"tool","tool_call_id":"a","content":"x"}`, chatCalls,
			`{"role":"tool","tool_call_id":"a"}`, `{"role":"tool","tool_call_id":"b"}`, `{"role":"user","content":"x","tool_calls":null,"tool_call_id":null}`)},
		{&messagesEndpoint, chatOf(messagesCalls, messagesResult("b"), messagesResult("a"), messagesCalls, messagesResult("b", "a"))},
	} {
		q.clear()
		require.NoError(t, q.parse([]byte(c.body), c.form), c.body)
	}
}

func TestKeysMayBeEscaped(t *testing.T) {
	var q request
	require.NoError(t, q.parse([]byte(`{"m\u0065ssages":[{"\u0063ontent":"a"}]}`), &chatEndpoint))
	require.Equal(t, []string{"a"}, contents(&q))
}

func TestBodyLimit(t *testing.T) {
	for _, declared := range []bool{true, false} {
		for _, size := range []int{0, 1, 99, 100, 101, 10_000} {
			r, err := http.NewRequest(http.MethodPost, "/", strings.NewReader(strings.Repeat("x", size)))
			require.NoError(t, err)
			if !declared {
				r.ContentLength = -1
				r.Body = io.NopCloser(iotest.OneByteReader(r.Body))
			}
			body, err := readBody(make([]byte, 3), r, 100)
			if size > 100 {
				require.ErrorIs(t, err, errTooLong)
				require.Less(t, cap(body), 9000, "allocated for what is not served")
			} else {
				require.NoError(t, err)
				require.Equal(t, strings.Repeat("x", size), string(body))
			}
		}
	}
}
