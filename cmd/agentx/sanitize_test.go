package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert/demo"
)

// File names are sanitized in messages and tables; JSON has them as they are.
func TestForeignNamesAreSanitized(t *testing.T) {
	dir, cache := t.TempDir(), warmRoot(t)
	good, bad := filepath.Join(dir, "a\u202elnosj.jsonl"), filepath.Join(dir, "b\x1b[2J.json")
	require.NoError(t, os.WriteFile(good, demo.JSONL(), 0o666))
	require.NoError(t, os.WriteFile(bad, []byte("{}"), 0o666))
	do := func(status int, args ...string) (stdout, stderr string) {
		var out, problems strings.Builder
		require.Equal(t, status, run(append(args, "--quiet", "--cache", cache), nil, &out, &problems), problems.String())
		return out.String(), problems.String()
	}
	path, _ := do(0, "convert", good)
	path = strings.TrimSpace(path)
	path = path[strings.LastIndexByte(path, '\n')+1:]
	_, stderr := do(1, "convert", bad)
	assert.Contains(t, stderr, `b\x1b[2J.json: `)
	_, stderr = do(0, "convert", good, bad, "--skip-invalid")
	assert.Contains(t, stderr, `warning: skipped `+dir+`/b\x1b[2J.json: `)
	for _, verb := range [][]string{{"cache", "ls"}, {"cache", "info", path}, {"cache", "explain", good, "--seed", "3", "--set", "block_size=32"}} {
		stdout, _ := do(0, verb...)
		assert.Contains(t, stdout, `a\u202elnosj.jsonl`, verb)
		assert.NotContains(t, stdout, "\u202e", verb)
	}
	stdout, _ := do(0, "cache", "ls", "--json")
	assert.True(t, json.Valid([]byte(stdout)))
	assert.Contains(t, stdout, "a\u202elnosj.jsonl")
}
