package main

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/aiperf/profile"
	"github.com/agentx/agentx/internal/mock"
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
