package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

// The committed manual page, references and llms.txt are those of the tables: make docs writes them. llms.txt names documents that exist.
func TestManuals(t *testing.T) {
	for topic, file := range map[string]string{"manual": "doc/agentx.1", "llms.txt": "llms.txt", "settings.md": "doc/settings.md", "metrics.md": "doc/metrics.md"} {
		var out strings.Builder
		require.Zero(t, run([]string{"help", topic}, nil, &out, &out))
		committed, err := os.ReadFile(filepath.Join("../..", file))
		require.NoError(t, err)
		require.True(t, string(committed) == out.String(), "%s is not current: make docs", file)
	}
	for _, d := range documents {
		require.FileExists(t, filepath.Join("../..", d[0]))
	}
}

// The commands of the README's example run as they are typed, in one shell, with an empty home, and leave a page. Only the port is another.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	script := "trap 'kill $!' EXIT\n"
	for line := range strings.Lines(string(readme)) {
		if command, ok := strings.CutPrefix(line, "    $ "); ok {
			script += strings.ReplaceAll(command, "127.0.0.1:8000", address)
		}
	}
	require.Equal(t, 4, strings.Count(script, "agentx "), script)
	dir := t.TempDir()
	sh := exec.CommandContext(t.Context(), "sh", "-ec", strings.Replace(script, "--duration 20s", "--duration 1s --wait-ready 10s", 1))
	sh.Dir, sh.Env = dir, append(os.Environ(), "HOME="+dir, "XDG_CACHE_HOME=", "AGENTX_CACHE=", "AGENTX_SCRAPE=off")
	out, err := sh.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "16 traces, 30 sessions, 197 turns, 1,318,406 prompt tokens in 3,649 blocks\n")
	require.FileExists(t, filepath.Join(dir, "results", "report.html"), "%s", out)
	for _, line := range []string{"197 turns", "results/report.html"} {
		require.Contains(t, string(readme), line)
		require.Contains(t, string(out), line)
	}
}

// The commands of the workflow for pull requests run as they stand, on a short run: a push makes a baseline, and a pull request that changes
// nothing passes the gates, while one whose server fails ends with status 3 and says so on the page of the job.
func TestGateOfPullRequests(t *testing.T) {
	text, err := os.ReadFile("../../examples/github/gate.yml")
	require.NoError(t, err)
	var workflow struct {
		Jobs struct {
			Gate struct {
				Env   map[string]string
				Steps []struct{ Name, Run string }
			}
		}
	}
	require.NoError(t, yaml.Unmarshal(text, &workflow))
	steps := map[string]string{}
	for _, s := range workflow.Jobs.Gate.Steps {
		steps[s.Name] = s.Run
	}
	dir, page := t.TempDir(), filepath.Join(t.TempDir(), "page.md")
	do := func(step, server string) (string, int) {
		require.NotEmpty(t, steps[step], step)
		short := strings.NewReplacer("--trees 200 --max-gap 2s", "--trees 8 --asap --no-calibrate").Replace(steps[step])
		sh := exec.CommandContext(t.Context(), "sh", "-ec", short)
		sh.Dir, sh.Env = dir, append(os.Environ(), "SERVER="+server, "MODEL="+workflow.Jobs.Gate.Env["MODEL"], "AGENTX_CACHE="+filepath.Join(dir, "cache"), "GITHUB_STEP_SUMMARY="+page,
			"AGENTX_OVERWRITE=true", "AGENTX_SCRAPE=off", "AGENTX_NO_PREFLIGHT=true", "AGENTX_ALLOW_FAILURES=true")
		out, err := sh.CombinedOutput()
		if _, failed := err.(*exec.ExitError); !failed {
			require.NoError(t, err)
		}
		return string(out), sh.ProcessState.ExitCode()
	}
	good, bad := mockServer(t), mockServer(t, "status=500:0.5")
	for _, step := range []string{"replay", "keep", "replay"} {
		out, status := do(step, good)
		require.Zero(t, status, out)
	}
	require.FileExists(t, filepath.Join(dir, "results", "report.html"))
	out, status := do("gate", good)
	require.NotContains(t, []int{exitFailed, exitUsage}, status, out) // what is as fast depends on the machine
	out, status = do("replay", bad)
	require.Zero(t, status, out)
	out, status = do("gate", bad)
	require.Equal(t, exitVerdict, status, out)
	text, err = os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(text), "| error-rate&#60;1% | passed |")
	require.Contains(t, string(text), "| error-rate&#60;1% | **failed** |")
}
