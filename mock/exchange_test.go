package mock

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func post(path, body string) *http.Request {
	return httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
}

func serve(s *Server, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// completion is an answer or chunk of either endpoint.
type completion struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Created int64  `json:"created"`
	Model   string `json:"model"`
	Choices []struct {
		Index int    `json:"index"`
		Text  string `json:"text"`
		Delta struct {
			Role    string  `json:"role"`
			Content *string `json:"content"`
		} `json:"delta"`
		Message struct {
			Role    string `json:"role"`
			Content string `json:"content"`
		} `json:"message"`
		FinishReason *string `json:"finish_reason"`
	} `json:"choices"`
	Usage *struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
		TotalTokens      int `json:"total_tokens"`
		Details          struct {
			CachedTokens int `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
}

func decode(t *testing.T, data string) (c completion) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(data), &c), data)
	return c
}

// events returns the chunks of a complete stream, up to [DONE].
func events(t *testing.T, body string) (chunks []completion) {
	t.Helper()
	parts := strings.Split(body, "\n\n")
	require.Equal(t, []string{"data: [DONE]", ""}, parts[len(parts)-2:])
	for _, part := range parts[:len(parts)-2] {
		data, ok := strings.CutPrefix(part, "data: ")
		require.True(t, ok, part)
		chunks = append(chunks, decode(t, data))
	}
	return chunks
}

func TestChatStream(t *testing.T) {
	w := serve(New(Config{}), post("/v1/chat/completions", `{"model":"a\"b","messages":[{"role":"user","content":"12345678"}],
		"stream":true,"max_completion_tokens":3,"max_tokens":99,"ignore_eos":true,"stream_options":{"include_usage":true}}`))
	require.Equal(t, http.StatusOK, w.Code)
	require.Equal(t, "text/event-stream", w.Header().Get("Content-Type"))
	chunks := events(t, w.Body.String())
	require.Len(t, chunks, 6) // role, three tokens, finish reason, usage
	for _, c := range chunks {
		require.Equal(t, "chatcmpl-0", c.ID)
		require.Equal(t, "chat.completion.chunk", c.Object)
		require.Equal(t, `a"b`, c.Model)
		require.NotZero(t, c.Created)
	}
	require.Equal(t, "assistant", chunks[0].Choices[0].Delta.Role)
	require.Empty(t, *chunks[0].Choices[0].Delta.Content)
	var text string
	for _, c := range chunks[1:4] {
		require.Nil(t, c.Choices[0].FinishReason)
		require.Nil(t, c.Usage)
		text += *c.Choices[0].Delta.Content
	}
	require.Equal(t, " the of and", text)
	require.Nil(t, chunks[4].Choices[0].Delta.Content)
	require.Equal(t, "length", *chunks[4].Choices[0].FinishReason)
	require.NotNil(t, chunks[5].Choices)
	require.Empty(t, chunks[5].Choices)
	require.Equal(t, 2, chunks[5].Usage.PromptTokens)
	require.Equal(t, 3, chunks[5].Usage.CompletionTokens)
	require.Equal(t, 5, chunks[5].Usage.TotalTokens)
}

func TestTextStreamOfTokenIDs(t *testing.T) {
	w := serve(New(Config{}), post("/v1/completions", `{"model":"x","prompt":[5,6,7],"stream":true,"max_tokens":2}`))
	chunks := events(t, w.Body.String())
	require.Len(t, chunks, 3) // two tokens, finish reason; no usage unless asked for
	for i, want := range []string{" the", " of", ""} {
		require.Equal(t, "cmpl-0", chunks[i].ID)
		require.Equal(t, "text_completion", chunks[i].Object)
		require.Equal(t, "x", chunks[i].Model)
		require.Equal(t, want, chunks[i].Choices[0].Text)
	}
	require.Equal(t, "length", *chunks[2].Choices[0].FinishReason)
}

func TestWholeAnswers(t *testing.T) {
	s := New(Config{})
	w := serve(s, post("/v1/chat/completions", `{"messages":[{"role":"user","content":"1234567"}]}`))
	require.Equal(t, "application/json", w.Header().Get("Content-Type"))
	c := decode(t, w.Body.String())
	require.Equal(t, "chat.completion", c.Object)
	require.Equal(t, "mock", c.Model)
	require.Equal(t, "assistant", c.Choices[0].Message.Role)
	require.Len(t, strings.Fields(c.Choices[0].Message.Content), defaultOutput)
	require.Equal(t, "stop", *c.Choices[0].FinishReason)
	require.Equal(t, 2, c.Usage.PromptTokens)
	require.Equal(t, defaultOutput, c.Usage.CompletionTokens)

	c = decode(t, serve(s, post("/v1/completions", `{"prompt":"123456","max_tokens":4}`)).Body.String())
	require.Equal(t, "cmpl-1", c.ID)
	require.Equal(t, "text_completion", c.Object)
	require.Equal(t, " the of and to", c.Choices[0].Text)
	require.Equal(t, "length", *c.Choices[0].FinishReason)
	require.Equal(t, 2, c.Usage.PromptTokens)
	require.EqualValues(t, defaultOutput+4, s.Stats().OutputTokens)
}

func TestFinishReasons(t *testing.T) {
	for fields, want := range map[string]string{
		``:                           "stop",
		`,"max_tokens":null`:         "stop",
		`,"ignore_eos":true`:         "length",
		`,"max_tokens":2`:            "length",
		`,"max_completion_tokens":2`: "length",
	} {
		c := decode(t, serve(New(Config{}), post("/v1/completions", `{"prompt":"x"`+fields+`}`)).Body.String())
		require.Equal(t, want, *c.Choices[0].FinishReason, fields)
	}
}

func TestUsageInEveryChunk(t *testing.T) {
	s := New(Config{})
	for range 3 { // a request does not see the buffers and counts of the one before
		w := serve(s, post("/v1/chat/completions", `{"messages":[{"content":"x"}],"stream":true,"max_tokens":3,
			"stream_options":{"include_usage":true,"continuous_usage_stats":true}}`))
		var produced []int
		for _, c := range events(t, w.Body.String()) {
			produced = append(produced, c.Usage.CompletionTokens)
		}
		require.Equal(t, []int{0, 1, 2, 3, 3, 3}, produced)
	}
}

// usage asks for one token after a prompt and returns the usage of the prompt.
func usage(t *testing.T, s *Server, path, prompt string) (tokens, cached int) {
	t.Helper()
	c := decode(t, serve(s, post(path, `{`+prompt+`,"max_tokens":1}`)).Body.String())
	return c.Usage.PromptTokens, c.Usage.Details.CachedTokens
}

func ids(n int, first ...int) string {
	list := append([]int{}, first...)
	for i := len(list); i < n; i++ {
		list = append(list, i)
	}
	data, _ := json.Marshal(list)
	return `"prompt":` + string(data)
}

func TestCachedTokensOfIDs(t *testing.T) {
	s := New(Config{})
	for _, c := range []struct {
		prompt         string
		tokens, cached int
	}{
		{ids(200), 200, 0},
		{ids(200), 200, 192}, // three full blocks
		{ids(63), 63, 0},     // no full block
		{ids(64), 64, 64},
		{ids(300), 300, 192}, // the fourth block was not full
		{ids(300), 300, 256},
		{ids(300, 9), 300, 0}, // the same but for the first token
		{`"model":"other",` + ids(200), 200, 0},
	} {
		tokens, cached := usage(t, s, "/v1/completions", c.prompt)
		require.Equal(t, []int{c.tokens, c.cached}, []int{tokens, cached}, c.prompt)
	}
	require.EqualValues(t, 200+200+63+64+300+300+300+200, s.Stats().PromptTokens)
	require.EqualValues(t, 192+64+192+256, s.Stats().CachedTokens)
	require.EqualValues(t, 4+4+3, s.Stats().CacheBlocks)

	require.Equal(t, http.StatusOK, serve(s, post("/reset_prefix_cache", "")).Code)
	_, cached := usage(t, s, "/v1/completions", ids(200))
	require.Zero(t, cached)
}

func TestCachedTokensOfMessages(t *testing.T) {
	s := New(Config{})
	message := func(role, content string) string {
		return fmt.Sprintf(`{"role":%q,"content":%q}`, role, content)
	}
	chat := func(messages ...string) (tokens, cached int) {
		return usage(t, s, "/v1/chat/completions", `"messages":[`+strings.Join(messages, ",")+`]`)
	}
	long := strings.Repeat("0123456789", 60) // 600 bytes and 4 of the role: two full blocks of 256
	tokens, cached := chat(message("user", long))
	require.Equal(t, []int{150, 0}, []int{tokens, cached})

	tokens, cached = chat(message("user", long), message("assistant", "ok"))
	require.Equal(t, 151, tokens) // 602 / 4, rounded
	require.Equal(t, 151*512/(604+11), cached)

	// Another order of keys and another spelling of the text share blocks.
	_, cached = usage(t, s, "/v1/chat/completions",
		`"messages":[{"content":[{"type":"text","text":"\u0030"},{"type":"text","text":"`+long[1:]+`"}],"role":"user"}]`)
	require.Equal(t, 150*512/604, cached)

	_, cached = chat(message("system", long))
	require.Zero(t, cached)
}

func TestLeastRecentlyUsedBlocksAreEvicted(t *testing.T) {
	s := New(Config{CacheBlocks: 4})
	cached := func(prompt string) int {
		_, n := usage(t, s, "/v1/completions", prompt)
		return n / BlockTokens
	}
	require.Equal(t, 0, cached(ids(128, 1))) // a a
	require.Equal(t, 0, cached(ids(128, 2))) // a a b b
	require.Equal(t, 2, cached(ids(128, 1)))
	require.Equal(t, 0, cached(ids(64, 3)))  // c evicts b's second block
	require.Equal(t, 1, cached(ids(128, 2))) // b evicts a's second block
	require.Equal(t, 1, cached(ids(64, 1)))
}

func TestCountTokens(t *testing.T) {
	var counted []string
	s := New(Config{CountTokens: func(text []byte) int {
		counted = append(counted, string(text))
		return len(text)
	}})
	tokens, _ := usage(t, s, "/v1/chat/completions", `"messages":[{"role":"user","content":"12345678"},{"role":"tool","content":"12\n"}]`)
	require.Equal(t, 11, tokens)
	tokens, _ = usage(t, s, "/v1/completions", ids(70))
	require.Equal(t, 70, tokens)
	require.Equal(t, []string{"12345678", "12\n"}, counted)
	require.EqualValues(t, 1, s.Stats().ReencodedPrompts)
	require.EqualValues(t, 11, s.Stats().ReencodedTokens)
	require.EqualValues(t, 3, s.Stats().EstimatedTokens)
}

// timedWriter records when each part of a body was written, after its own start.
type timedWriter struct {
	sink
	start time.Time
	parts []string
}

func newTimedWriter() *timedWriter {
	return &timedWriter{sink: sink{header: http.Header{}}, start: time.Now()}
}

func (w *timedWriter) Write(b []byte) (int, error) {
	if len(b) > 0 {
		w.parts = append(w.parts, fmt.Sprintf("%v: %d", time.Since(w.start), strings.Count(string(b), `"text":`)))
	}
	return len(b), nil
}

func TestTimeModel(t *testing.T) {
	const stream = `,"stream":true,"max_tokens":3}`
	for _, c := range []struct {
		name   string
		config Config
		body   string
		parts  []string // when, and how many chunks
	}{
		{"at once", Config{}, `{"prompt":"x"` + stream, []string{"0s: 4"}},
		{"ttft", Config{TTFT: time.Second}, `{"prompt":"x"` + stream, []string{"1s: 4"}},
		{"itl", Config{TTFT: time.Second, ITL: 10 * time.Millisecond, TokensPerSecond: 1},
			`{"prompt":"x"` + stream, []string{"1s: 1", "1.01s: 1", "1.02s: 2"}},
		{"tokens per second", Config{TokensPerSecond: 4}, `{"prompt":"x"` + stream, []string{"0s: 1", "250ms: 1", "500ms: 2"}},
		{"whole", Config{TTFT: time.Second, ITL: time.Millisecond}, `{"prompt":"x","max_tokens":3}`, []string{"1.002s: 1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(c.config)
				w := newTimedWriter()
				s.ServeHTTP(w, post("/v1/completions", c.body))
				require.Equal(t, c.parts, w.parts)
			})
		})
	}
}

// lateClock sleeps too long by a constant, without real time.
type lateClock struct {
	now  time.Time
	late time.Duration
}

func (c *lateClock) Now() time.Time { return c.now }

func (c *lateClock) Sleep(_ context.Context, d time.Duration) error {
	c.now = c.now.Add(d + c.late)
	return nil
}

// Tokens that fall due during a sleep that took too long are written together. The whole answer is late by no more than the
// last sleep.
func TestLateSleepsDoNotAddUp(t *testing.T) {
	clock := &lateClock{now: time.Unix(1000, 0), late: 25 * time.Millisecond}
	s := New(Config{ITL: 10 * time.Millisecond, clock: clock})
	w := newTimedWriter()
	s.ServeHTTP(w, post("/v1/completions", `{"prompt":"x","stream":true,"max_tokens":9}`))
	// Token 0 goes out before the sleep to 10 ms; that ends at 35 ms with tokens
	// 1 to 3, the one to 40 ms at 65 ms with 4 to 6, the one to 70 ms at 95 ms
	// with the last two and the finish reason.
	var chunks []string
	for _, part := range w.parts {
		chunks = append(chunks, part[strings.Index(part, ": "):])
	}
	require.Equal(t, []string{": 1", ": 3", ": 3", ": 3"}, chunks)
	require.Equal(t, 95*time.Millisecond, clock.now.Sub(time.Unix(1000, 0)))
}

func TestLongAnswersAreWrittenInParts(t *testing.T) {
	w := newTimedWriter()
	New(Config{}).ServeHTTP(w, post("/v1/chat/completions", `{"messages":[{"content":"x"}],"stream":true,"max_tokens":500}`))
	require.Len(t, w.parts, 1)
	w = newTimedWriter()
	New(Config{}).ServeHTTP(w, post("/v1/chat/completions", `{"messages":[{"content":"x"}],"stream":true,"max_tokens":20000}`))
	require.Greater(t, len(w.parts), 5)
}

// Every wait ends with the request's context, and not before.
func TestWaitsEndWithTheRequest(t *testing.T) {
	for _, c := range []struct {
		name   string
		config Config
		output int64 // tokens sent before the client leaves after a second
	}{
		{"before the first token", Config{TTFT: time.Hour}, 0},
		{"between tokens", Config{ITL: 400 * time.Millisecond}, 3},
		{"stall", Config{Faults: []Fault{{"stall", 1}}}, 0},
		{"stall-mid", Config{Faults: []Fault{{"stall-mid", 1}}}, 5},
	} {
		for _, stream := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, stream %v", c.name, stream), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					ctx, leave := context.WithCancel(t.Context())
					s := New(c.config)
					w := httptest.NewRecorder()
					ended := false
					go func() {
						s.ServeHTTP(w, post("/v1/chat/completions",
							fmt.Sprintf(`{"messages":[{"content":"x"}],"max_tokens":10,"stream":%v}`, stream)).WithContext(ctx))
						ended = true
					}()
					time.Sleep(time.Second) // fake time of the bubble
					synctest.Wait()
					require.False(t, ended)
					require.EqualValues(t, 1, s.Stats().OpenRequests)
					leave()
					synctest.Wait()
					require.True(t, ended)
					require.Zero(t, s.Stats().OpenRequests)
					if stream {
						require.Equal(t, c.output, s.Stats().OutputTokens)
						require.NotContains(t, w.Body.String(), "[DONE]")
					}
				})
			})
		}
	}
}
