package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/aiperf"
)

// harnessRun is what one tool did.
type harnessRun struct {
	dir      string // of its files
	server   *harnessServer
	log      string
	requests []playedRequest // that have rows, in the order in which they were issued
	others   []string        // bodies of requests without rows, such as those that the end of the grace cancelled, in order
}

// playedRequest is a request that has a row.
type playedRequest struct {
	key  requestKey
	tree string        // correlation id of the root
	at   time.Duration // since the start of the phase, or the first request of a warmup
	end  time.Duration
	late time.Duration // from the credit to the request
	sent sentRequest
	row  aiperf.Row
	line []byte
}

// requestKey names a request. Of the requests of one turn the first is 0, whichever pass it belongs to.
type requestKey struct {
	phase, session string
	turn, nth      int
}

func (k requestKey) String() string {
	return fmt.Sprintf("%s %s %d/%d", k.phase, k.session, k.turn, k.nth)
}

// command returns the command line of a pair.
func (p *harnessPair) command(url, traces, dir string) []string {
	return slices.Concat([]string{"profile", "--model", "m", "--url", url, "--input-file", traces, "--custom-dataset-type", "weka_trace", "--unsafe-override",
		"--tokenizer", "builtin", "--use-server-token-count"}, strings.Fields(p.flags), []string{"--output-artifact-dir", dir})
}

// startTheirs starts the harness. The function that it returns waits for its end.
func (p *harnessPair) startTheirs(ctx context.Context, t *testing.T, harness, traces string) func() *harnessRun {
	r := &harnessRun{dir: filepath.Join(t.TempDir(), "artifacts"), server: newHarnessServer(t, p.answers)}
	cmd := exec.CommandContext(ctx, harness, p.command(r.server.url, traces, r.dir)...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "AIPERF_") }),
		"TIKTOKEN_CACHE_DIR="+ranksForTiktoken(t), "HOME="+t.TempDir(), "HF_HUB_OFFLINE=1")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	require.NoError(t, cmd.Start())
	return func() *harnessRun {
		err := cmd.Wait()
		r.log = out.String()
		require.NoError(t, err, "harness: %s", r.log)
		r.read(t)
		return r
	}
}

// playOurs runs agentx.
func (p *harnessPair) playOurs(t *testing.T, traces string) *harnessRun {
	r := &harnessRun{dir: filepath.Join(t.TempDir(), "artifacts"), server: newHarnessServer(t, p.answers)}
	var problems strings.Builder
	status := run(p.command(r.server.url, traces, r.dir), nil, io.Discard, &problems)
	r.log = problems.String()
	require.Zero(t, status, r.log)
	r.read(t)
	return r
}

// read reads the rows of a run and joins them with what the server saw.
func (r *harnessRun) read(t *testing.T) {
	first := map[string]int64{"profiling": r.start(t)}
	for line := range strings.Lines(r.text(t, rowsFile)) {
		row, err := aiperf.ParseRow([]byte(line))
		require.NoError(t, err)
		m := row.Metadata
		q := playedRequest{key: requestKey{phase: m.Phase, session: m.Conversation, turn: m.Turn}, tree: m.RootID, row: row, line: []byte(line)}
		if r.server != nil {
			q.sent = r.server.of(t, m.RequestID)
		}
		r.requests = append(r.requests, q)
	}
	require.NotEmpty(t, r.requests, r.log)
	if r.server != nil {
		r.others = r.server.without(r.requests)
	}
	slices.SortStableFunc(r.requests, func(a, b playedRequest) int {
		return cmp.Compare(a.row.Metadata.CreditIssued, b.row.Metadata.CreditIssued)
	})
	seen := map[requestKey]int{}
	for k := range r.requests {
		q := &r.requests[k]
		if first[q.key.phase] == 0 {
			first[q.key.phase] = q.row.Metadata.CreditIssued
		}
		m := &q.row.Metadata
		q.at, q.end = time.Duration(m.CreditIssued-first[q.key.phase]), time.Duration(m.RequestEnd-first[q.key.phase])
		q.late = time.Duration(m.RequestStart - m.CreditIssued)
		bare := q.key
		q.key.nth = seen[bare]
		seen[bare]++
	}
}

func (r *harnessRun) String() string {
	return fmt.Sprintf("%d rows, %d requests", len(r.requests), len(r.server.sent))
}

// index returns the requests by their keys.
func (r *harnessRun) index() map[requestKey]*playedRequest {
	of := map[requestKey]*playedRequest{}
	for k := range r.requests {
		of[r.requests[k].key] = &r.requests[k]
	}
	return of
}

// keep copies the files of a run below the directory that HARNESS_KEEP names.
func (r *harnessRun) keep(t *testing.T, name string) {
	if dir := os.Getenv("HARNESS_KEEP"); dir != "" {
		dir = filepath.Join(dir, t.Name(), name)
		require.NoError(t, os.RemoveAll(dir))
		require.NoError(t, os.CopyFS(dir, os.DirFS(r.dir)))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "log"), []byte(r.log), 0o600))
	}
}

// start returns when the profiling phase began, in nanoseconds since 1970.
func (r *harnessRun) start(t *testing.T) int64 {
	aggregate := r.json(t, aggregateFile)
	at, err := time.Parse("2006-01-02T15:04:05.999999", strings.TrimSuffix(aggregate.at("start_time").text, "Z"))
	require.NoError(t, err)
	return at.UnixNano()
}

// Small traces that a test writes.

// turn is a request of a written trace.
type turn struct {
	at, took float64 // seconds
	blocks   int     // of 64 tokens
}

// agent is a subagent of one.
type agent struct {
	at    float64
	turns []turn
}

// writeTrace writes a trace with turns and subagents. No two traces share blocks but the first, which is that of all.
func writeTrace(t *testing.T, dir string, number int, turns []turn, agents ...agent) {
	next := 1000 * number
	request := func(o turn, from int, clock float64) map[string]any {
		ids := []int{}
		for k := range o.blocks {
			ids = append(ids, from+k)
		}
		return map[string]any{"t": clock, "type": "n", "model": "claude-opus-4-5-20251101", "in": 64 * o.blocks, "out": 10 + o.blocks, "hash_ids": ids,
			"input_types": []string{"text"}, "output_types": []string{"text"}, "stop": "tool_use", "api_time": o.took, "think_time": 0.0}
	}
	var entries []map[string]any
	for _, o := range turns {
		entries = append(entries, request(o, next, o.at))
	}
	for k, a := range agents {
		var below []map[string]any
		for _, o := range a.turns {
			below = append(below, request(o, next+100*(k+1), o.at))
		}
		last := a.turns[len(a.turns)-1]
		entries = append(entries, map[string]any{"t": a.at, "type": "subagent", "agent_id": fmt.Sprintf("agent_%03d", k+1), "subagent_type": "Explore",
			"duration_ms": int(1000 * (last.at + last.took)), "total_tokens": 100, "tool_use_count": 1, "status": "completed",
			"models": []string{"claude-opus-4-5-20251101"}, "tool_tokens": 64, "system_tokens": 64, "requests": below})
	}
	slices.SortStableFunc(entries, func(a, b map[string]any) int { return cmp.Compare(a["t"].(float64), b["t"].(float64)) })
	id := "trace_w" + strconv.Itoa(number)
	text, err := json.Marshal(map[string]any{"id": id, "models": []string{"claude-opus-4-5-20251101"}, "block_size": 64, "hash_id_scope": "local",
		"tool_tokens": 64, "system_tokens": 64, "requests": entries})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, id+".json"), text, 0o600))
}
