package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/aiperf/profile"
	"github.com/agentx/agentx/mock"
)

// ran is what a command line did.
type ran struct {
	status           int
	stdout, problems string
}

func runLine(args ...string) ran {
	var out, problems strings.Builder
	status := run(args, nil, &out, &problems)
	return ran{status, out.String(), problems.String()}
}

// words splits a line as a shell does.
func words(t *testing.T, line string) []string {
	t.Helper()
	out, err := exec.Command("sh", "-c", "printf '%s\\0' "+line).Output()
	require.NoError(t, err, line)
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

// mockServer serves answers with faults, and keeps caches out of the home directory.
func mockServer(t *testing.T, faults ...string) string {
	var c mock.Config
	for _, text := range faults {
		f, err := mock.ParseFault(text)
		require.NoError(t, err)
		c.Faults = append(c.Faults, f)
	}
	s := httptest.NewServer(mock.New(c))
	t.Cleanup(s.Close)
	return s.URL
}

// played lists the requests of a run by their turns, from the rows that AIPerf's readers get.
func played(t *testing.T, dir string) (list []string) {
	text, err := os.ReadFile(filepath.Join(dir, "profile_export.jsonl"))
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		var row struct {
			Metadata struct {
				Conversation string `json:"conversation_id"`
				Turn         int    `json:"turn_index"`
				Phase        string `json:"benchmark_phase"`
			}
			Metrics struct {
				Input struct{ Value int } `json:"input_sequence_length"`
			}
		}
		require.NoError(t, json.Unmarshal([]byte(line), &row))
		list = append(list, fmt.Sprint(row))
	}
	slices.Sort(list)
	return list
}

// A command line of AIPerf runs, with its files and its exit status, and the printed command gives the same run.
func TestAIPerfCommandRuns(t *testing.T) {
	t.Setenv("AGENTX_CACHE", warmRoot(t))
	t.Setenv("AGENTX_NO_CALIBRATE", "true")
	dir := filepath.Join(t.TempDir(), "artifacts")
	flags := strings.Fields("--model m --streaming --use-server-token-count --tokenizer builtin --input-file demo --num-conversations 3 --concurrency 2" +
		" --ignore-trace-delays --random-seed 7 --no-gpu-telemetry --no-server-metrics --ui none --output-artifact-dir " + dir)
	profiles := func(more ...string) ran { return runLine(slices.Concat([]string{"aiperf", "profile"}, flags, more)...) }

	t.Setenv("AIPERF_API_KEY", "s3cret") // for the printed command
	first := profiles("--url", mockServer(t), "--api-key", "s3cret")
	require.Zero(t, first.status, first.problems)
	assert.NotContains(t, first.stdout+first.problems, "s3cret")
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, f := range files {
		if text, err := os.ReadFile(filepath.Join(dir, f.Name())); err == nil { // no directory
			assert.False(t, strings.Contains(string(text), "s3cret"), f.Name())
		}
	}
	line, _, _ := strings.Cut(first.stdout, "\n")
	for _, name := range []string{"profile_export.jsonl", "profile_export_aiperf.json", "profile_export_aiperf.csv", "profile_export_console.txt", ".aiperf_results_ready.json"} {
		assert.FileExists(t, filepath.Join(dir, name))
	}
	requests := played(t, dir)
	assert.GreaterOrEqual(t, len(requests), 3)

	rest, ok := strings.CutPrefix(line, "agentx ")
	require.True(t, ok, line)
	again := runLine(words(t, rest)...)
	require.Zero(t, again.status, again.problems)
	assert.Equal(t, requests, played(t, dir))

	dry := profiles("--url", "http://127.0.0.1:1", "--dry-run")
	assert.Zero(t, dry.status)
	assert.Equal(t, 1, strings.Count(dry.stdout, "\n"), dry.stdout)
	assert.True(t, strings.HasPrefix(dry.stdout, "agentx replay demo --profile aiperf --preset aiperf-0.13 "), dry.stdout)

	failed := profiles("--url", mockServer(t, "status=500:1"), "--failed-request-threshold", "0.5", "--request-count", "30")
	assert.Equal(t, 1, failed.status, failed.problems)
	wrong := profiles("--url", "http://127.0.0.1:1", "--isl", "5", "--concurency", "3")
	assert.Equal(t, 2, wrong.status)
	assert.Contains(t, wrong.problems, "try: --concurrency\n")
	assert.Empty(t, wrong.stdout)
}

// A result that only the scenario does not accept is done for AIPerf; agentx replay ends with status 3.
func TestAIPerfEndsWellWithoutVerdict(t *testing.T) {
	t.Setenv("AGENTX_CACHE", warmRoot(t))
	t.Setenv("AGENTX_NO_CALIBRATE", "true")
	traces := filepath.Join(t.TempDir(), "one.json")
	const trace = `{"id":"a","models":["x"],"block_size":64,"hash_id_scope":"local","tool_tokens":0,"system_tokens":0,"requests":[` +
		`{"t":0,"model":"x","type":"n","in":128,"out":4,"hash_ids":[1,2],"api_time":0.1,"think_time":0},{"t":0.3,"model":"x","type":"n","in":192,"out":4,"hash_ids":[1,2,3],"api_time":0.1,"think_time":0.1}]}`
	require.NoError(t, os.WriteFile(traces, []byte(trace), 0o600))
	r := runLine(append([]string{"aiperf", "profile"}, strings.Fields("--scenario inferencex-agentx-mvp --unsafe-override --model m --streaming --use-server-token-count --tokenizer builtin"+
		" --input-file "+traces+" --custom-dataset-type weka_trace --benchmark-duration 1 --random-seed 7 --no-server-metrics --output-artifact-dir "+t.TempDir()+" --url "+mockServer(t))...)...)
	require.Zero(t, r.status, r.problems)
	assert.Contains(t, r.problems, "agentx: warning: replay: not valid under the scenario inferencex-agentx-mvp: unsafe_override")
}

func TestStatusOfAIPerf(t *testing.T) {
	verdict := func(reasons ...string) error { return verdictError{invalidRun{"s", reasons}} }
	for want, errs := range map[int][]error{
		0: {nil, verdict("unsafe_override"), verdict("unsafe_override", "context_overflow_rate_exceeded")},
		1: {verdict("unsafe_override", "run_cancelled"), verdict("wedged_tree"), hintError{verdict("insufficient_profile_metric_coverage"), "logs"}, verdictError{fmt.Errorf("2 trees")}, fmt.Errorf("x")},
		2: {usageError{fmt.Errorf("x")}},
	} {
		for _, err := range errs {
			var problems strings.Builder
			cmd := newAIPerfProfile()
			cmd.SetErr(&problems)
			assert.Equal(t, want, reportError(t.Context(), &problems, aiperfStatus(cmd, err)), "%v", err)
			assert.Equal(t, strings.Contains(fmt.Sprintf("%#v", err), `"logs"`), strings.Contains(problems.String(), "try: logs"))
		}
	}
}

// Every flag and every option that a translation names is one of agentx replay.
func TestTranslationsNameWhatReplayHas(t *testing.T) {
	flags := newReplay(replayOf(knownScenarios())).Flags()
	rules := []string{"block_size", "max_isl", "max_osl"}
	seen := map[string]bool{}
	check := func(list []profile.Setting) {
		for _, s := range list {
			if s.Name != "quiet" && s.Name != "cache" { // which every verb has
				assert.NotNil(t, flags.Lookup(s.Name), s.Name)
			}
			seen[s.Name] = true
			if s.Name == "set" {
				option, _, _ := strings.Cut(s.Value.(string), "=")
				assert.True(t, slices.Contains(rules, option), option)
			}
		}
	}
	translated := func(environ map[string]string, more ...string) []profile.Setting {
		return profile.Translate(profile.Source{
			Args: aiperfLine(more...)[2:], Environ: environ, Random: rand.Reader, Check: func(string, []profile.Setting) []profile.Problem { return nil },
		}).Settings
	}
	for _, name := range profile.Flags() {
		check(translated(nil, name, "1")) // what the line has already is an error, and its arguments are there
	}
	for _, name := range profile.Variables() {
		check(translated(map[string]string{name: "1"}))
	}
	assert.Greater(t, len(seen), 25)
}

// aiperfLine is a command line of a run, with what differs.
func aiperfLine(more ...string) []string {
	return append(strings.Fields("aiperf profile --model m --url http://h:1 --streaming --input-file traces --use-server-token-count --tokenizer builtin --random-seed 7"+
		" --request-count 5 --num-dataset-entries 3 --output-artifact-dir out"), more...)
}

// agentx aiperf profile prints no command that agentx replay refuses. It names the flags of AIPerf, all that are wrong.
func TestRefusedCommandsAreNotPrinted(t *testing.T) {
	profile := aiperfLine("--dry-run")
	r := runLine(append(profile, "--profile-export-prefix", "../x")...)
	assert.Equal(t, ran{2, "", "agentx: --profile-export-prefix ../x: want the beginning of a name, without a directory\n"}, r)
	r = runLine(append(append(profile, strings.Fields("--profile-export-prefix=run --isl 4 --concurrency 0 --cache-bust first-turn --trajectory-start-min-ratio 0.9 --wait-for-model-mode all"+
		" --slice-duration 0.0000001 --header")...), "Host: s3cret")...)
	assert.Equal(t, 2, r.status)
	assert.Empty(t, r.stdout)
	lines := strings.Split(strings.TrimSpace(r.problems), "\n")
	slices.Sort(lines)
	assert.Equal(t, []string{
		"agentx: --cache-bust first-turn: want off, first_turn_prefix, system_prefix, first_turn_suffix or system_suffix; did you mean first_turn_prefix?",
		"agentx: --concurrency 0: want 1 to 65536, several with commas between, none twice, or auto:FROM-TO",
		"agentx: --header: header Host is set by the client itself",
		"agentx: --isl and --input-file contradict each other: leave one of them out",
		`agentx: --profile-export-prefix run: the files of a run have this name, and would be overwritten: want another, such as "run1"`,
		"agentx: --slice-duration: want at least 1ms: every slice has all metrics",
		"agentx: --trajectory-start-min-ratio 0.9: more than start-max-ratio=0.75 (default): want at most that",
		"agentx: not supported: --wait-for-model-mode all: want inference, models or both",
	}, lines)
}

// What the scenario locks is told in the words of AIPerf, with what to try.
func TestConflictsNameFlagsOfAIPerf(t *testing.T) {
	r := runLine(aiperfLine("--dry-run", "--scenario", "inferencex-agentx-mvp", "--benchmark-duration", "12")...)
	assert.Equal(t, 2, r.status)
	assert.Contains(t, r.problems, "duration: --benchmark-duration is 12s: want at least 900s: leave out --benchmark-duration, for 1800s\n")
	assert.Contains(t, r.problems, "early_bound: --request-count may end the run before its duration: want no bound beside --benchmark-duration: leave it out\n")
	assert.Contains(t, r.problems, "try: --unsafe-override starts such a run; its result is not valid\n")
}

// The times of rows are told in those words, too.
func TestScheduleRefusedInWordsOfAIPerf(t *testing.T) {
	rows := filepath.Join(t.TempDir(), "rows.jsonl")
	require.NoError(t, os.WriteFile(rows, []byte(`{"timestamp": 1000, "input_length": 5}`+"\n"), 0o600))
	line := aiperfLine("--dry-run", "--custom-dataset-type", "mooncake_trace", "--ignore-trace-delays")
	line[slices.Index(line, "traces")] = rows
	r := runLine(line...)
	assert.Equal(t, 2, r.status)
	assert.Contains(t, r.problems, "--ignore-trace-delays")
	assert.Contains(t, r.problems, "and the timestamps of the rows (--no-fixed-schedule leaves them out): trees that arrive on their own keep their times")
}

// sessionShapes are files of Mooncake rows, and what is sent for them: U is a prompt, a a fixed answer; bodies of a session in their order.
// The output length of a row chooses its answer.
var sessionShapes = []struct{ name, rows, sent string }{
	{"after the answer", rowsOf("a 0 600 11", "a +20 400 12", "a +20 300 13"), "U0 | U0 a11 U1 | U0 a11 U1 a12 U2"},
	{"at timestamps", rowsOf("a 0 600 11", "b 30 700 12", "a 90 400 11", "b 120 300 13", "a 180 200 12"), "U0 | U0 a11 U1 | U0 a11 U1 a11 U2\nU0 | U0 a12 U1"},
	{"ids that go on", rowsOf("a 0 1024 11 1,2", "a +20 1536 11 1,2,3", "a +20 512 11 1"), "U0 | U0 a11 U1 | U0 a11 U1 a11 U2"},
	{"thoughts, calls and failures", rowsOf("a 0 500 14", "a +5 501 15", "a +5 502 16", "a +5 503 17", "a +5 504 18", "a +5 505 19", "a +5 506 11"),
		"U0 | U0 a14 U1 | U0 a14 U1 a15 U2 | U0 a14 U1 a15 U2 a16 U3 | U0 a14 U1 a15 U2 a16 U3 U4 | U0 a14 U1 a15 U2 a16 U3 U4 a18 U5 | U0 a14 U1 a15 U2 a16 U3 U4 a18 U5 U6"},
	{"other members", rowsOf("a 0 600 11", "- 10 300 12", "a . 300 13") + `{"session_id":"b","group_id":3,"is_resume":true,"type":"mooncake_trace","timestamp":20,"input_length":5,"output_length":11,"hash_ids":[77]}` + "\n",
		"U0\nU0\nU0 | U0 a11 U1"},
}

// rowsOf writes rows: session, timestamp or +delay, input length, output length, and ids, which are new ones where they are left out.
func rowsOf(list ...string) string {
	var b strings.Builder
	for k, row := range list {
		f := strings.Fields(row)
		var in int
		fmt.Sscan(f[2], &in)
		if len(f) == 4 {
			f = append(f, fmt.Sprint(2*k+100))
			if in > 512 {
				f[4] += fmt.Sprint(",", 2*k+101)
			}
		}
		b.WriteByte('{')
		if f[0] != "-" {
			fmt.Fprintf(&b, `"session_id":"%s",`, f[0])
		}
		if delay, ok := strings.CutPrefix(f[1], "+"); ok {
			fmt.Fprintf(&b, `"delay":%s,`, delay)
		} else if f[1] != "." {
			fmt.Fprintf(&b, `"timestamp":%s,`, f[1])
		}
		fmt.Fprintf(&b, `"input_length":%s,"output_length":%s,"hash_ids":[%s]}`+"\n", f[2], f[3], f[4])
	}
	return b.String()
}

// fixedAnswers are the answers of the server by max_completion_tokens: the deltas of a stream, and the message that later turns have.
var fixedAnswers = map[int][2]string{
	11: {`{"content":"The \"answer\"\n"};{"content":"é <b>&\\ 😀"}`, `{"role":"assistant","content":"The \"answer\"\né <b>&\\ 😀"}`},
	12: {`{"reasoning_content":"hmm "};{"reasoning":"so"}`, `{"role":"assistant","content":"hmm so"}`},
	13: {`{"content":"x"}`, `{"role":"assistant","content":"x"}`},
	14: {`{"reasoning_content":"hmm","content":"text"};{"content":"."}`, `{"role":"assistant","content":"text."}`},
	15: {`{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"f","arguments":""}}]};{"tool_calls":[{"index":0,"function":{"arguments":"{\"a"}}]};{"tool_calls":[{"index":0,"function":{"arguments":"\":1}"}},{"index":1,"id":"c2","type":"function","function":{"name":"g","arguments":"{}"}}]}`,
		`{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}},{"id":"c2","type":"function","function":{"name":"g","arguments":"{}"}}]}`},
	16: {`{"reasoning":"hmm"};{"content":"Let me"};{"function_call":{"name":"f"}};{"function_call":{"name":"oo","arguments":"{"}};{"function_call":{"arguments":"}"}}`,
		`{"role":"assistant","content":"Let me","tool_calls":[{"type":"function","function":{"name":"foo","arguments":"{}"}}]}`},
	17: {"", ""}, // status 500
	18: {`{"content":"part"};cut`, `{"role":"assistant","content":"part"}`},
	19: {`{}`, ""},
}

// sessionServer gives fixed answers, and keeps bodies by session with names instead of prompts and answers.
type sessionServer struct {
	mutex    sync.Mutex
	prompts  map[string]map[string]string // of a session: names by text
	sessions map[string][]string
	tails    map[string]bool // what stands behind the messages
}

func (s *sessionServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var q struct {
		Messages []json.RawMessage
		Tokens   int `json:"max_completion_tokens"`
	}
	answer, known := fixedAnswers[q.Tokens]
	if json.Unmarshal(body, &q) == nil {
		answer, known = fixedAnswers[q.Tokens]
	}
	if !known || r.URL.Path != "/v1/chat/completions" {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	s.keep(r.Header.Get("X-Correlation-ID"), body, q.Messages)
	if answer[0] == "" {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	const event = `data: {"id":"1","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":%s,"finish_reason":%s}]}` + "\n\n"
	for delta := range strings.SplitSeq(answer[0], ";") {
		if delta == "cut" {
			return
		}
		fmt.Fprintf(w, event, delta, "null")
	}
	fmt.Fprintf(w, event, "{}", `"length"`)
	fmt.Fprint(w, `data: {"id":"1","object":"chat.completion.chunk","model":"m","choices":[],"usage":{"prompt_tokens":9,"completion_tokens":1,"total_tokens":10}}`+"\n\ndata: [DONE]\n\n")
}

// keep remembers a body as the names of its messages, byte for byte.
func (s *sessionServer) keep(session string, body []byte, messages []json.RawMessage) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.prompts[session] == nil {
		s.prompts[session] = map[string]string{}
	}
	names, head := s.prompts[session], `{"messages":[`+string(bytes.Join(rawBytes(messages), []byte(",")))+`]`
	tail, _ := strings.CutPrefix(string(body), head)
	s.tails[tail] = true
	var list []string
	for _, m := range messages {
		name := names[string(m)]
		for n, a := range fixedAnswers {
			if string(m) == a[1] {
				name = fmt.Sprint("a", n)
			}
		}
		if name == "" && strings.HasPrefix(string(m), `{"role":"user","content":"`) {
			name = fmt.Sprint("U", len(names))
			names[string(m)] = name
		}
		if name == "" {
			name = string(m)
		}
		list = append(list, name)
	}
	s.sessions[session] = append(s.sessions[session], strings.Join(list, " "))
}

func rawBytes(list []json.RawMessage) (all [][]byte) {
	for _, m := range list {
		all = append(all, m)
	}
	return all
}

// sessionsOf runs a tool on a file and returns what the server got: the bodies of each session, and all that stood behind messages.
func sessionsOf(t *testing.T, file string, tool func(flags []string)) (sent string, tails map[string]bool) {
	s := &sessionServer{prompts: map[string]map[string]string{}, sessions: map[string][]string{}, tails: map[string]bool{}}
	server := httptest.NewServer(s)
	defer server.Close()
	tool([]string{"profile", "--model", "m", "--tokenizer", "builtin", "--url", server.URL, "--endpoint-type", "chat", "--streaming", "--use-server-token-count",
		"--input-file", file, "--custom-dataset-type", "mooncake_trace", "--random-seed", "42", "--no-server-metrics", "--no-gpu-telemetry", "--ui", "none", "--output-artifact-dir", t.TempDir()})
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var list []string
	for _, bodies := range s.sessions {
		list = append(list, strings.Join(bodies, " | "))
	}
	slices.Sort(list)
	return strings.Join(list, "\n"), s.tails
}

// A row of a session goes behind the rows before it and the answers to them, as in AIPerf 0.13.0: where this is installed, it plays the same
// files, and sends the same bodies but for the text of prompts.
//
// Covers T-231.
func TestSessionRowsGoBehindAnswers(t *testing.T) {
	t.Setenv("AGENTX_CACHE", warmRoot(t))
	t.Setenv("AGENTX_NO_CALIBRATE", "true")
	t.Setenv("AGENTX_NO_PREFLIGHT", "true")
	for _, shape := range sessionShapes {
		t.Run(shape.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "rows.jsonl")
			require.NoError(t, os.WriteFile(file, []byte(shape.rows), 0o600))
			sent, tails := sessionsOf(t, file, func(flags []string) {
				var problems strings.Builder
				require.Zero(t, run(append([]string{"aiperf"}, flags...), nil, io.Discard, &problems), problems.String())
			})
			assert.Equal(t, shape.sent, sent)
			python := os.Getenv("BODIES_PYTHON")
			if python == "" {
				return
			}
			theirs, theirTails := sessionsOf(t, file, func(flags []string) {
				ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute)
				defer stop()
				cmd := exec.CommandContext(ctx, python, append([]string{"-m", "aiperf"}, flags...)...)
				cmd.Env = append(os.Environ(), "TIKTOKEN_CACHE_DIR="+ranksForTiktoken(t), "HOME="+t.TempDir())
				out, err := cmd.CombinedOutput()
				require.NoError(t, err, "AIPerf: %s", out)
			})
			assert.Equal(t, theirs, sent)
			assert.Equal(t, theirTails, tails)
		})
	}
}

// What cannot be played behind answers is refused: rows with prompts of their own, another endpoint, and Mooncake rows beside other traces.
func TestSessionRowsThatAreRefused(t *testing.T) {
	t.Setenv("AGENTX_CACHE", warmRoot(t))
	t.Setenv("AGENTX_NO_CALIBRATE", "true")
	dir := t.TempDir()
	fails := func(status int, rows string, flags ...string) string {
		file := filepath.Join(dir, "rows.jsonl")
		require.NoError(t, os.WriteFile(file, []byte(rows), 0o600))
		var problems strings.Builder
		require.Equal(t, status, run(slices.Concat([]string{"aiperf", "profile", "--model", "m", "--tokenizer", "builtin", "--url", "127.0.0.1:1", "--streaming", "--input-file", file,
			"--custom-dataset-type", "mooncake_trace", "--random-seed", "42", "--output-artifact-dir", t.TempDir()}, flags), nil, io.Discard, &problems))
		return problems.String()
	}
	assert.Contains(t, fails(exitFailed, `{"timestamp":0,"input_length":5,"output_length":4,"hash_ids":[1],"extra":{"a":"secret"}}`), ":1: extra: AIPerf sends the text of this key, and agentx makes prompts from hash_ids")
	assert.Contains(t, fails(exitUsage, rowsOf("a 0 5 4", "a +5 5 4"), "--endpoint-type", "completions"), "--endpoint-type completions with rows of sessions")
}
