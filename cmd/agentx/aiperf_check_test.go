package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
		`agentx: --profile-export-prefix run: the files of a run have this name, and would be overwritten: want another, such as "run1"`,
		"agentx: --slice-duration: want at least 1ms: every slice has all metrics",
		"agentx: --trajectory-start-min-ratio 0.9: more than StartMaxRatio=0.75 (default): want at most that",
		"agentx: not supported: --isl 4: it makes synthetic prompts; agentx plays recordings: leave it out",
		"agentx: not supported: --wait-for-model-mode all: want inference, models or both",
	}, lines)
}

// What the scenario locks is told in the words of AIPerf, with what to try.
func TestConflictsNameFlagsOfAIPerf(t *testing.T) {
	r := runLine(aiperfLine("--dry-run", "--scenario", "inferencex-agentx-mvp", "--benchmark-duration", "12")...)
	assert.Equal(t, 2, r.status)
	assert.Contains(t, r.problems, "duration: Duration is 12s: want at least 900s: leave out --benchmark-duration, for 1800s\n")
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
