package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
