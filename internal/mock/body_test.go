package mock

import (
	"bytes"
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

// An oracle is a request as encoding/json reads it.
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

// The generators below write JSON by hand, for all the ways to write the same.

func genSpace() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{"", "", "", "", " ", "\n\t", "\r\n  "})
}

// genString draws a string with its quotes: plain runs of every length around
// the scanner's stride, short escapes, \u escapes, whole and half surrogates.
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

// genObject draws an object with fields, each the text of a value, in any order,
// some left out, among others that mean nothing.
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
	maxTokens := o.MaxCompletionTokens
	if maxTokens == 0 {
		maxTokens = o.MaxTokens
	}
	require.Equal(t, maxTokens, q.maxTokens)
}

func TestChatBodyReadsAsEncodingJSONReadsIt(t *testing.T) {
	var q request
	rapid.Check(t, func(t *rapid.T) {
		body := genBody("messages", genMessages()).Draw(t, "body")
		var o oracle
		require.NoError(t, json.Unmarshal([]byte(body), &o))
		q.clear()
		require.NoError(t, q.parse([]byte(body), &chatForm))
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
		require.NoError(t, q.parse([]byte(body), &textForm))
		requireSameFields(t, &o, &q)
		require.Equal(t, []string{text}, contents(&q))
		require.False(t, q.prompt.ids)
	})
}

func TestIDPromptReadsAsEncodingJSONReadsIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfN(rapid.Uint32(), 1, 50).Draw(t, "ids")
		list, err := json.Marshal(ids)
		require.NoError(t, err)
		var q request
		require.NoError(t, q.parse([]byte(genBody("prompt", rapid.Just(string(list))).Draw(t, "body")), &textForm))
		require.True(t, q.prompt.ids)
		require.Equal(t, len(ids), q.prompt.tokens())
		for i, id := range ids {
			b := q.prompt.stream[4*i:]
			require.Equal(t, id, uint32(b[0])|uint32(b[1])<<8|uint32(b[2])<<16|uint32(b[3])<<24)
		}
	})
}

// requireTrue holds the scanner against encoding/json on any bytes.
func requireTrue(t require.TestingT, body []byte) {
	valid := json.Valid(body)
	s := scanner{data: body}
	err := s.skip()
	if err == nil {
		err = s.end()
	}
	require.Equal(t, valid, err == nil, "%q: %v", body, err)
	for _, f := range []*form{&chatForm, &textForm} {
		var q request
		if q.parse(body, f) == nil {
			require.True(t, valid, "%q is served as a %s", body, f.object)
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
		requireTrue(t, body)
	})
}

func FuzzScanner(f *testing.F) {
	for _, seed := range []string{
		`{"messages":[{"role":"user","content":"a\u00e9\ud83d\ude42\n"}],"stream":true}`,
		`{"prompt":[1,2,3],"max_tokens":5,"stream_options":{"include_usage":true}}`,
		`[1.5e-3,-0,"\\",{"":[]},null]`, `01`, `"\ud800"`, `{"a":1,}`, "\"\x1f\"", `[`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) { requireTrue(t, body) })
}

// Strings of every length, ended by everything that ends a run, at every place
// of the scanner's stride of eight.
func TestStringsOfEveryLength(t *testing.T) {
	for length := range 40 {
		for _, end := range []string{``, `\n`, `\u0041`, `\"`, "é", `\\\\`} {
			text := `"` + strings.Repeat("x", length) + end + `"`
			var want string
			require.NoError(t, json.Unmarshal([]byte(text), &want))
			for tail := range 10 {
				s := scanner{data: []byte(text + strings.Repeat(" ", tail))}
				got, err := s.string(nil)
				require.NoError(t, err)
				require.Equal(t, want, string(got))
				require.Equal(t, len(text), s.pos)
			}
			for cut := range text {
				requireTrue(t, []byte(text[:cut]))
			}
		}
		for control := range byte(0x20) {
			requireTrue(t, []byte(`"`+strings.Repeat("x", length)+string(control)+`y"`))
		}
	}
}

func TestNumbersWordsAndSpace(t *testing.T) {
	for _, text := range []string{
		"0", "-0", "-", "-x", "00", "-01", "1.", "1.x", ".5", "1.50", "1e", "1e+", "1E-", "1e5x", "1e-05", "+1", "0x1", "1_0", "1.5e+3.",
		"true", "tru", "truex", "nul", "falsee", " \t\r\n1 \t\r\n", "\v1", "\x001", "1\x00", "\"\x00\"", "\"\xff\"", "\ufeff1",
		`"\u12"`, `"\u12g4"`, `"\x41"`, `"\`, `"\u`, `"\ud800\u"`, `{"a"}`, `{"a":}`, `{a:1}`, `{,}`, `[,]`, `[1,]`, `[1,,2]`, `]`, `[}`,
	} {
		requireTrue(t, []byte(text))
		requireTrue(t, []byte("["+text+"]"))
	}
}

func TestNestingIsBounded(t *testing.T) {
	for _, depth := range []int{maxDepth, maxDepth + 1} {
		requireTrue(t, []byte(strings.Repeat("[", depth)+strings.Repeat("]", depth)))
	}
	requireTrue(t, []byte("["+strings.Repeat("[],", maxDepth)+"{}]"))
}

func TestBodiesThatAreNotServed(t *testing.T) {
	const messages = `"messages":[{"role":"user","content":"x"}]`
	for _, c := range []struct {
		form *form
		body string
		want string
	}{
		{&chatForm, ``, `byte 0: want '{'`},
		{&chatForm, `[]`, `byte 0: want '{'`},
		{&chatForm, `{}`, `messages: missing or empty`},
		{&chatForm, `{"messages":[]}`, `messages: missing or empty`},
		{&chatForm, `{"messages":null}`, `messages: missing or empty`},
		{&chatForm, `{"messages":"x"}`, `messages: byte 12: want '['`},
		{&chatForm, `{"messages":["x"]}`, `messages: byte 13: want '{'`},
		{&chatForm, `{"messages":[{"content":5}]}`, `messages: byte 24: want '"'`},
		{&chatForm, `{"messages":[{"content":["x"]}]}`, `messages: byte 25: want '{'`},
		{&chatForm, `{"messages":[{"role":null}]}`, `messages: byte 21: want '"'`},
		{&chatForm, `{"messages":[{"content":"x"}]`, `byte 29: want ',' or '}'`},
		{&chatForm, `{` + messages + `}}`, `byte 44: want the end of the body`},
		{&chatForm, `{` + messages + `,}`, `byte 44: want '"'`},
		{&chatForm, `{` + messages + `,"stream":1}`, `stream: byte 53: want false`},
		{&chatForm, `{` + messages + `,"model":1}`, `model: byte 52: want '"'`},
		{&chatForm, `{` + messages + `,"max_tokens":0}`, `max_tokens: byte 58: want at least 1`},
		{&chatForm, `{` + messages + `,"max_tokens":-1}`, `max_tokens: byte 57: want a whole number that is not negative`},
		{&chatForm, `{` + messages + `,"max_tokens":1.0}`, `max_tokens: byte 58: want a whole number`},
		{&chatForm, `{` + messages + `,"max_tokens":1048577}`, `max_tokens: byte 57: want a number of at most 1048576`},
		{&chatForm, `{` + messages + `,"stream_options":true}`, `stream_options: byte 61: want '{'`},
		{&textForm, `{` + messages + `}`, `prompt: missing or empty`},
		{&textForm, `{"prompt":[]}`, `prompt: missing or empty`},
		{&textForm, `{"prompt":{}}`, `prompt: byte 10: want '"'`},
		{&textForm, `{"prompt":["x"]}`, `prompt: byte 11: want one prompt, a string or an array of token ids; a batch is not served`},
		{&textForm, `{"prompt":[4294967296]}`, `prompt: byte 11: want a number of at most 4294967295`},
		{&textForm, `{"prompt":[01]}`, `prompt: byte 11: want a whole number that is not negative`},
		{&textForm, `{"prompt":[1 2]}`, `prompt: byte 13: want ',' or ']'`},
	} {
		var q request
		require.EqualError(t, q.parse([]byte(c.body), c.form), c.want, c.body)
	}
}

func TestKeysMayBeEscaped(t *testing.T) {
	var q request
	require.NoError(t, q.parse([]byte(`{"m\u0065ssages":[{"\u0063ontent":"a"}]}`), &chatForm))
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
