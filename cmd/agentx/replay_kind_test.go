package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// A wrong word of any flag, setting or verb is told with the words, and the one that is like it.
func TestWrongWordsNameTheNearest(t *testing.T) {
	for _, c := range []struct{ flags, want string }{
		{"--payload antropic", "--payload antropic: want chat, anthropic, ids or text; did you mean anthropic?"},
		{"--marker first_turn", "--marker first_turn: want off, first_turn_prefix, system_prefix, first_turn_suffix or system_suffix; did you mean first_turn_prefix?"},
		{"--preset aiperf", "--preset aiperf: want default, aiperf-0.13 or agentx-1.0.12; did you mean aiperf-0.13?"},
		{"--preset x", "--preset x: want default, aiperf-0.13 or agentx-1.0.12"},
		{"--warmup request=5", "--warmup request=5: want none, primers, requests=R or duration=D; did you mean requests=R?"},
		{"--set Start=sample", "--set Start=sample: want zero or sampled; did you mean sampled?"},
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
		"agentx: --stats-interval 1ms: want 0, or a duration of 100ms or more, or off",
		"agentx: --overflow-pattern x*: every text matches: want a pattern that only texts of overflows match",
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
	assert.Contains(t, runLine("report", "replay_kind_test.go").problems, "replay_kind_test.go: no directory: want the directory of a run")
}
