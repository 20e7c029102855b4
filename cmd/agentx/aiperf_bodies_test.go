package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// comparedTraces are public traces, two of them with subagents: 166 requests.
var comparedTraces = []string{"0022", "0058", "0187", "0277", "0291", "0460", "0471", "0504", "0529", "0538"}

const sharedCorpus = "../../../shared/corpus/"

// AIPerf 0.13.0 and agentx run the same command line: one lane and four, paced and flat out. Every body that agentx sends
// equals the one that AIPerf sends for the same turn of the same session, byte for byte but for the digits of the marker.
func TestBodiesAreThoseOfAIPerf(t *testing.T) {
	python := os.Getenv("BODIES_PYTHON")
	if python == "" {
		t.Skip("needs an installed AIPerf: make test-bodies")
	}
	if _, err := os.Stat(sharedCorpus); err != nil {
		t.Skip("needs the traces of ../shared")
	}
	for _, lanes := range []int{1, 4} {
		for _, pace := range []string{"--system-idle-gap-cap-seconds=0.05", "--ignore-trace-delays"} {
			t.Run(strconv.Itoa(lanes)+" "+pace, func(t *testing.T) { compareBodies(t, python, lanes, pace) })
		}
	}
}

func compareBodies(t *testing.T, python string, lanes int, pace string) {
	theirs, ours := newBodyServer(t), newBodyServer(t)
	flags := func(s *bodyServer) []string {
		return []string{"profile", "--scenario", "inferencex-agentx-mvp", "--unsafe-override", "--model", "m", "--tokenizer", "builtin", "--url", s.url,
			"--endpoint-type", "chat", "--streaming", "--use-server-token-count", "--input-file", linkedTraces(t), "--custom-dataset-type", "weka_trace",
			"--concurrency", strconv.Itoa(lanes), "--benchmark-duration", "400", "--random-seed", "42", "--num-dataset-entries", "10", pace,
			"--extra-inputs", "temperature:0.5", "--no-server-metrics", "--no-gpu-telemetry", "--ui", "none", "--output-artifact-dir", t.TempDir()}
	}
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, python, append([]string{"-m", "aiperf"}, append(flags(theirs), "--request-count", "900")...)...) // every turn at least once: a slow machine plays some of them late
	cmd.Env = append(os.Environ(), "TIKTOKEN_CACHE_DIR="+ranksForTiktoken(t), "HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	require.NotEmpty(t, theirs.sessions, "AIPerf: %v\n%s", err, out)

	t.Setenv("AGENTX_CORPUS", sharedCorpus+"aiperf-coding-42-o200k_base.u32le")
	t.Setenv("AGENTX_CACHE", t.TempDir())
	t.Setenv("AGENTX_NO_PREFLIGHT", "true")
	var problems strings.Builder
	status := run(append([]string{"aiperf"}, append(flags(ours), "--request-count", "250")...), nil, io.Discard, &problems)
	require.Zero(t, status, problems.String())
	c := theirs.compare(ours)
	assert.Empty(t, c.differences)
	t.Logf("%d bodies of %d sessions compared, %d different ones; %d bodies of agentx beyond what AIPerf sent in its time; AIPerf sent %d", c.bodies, c.sessions, c.distinct, c.beyond, theirs.count())
	assert.GreaterOrEqual(t, c.distinct, 100, "too few to say anything")
}

// linkedTraces returns a directory with the compared traces.
func linkedTraces(t *testing.T) string {
	dir := t.TempDir()
	for _, name := range comparedTraces {
		file := "trace_" + name + ".json"
		from, err := filepath.Abs(sharedCorpus + "traces/" + file)
		require.NoError(t, err)
		require.NoError(t, os.Symlink(from, filepath.Join(dir, file)))
	}
	return dir
}

// ranksForTiktoken returns a cache directory of tiktoken with the ranks of o200k_base, which it would download.
func ranksForTiktoken(t *testing.T) string {
	ranks, err := os.ReadFile(os.Getenv("ORACLE_RANKS"))
	require.NoError(t, err)
	dir := t.TempDir()
	const name = "fb374d419588a4632f3f557e76b4b70aebbca790" // SHA-1 of the address
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), ranks, 0o600))
	return dir
}

// bodyServer answers every request at once and keeps the bodies, by session.
type bodyServer struct {
	url      string
	mutex    sync.Mutex
	sessions map[string][]string // digests of bodies in the order of their arrival, by X-Correlation-ID
	texts    map[string]string   // of bodies, by digest
}

func newBodyServer(t *testing.T) *bodyServer {
	s := &bodyServer{sessions: map[string][]string{}, texts: map[string]string{}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

func (s *bodyServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	session := r.Header.Get("X-Correlation-ID")
	if err != nil || r.URL.Path != "/v1/chat/completions" || session == "" {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	s.keep(session, body)
	w.Header().Set("Content-Type", "text/event-stream")
	for _, choices := range []string{`[{"index":0,"delta":{"role":"assistant","content":"x"}}]`, `[{"index":0,"delta":{},"finish_reason":"length"}]`} {
		fmt.Fprintf(w, "data: {\"id\":\"1\",\"object\":\"chat.completion.chunk\",\"model\":\"m\",\"choices\":%s}\n\n", choices)
	}
	fmt.Fprint(w, `data: {"id":"1","object":"chat.completion.chunk","model":"m","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10}}`+"\n\ndata: [DONE]\n\n")
}

var markerDigits = regexp.MustCompile(`\[rid:[0-9a-f]{12}\]`)

// keep remembers a body without the digits of the marker.
func (s *bodyServer) keep(session string, body []byte) {
	text := markerDigits.ReplaceAllString(string(body), "[rid:]")
	digest := fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.sessions[session] = append(s.sessions[session], digest)
	s.texts[digest] = text
}

func (s *bodyServer) count() (n int) {
	for _, list := range s.sessions {
		n += len(list)
	}
	return n
}

// compared counts bodies that are the same, and tells of others.
type compared struct {
	bodies, distinct, sessions, beyond int
	differences                        []string
}

// compare looks up each session of another server among those of this one: by its first body, and the ones that follow.
func (s *bodyServer) compare(others *bodyServer) (c compared) {
	begun := map[string][][]string{}
	for _, list := range s.sessions {
		begun[list[0]] = append(begun[list[0]], list)
	}
	seen := map[string]bool{}
	for _, list := range others.sessions {
		candidates := begun[list[0]]
		if len(candidates) == 0 {
			c.differences = append(c.differences, fmt.Sprintf("AIPerf began no session with this body: %.600s", others.texts[list[0]]))
			continue
		}
		best := slices.MaxFunc(candidates, func(a, b []string) int { return samePrefix(a, list) - samePrefix(b, list) })
		same := samePrefix(best, list)
		if same < min(len(best), len(list)) {
			c.differences = append(c.differences, fmt.Sprintf("body %d of a session differs:\n%s", same, difference(s.texts[best[same]], others.texts[list[same]])))
		}
		c.sessions++
		c.bodies += same
		c.beyond += max(0, len(list)-len(best))
		for _, digest := range list[:same] {
			seen[digest] = true
		}
	}
	c.distinct = len(seen)
	return c
}

// samePrefix returns how many elements two lists begin with that are the same.
func samePrefix(a, b []string) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// difference shows where two texts begin to differ.
func difference(want, got string) string {
	n := 0
	for n < min(len(want), len(got)) && want[n] == got[n] {
		n++
	}
	from := max(0, n-80)
	return fmt.Sprintf("AIPerf ...%.300s\nagentx ...%.300s", want[from:], got[from:])
}

// Bodies are the same but for the digits of markers, and nothing else.
func TestCompareBodies(t *testing.T) {
	server := func(sessions ...[]string) *bodyServer {
		s := newBodyServer(t)
		for k, bodies := range sessions {
			for _, body := range bodies {
				s.keep(strconv.Itoa(k), []byte(body))
			}
		}
		return s
	}
	theirs := server([]string{`{"a":"[rid:0123456789ab]x","b":1}`, `{"b":2}`}, []string{`{"a":"[rid:0123456789ab]x","b":1}`, `{"b":3}`, `{"b":4}`})
	c := theirs.compare(server([]string{`{"a":"[rid:ba9876543210]x","b":1}`, `{"b":3}`}, []string{`{"a":"[rid:0123456789ab]x","b":1}`, `{"b":2}`, `{"b":9}`}))
	assert.Equal(t, compared{bodies: 4, distinct: 3, sessions: 2, beyond: 1}, c)
	for _, others := range []*bodyServer{
		server([]string{`{"a":"x[rid:0123456789ab]","b":1}`}), server([]string{`{"a":"[rid:0123456789ab]x","b":1}`, `{"b":3}`, `{"b":4.0}`}),
		server([]string{`{"b":1,"a":"[rid:0123456789ab]x"}`}),
		server([]string{`{"a":"[rid:0123456789ab]x","b":1,"c":null}`}), server([]string{`{"a"`}),
	} {
		assert.Len(t, theirs.compare(others).differences, 1)
	}
}
