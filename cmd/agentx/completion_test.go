package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// shellWithScript returns what a shell prints that has read the script of completion, and nothing else.
func shellWithScript(t *testing.T, shell []string, commands string) string {
	t.Helper()
	if _, err := exec.LookPath(shell[0]); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	script := new(strings.Builder)
	require.Zero(t, run([]string{"completion", shell[0]}, nil, script, script))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "script"), []byte(script.String()), 0o600))
	c := exec.CommandContext(t.Context(), shell[0], append(shell[1:], "source ./script\n"+commands)...)
	c.Dir, c.Env = dir, append(os.Environ(), "HOME="+dir, "ZDOTDIR="+dir)
	out, err := c.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

// In a bash without bash-completion, words with = and : are completed whole, up to the cursor.
func TestBashCompletesWithoutItsPackage(t *testing.T) {
	for _, test := range []struct{ line, words, want string }{
		{"agentx rep", "agentx rep", "replay\nreport\n"},
		{"agentx  cache  ver", "agentx cache ver", "verify\n"},
		{"agentx replay x --preset=agentx", "agentx replay x --preset = agentx", "agentx-1.0.12\n"},
		{"agentx replay x --report ht", "agentx replay x --report ht", "html\n"},
	} {
		out := shellWithScript(t, []string{"bash", "--norc", "--noprofile", "-c"}, `compopt() { :; }
COMP_TYPE=9 COMP_LINE="`+test.line+`" COMP_POINT=${#COMP_LINE} COMP_WORDS=(`+test.words+`)
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
__start_agentx agentx
printf '%s\n' "${COMPREPLY[@]%% *}"
`)
		require.Equal(t, test.want, out, test.line)
	}
}

// In a zsh in which compinit has not run, the script waits for the first prompt; one that has run it, or runs it before that, registers.
func TestZshCompletesWithoutCompinit(t *testing.T) {
	prompt := "for f in $precmd_functions; do $f; done\nprint is $_comps[agentx]\n"
	require.Equal(t, "is _agentx\n", shellWithScript(t, []string{"zsh", "-fc"}, prompt))
	require.Equal(t, "is _agentx\n", shellWithScript(t, []string{"zsh", "-fc"}, "autoload -Uz compinit && compinit -i\n"+prompt))
	require.Equal(t, "is _agentx\n", shellWithScript(t, []string{"zsh", "-fc"}, "autoload -Uz compinit && compinit -i\nsource ./script\n"+prompt))
}
