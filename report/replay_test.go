package report_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/mock"
	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/report"
)

// replayed plays the demo against a mock with faults, with a warmup, and with a deadline before which some requests do not end.
func replayed(t *testing.T, name string) (dir string, s *measure.Summary) {
	server := mock.New(mock.Config{
		Seed: 7, TTFT: 20 * time.Millisecond, TokensPerSecond: 2000,
		Faults: []mock.Fault{{Kind: "status=503", Rate: 0.05}, {Kind: "cut", Rate: 0.05}, {Kind: "overflow", Rate: 0.02}, {Kind: "error-payload", Rate: 0.05}},
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	h, done := &http.Server{Handler: server}, make(chan struct{})
	go func() { defer close(done); _ = h.Serve(l) }()
	t.Cleanup(func() { _ = h.Close(); <-done })
	switches, _ := preset.Named(name)
	switches.OverflowFails = false // the faults overflow primers
	var ids atomic.Int64
	o := replay.Options{
		Cache: cachetest.Demo(t), URLs: []string{"http://" + l.Addr().String()}, Model: "m", Endpoint: payload.Completions, Concurrency: 4,
		Marker: payload.NoMarker, Pace: replay.Pace{ASAP: true}, Limits: replay.Limits{LaneStart: replay.Off}, Preset: name, Switches: &switches,
		Start: replay.Start{Sampled: true}, Warmup: replay.Warmup{Primers: true}, Duration: 600 * time.Millisecond, Grace: 100 * time.Millisecond,
		Backoff: replay.Backoff{First: replay.Off}, SkipPreflight: true, Out: filepath.Join(t.TempDir(), "out"),
		NewID: func() string { return fmt.Sprintf("id-%d", ids.Add(1)) },
	}
	s, err = replay.Run(context.Background(), o)
	require.NoError(t, err)
	return o.Out, s
}

// The numbers of a report are those of summary.json, wherever both have one.
func TestReportAgreesWithSummary(t *testing.T) {
	for _, name := range preset.Names {
		dir, s := replayed(t, name)
		run, err := report.Open(dir)
		require.NoError(t, err)
		require.Empty(t, run.Missing)
		res, err := run.Compute()
		require.NoError(t, err)
		require.Empty(t, run.Missing)
		require.Greater(t, s.Warmup.Requests, 0)
		require.Greater(t, s.Completed, 0)
		require.InDelta(t, 0.6, run.Info.Facts.Deadline, 1e-9)
		require.Positive(t, s.Metrics.RecordedBlocks)
		agree(t, res.Headline, &s.Metrics)
		agree(t, res.Cooldown, &s.Cooldown)
		agreeOnConnection(t, res.Headline, &s.Connection)
		failed := 0
		for _, n := range s.Errors {
			failed += n
		}
		require.Equal(t, s.Headline, res.HeadlineRule)
		require.Equal(t, s.ITLDivisor, res.ITLDivisor)
		require.Equal(t, s.ThroughputWindow.Kind, res.Window.Kind)
		require.InDelta(t, float64(s.ThroughputWindow.Seconds), res.Window.Seconds, 1e-9)
		origin := run.Origin(measure.ProfilingPhase)
		require.Equal(t, origin+measure.Nanos(float64(s.ThroughputWindow.Start)), res.Window.Start)
		require.Equal(t, origin+measure.Nanos(float64(s.ThroughputWindow.End)), res.Window.End)
		for tag, want := range map[string]int{
			"cooldown_request_count": s.Buckets.Cooldown, "cancelled_at_end_count": s.Buckets.CancelledAtEnd,
			"context_overflow_count": s.Buckets.ContextOverflow, "wedged_tree_count": int(s.DeadlockedTrees),
		} {
			require.EqualValues(t, want, number(t, res.Headline, tag, "avg"), tag)
		}
		require.EqualValues(t, s.Buckets.Profiling, number(t, res.Headline, "completed_request_count", "avg"))
		require.EqualValues(t, s.Buckets.Cooldown, number(t, res.Cooldown, "completed_request_count", "avg"))
		require.EqualValues(t, failed, number(t, res.Headline, "error_request_count", "avg")+number(t, res.Cooldown, "error_request_count", "avg"))
		require.InDelta(t, float64(s.PhaseDuration), number(t, res.Headline, "phase_duration", "avg"), 1e-9)
		require.Equal(t, s.Requests, res.Counts.Sent)
		require.Equal(t, s.Warmup.Requests, res.Counts.Warmup)
		require.Greater(t, res.Start, run.Origin(measure.WarmupPhase))
	}
}

// agree compares a table with the numbers of a summary over the same requests.
func agree(t *testing.T, table report.Table, m *measure.Metrics) {
	t.Helper()
	for tag, stat := range map[string]measure.Stat{
		"time_to_first_token": m.TTFT, "inter_token_latency": m.ITL, "request_latency": m.RequestLatency, "due_to_sent_latency": m.Lateness,
	} {
		if stat.N == 0 {
			require.Nil(t, table.Find(tag))
			continue
		}
		require.EqualValues(t, stat.N, number(t, table, tag, "count"), tag)
		for name, want := range map[string]measure.Number{
			"avg": stat.Mean, "p50": stat.P50, "p75": stat.P75, "p90": stat.P90, "p95": stat.P95, "p99": stat.P99, "max": stat.Max, "std": stat.Std,
		} {
			require.InDelta(t, float64(want)*1e3, number(t, table, tag, name), 1e-9*max(1, float64(want)*1e3), "%s %s", tag, name)
		}
	}
	require.EqualValues(t, m.Measured, number(t, table, "request_count", "avg"))
	if m.RecordedBlocks > 0 {
		require.EqualValues(t, m.RecordedBlocks, number(t, table, "theoretical_prefix_cache_hit", "count"))
		require.EqualValues(t, m.RecordedHits, number(t, table, "theoretical_prefix_cache_hit", "sum"))
		require.InDelta(t, 100*float64(m.TheoreticalHitRate), number(t, table, "theoretical_prefix_cache_hit", "avg"), 1e-9)
	}
	for tag, want := range map[string]measure.Number{
		"benchmark_duration": m.Duration, "request_throughput": m.RequestRate, "input_token_throughput": m.PromptTokenRate,
		"output_token_throughput": m.OutputTokenRate, "total_isl": m.PromptTokens, "total_osl": m.OutputTokens,
		"total_usage_prompt_cache_read_tokens": m.CachedTokens, "overall_usage_prompt_cache_read_pct": m.TokenHitRate * 100,
	} {
		if want.IsMissing() || m.Measured == 0 {
			require.Nil(t, table.Find(tag), tag)
			continue
		}
		require.InDelta(t, float64(want), number(t, table, tag, "avg"), 1e-9*max(1, float64(want)), tag)
	}
}

// agreeOnConnection compares the steps of requests on their connections.
func agreeOnConnection(t *testing.T, table report.Table, c *measure.Connection) {
	t.Helper()
	for tag, want := range map[string]measure.Quantiles{
		"http_req_blocked": c.Blocked, "http_req_connecting": c.Connecting, "http_req_sending": c.Sending,
		"http_req_waiting": c.Waiting, "http_req_receiving": c.Receiving,
	} {
		require.InDelta(t, float64(want.P50)*1e3, number(t, table, tag, "p50"), 1e-9, tag)
		require.InDelta(t, float64(want.P99)*1e3, number(t, table, tag, "p99"), 1e-9, tag)
	}
	require.InDelta(t, float64(c.Reused), number(t, table, "http_req_connection_reused", "avg"), 1e-9)
}

func number(t *testing.T, table report.Table, tag, stat string) float64 {
	t.Helper()
	b := table.Find(tag)
	require.NotNil(t, b, tag)
	n, ok := b.Find(stat)
	require.True(t, ok, "%s %s", tag, stat)
	return n.Float64()
}
