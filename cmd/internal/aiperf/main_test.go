package aiperf

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/wire"
	"github.com/agentx/agentx/report"
)

// start is when the profiling phase of test runs starts. A float64 does not hold it.
const start = 1700000000311000123

const (
	ms     = int64(time.Millisecond)
	second = int64(time.Second)
)

func at(ns int64) float64 { return time.Duration(ns).Seconds() }

// randomRecord returns a record of a random outcome that began at an instant.
func randomRecord(r *rand.Rand, credit int, sent int64) measure.Record {
	n := 1 + r.IntN(6)
	prompt, output, reasoning := 100+r.Int64N(9000), int64(n)+r.Int64N(40), r.Int64N(5)
	inner := credit % 3
	rec := measure.Record{
		Phase: measure.ProfilingPhase, Bucket: measure.Profiling, Credit: credit, Lane: credit % 4, Trace: "trace-a", Session: "trace-a::sa:x",
		Turn: credit % 7, SourceKind: "weka_subagent", SourceOuter: credit % 5, SourceInner: &inner, Depth: 1, RequestID: fmt.Sprint("q-", credit),
		CorrelationID: fmt.Sprint("c-", credit%4), RootID: "c-r", ParentID: "c-r",
		Numbers: measure.Numbers{
			Status: 200, Due: measure.At(at(sent - r.Int64N(ms))), Admitted: measure.At(at(sent - r.Int64N(1000))), Sent: measure.At(at(sent)),
			RecordedISL: prompt, RecordedBlocks: prompt / 64, RecordedHits: prompt / 100, PromptTokens: measure.Tokens(prompt),
			OutputTokens: measure.Tokens(output), ReasoningTokens: measure.Tokens(reasoning), MaxTokens: output + reasoning,
		},
		Transfer: measure.Transfer{Chunks: n, BytesSent: 4000 + r.Int64N(999), BytesReceived: 300},
	}
	now := 20*ms + r.Int64N(50*ms)
	rec.Acknowledged = measure.At(at(sent + now - ms))
	for k := range n {
		rec.Contents.Add(time.Duration(now), wire.Unknown)
		switch k {
		case 0:
			rec.FirstToken, rec.FirstOutput = measure.At(at(sent+now)), measure.At(at(sent+now))
		case 1:
			rec.SecondToken = measure.At(at(sent + now))
		}
		rec.LastToken = measure.At(at(sent + now))
		now += ms + r.Int64N(30*ms)
	}
	rec.LastMessage, rec.End = measure.At(at(sent+now)), measure.At(at(sent+now+r.Int64N(ms)))
	fail(r, &rec)
	return rec
}

// fail makes some records those of failed requests, and of other buckets.
func fail(r *rand.Rand, rec *measure.Record) {
	failed := func(bucket measure.Bucket, category wire.Category, code int, message string) {
		rec.Bucket, rec.Error = bucket, &measure.Error{Category: category, Code: code, Message: message}
		rec.LastMessage = 0
	}
	switch r.IntN(12) {
	case 0:
		failed(measure.Profiling, wire.HTTPStatus, 500, fmt.Sprint("internal <error> ", r.IntN(3)))
	case 1:
		failed(measure.ContextOverflow, wire.ContextOverflow, 400, "prompt is too long")
	case 2:
		failed(measure.CancelledAtEnd, wire.Cancelled, 0, "cancelled at the end of the phase")
		rec.CancelledAt = rec.End
	case 3:
		rec.Bucket = measure.Cooldown
	case 4:
		failed(measure.Cooldown, wire.StreamTruncated, 200, "the stream ended")
	case 5:
		rec.Phase, rec.Bucket = measure.WarmupPhase, measure.WarmupBucket
	}
}

// newRun writes a run with random records and opens it.
func newRun(t testing.TB, seed uint64, n int) *report.Run {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	dir := t.TempDir()
	w, err := measure.Create(dir)
	require.NoError(t, err)
	for k := range n {
		rec := randomRecord(r, k, int64(k)*second/10+r.Int64N(second))
		require.NoError(t, w.Write(&rec))
	}
	require.NoError(t, w.Close())
	length := float64(n)/10 + 2
	info := measure.RunInfo{
		Run: measure.Run{
			Version: "1.2", Commit: "abc", Model: "m", BenchmarkID: "bench", Start: time.Unix(0, start-60*second).UTC(), Preset: "default", URLs: []string{"http://127.0.0.1:8000"},
			Dataset: measure.Dataset{Key: "k", Path: "/cache/k", Traces: 7, Inputs: []measure.Input{{Name: "hf://datasets/o/n@" + commit + "/data/train-0.parquet"}}},
			Options: []measure.Option{
				{Name: "seed", Value: []byte("42"), From: "default"}, {Name: "header", Value: []byte(`["X-Key"]`), From: "flag"},
				{Name: "speed", Value: []byte("2"), From: "flag"}, {Name: "grace", Value: []byte("30"), From: "preset"},
			},
		},
		Lanes: 4,
		Phases: []measure.PhaseSpan{
			{Name: measure.WarmupPhase, Start: time.Unix(0, start-60*second).UTC(), Duration: 30}, {Name: measure.ProfilingPhase, Start: time.Unix(0, start).UTC(), Duration: length},
		},
		Facts: &measure.Facts{PhaseDuration: length, Deadline: length - 1, Branches: measure.BranchCounts{Branches: conductor.Branches{TreesOpened: 3}}},
	}
	putJSON(t, filepath.Join(dir, "run.json"), info)
	putJSON(t, filepath.Join(dir, "lanes.jsonl"), measure.LaneReport{Lane: 0, Trace: "trace-a", Requests: 3, TStar: measure.Missing, Finished: measure.Missing})
	return open(t, dir)
}

const commit = "0123456789abcdef0123456789abcdef01234567"

func putJSON(t testing.TB, path string, v any) {
	data, err := json.Marshal(v)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, append(data, '\n'), 0o600))
}

func open(t testing.TB, dir string) *report.Run {
	run, err := report.Open(dir)
	require.NoError(t, err)
	return run
}

// files reads the files of a directory.
func files(t testing.TB, dir string) map[string]string {
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	found := map[string]string{}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		require.NoError(t, err)
		found[e.Name()] = string(data)
	}
	return found
}

// withSteps returns a context in which step is called before every step that changes the disk.
func withSteps(step func(name, path string) error) context.Context {
	return durable.WithOptions(context.Background(), durable.Options{Step: step})
}
