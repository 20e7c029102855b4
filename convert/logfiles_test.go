package convert

import (
	"compress/gzip"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	claudeRow   = `{"sessionId":"s","type":"user","uuid":"1","message":{"content":"a"}}` + "\n"
	messagesRow = `{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}` + "\n"
)

// filesBelow writes files below a new directory.
func filesBelow(t *testing.T, files map[string]string) string {
	dir := t.TempDir()
	for name, data := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(data), 0o600))
	}
	return dir
}

// below returns paths relative to a directory.
func below(t *testing.T, dir string, files []string) (list []string) {
	for _, f := range files {
		r, err := filepath.Rel(dir, f)
		require.NoError(t, err)
		list = append(list, filepath.ToSlash(r))
	}
	return list
}

// Of the directory of a client its logs are read, and what describes agents whose logs are there.
func TestLogFilesOfClaude(t *testing.T) {
	dir := filesBelow(t, map[string]string{
		"projects/b/2.jsonl": claudeRow, "projects/b/2/subagents/agent-k.jsonl": claudeRow, "projects/b/2/subagents/agent-k.meta.json": "{}", "projects/b/2/subagents/agent-l.meta.json": "{}",
		"projects/b/2/tool-results/x.txt": "x", "projects/b/sessions-index.json": "{}", "projects/a/1.jsonl": "{}\n", "projects/b.jsonl": claudeRow, "projects/a/.hidden.jsonl": claudeRow,
		"projects/auth.json": "{}", "history.jsonl": claudeRow, "settings.json": "{}", ".credentials.json": "{}"})
	want := []string{"projects/a/1.jsonl", "projects/b.jsonl", "projects/b/2.jsonl", "projects/b/2/subagents/agent-k.jsonl", "projects/b/2/subagents/agent-k.meta.json"}
	if runtime.GOOS != "windows" {
		out := filesBelow(t, map[string]string{"secret.jsonl": claudeRow})
		require.NoError(t, os.Symlink(filepath.Join(out, "secret.jsonl"), filepath.Join(dir, "projects", "a", "link.jsonl")))
		require.NoError(t, os.Symlink(out, filepath.Join(dir, "projects", "out")))
	}
	t.Setenv("CLAUDE_CONFIG_DIR", dir)
	for _, in := range []string{"claude:", dir} {
		files, formats, err := LogFiles([]string{in})
		if in == dir { // the first file that has rows shows no format
			require.NoError(t, err)
			assert.Equal(t, []string{dir}, files)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "projects/a/1.jsonl"), []byte(`{"type":"of-tomorrow"}`+"\n"+claudeRow), 0o600))
			files, formats, err = LogFiles([]string{in})
		}
		require.NoError(t, err)
		assert.Equal(t, want, below(t, dir, files))
		for _, f := range files {
			assert.Equal(t, "claude", formats[f])
		}
	}
	t.Setenv("CLAUDE_CONFIG_DIR", filepath.Join(dir, "none"))
	_, _, err := LogFiles([]string{"claude:"})
	assert.ErrorContains(t, err, "set CLAUDE_CONFIG_DIR")
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "none", "projects"), 0o700))
	_, _, err = LogFiles([]string{"claude:"})
	assert.ErrorContains(t, err, "no session is there yet")
	t.Setenv("CODEX_HOME", filepath.Join(dir, "none"))
	_, _, err = LogFiles([]string{"codex:"})
	assert.ErrorContains(t, err, "set CODEX_HOME")
}

// Other directories and files stay as they are.
func TestLogFilesOfOthers(t *testing.T) {
	for _, files := range []map[string]string{
		{"a.jsonl": messagesRow, "b/c.jsonl": claudeRow},
		{"b/c.jsonl": messagesRow},
		{"a.json": "{}", "auth.json": "{}"},
		{"a.jsonl": "{}\n" + claudeRow[:20], "b.jsonl": claudeRow},
		{},
	} {
		dir := filesBelow(t, files)
		list, formats, err := LogFiles([]string{dir, "-", "hf://datasets/x/y", filepath.Join(dir, "none")})
		require.NoError(t, err)
		assert.Equal(t, []string{dir, "-", "hf://datasets/x/y", filepath.Join(dir, "none")}, list)
		assert.Empty(t, formats)
	}
	_, _, err := LogFiles([]string{"codex"})
	require.ErrorContains(t, err, "codex: with a colon")
	dir := filesBelow(t, map[string]string{"empty.jsonl": "", "z.jsonl": messagesRow})
	packed, err := os.Create(filepath.Join(dir, "s.jsonl.gz"))
	require.NoError(t, err)
	w := gzip.NewWriter(packed)
	_, err = w.Write([]byte("[1]\n" + claudeRow))
	require.NoError(t, err)
	require.NoError(t, w.Close())
	require.NoError(t, packed.Close())
	list, _, err := LogFiles([]string{dir})
	require.NoError(t, err)
	assert.Equal(t, []string{"empty.jsonl", "s.jsonl.gz", "z.jsonl"}, below(t, dir, list))
}

func TestLogOptionsSet(t *testing.T) {
	var o LogOptions
	require.NoError(t, o.Set("claude.meta", "drop"))
	require.NoError(t, o.Set("claude.thinking", "drop"))
	require.NoError(t, o.Set("claude.thinking", "keep"))
	assert.True(t, o.Claude.DropMeta)
	assert.False(t, o.Claude.DropThinking)
	assert.ErrorContains(t, o.Set("claude.meta", "some"), "want keep or drop")
	assert.ErrorContains(t, o.Set("claude.media", "drop"), "want one of claude.meta, claude.thinking")
}
