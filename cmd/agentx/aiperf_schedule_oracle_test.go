package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/measure"
)

// What AIPerf and agentx may be late by: AIPerf's timers have 1 ms, and both share the machine with the server.
const (
	latenessAllowed = 50 * time.Millisecond  // p99
	latenessAtMost  = 500 * time.Millisecond // of a single request
)

// AIPerf 0.13.0 and agentx run the same command line on the first 200 rows of Mooncake's conversation trace. Both send the same rows,
// those of one instant before those of the next, at the same offsets: agentx's are due at them to the nanosecond, and both issue 99 of
// 100 requests within 50 ms. So at their timestamps, in a window of them, and at a constant rate, where AIPerf sends the
// first request after one gap. Offsets of AIPerf count from the instant that makes none early: it does not write when it began.
func TestScheduleIsThatOfAIPerf(t *testing.T) {
	python := os.Getenv("SCHEDULE_PYTHON")
	if python == "" {
		t.Skip("needs an installed AIPerf: make test-schedule")
	}
	if _, err := os.Stat(sharedCorpus); err != nil {
		t.Skip("needs the traces of ../shared")
	}
	t.Setenv("AGENTX_CACHE", t.TempDir())
	t.Setenv("AGENTX_CORPUS", sharedCorpus+"aiperf-coding-42-o200k_base.u32le")
	rows := mooncakeRows(t, 200)
	file := filepath.Join(t.TempDir(), "rows.jsonl")
	text := ""
	for _, r := range rows {
		text += r.line + "\n"
	}
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	timestamp := func(k int) float64 { return rows[k].Timestamp }
	for _, c := range []struct {
		name, flags string
		rows        []int
		wanted      func(place int) float64 // when the request at a place goes, in ms
	}{
		{"schedule", "", places(rows, 0, math.Inf(1)), timestamp},
		{"window", "--fixed-schedule --fixed-schedule-start-offset 9000 --fixed-schedule-end-offset 30000", places(rows, 9000, 30000), timestamp},
		{"rate", "--no-fixed-schedule --request-rate 20 --arrival-pattern constant --request-count 100", places(rows[:100], 0, math.Inf(1)), func(k int) float64 { return 50 * float64(k) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := schedule{rows: rows, places: c.rows, wanted: c.wanted}
			flags := append([]string{"profile", "--model", "m", "--tokenizer", "builtin", "--url", mockServer(t), "--endpoint-type", "chat", "--streaming",
				"--use-server-token-count", "--input-file", file, "--custom-dataset-type", "mooncake_trace", "--random-seed", "42", "--no-server-metrics",
				"--no-gpu-telemetry", "--ui", "none"}, strings.Fields(c.flags)...)
			theirs := s.ofAIPerf(t, python, flags)
			ours := s.ofAgentx(t, flags)
			t.Logf("AIPerf: %s", s.check(t, theirs))
			t.Logf("agentx: %s", s.check(t, ours))
			var apart []float64
			for k := range theirs {
				j := slices.IndexFunc(ours, func(o leaving) bool { return o.row == theirs[k].row })
				apart = append(apart, math.Abs(theirs[k].at-ours[j].at))
			}
			t.Logf("%d offsets compared, AIPerf's and agentx's are apart by %s", len(apart), spread(apart))
		})
	}
}

// mooncakeRow is a row of the trace.
type mooncakeRow struct {
	line      string
	Timestamp float64
	Output    int `json:"output_length"`
}

// mooncakeRows returns the first rows of the trace.
func mooncakeRows(t *testing.T, n int) (rows []mooncakeRow) {
	f, err := os.Open(sharedCorpus + "mooncake-conversation.jsonl.zst")
	require.NoError(t, err)
	defer f.Close()
	d, err := zstd.NewReader(f)
	require.NoError(t, err)
	defer d.Close()
	lines := bufio.NewScanner(d)
	lines.Buffer(nil, maxFirstRow)
	for len(rows) < n && lines.Scan() {
		r := mooncakeRow{line: lines.Text()}
		require.NoError(t, json.Unmarshal([]byte(r.line), &r))
		rows = append(rows, r)
	}
	require.Len(t, rows, n)
	return rows
}

// places lists the rows with timestamps from one to another, both included.
func places(rows []mooncakeRow, from, to float64) (list []int) {
	for k, r := range rows {
		if from <= r.Timestamp && r.Timestamp <= to {
			list = append(list, k)
		}
	}
	return list
}

// schedule is which rows go, and when.
type schedule struct {
	rows   []mooncakeRow
	places []int
	wanted func(place int) float64
}

// leaving is a request that left.
type leaving struct {
	row      int
	at, sent float64 // when it was issued, and when it was sent, in ms
}

// ofAIPerf runs AIPerf and returns when it issued the credits of its requests. It numbers the rows that it loads.
func (s *schedule) ofAIPerf(t *testing.T, python string, flags []string) (list []leaving) {
	dir := t.TempDir()
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, python, slices.Concat([]string{"-m", "aiperf"}, flags, []string{"--output-artifact-dir", dir})...)
	cmd.Env = append(os.Environ(), "TIKTOKEN_CACHE_DIR="+ranksForTiktoken(t), "HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "AIPerf: %s", out)
	text, err := os.ReadFile(filepath.Join(dir, "profile_export.jsonl"))
	require.NoError(t, err)
	first := int64(0)
	for line := range strings.Lines(string(text)) {
		var r struct {
			Metadata struct {
				Conversation string `json:"conversation_id"`
				Issued       int64  `json:"credit_issued_ns"`
				Sent         int64  `json:"request_start_ns"`
			}
			Metrics struct {
				Output struct{ Value int } `json:"output_sequence_length"`
			}
		}
		require.NoError(t, json.Unmarshal([]byte(line), &r))
		number, err := strconv.Atoi(strings.TrimPrefix(r.Metadata.Conversation, "session_"))
		require.NoError(t, err, line)
		require.Less(t, number, len(s.places))
		row := s.places[number]
		require.Equal(t, s.rows[row].Output, r.Metrics.Output.Value, "row %d", row+1)
		first = cmp.Or(first, r.Metadata.Issued)
		list = append(list, leaving{row, float64(r.Metadata.Issued-first) / 1e6, float64(r.Metadata.Sent-first) / 1e6})
	}
	return s.fromZero(list)
}

// fromZero moves the clock of requests so that none leaves early, and puts them in their order.
func (s *schedule) fromZero(list []leaving) []leaving {
	zero := math.Inf(1)
	for _, l := range list {
		zero = min(zero, l.at-s.wanted(l.row))
	}
	for k := range list {
		list[k].at -= zero
		list[k].sent -= zero
	}
	slices.SortFunc(list, func(a, b leaving) int { return cmp.Compare(a.at, b.at) })
	return list
}

// ofAgentx runs agentx and returns when it issued its requests, which were due at their offsets.
func (s *schedule) ofAgentx(t *testing.T, flags []string) (list []leaving) {
	dir := t.TempDir()
	var problems strings.Builder
	status := run(slices.Concat([]string{"aiperf"}, flags, []string{"--output-artifact-dir", dir}), nil, io.Discard, &problems)
	require.Zero(t, status, problems.String())
	records, err := measure.OpenRecords(dir)
	require.NoError(t, err)
	defer records.Close()
	for r, err := records.Next(); err != io.EOF; r, err = records.Next() {
		require.NoError(t, err)
		number, err := strconv.Atoi(strings.TrimPrefix(r.Trace, "row-"))
		require.NoError(t, err)
		row := number - 1
		require.Equal(t, int64(s.rows[row].Output), int64(r.MaxTokens), "row %d", number)
		wanted := s.wanted(row) - s.wanted(s.places[0])
		require.Equal(t, int64(math.Round(wanted*1e6)), int64(math.Round(r.Due*1e9)), "row %d is due at %v", number, r.Due)
		list = append(list, leaving{row, r.Admitted*1e3 + s.wanted(s.places[0]), r.Sent*1e3 + s.wanted(s.places[0])})
	}
	slices.SortFunc(list, func(a, b leaving) int { return cmp.Compare(a.at, b.at) })
	return list
}

// check compares requests in their order with the schedule: the rows of each instant, as sets, in the order of the instants.
func (s *schedule) check(t *testing.T, list []leaving) string {
	instants := func(rows []int) (sets [][]int) {
		for k, row := range rows {
			if k == 0 || s.wanted(row) != s.wanted(rows[k-1]) {
				sets = append(sets, nil)
			}
			sets[len(sets)-1] = append(sets[len(sets)-1], row)
		}
		for _, set := range sets {
			slices.Sort(set)
		}
		return sets
	}
	var rows []int
	var late, sent []float64
	for _, l := range list {
		rows = append(rows, l.row)
		late, sent = append(late, l.at-s.wanted(l.row)), append(sent, l.sent-s.wanted(l.row))
	}
	want := instants(s.places)
	assert.Equal(t, want, instants(rows), "the rows of each instant")
	assert.Less(t, quantile(late, 0.99), float64(latenessAllowed.Milliseconds()))
	assert.Less(t, quantile(late, 1), float64(latenessAtMost.Milliseconds()))
	return fmt.Sprintf("%d rows at %d instants of %.1f s, issued late by %s, sent late by %s", len(rows), len(want), (s.wanted(s.places[len(s.places)-1])-s.wanted(s.places[0]))/1000, spread(late), spread(sent))
}

// quantile returns a value of a list with a share of the others at or below it.
func quantile(list []float64, share float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[max(0, int(math.Ceil(share*float64(len(sorted))))-1)]
}

// spread writes how a list in ms is spread.
func spread(list []float64) string {
	return fmt.Sprintf("p50 %.3f, p99 %.3f, at most %.3f ms", quantile(list, 0.5), quantile(list, 0.99), quantile(list, 1))
}

// Rows that leave in another order, late or not at all are told.
func TestCheckSchedule(t *testing.T) {
	s := schedule{places: []int{0, 1, 2}, wanted: func(k int) float64 { return []float64{0, 0, 100}[k] }}
	fails := func(list ...leaving) bool {
		try := &testing.T{}
		s.check(try, s.fromZero(list))
		return try.Failed()
	}
	assert.False(t, fails(leaving{1, 7, 7}, leaving{0, 8, 8}, leaving{2, 107, 107}), "ties in any order, from any zero")
	assert.True(t, fails(leaving{0, 0, 0}, leaving{2, 100, 100}, leaving{1, 101, 101}), "the rows of an instant after those of the next")
	assert.True(t, fails(leaving{0, 0, 0}, leaving{1, 0, 0}), "a row does not leave")
	assert.True(t, fails(leaving{0, 0, 0}, leaving{1, 0, 0}, leaving{2, 151, 151}), "a row is late")
	assert.Equal(t, []float64{1, 2, 3}, []float64{quantile([]float64{3, 1, 2}, 0), quantile([]float64{3, 1, 2}, 0.5), quantile([]float64{3, 1, 2}, 1)})
}
