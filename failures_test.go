package agentx_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Every test that doc/failures.md names is there, and every failure has a line, that of a test named after it a test.
func TestFailuresHaveTheirTests(t *testing.T) {
	text, err := os.ReadFile("doc/failures.md")
	require.NoError(t, err)
	named := regexp.MustCompile("`([a-z/]+)` (Test[A-Za-z0-9]+(?:, Test[A-Za-z0-9]+)*)")
	lines := 0
	tested := map[string]bool{} // by number
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "| F") {
			continue
		}
		lines++
		number := strings.Fields(line)[1][1:]
		found := named.FindAllStringSubmatch(line, -1)
		require.NotEmpty(t, found, line)
		for _, m := range found {
			for _, name := range strings.Split(m[2], ", ") {
				tested[fmt.Sprintf("%02s", number)] = true
				assert.True(t, hasTest(t, m[1], name), "%s has no %s", m[1], name)
			}
		}
	}
	assert.Equal(t, 28, lines)
	require.NoError(t, filepath.WalkDir(".", func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, m := range regexp.MustCompile(`(?m)^func Test(?:Long)?F([0-9]+)[A-Za-z0-9]*\(`).FindAllStringSubmatch(string(source), -1) {
			assert.True(t, tested[m[1]], "%s has a test of F%s, and doc/failures.md none", path, m[1])
		}
		return err
	}))
}

func hasTest(t *testing.T, dir, name string) bool {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	require.NoError(t, err)
	for _, f := range files {
		source, err := os.ReadFile(f)
		require.NoError(t, err)
		if strings.Contains(string(source), "func "+name+"(") {
			return true
		}
	}
	return false
}
