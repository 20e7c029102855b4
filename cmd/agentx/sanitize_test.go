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

func TestSanitize(t *testing.T) {
	for text, want := range map[string]string{
		"":                                "",
		"traces/päth 中 é e\u0301 👩.jsonl": "traces/päth 中 é e\u0301 👩.jsonl",
		"a \"quoted\" \\ name":            `a "quoted" \ name`,
		"a\x1b[2Jb":                       `a\x1b[2Jb`,
		"a\r\nb\tc\x00\x7f":               `a\r\nb\tc\x00\x7f`,
		"a\u009bb":                        `a\u009bb`,
		"a\u202etxt.exe":                  `a\u202etxt.exe`,
		"\u2066a\u2069\u200f":             `\u2066a\u2069\u200f`,
		"a\u200bb\u2060c\ufeff\u00ad":     `a\u200bb\u2060c\ufeff\u00ad`,
		"a\u2028b":                        `a\u2028b`,
		"\u3164\u2800\u115f":              `\u3164\u2800\u115f`,
		"a\U000e0041b":                    `a\U000e0041b`,
		"a\xffb":                          `a\xffb`,
	} {
		assert.Equal(t, want, sanitize(text))
		assert.Equal(t, want, sanitize(want), "what is visible stays")
	}
	var out strings.Builder
	n, err := sanitizer{&out}.Write([]byte("a\u202e\nb\n"))
	require.NoError(t, err)
	assert.Equal(t, len("a\u202e\nb\n"), n)
	assert.Equal(t, "a\\u202e\nb\n", out.String())
}

// File names are sanitized in messages and tables; JSON has them as they are.
func TestForeignNamesAreSanitized(t *testing.T) {
	dir, cache := t.TempDir(), t.TempDir()
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
