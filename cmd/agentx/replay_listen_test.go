package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	promodel "github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/measure"
)

// served tells the address that a command prints.
type served struct {
	text bytes.Buffer
	at   chan string
}

func (s *served) Write(p []byte) (int, error) {
	s.text.Write(p)
	if _, rest, ok := strings.Cut(s.text.String(), "served at "); ok && s.at != nil {
		if url, _, ok := strings.Cut(rest, " "); ok {
			s.at <- url
			s.at = nil
		}
	}
	return len(p), nil
}

// A run is served until those who watch it have the finished page; then the metrics are those of its summary. Its address is told also
// with --quiet, where the port is one that is free. One who does not read
// holds up nothing.
//
//
func TestListen(t *testing.T) {
	t.Setenv("AGENTX_CACHE", warmRoot(t))
	dir, stderr, ended := filepath.Join(t.TempDir(), "out"), &served{at: make(chan string, 1)}, make(chan int, 1)
	at, server := stderr.at, mockServer(t, "status=500:0.1")
	go func() {
		ended <- run([]string{"replay", "demo", "--url", server, "--model", "mock", "--concurrency", "4", "--requests", "60", "--asap",
			"--no-calibrate", "--scrape", "off", "--out", dir, "--listen", ":0", "--quiet", "--allow-failures"}, nil, new(strings.Builder), stderr)
	}()
	url := <-at
	silent, err := net.Dial("tcp", strings.TrimSuffix(strings.TrimPrefix(url, "http://"), "/"))
	require.NoError(t, err)
	defer silent.Close()
	_, err = io.WriteString(silent, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
	require.NoError(t, err)
	reader := func() func(path string) string {
		client := http.Client{Transport: &http.Transport{}}
		t.Cleanup(client.CloseIdleConnections)
		return func(path string) string {
			answer, err := client.Get(url + path)
			require.NoError(t, err)
			defer answer.Body.Close()
			text, err := io.ReadAll(answer.Body)
			require.NoError(t, err)
			return string(text)
		}
	}
	waits, page := reader(), reader()
	for finished := false; !finished; {
		finished = strings.Contains(page("data?after=0"), `"ended":true`)
		waits("data?after=9000000000000000") // it has seen nothing yet
	}
	metrics, html := page("metrics"), page("")
	waits("data?after=0") // the finished page
	require.Zero(t, <-ended, stderr.text.String())

	text, err := os.ReadFile(filepath.Join(dir, "summary.json"))
	require.NoError(t, err)
	var want measure.Summary
	require.NoError(t, json.Unmarshal(text, &want))
	parser := expfmt.NewTextParser(promodel.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(metrics))
	require.NoError(t, err)
	counter := func(name string) *dto.Metric { return families["agentx_"+name].GetMetric()[0] }
	require.EqualValues(t, 60, want.Requests)
	require.EqualValues(t, 60, counter("requests").Counter.GetValue())
	require.EqualValues(t, want.Completed, counter("completed").Counter.GetValue())
	require.EqualValues(t, want.PromptTokens, counter("prompt_tokens").Counter.GetValue())
	require.EqualValues(t, want.OutputTokens, counter("output_tokens").Counter.GetValue())
	require.NotEmpty(t, want.Errors)
	require.EqualValues(t, want.Errors["http_status"], counter("errors").Counter.GetValue())
	require.EqualValues(t, want.TTFT.N, counter("ttft").Histogram.GetSampleCount())
	require.InEpsilon(t, float64(want.TTFT.Mean)*float64(want.TTFT.N), counter("ttft").Histogram.GetSampleSum(), 1e-9)
	require.Contains(t, html, `"kind":"run"`)
}
