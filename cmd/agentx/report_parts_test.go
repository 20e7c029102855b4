package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math"
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
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/bytefmt"
	"github.com/agentx/agentx/mock"
	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/merge"
)

// logged is a log that many answers write to.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// partsOf plays a load as processes of this program, one a part, against a mock, and returns the log of the mock and the load as one run.
func partsOf(t *testing.T, server mock.Config, cache string, parts int, flags ...string) (map[string]mock.Answer, *merge.Run) {
	t.Helper()
	log := &logged{}
	server.Log = log
	serving := httptest.NewServer(mock.New(server))
	defer serving.Close()
	run := playParts(t, serving.URL, cache, parts, flags...)
	serving.Close() // every answer is logged
	answers := map[string]mock.Answer{}
	for line := range strings.Lines(log.text.String()) {
		var a mock.Answer
		require.NoError(t, json.Unmarshal([]byte(line), &a))
		answers[a.RequestID] = a
	}
	return answers, run
}

// playParts plays a load as processes of this program, one a part, against a server, and returns the load as one run.
func playParts(t *testing.T, url, cache string, parts int, flags ...string) *merge.Run {
	t.Helper()
	out := filepath.Join(t.TempDir(), "load")
	var playing sync.WaitGroup
	for number := range parts {
		args := append([]string{"replay", "demo", "--cache", cache, "--url", url, "--model", "m", "--asap", "--quiet", "--no-preflight", "--no-calibrate", "--scrape", "off", "--out", out, "--part", fmt.Sprintf("%d/%d", number, parts)}, flags...)
		playing.Go(func() {
			text, err := exec.CommandContext(t.Context(), "agentx", args...).CombinedOutput()
			if err != nil {
				t.Errorf("part %d: %v: %s", number, err, text)
			}
		})
	}
	playing.Wait()
	run, err := merge.Open(out, merge.Options{})
	require.NoError(t, err)
	return run
}

// freeAddress returns an address of this machine at which nothing listens.
func freeAddress(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	return l.Addr().String()
}

// discarding is a server that answers when so many requests are in flight as there are lanes, and every request behind those at once. It says as
// tokens of a prompt how many bytes of the body it has read.
type discarding struct {
	lanes, requests, bytes atomic.Int64
	full                   chan struct{}
}

func (d *discarding) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n, err := io.Copy(io.Discard, r.Body)
	if err != nil {
		return
	}
	d.bytes.Add(n)
	if d.requests.Add(1) == d.lanes.Load() {
		close(d.full)
	}
	<-d.full
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"},\"finish_reason\":\"stop\"}]}\n\n"+
		"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":%d,\"completion_tokens\":1,\"total_tokens\":%d}}\n\ndata: [DONE]\n\n", n, n+1)
}

// All lanes of all parts have a request in flight at the same time, and the load as one run has every request and every byte that the server got.
// make test-lanes plays 16 parts of 1,024 lanes.
func TestPartsOfManyLanes(t *testing.T) {
	parts, lanes := 4, 16
	if text := os.Getenv("AGENTX_LANES"); text != "" {
		var err error
		parts = 16
		lanes, err = strconv.Atoi(text)
		require.NoError(t, err)
	}
	cache := warmRoot(t)
	require.Zero(t, run([]string{"convert", "demo", "--quiet", "--cache", cache}, nil, new(strings.Builder), os.Stderr))
	sink := &discarding{full: make(chan struct{})}
	all, requests := parts*lanes, 2*parts*lanes
	sink.lanes.Store(int64(all))
	serving := httptest.NewServer(sink)
	defer serving.Close()
	load := playParts(t, serving.URL, cache, parts, "--concurrency", strconv.Itoa(all), "--requests", strconv.Itoa(requests), "--seed", "7", "--meet", freeAddress(t))
	s, _, err := replay.Summarize(load, nil)
	require.NoError(t, err)
	require.Empty(t, s.Errors)
	require.Equal(t, []int64{int64(requests), sink.requests.Load()}, []int64{int64(s.Completed), int64(s.Requests)})
	require.Equal(t, []int64{sink.bytes.Load(), sink.requests.Load()}, []int64{int64(s.PromptTokens), int64(s.OutputTokens)})
	require.Equal(t, all, s.Lanes.Started)
	t.Logf("%d parts of %d lanes: %d requests, %d bytes, CPU of all clients %.1f s, largest memory %s", parts, lanes, requests, sink.bytes.Load(), s.Client.CPU, bytefmt.Format(int64(s.Client.PeakRSS)))
}

// The report of a load that 1, 2 and 4 processes have played has what the server's own log has: each request, and the sums of all tokens.
// With AGENTX_PARTS, percentiles and rates are compared, too, which need a machine that is not busy.
func TestPartsAgainstTheLogOfTheServer(t *testing.T) {
	load, server := []string{"--concurrency", "8", "--trees", "24", "--seed", "7"}, mock.Config{}
	timed := os.Getenv("AGENTX_PARTS") != ""
	if timed {
		load = []string{"--concurrency", "16", "--trees", "160", "--seed", "7"}
		server = mock.Config{TTFT: 40 * time.Millisecond, ITL: 4 * time.Millisecond, PrefillSlots: 6, DecodeSlots: 64}
	}
	cache := warmRoot(t)
	require.Zero(t, run([]string{"convert", "demo", "--quiet", "--cache", cache}, nil, new(strings.Builder), os.Stderr))
	for _, parts := range []int{1, 2, 4} {
		answers, load := partsOf(t, server, cache, parts, load...)
		s, _, err := replay.Summarize(load, nil)
		require.NoError(t, err)
		records, err := load.Records()
		require.NoError(t, err)
		defer records.Close()
		var prompt, cached, output int64
		for range len(answers) {
			r, err := records.Next()
			require.NoError(t, err)
			a, ok := answers[r.RequestID]
			require.True(t, ok, "%s is not in the log", r.RequestID)
			require.Equal(t, []int64{int64(a.PromptTokens), int64(a.CachedTokens), int64(a.OutputTokens)}, []int64{r.PromptTokens.N(), r.CachedTokens.N(), r.OutputTokens.N()})
			prompt, cached, output = prompt+r.PromptTokens.N(), cached+r.CachedTokens.N(), output+r.OutputTokens.N()
		}
		_, err = records.Next()
		require.Error(t, err, "the log has all")
		require.Equal(t, []int{len(answers), len(answers)}, []int{s.Requests, s.Completed})
		require.Equal(t, []int64{prompt, cached, output}, []int64{int64(s.PromptTokens), int64(s.CachedTokens), int64(s.OutputTokens)})
		if timed {
			compareTimes(t, parts, answers, s)
		}
	}
}

// compareTimes holds rates and percentiles of the report against those of the log.
func compareTimes(t *testing.T, parts int, answers map[string]mock.Answer, s *measure.Summary) {
	first, last, output := int64(math.MaxInt64), int64(0), 0
	var ttft, latency []float64
	for _, a := range answers {
		first, last, output = min(first, a.Arrived), max(last, a.Last), output+a.OutputTokens
		ttft, latency = append(ttft, float64(a.First-a.Arrived)/1e9), append(latency, float64(a.Last-a.Arrived)/1e9)
	}
	seconds := float64(last-first) / 1e9
	slices.Sort(ttft)
	slices.Sort(latency)
	rows := []struct {
		name      string
		log, ours float64
		share     float64 // of the log's, by which ours may be off
		more      float64 // in s, that the way between the two may take
	}{
		{"seconds", seconds, float64(s.Duration), 0.01, 0.01},
		{"requests/s", float64(len(answers)) / seconds, float64(s.RequestRate), 0.01, 0},
		{"output tokens/s", float64(output) / seconds, float64(s.OutputTokenRate), 0.01, 0},
		{"ttft p50", measure.Percentile(ttft, 50), float64(s.TTFT.P50), 0.02, 0.003},
		{"ttft p95", measure.Percentile(ttft, 95), float64(s.TTFT.P95), 0.02, 0.01},
		{"latency p50", measure.Percentile(latency, 50), float64(s.RequestLatency.P50), 0.02, 0.005},
		{"latency p95", measure.Percentile(latency, 95), float64(s.RequestLatency.P95), 0.02, 0.02},
	}
	for _, r := range rows {
		t.Logf("%d parts, %d requests: %-16s log %10.4f  report %10.4f  %+.2f %%", parts, len(answers), r.name, r.log, r.ours, 100*(r.ours/r.log-1))
		require.InDelta(t, r.log, r.ours, r.share*r.log+r.more, r.name)
	}
}
