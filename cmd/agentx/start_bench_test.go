package main

import (
	"encoding/json"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/mock"
	"github.com/agentx/agentx/replay/measure"
)

// BenchmarkStart takes the program AGENTX_PROGRAM from its start to the first byte of the first request: a warm cache of 600 made-up
// traces, 64 lanes, a mock on loopback, everything as it is by default, the preflight and the first scrape included.
func BenchmarkStart(b *testing.B) {
	program := os.Getenv("AGENTX_PROGRAM")
	if program == "" {
		b.Skip("AGENTX_PROGRAM is not set: make bench-start sets it")
	}
	dir := b.TempDir()
	traces := filepath.Join(dir, "traces.jsonl")
	made, err := exec.CommandContext(b.Context(), program, "synth", "--traces", "600", "--seed", "1").Output()
	require.NoError(b, err)
	require.NoError(b, os.WriteFile(traces, made, 0o600))
	line, err := exec.CommandContext(b.Context(), program, "convert", traces, "--json", "--cache", filepath.Join(dir, "cache")).Output()
	require.NoError(b, err)
	var converted struct{ Path string }
	require.NoError(b, json.Unmarshal(line, &converted))
	server := httptest.NewServer(mock.New(mock.Config{}))
	defer server.Close()
	var took []time.Duration
	for b.Loop() {
		out := filepath.Join(dir, "results")
		from := time.Now()
		text, err := exec.CommandContext(b.Context(), program, "replay", converted.Path, "--url", server.URL, "--model", "m",
			"--concurrency", "64", "--asap", "--requests", "64", "--out", out, "--overwrite", "--allow-failures").CombinedOutput()
		require.NoError(b, err, "%s", text)
		took = append(took, firstSent(b, out).Sub(from))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1e3, "median-ms")
	b.ReportMetric(float64(took[len(took)-1].Microseconds())/1e3, "max-ms")
	b.ReportMetric(0, "ns/op")
}

// firstSent returns when the first byte of the first request of a run was sent.
func firstSent(b *testing.B, dir string) (at time.Time) {
	info, err := measure.ReadInfo(dir)
	require.NoError(b, err)
	records, err := os.ReadFile(filepath.Join(dir, "records.jsonl"))
	require.NoError(b, err)
	for line := range strings.Lines(string(records)) {
		var r struct {
			Sent float64 `json:"send_start"`
		}
		require.NoError(b, json.Unmarshal([]byte(line), &r))
		if sent := info.Start.Add(time.Duration(r.Sent * 1e9)); at.IsZero() || sent.Before(at) {
			at = sent
		}
	}
	return at
}
