package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

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
