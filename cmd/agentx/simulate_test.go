package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/simulate/preset"
)

// The same runs, one at a time or all at once, give the same bytes in every file but for what they cost.
//
// Covers S-02.
func TestSimulateTwice(t *testing.T) {
	cache := warmRoot(t)
	read := func(jobs string) map[string]string {
		t.Chdir(t.TempDir())
		var out, errs strings.Builder
		args := []string{"simulate", "demo", "--cache", cache, "--concurrency", "2,8", "--workers", "1,3", "--out", "out", "--per-request", "--format", "dynamo", "--html", "--json", "--jobs", jobs}
		require.Zero(t, run(args, nil, &out, &errs), errs.String())
		files := map[string]string{"stdout": out.String()}
		require.NoError(t, filepath.WalkDir("out", func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || d.Name() == "timing.json" {
				return err
			}
			data, err := os.ReadFile(path)
			lines := strings.Split(string(data), "\n")
			for k, line := range lines {
				if d.Name() == "dynamo.json" && (strings.Contains(line, `"wall_time_ms"`) || strings.Contains(line, `_per_s"`)) {
					lines[k] = ""
				}
			}
			files[path] = strings.Join(lines, "\n")
			return err
		}))
		return files
	}
	one := read("1")
	require.Len(t, one, 2+4*5)
	assert.Equal(t, one, read("4"))
}

// Every switch can be set to each of its values, and the report of a run has them.
//
// Covers S-01.
func TestEverySwitchCanBeSet(t *testing.T) {
	for _, name := range preset.List() {
		for _, value := range preset.Choices(name) {
			var out, errs strings.Builder
			args := []string{"simulate", "--synthetic", "in=64,out=2,n=1", "--set", name + "=" + value, "--json"}
			require.Zero(t, run(args, nil, &out, &errs), errs.String())
			var report struct{ Switches map[string]string }
			require.NoError(t, json.Unmarshal([]byte(out.String()), &report))
			require.Len(t, report.Switches, len(preset.List()))
			assert.Equal(t, value, report.Switches[name], name)
		}
	}
}
