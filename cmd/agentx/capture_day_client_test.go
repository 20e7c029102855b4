package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// canary is in everything that clients of a day say.
const canary = "CanaryX7q"

// dayPaths are the endpoints, with how each says its limit of tokens and its turns.
var dayPaths = map[string]string{
	"/v1/chat/completions": `"max_tokens":%d,"stream_options":{"include_usage":true},"messages":[%s]`,
	"/v1/messages":         `"max_tokens":%d,"system":"You are a careful engineer.","messages":[%s]`,
	"/v1/responses":        `"max_output_tokens":%d,"instructions":"You are a careful engineer.","input":[%s]`,
	"/v1/completions":      `"max_tokens":%d,"prompt":%s`,
}

// dayClient is an agent: one session after the other.
type dayClient struct {
	d      *day
	n      int
	random *rand.Rand
	http   *http.Client
	era    int64 // whose connections it has
	asks   int

	session, agent, path string
	headers              http.Header
	turns                []string
}

func (d *day) client(n int) *dayClient {
	c := &dayClient{d: d, n: n, random: rand.New(rand.NewPCG(uint64(n), 7)), http: &http.Client{Transport: &http.Transport{DisableCompression: true}}, path: "/v1/messages"}
	c.headers = http.Header{}
	return c
}

// key returns the credential of a client.
func (c *dayClient) key() string { return fmt.Sprintf("sk-%s-%d", canary, c.n) }

// work plays sessions until ctx ends. The request that runs is read to its end.
func (c *dayClient) work(ctx context.Context) {
	defer c.http.CloseIdleConnections()
	for ctx.Err() == nil {
		c.begin()
		for turn := range 4 + c.random.IntN(10) {
			if ctx.Err() != nil {
				return
			}
			c.say(turn)
			c.pause(ctx)
		}
	}
}

func (c *dayClient) pause(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Duration(100+c.random.IntN(1900)) * time.Millisecond):
	}
}

// begin begins a session, whose name one of the ways of doc/spec/capture.md 3.1 tells.
func (c *dayClient) begin() {
	paths := []string{"/v1/chat/completions", "/v1/messages", "/v1/messages", "/v1/responses", "/v1/completions"}
	c.path, c.turns, c.agent = paths[c.random.IntN(len(paths))], nil, ""
	c.session = fmt.Sprintf("%s-%d-%d", canary, c.n, c.random.Uint32())
	c.headers = http.Header{"Authorization": {"Bearer " + c.key()}, "X-Note": {canary}}
	name := []string{"url", "X-Claude-Code-Session-Id", "Session_id", "X-Dynamo-Session-Id", "X-Session-Affinity", "body", ""}[c.random.IntN(7)]
	if strings.Contains(strings.ToLower(name), "session") {
		c.headers.Set(name, c.session+` ../"é`)
	}
	c.agent = map[string]string{"url": "url", "X-Claude-Code-Session-Id": "x-claude-code-agent-id", "body": "body"}[name]
}

// text returns some words, most of them the same for all clients.
func (c *dayClient) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %d: ", canary, c.random.IntN(1000))
	for range 20 + c.random.IntN(200) {
		fmt.Fprintf(&b, "word%d ", c.random.IntN(5000))
	}
	return b.String()
}

// say takes a turn: the prompt grows, and is sent until it is answered.
func (c *dayClient) say(turn int) {
	c.turns = append(c.turns, c.text())
	headers := c.headers.Clone()
	if c.agent == "x-claude-code-agent-id" && c.random.IntN(3) == 0 {
		headers.Set(c.agent, canary+strconv.Itoa(c.random.IntN(3)))
	}
	if turn > 5 && c.random.IntN(4) == 0 {
		headers.Set("X-Dynamo-Session-Final", "true")
	}
	if c.random.IntN(20) == 0 {
		headers.Set("X-Agentx-Capture", "off")
		headers.Set("X-Day-Unrecorded", "1")
	}
	for range 3 {
		ask := dayAsk{dayCase{c.fault(), c.path, c.random.IntN(4) > 0}, nil, headers}
		ask.body = c.body(ask.stream)
		if c.odd(&ask) || c.ask(ask) {
			return
		}
	}
}

// fault returns a fault for one request in six.
func (c *dayClient) fault() string {
	if c.random.IntN(6) > 0 {
		return ""
	}
	kinds := dayFaults()
	kind := kinds[c.random.IntN(len(kinds))]
	if slices.Contains([]string{"flood", "comments"}, kind) && c.random.IntN(10) > 0 {
		return "" // each sends as fast as it can
	}
	return kind
}

// body returns a request with all turns.
func (c *dayClient) body(stream bool) []byte {
	var prompt string
	if c.path == "/v1/completions" {
		prompt = strconv.Quote(strings.Join(c.turns, "\n"))
	} else {
		for k, text := range c.turns {
			if k > 0 {
				prompt += `,{"role":"assistant","content":" the of and to"},`
			}
			prompt += `{"role":"user","content":` + strconv.Quote(text) + `}`
		}
	}
	if c.turns == nil {
		prompt = map[bool]string{true: `"x"`, false: `{"role":"user","content":"x"}`}[c.path == "/v1/completions"]
	}
	extra := ""
	if c.agent == "body" {
		extra = fmt.Sprintf(`"prompt_cache_key":%q,"metadata":{"user_id":"user_%s_session_%s"},`, c.session, canary, c.session)
	}
	return fmt.Appendf(nil, `{"model":"m %s","stream":%t,%s`+dayPaths[c.path]+`}`, canary, stream, extra, 4+c.random.IntN(30), prompt)
}

// odd makes some requests hostile. It reports true for one that has been sent already.
func (c *dayClient) odd(ask *dayAsk) bool {
	switch c.random.IntN(60) {
	case 0:
		ask.body = append(ask.body[:len(ask.body)/2], '\xff')
	case 1:
		ask.body = []byte(`["` + canary + `"]`)
	case 2:
		ask.headers.Set("Content-Encoding", "x-"+canary)
	case 3:
		ask.headers.Set("Content-Encoding", "gzip")
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write(ask.body)
		_ = w.Close()
		ask.body = b.Bytes()
	case 4:
		ask.path += "/count_tokens?beta=" + canary
	case 5: // it leaves in the middle of its upload
		broken := io.MultiReader(bytes.NewReader(ask.body[:len(ask.body)/2]), errReader{})
		c.count()
		r, _ := http.NewRequest(http.MethodPost, c.url()+ask.path, broken)
		r.Header = ask.headers.Clone()
		r.Header.Set("X-Day-Unrecorded", "1") // whether it is seen is open
		if resp, err := c.http.Do(r); err == nil {
			_ = resp.Body.Close()
		}
		return true
	default:
		return false
	}
	c.ask(*ask)
	return true
}

// dayCut is what the fault cut-chunk writes past the server.
const dayCut = `data: {"id":"`

type errReader struct{}

func (errReader) Read([]byte) (int, error) { return 0, errors.New("broken off") }

// url returns where the capture takes requests of the session.
func (c *dayClient) url() string {
	if c.agent == "url" {
		return "http://" + c.d.address + "/s/" + c.session
	}
	return "http://" + c.d.address
}

// count counts a request of the life of the capture that runs, and waits for one.
func (c *dayClient) count() {
	era := c.d.era.Load()
	for ; era%2 == 0; era = c.d.era.Load() {
		time.Sleep(20 * time.Millisecond)
	}
	if era != c.era {
		c.http.CloseIdleConnections()
		c.era = era
	}
	c.d.asked.Add(1)
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	c.d.lives[era/2].asked.Add(1)
}

// dayAsk is a request.
type dayAsk struct {
	dayCase
	body    []byte
	headers http.Header
}

// dayReply is what came of a request.
type dayReply struct {
	dayResult
	body     []byte
	sent     []byte // by the server
	carried  string // the error of the capture
	err      error
	departed bool // the client left
}

// exchange sends a request and reads the reply, or as much of it as a client stands.
func (c *dayClient) exchange(ctx context.Context, url string, ask dayAsk) (r dayReply) {
	patience := time.Minute
	if slices.Contains(dayEndless, ask.fault) {
		patience, r.departed = 1500*time.Millisecond, true
	}
	ctx, stop := context.WithTimeout(ctx, patience)
	defer stop()
	req, _ := http.NewRequestWithContext(ctx, http.MethodPost, url+ask.path, bytes.NewReader(ask.body))
	if ask.headers != nil {
		req.Header = ask.headers.Clone()
	}
	c.asks++
	number := fmt.Sprintf("%d %d %p", c.n, c.asks, c)
	for name, value := range map[string]string{dayFault: ask.fault, dayRequest: number, dayEra: strconv.FormatInt(c.era, 10), "Content-Type": "application/json"} {
		req.Header.Set(name, value)
	}
	defer func() {
		r.sent, r.broken = c.d.upstream.take(number), r.err != nil
		if ask.fault == "cut-chunk" && r.broken {
			r.sent = append(r.sent, dayCut...)
		}
	}()
	resp, err := c.http.Do(req)
	if r.err = err; err != nil {
		return r
	}
	defer resp.Body.Close()
	r.status, r.carried = resp.StatusCode, resp.Header.Get("X-Agentx-Capture-Error")
	r.body, r.err = io.ReadAll(io.LimitReader(resp.Body, dayKept))
	return r
}

// ask sends a request through the capture and compares the reply with what the server sent, and how it ended with how it ends
// without a capture. It reports whether the reply was good.
func (c *dayClient) ask(ask dayAsk) bool {
	c.count()
	r := c.exchange(context.Background(), c.url(), ask)
	if why := c.differs(ask, r); why != "" {
		c.d.broken.Add(1)
		if c.d.era.Load() != c.era {
			c.d.killed.Add(1)
			return false
		}
		c.d.mu.Lock()
		defer c.d.mu.Unlock()
		if len(c.d.unexplained) < 50 {
			c.d.unexplained = append(c.d.unexplained, fmt.Sprintf("client %d, in life %d at %s, %+v: %s: status %d, %v, %q of %q", c.n, c.era/2, time.Now().Format(time.TimeOnly), ask.dayCase, why, r.status, r.err, end(r.body), end(r.sent)))
		}
		return false
	}
	return r.err == nil && r.status == http.StatusOK && ask.fault == ""
}

// end returns the last bytes of a text.
func end(text []byte) []byte { return text[max(0, len(text)-100):] }

// differs says what a client gets that the server did not send.
func (c *dayClient) differs(ask dayAsk, r dayReply) string {
	want, known := c.d.expected[ask.dayCase]
	switch {
	case r.departed:
		if !bytes.HasPrefix(r.sent, r.body) {
			return "other bytes before it left"
		}
	case r.carried != "":
		if !known || !want.broken || want.status != 0 {
			return "an error of the capture's own"
		}
	case !bytes.HasPrefix(r.sent, r.body):
		return "other bytes"
	case r.err == nil && len(r.sent) != len(r.body):
		return "a part that looks whole"
	case ask.odd(): // the server says what it says
	case known && want.broken != (r.err != nil):
		return "another end than without a capture"
	case known && want.status != r.status:
		return "another status than without a capture"
	}
	return ""
}

// odd reports whether a request is none that the server answers as others.
func (a *dayAsk) odd() bool {
	return a.headers.Get("Content-Encoding") != "" || len(a.body) < 40 || bytes.HasSuffix(a.body, []byte{0xff})
}

// daySaid returns what is to be looked for where nothing of a client may be.
func daySaid() map[string]string {
	said := map[string]string{"plain": canary, "hex": hex.EncodeToString([]byte(canary))}
	for shift := range 3 { // as a part of something longer
		text := base64.StdEncoding.EncodeToString(append(make([]byte, shift), canary...))
		said[fmt.Sprintf("base64 %d", shift)] = text[4*((shift+2)/3) : 4*((shift+len(canary))/3)]
	}
	for n := range dayCanaries {
		sum := sha256.Sum256([]byte((&dayClient{n: n}).key()))
		said[fmt.Sprintf("digest of a key %d", n)] = hex.EncodeToString(sum[:8])
	}
	return said
}
