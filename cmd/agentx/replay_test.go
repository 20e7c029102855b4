package main

import (
	"bytes"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	promodel "github.com/prometheus/common/model"
	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/settings"
	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/mock"
	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/capacity"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/meet"
)

// A key with a line end, as files have one, is a usage error, and the message does not show the key.
func TestAPIKeyMustFitInAHeader(t *testing.T) {
	t.Setenv("KEY", "hunter2\n")
	var f replayFlags
	f.register(&cobra.Command{})
	f.set.Settle()
	f.o.URLs, f.o.Model, f.o.Out, f.apiKeyEnv = []string{"http://127.0.0.1:1"}, "m", t.TempDir(), "KEY"
	f.options()
	err := f.wrong()
	require.ErrorAs(t, err, &usageError{})
	require.ErrorContains(t, err, "--api-key-env KEY")
	require.NotContains(t, err.Error(), "hunter2")
}

// certificateFile returns the name of a file with a certificate.
func certificateFile(t *testing.T) string {
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600))
	return file
}

// A file of certificates that cannot be used is told before anything else happens.
func TestCAFileIsReadFirst(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("no.pem", nil, 0o600))
	require.Equal(t, []string{"agentx: --ca-file: no.pem: no certificate in PEM, which begins with -----BEGIN CERTIFICATE-----"}, configErrors(t, "--ca-file", "no.pem"))
	require.Equal(t, []string{"agentx: --ca-file: contradicts insecure, which checks no certificate: leave one of them out"}, configErrors(t, "--ca-file", certificateFile(t), "--insecure"))
	require.Equal(t, []string{"agentx: --server-name a/b: want the name of a server, such as llm.example.org, or off"}, configErrors(t, "--server-name", "a/b"))
}

// The lines are those that agentx-harness 1.0.12 logged of such periods.
func TestPhaseLines(t *testing.T) {
	warmup := replay.Progress{Phase: measure.WarmupPhase}
	measured := replay.Progress{Phase: measure.ProfilingPhase}
	for want, n := range map[string]replay.PhaseNews{
		"Phase warmup (warmup) started | target: 12 requests": {Progress: warmup, Target: replay.PhaseTarget{Requests: 12}},
		"Phase warmup (warmup) started":                       {Progress: warmup},
		"Phase profiling (profiling) started | phase_index=0 | profiling_index=0 | target: 20.0s duration": {
			Progress: measured, Target: replay.PhaseTarget{Duration: 20 * time.Second}},
		"Phase profiling (profiling) started | phase_index=0 | profiling_index=0 | target: 1,500 requests, 0.5s duration, 7 sessions": {
			Progress: measured, Target: replay.PhaseTarget{Requests: 1500, Duration: time.Second / 2, Trees: 7}},
		"Phase warmup progress | returned=8/12 | sent=12 | in_flight=3 | errors=2 | elapsed=9.9s": {
			Step: replay.PhaseGoesOn, Target: replay.PhaseTarget{Requests: 12},
			Progress: replay.Progress{Phase: measure.WarmupPhase, Elapsed: 9940 * time.Millisecond, Requests: 12, InFlight: 3, Completed: 5, Errors: 1, Overflows: 1, Cancelled: 1}},
		"Phase warmup (warmup) sending complete | sent=12, completed=8, in_flight=4 | sessions: sent=6, completed=2": {
			Step: replay.PhaseSent, Progress: replay.Progress{Phase: measure.WarmupPhase, Requests: 12, InFlight: 4, Completed: 8},
			Sessions: replay.SessionCounts{Sent: 6, Completed: 2}},
		"Phase profiling (profiling) sending complete | sent=0, completed=0, in_flight=0 | timeout_triggered=True": {
			Step: replay.PhaseSent, Progress: measured, TimedOut: true},
		"Phase warmup (warmup) complete | completed=12, cancelled=0, errors=0 | sessions: completed=3, cancelled=0 | elapsed=10.10s": {
			Step: replay.PhaseOver, Progress: replay.Progress{Phase: measure.WarmupPhase, Elapsed: 10101 * time.Millisecond, Requests: 12, Completed: 12},
			Sessions: replay.SessionCounts{Sent: 6, Completed: 3}},
		"Phase profiling (profiling) complete | completed=1,004, cancelled=1, errors=4 | sessions: completed=0, cancelled=1 | elapsed=50.00s | grace_period_timeout=True | was_cancelled=True": {
			Step: replay.PhaseOver, TimedOut: true, Ended: true, Sessions: replay.SessionCounts{Sent: 3, Cancelled: 1},
			Progress: replay.Progress{Phase: measure.ProfilingPhase, Elapsed: 50 * time.Second, Requests: 1005, Completed: 1000, Errors: 1, Overflows: 3, Cancelled: 1}},
	} {
		require.Equal(t, []string{want}, phaseLines(&n, nil))
	}
}

// What a part says of itself has no secret, and nothing that differs by part.
func TestMemberOfALoad(t *testing.T) {
	o := replay.Options{Cache: cachetest.Demo(t), Part: replay.Part{Number: 2, Of: 4}, APIKey: "secret", Provenance: measure.Run{Version: "1.2", Commit: "abc", Options: []measure.Option{
		{Name: "concurrency", Value: json.RawMessage("8"), From: "flag"}, {Name: "part", Value: json.RawMessage(`"2/4"`)}, {Name: "listen", Value: json.RawMessage(`":9"`)},
		{Name: "Grace", Value: json.RawMessage("30"), From: "default"},
	}}}
	m := memberOf(&o)
	require.Equal(t, []meet.Option{{Name: "concurrency", Value: "8"}, {Name: "Grace", Value: "30"}}, m.Options)
	require.Equal(t, "1.2 (commit abc)", m.Version)
	require.Equal(t, o.Cache.Manifest.Key, m.Dataset)
	require.NotContains(t, fmt.Sprint(m), "secret")
}

// A load that another part has ended has its exit status.
func TestEndedElsewhere(t *testing.T) {
	for how, status := range map[meet.How]int{
		meet.Interrupted: exitInterrupted, meet.Failed: exitFailed, meet.Wedged: exitVerdict, meet.Unequal: exitUsage, meet.Refused: exitFailed,
	} {
		var stderr strings.Builder
		require.Equal(t, status, reportError(t.Context(), &stderr, endedElsewhere(&meet.Stop{Part: 1, Of: 4, Host: "n1", How: how, Reason: "why"})))
		require.Contains(t, stderr.String(), "why")
	}
	other := errors.New("other")
	require.Equal(t, other, endedElsewhere(other))
}

// A search prints the table, what its probes share, and last its answer, whose outcome decides the exit status.
func TestSearchPrintsItsAnswer(t *testing.T) {
	met := capacity.Probe{Lanes: 1, Verdict: capacity.Met, Conditions: []capacity.Reading{{Name: "ttft.p95", Limit: "2 s", Text: "1.84 s", Met: true}}}
	missed := capacity.Probe{Lanes: 2, Verdict: capacity.Missed, Conditions: []capacity.Reading{{Name: "ttft.p95", Limit: "2 s", Text: "2.31 s"}}}
	bound := capacity.Probe{Lanes: 2, Verdict: capacity.ClientBound, Reasons: []string{"the processor"}}
	first := missed
	first.Lanes = 1
	for _, c := range []struct {
		probes []capacity.Probe
		reset  bool
		end    string // of standard output
		status int
	}{
		{[]capacity.Probe{met, missed}, false, "\n" + warmCache + "\ncapacity 1 lane: ttft.p95 1.84 s (2 s); 2 lanes: ttft.p95 2.31 s\n", 0},
		{[]capacity.Probe{met, missed}, true, "\n\ncapacity 1 lane: ttft.p95 1.84 s (2 s); 2 lanes: ttft.p95 2.31 s\n", 0},
		{[]capacity.Probe{first}, false, "\n\nno capacity: 1 lane: ttft.p95 2.31 s\n", exitVerdict},
		{[]capacity.Probe{met, bound}, true, "\n\nclient-bound at 2 lanes: the processor; 1 lane met every condition, which is no capacity\n", exitVerdict},
	} {
		cmd := newRoot()
		var stdout strings.Builder
		cmd.SetOut(&stdout)
		list := &measure.List{Out: "out", Capacity: capacity.Search{From: 1}.Answer(c.probes)}
		cmd.SetContext(t.Context())
		require.NoError(t, printSearch(cmd, list, replay.Options{CacheReset: replay.CacheReset{Enabled: c.reset}}, false))
		assert.True(t, strings.HasSuffix(stdout.String(), c.end), stdout.String())
		assert.Equal(t, c.status, reportError(t.Context(), io.Discard, judgeSearch(t.Context(), false, list, nil)))
	}
}

// A run that came to its end has one exit status: a deadlocked tree comes before a run without an answer, that before a run
// that is not valid, and a run that broke before all.
func TestJudgeRun(t *testing.T) {
	scenario := measure.Run{Scenario: &measure.Scenario{Name: "s"}}
	invalid := []string{"unsafe_override"}
	broken := []measure.Remark{{Level: measure.Broken, Text: "failed: 20 %"}, {Level: measure.Broken, Text: "gone: a: b"}, {Level: measure.Warning, Text: "short"}}
	for name, c := range map[string]struct {
		s      measure.Summary
		status int
		says   string
	}{
		"good":               {measure.Summary{Completed: 1, DeadlockedTrees: measure.Missing}, 0, ""},
		"valid":              {measure.Summary{Completed: 1, Run: scenario, Valid: new(true)}, 0, ""},
		"not valid":          {measure.Summary{Completed: 1, Run: scenario, Valid: new(false), Reasons: invalid}, 3, "replay: not valid under the scenario s: unsafe_override"},
		"silent servers":     {measure.Summary{Completed: 1, Run: scenario, Valid: new(false), Reasons: []string{"insufficient_profile_metric_coverage"}, Coverage: &measure.Coverage{}}, 3, "replay: not valid under the scenario s: insufficient_profile_metric_coverage"},
		"nothing completed":  {measure.Summary{Requests: 2}, 1, "replay: none of 2 requests completed"},
		"nothing, not valid": {measure.Summary{Requests: 2, Run: scenario, Valid: new(false), Reasons: invalid}, 1, "replay: none of 2 requests completed"},
		"deadlocked":         {measure.Summary{DeadlockedTrees: 2}, 3, "replay: 2 trees could not be played to their end"},
		"broke":              {measure.Summary{Completed: 1, Remarks: broken}, 1, "replay: the run broke: failed: 20 %; gone: a: b (--allow-failures makes that no failure)"},
		"broke, not valid":   {measure.Summary{Completed: 1, Remarks: broken, Run: scenario, Valid: new(false), Reasons: invalid}, 1, "replay: the run broke: failed: 20 %; gone: a: b; replay: not valid under the scenario s: unsafe_override (--allow-failures makes that no failure)"},
		"in the warmup":      {measure.Summary{Completed: 1, Deadlocks: make([]measure.DeadlockReport, 1)}, 3, "replay: 1 trees could not be played to their end"},
	} {
		t.Run(name, func(t *testing.T) {
			err := judgeRun(&c.s, false)
			require.Equal(t, c.status, reportError(t.Context(), io.Discard, err))
			if c.says != "" {
				require.EqualError(t, err, c.says)
			}
			cmd := &cobra.Command{}
			cmd.SetErr(io.Discard)
			allowed := reportError(t.Context(), io.Discard, judgeRun(&c.s, true))
			require.Equal(t, allowed, reportError(t.Context(), io.Discard, withoutBreak(cmd, err)), "AIPerf and its fork know no break")
			if c.s.Remarks == nil {
				require.Equal(t, c.status, allowed)
			} else {
				require.NotEqual(t, c.status, allowed)
			}
		})
	}
}

// A wrong word of any flag, setting or verb is told with the words, and the one that is like it.
func TestWrongWordsNameTheNearest(t *testing.T) {
	for _, c := range []struct{ flags, want string }{
		{"--payload antropic", "--payload antropic: want chat, anthropic, ids or text; did you mean anthropic?"},
		{"--marker first_turn", "--marker first_turn: want off, first_turn_prefix, system_prefix, first_turn_suffix or system_suffix; did you mean first_turn_prefix?"},
		{"--preset aiperf", "--preset aiperf: want default, aiperf-0.13 or agentx-1.0.12; did you mean aiperf-0.13?"},
		{"--preset x", "--preset x: want default, aiperf-0.13 or agentx-1.0.12"},
		{"--warmup request=5", "--warmup request=5: want none, primers, requests=R or duration=D; did you mean requests=R?"},
		{"--set start=sample", "--set start=sample: want zero or sampled; did you mean sampled?"},
		{"--scenario inferencex", "--scenario inferencex: want agentx or inferencex-agentx-mvp; did you mean inferencex-agentx-mvp?"},
		{"--report aiprf", "--report aiprf: want html, aiperf, json, csv or parquet; did you mean aiperf?"},
		{"--tokenizer o200k", "--tokenizer o200k: want cl100k_base, o200k_base, the path of a tokenizer.json or of its directory, or OWNER/NAME of a model of the hub; did you mean o200k_base?"},
		{"--start ''", `--start "": want zero or sampled`},
	} {
		r := runLine(append([]string{"replay", "demo", "--url", "http://h", "--model", "m"}, words(t, c.flags)...)...)
		assert.Equal(t, 2, r.status, c.flags)
		assert.Equal(t, "agentx: "+c.want+"\n", r.problems)
	}
}

// So do the words of a file.
func TestWrongWordsElsewhere(t *testing.T) {
	configFile(t, "payload: antropic\n")
	r := runLine("replay", "--print-config", "--config", "run.yaml")
	assert.Contains(t, r.problems, ":1: payload: antropic: want chat, anthropic, ids or text; did you mean anthropic?\n")
}

// Everything that is wrong with a command line is told at once, with status 2 and before anything is asked of a server.
func TestWrongValuesAreToldAtOnce(t *testing.T) {
	r := runLine("replay", "demo", "--url", "http://h", "--model", "m", "--tokenizer", "x", "--corpus", "prosa", "--set", "max_osl=-1", "--set", "backend=xxh",
		"--report", "csv", "--prefix", "../p", "--slice-duration", "1us", "--overflow-pattern", "x*", "--stats-interval", "1ms")
	assert.Equal(t, 2, r.status)
	assert.Equal(t, []string{
		"agentx: --overflow-pattern x*: the pattern matches every text: want one that only messages about overflows match",
		"agentx: --stats-interval 1ms: want 0, or a duration of 100ms or more, or off",
		"agentx: --prefix ../p: want the beginning of a name, without a directory",
		"agentx: --slice-duration: want at least 1ms: every slice has all metrics",
		"agentx: --set max_osl=-1: want 0 or more, or none",
		"agentx: --set backend=xxh: want exact, xxh3 or sha256-mt; did you mean xxh3?",
		"agentx: --tokenizer x: want cl100k_base, o200k_base, the path of a tokenizer.json or of its directory, or OWNER/NAME of a model of the hub",
		"agentx: --corpus prosa: no such file, and no such name: want code, prose, words, FILE or DIR of UTF-8 text, aiperf-sonnet:FILE, FILE.u32le of token ids, or sonnet:FILE.u32le; did you mean prose?",
	}, strings.Split(strings.TrimSpace(r.problems), "\n"))

	r = runLine("report", t.TempDir(), "--format", "x", "--slice-duration", "NaN", "--prefix", ".p", "--gate", "")
	assert.Equal(t, 2, r.status)
	assert.Equal(t, []string{
		"agentx: --slice-duration NaN: want a duration such as 90s or 10m, or seconds",
		"agentx: --format x: want html, aiperf, json, csv, parquet, inferencex or markdown",
		"agentx: --prefix .p: want a name that does not begin with a dot",
		`agentx: --gate "": want NAME<VALUE or NAME>VALUE, such as 'ttft.p95<2s', against another run 'ttft.p95<+5%', or error-rate=X`,
	}, strings.Split(strings.TrimSpace(r.problems), "\n"))
}

// A flag that says how files are made wants some; an argument wants to be the directory of a run.
func TestReportNamesWhatIsWrong(t *testing.T) {
	r := runLine("report", t.TempDir(), "--prefix", "p")
	assert.Equal(t, "agentx: --prefix p: no files are made: add --format aiperf, or leave it out\n", r.problems)
	assert.Contains(t, runLine("report", "replay_test.go").problems, "replay_test.go: not a directory: want the directory of a run")
}

// Session headers come from flags, the environment and a file. The variables that switch one header on add to that of the flag.
//
// Covers T-40.
func TestWhereSessionHeadersComeFrom(t *testing.T) {
	const id, smg, dynamo = "AGENTX_HTTP_X_SESSION_ID_FROM_CORRELATION_ID", "AGENTX_HTTP_X_SMG_ROUTING_KEY_FROM_CORRELATION_ID", "AGENTX_HTTP_X_DYNAMO_SESSION_ID_FROM_CORRELATION_ID"
	for _, test := range []struct {
		name      string
		file      string
		variables map[string]string
		args      []string
		want      string
		from      string
	}{
		{"nothing", "", nil, nil, `null`, "default"},
		{"flags", "", nil, []string{"--session-header", "X-A", "--session-header", "X-B, X-C"}, `"X-A,X-B,X-C"`, "--session-header"},
		{"off", "session-header: X-A\n", nil, []string{"--session-header", "off"}, `null`, "--session-header"},
		{"set", "", nil, []string{"--set", "session-header=X-A,X-B"}, `"X-A,X-B"`, "--set"},
		{"file", "session-header: [X-Session-ID, X-B]\n", nil, nil, `"X-Session-ID,X-B"`, "run.yaml:1"},
		{"text of a file", "session-header: X-Session-ID, X-B\n", nil, nil, `"X-Session-ID,X-B"`, "run.yaml:1"},
		{"variable", "", map[string]string{id: "1"}, nil, `"X-Session-ID"`, id},
		{"variables", "session-header: X-File\n", map[string]string{smg: "true", dynamo: "t", id: "0", "AGENTX_SESSION_HEADER": "X-A,x-smg-routing-key"}, nil,
			`"X-A,x-smg-routing-key,X-Dynamo-Session-ID"`, "AGENTX_SESSION_HEADER, " + smg + ", " + dynamo},
		{"twin", "", map[string]string{"AGENTX_SESSION_HEADER": "X-A"}, nil, `"X-A"`, "AGENTX_SESSION_HEADER"},
		{"twin that is off", "session-header: X-File\n", map[string]string{"AGENTX_SESSION_HEADER": "off"}, nil, `null`, "AGENTX_SESSION_HEADER"},
		{"flag before variable", "", map[string]string{id: "1"}, []string{"--session-header", "X-A"}, `"X-A"`, "--session-header"},
	} {
		t.Run(test.name, func(t *testing.T) {
			configFile(t, test.file)
			for name, value := range test.variables {
				t.Setenv(name, value)
			}
			shown := shownConfig(t, append([]string{"--config", "run.yaml"}, test.args...)...)["session-header"]
			require.Equal(t, test.want, string(shown.Value))
			require.Equal(t, test.from, shown.From)
		})
	}
}

// What a header or a payload cannot be is told at once.
func TestWrongHeadersAndPayloads(t *testing.T) {
	t.Setenv("AGENTX_HTTP_X_SESSION_ID_FROM_CORRELATION_ID", "perhaps")
	const headers = "want names of headers with commas between, none twice and none that requests have already, or off"
	require.Equal(t, []string{
		"agentx: --session-header X-A,x-a: " + headers,
		"agentx: --set correlation-header=X-Request-ID: want the name of a header that requests do not have already",
		"agentx: AGENTX_HTTP_X_SESSION_ID_FROM_CORRELATION_ID=perhaps: want true or false",
		"agentx: --max-tokens-field none: --payload anthropic wants max_tokens",
	}, configErrors(t, "--session-header", "X-A,x-a", "--set", "correlation-header=X-Request-ID", "--payload", "anthropic",
		"--max-tokens-field", "none"))
	t.Setenv("AGENTX_HTTP_X_SESSION_ID_FROM_CORRELATION_ID", "")
	for _, name := range []string{"", ",", "X-A,", "a b", "Content-Type", "X-Dynamo-Parent-Session-ID"} {
		require.Equal(t, []string{"agentx: " + settings.FlagText("session-header", name) + ": " + headers}, configErrors(t, "--session-header", name))
	}
	for _, payload := range []string{"ids", "text"} {
		require.Equal(t, []string{"agentx: --set content-parts=true: --payload " + payload + " sends no messages: want chat or anthropic"},
			configErrors(t, "--payload", payload, "--set", "content-parts=true"))
	}
	require.True(t, strings.Contains(agentx(t, "help", "replay"), "--session-header"))
}

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
	fault, err := mock.ParseFault("status=500:0.1")
	require.NoError(t, err)
	answers, watched := mock.New(mock.Config{Faults: []mock.Fault{fault}}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-watched // else the run may end before anyone has asked
		answers.ServeHTTP(w, r)
	}))
	defer server.Close()
	at := stderr.at
	go func() {
		ended <- run([]string{"replay", "demo", "--url", server.URL, "--model", "mock", "--concurrency", "4", "--requests", "60", "--asap", "--no-preflight",
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
	for page("data?after=0&reader=page") == "the run is being prepared\n" {
	}
	waits("data?after=0&reader=waits")
	close(watched)
	for finished := false; !finished; {
		finished = strings.Contains(page("data?after=0&reader=page"), `"ended":true`)
		waits("data?after=0&reader=waits")
	}
	metrics, html := page("metrics"), page("")
	page("data?left&reader=page")
	require.Empty(t, ended, "the other page does not have the finished one")
	waits("data?after=9000000000000000&reader=waits") // it has
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
