package main

import (
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/measure"
)

// A run sends each of its requests as a span to the collector of the environment. Its results and what it prints have neither a header nor a
// password. A collector that refuses everything costs a warning.
//
//
func TestOTLP(t *testing.T) {
	t.Setenv("AGENTX_CACHE", warmRoot(t))
	var spans atomic.Int64
	var status atomic.Int32
	status.Store(http.StatusOK)
	collector := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, password, _ := r.BasicAuth()
		if r.Header.Get("X-Key") == "hidden-header" && password == "hidden-password" && status.Load() == http.StatusOK {
			spans.Add(int64(strings.Count(string(body), `"spanId"`)))
		}
		w.WriteHeader(int(status.Load()))
	}))
	t.Cleanup(collector.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-key=hidden-header")
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL) // not read: containers set it for other programs
	t.Setenv("AGENTX_OTLP", strings.Replace(collector.URL, "//", "//user:hidden-password@", 1))
	play := func(more ...string) (said, dir string) {
		var out strings.Builder
		dir = filepath.Join(t.TempDir(), "out")
		require.Zero(t, run(append([]string{"replay", "demo", "--url", mockServer(t), "--model", "m", "--requests", "20", "--asap", "--no-calibrate", "--scrape", "off",
			"--out", dir}, more...), nil, &out, &out), out.String())
		return out.String(), dir
	}
	said, dir := play()
	var summary struct{ Requests int64 }
	text, err := os.ReadFile(filepath.Join(dir, "summary.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &summary))
	require.Equal(t, summary.Requests, spans.Load())
	require.Contains(t, said, "requests were sent as spans")
	require.NotContains(t, said, "hidden")
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			text, err = os.ReadFile(path)
			require.NotContains(t, string(text), "hidden")
		}
		return err
	}))
	options := struct{ Options []measure.Option }{}
	text, err = os.ReadFile(filepath.Join(dir, measure.RunFile))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &options))
	require.Contains(t, options.Options, measure.Option{Name: "otlp", Value: json.RawMessage(`"` + collector.URL + `"`), From: "environment"})

	status.Store(http.StatusForbidden)
	said, _ = play()
	require.Contains(t, said, "agentx: warning: --otlp: 20 of 20 requests were dropped: /v1/")
	spans.Store(0)
	status.Store(http.StatusOK)
	said, _ = play("--otlp", "off")
	require.NotContains(t, said, "otlp")
	require.NoError(t, os.Unsetenv("AGENTX_OTLP"))
	said, _ = play()
	require.NotContains(t, said, "otlp")
	require.Zero(t, spans.Load())
}
