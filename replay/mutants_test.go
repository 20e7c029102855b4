package replay

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mutant is a known defect as a patch, and the test that finds it.
type mutant struct {
	name string
	pkg  string // of the test
	test string
	// hunks by file, from the root of the module: the text before and after the patch.
	hunks map[string][][2]string
}

// readMutant reads a patch: a unified diff after lines that begin with #, of which one says "test: PACKAGE TEST". Hunks have
// no line numbers: the text before a hunk occurs once in its file.
func readMutant(name, text string) (m mutant, err error) {
	m = mutant{name: name, hunks: map[string][][2]string{}}
	file := ""
	var before, after strings.Builder
	end := func() {
		if before.Len() > 0 {
			m.hunks[file] = append(m.hunks[file], [2]string{before.String(), after.String()})
		}
		before.Reset()
		after.Reset()
	}
	for line := range strings.Lines(text) {
		rest := line[1:]
		switch {
		case strings.HasPrefix(line, "# test: "):
			if _, err := fmt.Sscanf(line, "# test: %s %s", &m.pkg, &m.test); err != nil {
				return m, fmt.Errorf("%s: %q: %w", name, line, err)
			}
		case line[0] == '#', strings.HasPrefix(line, "--- "):
		case strings.HasPrefix(line, "+++ b/"):
			end()
			file = strings.TrimSpace(strings.TrimPrefix(line, "+++ b/"))
		case strings.HasPrefix(line, "@@"):
			end()
		case line[0] == ' ':
			before.WriteString(rest)
			after.WriteString(rest)
		case line[0] == '-':
			before.WriteString(rest)
		case line[0] == '+':
			after.WriteString(rest)
		default:
			return m, fmt.Errorf("%s: %q is no line of a patch", name, line)
		}
	}
	end()
	if m.test == "" || len(m.hunks) == 0 {
		return m, fmt.Errorf("%s: it names no test, or changes nothing", name)
	}
	return m, nil
}

// apply writes the changed files to a directory, and an overlay that puts them in the place of those of the module.
func (m mutant) apply(module, dir string) (overlay string, err error) {
	replace := map[string]string{}
	for file, hunks := range m.hunks {
		path := filepath.Join(module, filepath.FromSlash(file))
		data, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		text := string(data)
		for _, h := range hunks {
			if n := strings.Count(text, h[0]); n != 1 {
				return "", fmt.Errorf("%s does not apply: %d places in %s have\n%s", m.name, n, file, h[0])
			}
			text = strings.Replace(text, h[0], h[1], 1)
		}
		replace[path] = filepath.Join(dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(replace[path], []byte(text), 0o600); err != nil {
			return "", err
		}
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, data, 0o600)
}

// mutants reads all patches.
func mutants(t *testing.T) (list []mutant) {
	files, err := filepath.Glob("testdata/mutants/*.patch")
	require.NoError(t, err)
	for _, file := range files {
		data, err := os.ReadFile(file)
		require.NoError(t, err)
		m, err := readMutant(strings.TrimSuffix(filepath.Base(file), ".patch"), string(data))
		require.NoError(t, err)
		list = append(list, m)
	}
	return list
}

// Every patch applies to the program as it is, and names a test. A patch to code that was rewritten must be adapted.
func TestMutantsApply(t *testing.T) {
	module, err := filepath.Abs("..")
	require.NoError(t, err)
	list := mutants(t)
	require.Len(t, list, 43)
	for _, m := range list {
		_, err := m.apply(module, t.TempDir())
		require.NoError(t, err)
		files, err := filepath.Glob(filepath.Join(module, m.pkg, "*_test.go"))
		require.NoError(t, err)
		require.True(t, slices.ContainsFunc(files, func(file string) bool {
			data, err := os.ReadFile(file)
			return err == nil && strings.Contains(string(data), "func "+m.test+"(")
		}), "%s: %s has no %s", m.name, m.pkg, m.test)
	}
}

// TestMutants applies the patches one by one, and expects the test that each names to fail: doc/spec/replay.md 7. "make
// test-mutants" runs it.
func TestMutants(t *testing.T) {
	if os.Getenv("AGENTX_MUTANTS") == "" {
		t.Skip("runs the tests of a package for each of the patches: make test-mutants")
	}
	module, err := filepath.Abs("..")
	require.NoError(t, err)
	run := func(m mutant, overlay ...string) (string, error) {
		args := append([]string{"test", "-count=1", "-run", "^" + m.test + "$"}, overlay...)
		cmd := exec.CommandContext(t.Context(), "go", append(args, m.pkg)...)
		cmd.Dir = module
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for _, m := range mutants(t) {
		t.Run(m.name, func(t *testing.T) {
			out, err := run(m)
			require.NoError(t, err, "%s fails without the defect: %s", m.test, out)
			require.NotContains(t, out, "no tests to run")
			overlay, err := m.apply(module, t.TempDir())
			require.NoError(t, err)
			out, err = run(m, "-overlay", overlay)
			require.Error(t, err, "%s passes with the defect", m.test)
			require.NotContains(t, out, "[build failed]", out)
			require.Contains(t, out, "--- FAIL: "+m.test, out)
			for line := range strings.Lines(out) {
				if s := strings.TrimSpace(line); strings.HasPrefix(s, "Error:") || strings.HasPrefix(s, "panic:") || strings.Contains(s, "INV-") {
					t.Log(s)
					break
				}
			}
		})
	}
}
