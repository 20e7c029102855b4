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

// latenessAllowed is what 99 of 100 requests may be late by, in ms. Timers of AIPerf's event loop have 1; on a busy machine whole
// instants have been seen 80 late, of both.
const latenessAllowed = 250

// AIPerf 0.13.0 and agentx run the same command line on the first 200 rows of Mooncake's conversation trace. Both send the same rows,
// those of one instant before those of the next, at the same offsets, to which agentx's are due within a nanosecond. So at their
// timestamps, in a window of them, and at a constant rate, where AIPerf sends the first request after one gap; and so for rows of
// sessions. Offsets of AIPerf count from the instant that makes none early: it does not write when it began.
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
	sessions := sessionRows(t)
	for _, c := range []struct {
		name, flags string
		rows        []mooncakeRow
		from, to    float64 // rows that go, by their timestamps
		rate        float64 // of all rows; 0: they go at their timestamps
	}{
		{"schedule", "", rows, 0, math.Inf(1), 0},
		{"sessions", "", sessions, 0, math.Inf(1), 0},
		{"window", "--fixed-schedule --fixed-schedule-start-offset 9000 --fixed-schedule-end-offset 30000", rows, 9000, 30000, 0},
		{"rate", "--no-fixed-schedule --request-rate 20 --arrival-pattern constant --request-count 100", rows[:100], 0, math.Inf(1), 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := schedule{rows: c.rows, places: places(c.rows, c.from, c.to), wanted: func(k int) float64 { return c.rows[k].Timestamp }}
			if c.rate > 0 {
				s.wanted = func(k int) float64 { return 1000 / c.rate * float64(k) }
			}
			file := s.write(t)
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
	Output    int    `json:"output_length"`
	Session   string `json:"session_id"`
}

// sessionRows returns rows of eight sessions of three turns. No two requests go at one instant.
func sessionRows(t *testing.T) (rows []mooncakeRow) {
	for session := range 8 {
		for turn := range 3 {
			ids, _ := json.Marshal([]int{10 * session, 10*session + 1, 10*session + 2}[:turn+1])
			line := fmt.Sprintf(`{"session_id": "s%d", "timestamp": %d, "input_length": %d, "output_length": %d, "hash_ids": %s}`,
				session, 1000+440*session+1130*turn, 512*(turn+1), 100+len(rows), ids)
			r := mooncakeRow{line: line}
			require.NoError(t, json.Unmarshal([]byte(line), &r))
			rows = append(rows, r)
		}
	}
	return rows
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
	lines.Buffer(nil, 1<<20)
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

// write writes the rows into a file.
func (s *schedule) write(t *testing.T) string {
	text := ""
	for _, r := range s.rows {
		text += r.line + "\n"
	}
	file := filepath.Join(t.TempDir(), "rows.jsonl")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// row returns which row a turn of a conversation is. Rows without a session are conversations with a prefix and a number: of the row
// or, from 0, of the rows that are played.
func (s *schedule) row(t *testing.T, conversation string, turn int, prefix string, played bool) int {
	number, err := strconv.Atoi(strings.TrimPrefix(conversation, prefix))
	if err == nil && played {
		return s.places[number]
	}
	if err == nil {
		return number - 1
	}
	first := slices.IndexFunc(s.rows, func(r mooncakeRow) bool { return r.Session == conversation })
	require.GreaterOrEqual(t, first, 0, "conversation %q", conversation)
	require.Equal(t, conversation, s.rows[first+turn].Session)
	return first + turn
}

// leaving is a request that left.
type leaving struct {
	row      int
	at, sent float64 // when it was issued, and when it was sent, in ms
	credit   int     // among those issued at one instant
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
				Turn         int    `json:"turn_index"`
				Issued       int64  `json:"credit_issued_ns"`
				Sent         int64  `json:"request_start_ns"`
			}
			Metrics struct {
				Output struct{ Value int } `json:"output_sequence_length"`
			}
		}
		require.NoError(t, json.Unmarshal([]byte(line), &r))
		row := s.row(t, r.Metadata.Conversation, r.Metadata.Turn, "session_", true)
		require.Equal(t, s.rows[row].Output, r.Metrics.Output.Value, "row %d", row+1)
		first = cmp.Or(first, r.Metadata.Issued)
		list = append(list, leaving{row, float64(r.Metadata.Issued-first) / 1e6, float64(r.Metadata.Sent-first) / 1e6, len(list)})
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
	return inOrderOf(list)
}

func inOrderOf(list []leaving) []leaving {
	slices.SortFunc(list, func(a, b leaving) int { return cmp.Or(cmp.Compare(a.at, b.at), a.credit-b.credit) })
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
		row := s.row(t, r.Trace, r.Turn, "row-", false)
		require.Equal(t, int64(s.rows[row].Output), int64(r.MaxTokens), "row %d", row+1)
		wanted := s.wanted(row) - s.wanted(s.places[0])
		require.InDelta(t, wanted*1e6, r.Due.Seconds()*1e9, 1.1, "row %d", row+1)
		list = append(list, leaving{row, r.Admitted.Seconds()*1e3 + s.wanted(s.places[0]), r.Sent.Seconds()*1e3 + s.wanted(s.places[0]), int(r.Credit)})
	}
	return inOrderOf(list)
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
	inOrder := slices.Clone(s.places)
	slices.SortStableFunc(inOrder, func(a, b int) int { return cmp.Compare(s.wanted(a), s.wanted(b)) })
	want := instants(inOrder)
	assert.Equal(t, want, instants(rows), "the rows of each instant")
	assert.Less(t, quantile(late, 0.99), float64(latenessAllowed))
	return fmt.Sprintf("%d rows at %d instants of %.1f s, issued late by %s, sent late by %s", len(rows), len(want), (s.wanted(inOrder[len(inOrder)-1])-s.wanted(inOrder[0]))/1000, spread(late), spread(sent))
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
	assert.False(t, fails(leaving{1, 7, 7, 0}, leaving{0, 8, 8, 0}, leaving{2, 107, 107, 0}), "ties in any order, from any zero")
	assert.True(t, fails(leaving{0, 0, 0, 0}, leaving{2, 100, 100, 0}, leaving{1, 101, 101, 0}), "the rows of an instant after those of the next")
	assert.True(t, fails(leaving{0, 0, 0, 0}, leaving{1, 0, 0, 0}), "a row does not leave")
	assert.True(t, fails(leaving{0, 0, 0, 0}, leaving{1, 0, 0, 0}, leaving{2, 351, 351, 0}), "a row is late")
	assert.Equal(t, []float64{1, 2, 3}, []float64{quantile([]float64{3, 1, 2}, 0), quantile([]float64{3, 1, 2}, 0.5), quantile([]float64{3, 1, 2}, 1)})
}
