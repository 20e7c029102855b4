package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/capture"
	"github.com/agentx/agentx/cmd/internal/capture/canon"
	"github.com/agentx/agentx/cmd/internal/capture/journal"
	"github.com/agentx/agentx/internal/bytefmt"
	"github.com/agentx/agentx/mock"
)

// Of a day.
const (
	dayClients  = 200
	dayLife     = time.Minute // after which a capture is killed
	dayIdle     = "20s"       // after which the capture ends an idle session
	dayGrowth   = 1.3         // by which captures of the last third may be larger than those of the first
	dayLarger   = 32 << 20    // bytes, besides
	dayUnheard  = 2 * time.Second
	dayCanaries = 8 // of dayClients, whose digests are looked for
)

// TestCaptureDay runs a capture for AGENTX_CAPTURE_DAY, such as 1h, between 200 clients and a server that fails in every way the mock
// knows. Every minute the capture is killed and another one starts in the same directory, which finishes the journals that were left beside
// the traffic. What clients get is what the server sent; every request is counted; nothing that clients said is on disk; memory does not
// grow.
// make test-capture-day runs it.
//
// Covers C-35, C-38.
func TestCaptureDay(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("AGENTX_CAPTURE_DAY"))
	if err != nil {
		t.Skip("AGENTX_CAPTURE_DAY is no duration: make test-capture-day sets it")
	}
	d := newDay(t)
	d.learn()
	ctx, stop := context.WithTimeout(t.Context(), length)
	defer stop()
	d.start()
	var clients sync.WaitGroup
	for n := range dayClients {
		clients.Go(func() { d.client(n).work(ctx) })
	}
	for ctx.Err() == nil {
		over := time.After(dayLife)
		d.requireSameBytes()
		select {
		case <-ctx.Done():
		case <-over:
			d.kill()
			d.start()
		}
	}
	clients.Wait()
	d.settle()
	d.stop()
	d.requireCounted()
	d.requireFlat()
	d.requireChecked()
	d.requireSilent()
	for _, u := range d.unexplained {
		t.Error(u)
	}
	t.Logf("%d lives, %d requests, %d not as the server sent them (%d of them killed with their capture)", len(d.lives), d.asked.Load(), d.broken.Load(), d.killed.Load())
}

// day is a capture that is killed again and again, between a server and clients.
type day struct {
	t        *testing.T
	dir      string
	upstream *dayUpstream
	server   *httptest.Server
	address  string // of the capture
	expected map[dayCase]dayResult

	era  atomic.Int64 // odd while a capture runs
	live *dayLifetime
	all  sync.WaitGroup

	asked, broken, killed atomic.Int64

	counted map[string]bool // notes whose requests a life has

	mu          sync.Mutex
	lives       []*dayLifetime
	unexplained []string
}

// dayLifetime is one process.
type dayLifetime struct {
	era     int64
	cmd     *exec.Cmd
	admin   string
	out     strings.Builder // what follows the first lines
	read    chan struct{}   // closed at the end of its output
	stop    chan struct{}
	sizes   []int64 // bytes of memory, now and then
	scraped string
	asked   atomic.Int64 // requests that clients sent
	ended   time.Time    // when it was killed
	notes   int          // requests in notes that came of it
	summary *capture.Summary
}

func newDay(t *testing.T) *day {
	d := &day{t: t, dir: filepath.Join(t.TempDir(), "captured"), upstream: newDayUpstream(), expected: map[dayCase]dayResult{}, counted: map[string]bool{}}
	d.server = httptest.NewServer(d.upstream)
	t.Cleanup(d.server.Close)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	d.address = l.Addr().String()
	require.NoError(t, l.Close())
	return d
}

// start starts a capture and waits until it listens.
func (d *day) start() {
	life := &dayLifetime{era: d.era.Load() + 1, read: make(chan struct{}), stop: make(chan struct{})}
	life.cmd = exec.Command("agentx", "capture", "--upstream", d.server.URL, "--out", d.dir, "--listen", d.address, "--idle", dayIdle, "--json")
	log, err := os.Create(filepath.Join(d.t.TempDir(), "stderr"))
	require.NoError(d.t, err)
	life.cmd.Stderr = log
	stdout, err := life.cmd.StdoutPipe()
	require.NoError(d.t, err)
	require.NoError(d.t, life.cmd.Start())
	d.t.Cleanup(func() {
		_ = life.cmd.Process.Signal(syscall.SIGQUIT) // it prints what it does
		_ = life.cmd.Wait()
		if text, err := os.ReadFile(log.Name()); d.t.Failed() && life == d.live {
			d.t.Logf("what the last one said (%v):\n%s", err, text[max(0, len(text)-1<<16):])
		}
	})
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if url, ok := strings.CutPrefix(lines.Text(), "admin "); ok {
			life.admin = url
			break
		}
	}
	text, _ := os.ReadFile(log.Name())
	require.NotEmpty(d.t, life.admin, "the capture did not start:\n%s", text)
	go func() {
		defer close(life.read)
		for lines.Scan() {
			life.out.WriteString(lines.Text() + "\n")
		}
	}()
	d.live = life
	d.mu.Lock()
	d.lives = append(d.lives, life)
	d.mu.Unlock()
	d.all.Go(life.watch)
	d.era.Add(1)
}

// watch measures a process until it ends, and asks for its metrics.
func (l *dayLifetime) watch() {
	for {
		select {
		case <-l.stop:
			return
		case <-time.After(2 * time.Second):
		}
		if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", l.cmd.Process.Pid)); err == nil {
			pages, _ := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
			l.sizes = append(l.sizes, pages*int64(os.Getpagesize()))
		}
		if text := l.ask("/metrics"); text != "" {
			l.scraped = text
		}
	}
}

// ask returns what the admin listener answers.
func (l *dayLifetime) ask(path string) string {
	resp, err := http.Get(l.admin + path)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	text := new(strings.Builder)
	_, _ = bufio.NewReader(resp.Body).WriteTo(text)
	return text.String()
}

// kill kills the capture, and copies what it leaves.
func (d *day) kill() {
	d.era.Add(1)
	d.live.ended = time.Now()
	require.NoError(d.t, d.live.cmd.Process.Kill())
	_ = d.live.cmd.Wait()
	close(d.live.stop)
	apart := d.apart()
	require.NoError(d.t, os.RemoveAll(apart))
	require.NoError(d.t, os.CopyFS(filepath.Join(apart, "journal"), os.DirFS(filepath.Join(d.dir, "journal"))))
	d.live.notes = d.noted(d.dir)
}

func (d *day) apart() string { return filepath.Join(filepath.Dir(d.dir), "apart") }

// requireSameBytes finishes the copy of what the last capture left, and compares what the next one makes of that.
func (d *day) requireSameBytes() {
	if len(d.lives) < 2 {
		return
	}
	out, err := exec.Command("agentx", "capture", "finish", d.apart()).CombinedOutput()
	require.NoError(d.t, err, string(out))
	d.lives[len(d.lives)-2].notes += d.noted(d.apart())
	made, err := filepath.Glob(filepath.Join(d.apart(), journal.NotesDir, "*.json"))
	require.NoError(d.t, err)
	for _, note := range made {
		left := filepath.Join(d.dir, "journal", strings.TrimSuffix(filepath.Base(note), ".json")+".jnl")
		require.Eventually(d.t, func() bool { _, err := os.Stat(left); return err != nil }, 5*time.Minute, 10*time.Millisecond, left)
	}
	for _, sub := range []string{journal.TracesDir, journal.NotesDir} {
		list, err := filepath.Glob(filepath.Join(d.apart(), sub, "*"))
		require.NoError(d.t, err)
		for _, path := range list {
			want, err := os.ReadFile(path)
			require.NoError(d.t, err)
			got, err := os.ReadFile(filepath.Join(d.dir, sub, filepath.Base(path)))
			require.NoError(d.t, err)
			assert.Equal(d.t, string(want), string(got), path)
		}
	}
}

// settle waits until the capture has nothing to do.
func (d *day) settle() {
	idle := []string{"agentx_capture_inflight 0", "agentx_capture_copy_bytes 0", "agentx_capture_queue_bytes 0"}
	require.Eventually(d.t, func() bool {
		text := d.live.ask("/metrics")
		for _, line := range idle {
			if !strings.Contains(text, line+"\n") {
				return false
			}
		}
		return true
	}, time.Minute, 100*time.Millisecond, "it still has something to do")
}

// stop ends the last capture as its user would.
func (d *day) stop() {
	require.NoError(d.t, d.live.cmd.Process.Signal(syscall.SIGTERM))
	<-d.live.read
	require.NoError(d.t, d.live.cmd.Wait())
	close(d.live.stop)
	d.all.Wait()
	d.live.summary = &capture.Summary{}
	require.NoError(d.t, json.Unmarshal([]byte(d.live.out.String()), d.live.summary), d.live.out.String())
	d.live.notes = d.noted(d.dir)
	d.t.Logf("the last one: %s", d.live.out.String())
	rest, err := filepath.Glob(filepath.Join(d.dir, "journal", "*"))
	require.NoError(d.t, err)
	assert.Empty(d.t, rest, "journals are left")
}

// noted returns how many requests the notes of a directory have that no life has yet.
func (d *day) noted(dir string) (n int) {
	list, err := filepath.Glob(filepath.Join(dir, journal.NotesDir, "*.json"))
	require.NoError(d.t, err)
	for _, path := range list {
		if d.counted[filepath.Base(path)] {
			continue
		}
		d.counted[filepath.Base(path)] = true
		text, err := os.ReadFile(path)
		require.NoError(d.t, err)
		var note struct {
			Requests, Recorded int
			NotRecorded        []struct{ Q int } `json:"not_recorded"`
		}
		require.NoError(d.t, json.Unmarshal(text, &note), path)
		assert.Equal(d.t, note.Requests, note.Recorded+len(note.NotRecorded), path)
		n += note.Requests
	}
	return n
}

// requireCounted compares the requests in notes with those that the server got and those that clients sent. A capture that was killed
// may lack those that it had not heard the end of.
func (d *day) requireCounted() {
	for k, life := range d.lives {
		served, unheard := d.upstream.served(life.era, life.ended)
		d.t.Logf("life %d: %d requests asked, %d served that are recorded, %d of them at its end; %d in notes; memory up to %s",
			k, life.asked.Load(), served, unheard, life.notes, bytefmt.Format(life.largest()))
		assert.GreaterOrEqual(d.t, life.notes, served-unheard, "life %d", k)
		assert.LessOrEqual(d.t, int64(life.notes), life.asked.Load(), "life %d", k)
	}
	s := d.lives[len(d.lives)-1].summary
	left := 0
	for _, n := range s.NotRecorded {
		left += n
	}
	assert.Equal(d.t, s.Requests, s.Recorded+left, "%+v", s)
}

func (l *dayLifetime) largest() (size int64) {
	for _, s := range l.sizes {
		size = max(size, s)
	}
	return size
}

// requireFlat compares the memory of the first captures with that of the last ones, which find more files.
func (d *day) requireFlat() {
	third := len(d.lives) / 3
	if third == 0 {
		return
	}
	mean := func(lives []*dayLifetime) (sum float64) {
		for _, l := range lives {
			sum += float64(l.largest()) / float64(len(lives))
		}
		return sum
	}
	whole := d.lives[:len(d.lives)-1] // the last one may be short
	assert.Less(d.t, mean(whole[len(whole)-third:]), dayGrowth*mean(whole[:third])+dayLarger)
}

// requireChecked checks every trace.
func (d *day) requireChecked() {
	out, err := exec.Command("agentx", "capture", "check", d.dir).CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	assert.NoError(d.t, err, strings.Join(lines[:min(len(lines), 30)], "\n"))
	d.t.Log(lines[len(lines)-1])
	bad, err := filepath.Glob(filepath.Join(d.dir, "*", "*.bad"))
	require.NoError(d.t, err)
	assert.Empty(d.t, bad)
}

// requireSilent looks for what clients said in everything that captures wrote.
func (d *day) requireSilent() {
	texts := map[string]string{}
	for _, dir := range []string{d.dir, d.apart()} {
		require.NoError(d.t, filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
			if err == nil && e.Type().IsRegular() {
				var text []byte
				text, err = os.ReadFile(path)
				texts[path] = path + "\n" + string(text)
			}
			return err
		}))
	}
	for k, life := range d.lives {
		text, err := os.ReadFile(life.cmd.Stderr.(*os.File).Name())
		require.NoError(d.t, err)
		texts[fmt.Sprintf("log %d", k)] = string(text)
		texts[fmt.Sprintf("metrics %d", k)] = life.scraped
		texts[fmt.Sprintf("stdout %d", k)] = life.out.String()
	}
	said := daySaid()
	for where, text := range texts {
		for what, secret := range said {
			assert.NotContains(d.t, strings.ToLower(text), strings.ToLower(secret), "%s in %s", what, where)
		}
	}
	d.t.Logf("%d files without a word of the clients", len(texts))
}

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

// dayReply is the outcome of a request.
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

// Headers with which clients of a day tell its server what to do. The capture passes them on.
const (
	dayFault   = "X-Day-Fault"
	dayRequest = "X-Day-Request"
	dayEra     = "X-Day-Era"
)

// dayKept bounds the bytes of a reply that are kept to compare them.
const dayKept = 1 << 20

// dayEndless are the faults that last until the client has had enough.
var dayEndless = []string{"stall", "stall-mid", "flood", "comments"}

// dayFaults returns all faults of the mock.
func dayFaults() (kinds []string) {
	for _, k := range mock.FaultKinds {
		kinds = append(kinds, strings.Replace(k.Name, "NNN", "529", 1))
	}
	return kinds
}

// dayUpstream is a mock for every fault, and keeps what they send.
type dayUpstream struct {
	mocks map[string]*mock.Server

	mu       sync.Mutex
	sent     map[string]*daySent // by number of request, until its client has compared it
	arrivals map[int64][]*daySent
}

// daySent is what was sent of a reply.
type daySent struct {
	mu    sync.Mutex
	bytes []byte
	ended time.Time
}

func newDayUpstream() *dayUpstream {
	u := &dayUpstream{mocks: map[string]*mock.Server{}, sent: map[string]*daySent{}, arrivals: map[int64][]*daySent{}}
	config := mock.Config{TTFT: 20 * time.Millisecond, ITL: 10 * time.Millisecond, CacheBlocks: -1}
	u.mocks[""] = mock.New(config)
	for _, kind := range dayFaults() {
		config.Faults = []mock.Fault{{Kind: kind, Rate: 1}}
		u.mocks[kind] = mock.New(config)
	}
	return u
}

func (u *dayUpstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	sent := &daySent{}
	era, _ := strconv.ParseInt(r.Header.Get(dayEra), 10, 64)
	_, recorded := canon.FormatOf(r.Method, r.URL.Path)
	u.mu.Lock()
	u.sent[r.Header.Get(dayRequest)] = sent
	if recorded && r.Header.Get("X-Day-Unrecorded") == "" {
		u.arrivals[era] = append(u.arrivals[era], sent)
	}
	u.mu.Unlock()
	defer func() {
		sent.mu.Lock()
		defer sent.mu.Unlock()
		sent.ended = time.Now()
	}()
	u.mocks[r.Header.Get(dayFault)].ServeHTTP(dayWriter{w, sent}, r)
}

// take returns what was sent in reply to a request, and forgets it.
func (u *dayUpstream) take(number string) []byte {
	u.mu.Lock()
	sent := u.sent[number]
	delete(u.sent, number)
	u.mu.Unlock()
	if sent == nil {
		return nil
	}
	sent.mu.Lock()
	defer sent.mu.Unlock()
	kept := sent.bytes
	sent.bytes = nil
	return kept
}

// served returns how many requests came that are recorded while an era lasted, and how many of them were not over for long when it
// ended.
func (u *dayUpstream) served(era int64, end time.Time) (n, late int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, s := range u.arrivals[era] {
		s.mu.Lock()
		if !end.IsZero() && (s.ended.IsZero() || s.ended.After(end.Add(-dayUnheard))) {
			late++
		}
		s.mu.Unlock()
	}
	return len(u.arrivals[era]), late
}

// dayWriter keeps what is written, before it is.
type dayWriter struct {
	http.ResponseWriter
	sent *daySent
}

func (w dayWriter) Write(p []byte) (int, error) {
	w.sent.mu.Lock()
	w.sent.bytes = append(w.sent.bytes, p[:min(len(p), dayKept-len(w.sent.bytes))]...)
	w.sent.mu.Unlock()
	return w.ResponseWriter.Write(p)
}

// Unwrap is for http.ResponseController.
func (w dayWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// dayCase is what the end of a reply depends on.
type dayCase struct {
	fault, path string
	stream      bool
}

// dayResult is what a client gets in such a case.
type dayResult struct {
	status int
	broken bool
}

// learn asks the server directly, in every case.
func (d *day) learn() {
	var group sync.WaitGroup
	var mu sync.Mutex
	for _, path := range slices.Sorted(maps.Keys(dayPaths)) {
		for _, kind := range append(dayFaults(), "") {
			for _, stream := range []bool{true, false} {
				group.Go(func() {
					c := d.client(-1)
					c.path = path
					r := c.exchange(d.t.Context(), d.server.URL, dayAsk{dayCase{kind, path, stream}, c.body(stream), nil})
					mu.Lock()
					defer mu.Unlock()
					d.expected[dayCase{kind, path, stream}] = r.dayResult
				})
			}
		}
	}
	group.Wait()
}
