package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"math"
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

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/measure"
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

// AIPerf 0.13.0 and agentx run the same command line, each on a mock of its own that has a page of metrics. The files of agentx have every
// member and every column of AIPerf's, and what the servers counted in the phases is the same: so is the hit rate that InferenceX computes.
func TestFilesAreThoseOfAIPerf(t *testing.T) {
	python := os.Getenv("BODIES_PYTHON")
	if python == "" {
		t.Skip("needs an installed AIPerf: make test-bodies")
	}
	if _, err := os.Stat(sharedCorpus); err != nil {
		t.Skip("needs the traces of ../shared")
	}
	traces := linkedTraces(t)
	flags := func(out string) []string {
		return []string{"profile", "--scenario", "inferencex-agentx-mvp", "--unsafe-override", "--model", "m", "--tokenizer", "builtin", "--url", mockServer(t),
			"--endpoint-type", "chat", "--streaming", "--use-server-token-count", "--input-file", traces, "--custom-dataset-type", "weka_trace",
			"--concurrency", "1", "--benchmark-duration", "400", "--request-count", "12", "--random-seed", "42", "--num-dataset-entries", "10",
			"--system-idle-gap-cap-seconds=1", "--slice-duration", "2", "--no-gpu-telemetry", "--ui", "none", "--output-artifact-dir", out}
	}
	theirs, ours := t.TempDir(), t.TempDir()
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, python, append([]string{"-m", "aiperf"}, flags(theirs)...)...)
	cmd.Env = append(os.Environ(), "TIKTOKEN_CACHE_DIR="+ranksForTiktoken(t), "HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "AIPerf: %s", out)
	t.Setenv("AGENTX_CORPUS", sharedCorpus+"aiperf-coding-42-o200k_base.u32le")
	t.Setenv("AGENTX_CACHE", t.TempDir())
	t.Setenv("AGENTX_NO_PREFLIGHT", "true")
	var problems strings.Builder
	require.Zero(t, run(append([]string{"aiperf"}, flags(ours)...), nil, io.Discard, &problems), problems.String())
	for _, name := range []string{rowsFile, aggregateFile, slicesFile, serverFile} {
		assert.Empty(t, without(membersIn(t, theirs, name), membersIn(t, ours, name)), "members of %s that AIPerf has alone", name)
	}
	assert.Equal(t, columnsIn(t, theirs), columnsIn(t, ours))
	counted := countedIn(t, theirs)
	assert.Equal(t, counted, countedIn(t, ours), "what servers counted in the phases")
	assert.Equal(t, "12.0", counted["metrics agentx_mock_requests"])
	assert.Equal(t, "1.0", counted["warmup_metrics agentx_mock_requests"])
}

// notHere are members of AIPerf that agentx does not have: settings in AIPerf's names, and counters of what agentx does not do.
var notHere = regexp.MustCompile(`^\.(input_config|branch_stats\.(parents_failed_due_to_child_error|graphs_\w+)$)`)

// placesOf are parts of a path that differ between runs.
var placesOf = regexp.MustCompile(`\[\d+\]|http://[^/]*/metrics`)

// membersIn lists the members of a JSON file, or of its lines, each once.
func membersIn(t *testing.T, dir, name string) (list []string) {
	text, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	values := []string{string(text)}
	if name == rowsFile {
		values = strings.Split(strings.TrimSpace(string(text)), "\n")
	}
	for _, value := range values {
		n := readNode(t, []byte(value))
		n.each("", func(path string, n *node) {
			if !notHere.MatchString(path) {
				list = append(list, placesOf.ReplaceAllString(path, "_"))
			}
		})
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// without returns the texts of a list that another does not have.
func without(list, others []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(others, s) })
}

// columnsIn returns the lines of the CSV of server metrics without numbers and versions.
func columnsIn(t *testing.T, dir string) string {
	text, err := os.ReadFile(filepath.Join(dir, serverTableFile))
	require.NoError(t, err)
	_, table, ok := strings.Cut(string(text), "#\n")
	require.True(t, ok)
	return regexp.MustCompile(`[0-9.]+`).ReplaceAllString(table, "0")
}

// countedIn returns how much the counters of the server grew in the phases, by phase and name.
func countedIn(t *testing.T, dir string) map[string]string {
	text, err := os.ReadFile(filepath.Join(dir, serverFile))
	require.NoError(t, err)
	file, list := readNode(t, text), map[string]string{}
	for _, phase := range []string{"metrics", "warmup_metrics"} {
		metrics := file.at(phase)
		for k, name := range metrics.keys {
			for _, s := range metrics.members[k].at("series").members {
				if total := s.at("stats", "total"); total.kind != "" && name != "agentx_mock_request_bytes" { // markers are random
					list[phase+" "+name] = total.text
				}
			}
		}
	}
	return list
}

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

// The export of an installed AIPerf, or of its fork, without network and with the vocabulary of the binary, is the known corpus.
func TestCorpusOfAIPerf(t *testing.T) {
	python := os.Getenv("BODIES_PYTHON")
	if python == "" {
		t.Skip("needs an installed AIPerf: make test-bodies")
	}
	file := filepath.Join(t.TempDir(), "coding.u32le")
	require.Zero(t, run([]string{"corpus", "aiperf", "--python", python, file}, nil, new(strings.Builder), os.Stderr))
	got, err := os.ReadFile(file)
	require.NoError(t, err)
	want, err := os.ReadFile(sharedCorpus + "aiperf-coding-42-o200k_base.u32le")
	if err != nil {
		t.Skip(err) // export has compared the digest
	}
	assert.True(t, bytes.Equal(want, got))
}
