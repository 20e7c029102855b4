package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/capture/carry"
	"github.com/agentx/agentx/cmd/internal/settings"
	"github.com/agentx/agentx/convert"
	"github.com/agentx/agentx/hfsource/hub"
	"github.com/agentx/agentx/internal/demo"
	"github.com/agentx/agentx/internal/durable"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/trace"
)

// The nearest bound decides how much of a run is done.
func TestFractionDone(t *testing.T) {
	r := replay.Progress{Elapsed: 30 * time.Second, Requests: 40, TreesDrained: 1}
	require.Zero(t, fractionDone(replay.Options{}, 0, r))
	require.Equal(t, 0.25, fractionDone(replay.Options{}, 2*time.Minute, r))
	require.Equal(t, 0.5, fractionDone(replay.Options{Duration: time.Minute, Requests: 100, Trees: 4}, 0, r))
	require.Equal(t, 0.8, fractionDone(replay.Options{Duration: time.Minute, Requests: 50}, 0, r))
	require.Equal(t, 1.0, fractionDone(replay.Options{Requests: 30}, 0, r))
	require.Equal(t, 90*time.Second, remaining(replay.Options{}, 2*time.Minute, r))
	require.Equal(t, 10*time.Second, remaining(replay.Options{Requests: 53, Duration: time.Hour}, 0, replay.Progress{Elapsed: 43 * time.Second, Requests: 43}).Round(time.Second))
	r.Phase = measure.WarmupPhase
	require.Zero(t, fractionDone(replay.Options{Duration: time.Minute, Requests: 50}, time.Minute, r), "no bound counts the warmup")
	require.Negative(t, remaining(replay.Options{Duration: time.Minute}, 0, r))
}

// However many files of a run a full disk stops, one line says so, and one what to try.
func TestFullDiskIsOneLine(t *testing.T) {
	full := func(name string) error { return &fs.PathError{Op: "write", Path: "/r/" + name, Err: syscall.ENOSPC} }
	out := new(strings.Builder)
	status := reportError(t.Context(), out, hintReplay(fmt.Errorf("results: %w", errors.Join(full("records.jsonl"), full("run.json")))))
	require.Equal(t, exitFailed, status)
	require.Regexp(t, `^agentx: results: /r: no space left on device\ntry: [^\n]* --out DIR [^\n]*\n$`, out.String())
}

// A capture that listens on all addresses names one that agents can ask.
func TestCaptureNamesAnAddress(t *testing.T) {
	f := captureFlags{}
	f.options.Upstreams = []carry.Upstream{{Kind: carry.Any}}
	out := new(strings.Builder)
	f.tellVariables(out, "http://[::]:8080")
	require.Equal(t, "export ANTHROPIC_BASE_URL=http://127.0.0.1:8080\nexport OPENAI_BASE_URL=http://127.0.0.1:8080/v1\n", out.String())
}

// Signals within half a second of the first count as the same; a later one exits at once.
func TestWatchSignals(t *testing.T) {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	for name, c := range map[string]struct {
		at    []time.Duration
		leave int // at which it leaves; 0: at none
	}{
		"none":               {nil, 0},
		"one":                {[]time.Duration{0}, 0},
		"timeout's two":      {[]time.Duration{0, ms(1)}, 0},
		"within the moment":  {[]time.Duration{0, ms(100), ms(499)}, 0},
		"after it":           {[]time.Duration{0, ms(500)}, 2},
		"two, then a second": {[]time.Duration{ms(7), ms(8), ms(507)}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			signals, heard, cancelled, left := make(chan os.Signal, len(c.at)), 0, 0, 0
			for range c.at {
				signals <- syscall.SIGTERM
			}
			close(signals)
			now := func() time.Time { heard++; return time.Unix(1e9, 0).Add(c.at[heard-1]) }
			watchSignals(signals, now, func() { cancelled++ }, func() { left = heard })
			require.Equal(t, min(1, len(c.at)), cancelled)
			require.Equal(t, c.leave, left)
		})
	}
}

// freeText lists flags whose values cannot be completed.
var freeText = []string{"url", "model", "admin", "session-header", "correlation-header", "header", "reset-cache-path", "until", "listen", "otlp", "extra-body", "overflow-pattern", "scrape", "server-name", "start-at", "text", "sessions", "since", "label", "note", "engine", "gpu", "isl", "osl", "date"}

// Every flag that takes words is in completedFlags or in freeText, and every verb that takes arguments in
// completedArguments.
func TestEveryFlagIsCompleted(t *testing.T) {
	paths := map[string]bool{}
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		paths[cmd.CommandPath()] = true
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if kind := f.Value.Type(); kind != "string" && kind != "stringArray" {
				return
			}
			assert.True(t, settings.Complete(f) != nil || completedFlags[f.Name] != nil || slices.Contains(freeText, f.Name),
				"%s --%s: list its values in completedFlags (complete.go), or the flag in freeText", cmd.CommandPath(), f.Name)
		})
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(newRoot())
	for path := range completedArguments {
		assert.True(t, paths[path], "there is no %s", path)
	}
}

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

// Asked by a flag, a replay explains the flags that most runs need, in the order of use; agentx help replay explains all.
func TestHelpInTwoSizes(t *testing.T) {
	said := func(args ...string) string {
		out := new(strings.Builder)
		require.Zero(t, run(args, nil, out, out))
		return out.String()
	}
	short, whole, table := said("replay", "-h"), said("help", "replay"), said("help", "settings")
	require.Equal(t, short, said("replay", "--help"))
	require.Equal(t, len(shortFlags), strings.Count(short, "\n      --"))
	require.Equal(t, 4, strings.Count(short, "\n  agentx replay ")-1) // and the line of usage
	from := 0
	for _, name := range shortFlags {
		at := strings.Index(short[from:], "\n      --"+name+" ")
		require.GreaterOrEqual(t, at, 0, name)
		from += at
		require.Contains(t, whole, "\n      --"+name+" ")
	}
	for _, name := range []string{"--no-preflight", "--itl-divisor"} {
		require.NotContains(t, short, name)
		require.Contains(t, whole, name)
		require.Contains(t, table, "\n  "+name[2:]+" ")
	}
	require.NotContains(t, whole, "default []")
	require.Regexp(t, `\n  keep-alive +4s +300s +300s\n      how long `, table)
}

// Usage lists every flag of a replay and of a simulation in a group, so that a reader finds those that every run needs.
func TestEveryFlagHasAGroup(t *testing.T) {
	for _, cmd := range []string{"replay", "simulate"} {
		verb, _, _ := newRoot().Find([]string{cmd})
		verb.Flags().VisitAll(func(f *pflag.Flag) { assert.NotEmpty(t, f.Annotations["group"], "--%s", f.Name) })
	}
}

// The libraries say in words what to try; the command names its flags.
func TestHintsNameFlags(t *testing.T) {
	for want, err := range map[string]error{
		"--cache DIR (of cache warm --to DIR)":  &durable.FullError{Text: "no space"},
		"--skip-invalid, which leaves":          &trace.Error{Hint: "use another separator, or skip invalid traces"},
		"--set block_size=N, the tokens":        &trace.Error{Hint: "the rule block_size=N, the tokens of a block"},
		"--profile default, which takes":        &trace.Error{Hint: "the profile default, which takes null"},
		"leave out --strict":                    convert.ErrStrict,
		"--verify-hit compares":                 convert.ErrUnnamed,
		"agentx import INPUT":                   convert.ErrNoBlocks,
		"--force replaces it":                   mmapcache.ErrDiffers,
		"without --no-wait, or with a longer":   &hub.Error{Hint: "wait longer for that process"},
		"agentx fetch --list names recorded":    &hub.Error{Hint: "agentx fetch lists recorded traces"},
		"HF_HUB_CACHE=DIR, or --cache DIR: a d": &hub.Error{Hint: "HF_HUB_CACHE=DIR, or another cache root: a directory"},
	} {
		try, ok := errors.AsType[hintError](hintConvert(err))
		assert.True(t, ok, err)
		assert.Contains(t, try.hint, want)
	}
}

// A command line that begins with a verb registers the flags of that verb alone, and says the same as with all verbs.
func TestOneVerbSaysTheSame(t *testing.T) {
	require.Len(t, rootFor([]string{"help"}).Commands(), len(newRoot().Commands()))
	for name := range verbs() {
		said := func(root *cobra.Command) string {
			var out strings.Builder
			root.SetOut(&out)
			root.SetErr(&out)
			for _, args := range [][]string{{name, "--help"}, {name, "--no-such-flag"}, {"help", name}} {
				root.SetArgs(args)
				_ = root.Execute()
			}
			return out.String()
		}
		one := rootFor([]string{name})
		require.Less(t, len(one.Commands()), 4, name)
		require.Contains(t, said(one), "Usage", name)
		require.Equal(t, said(newRoot()), said(rootFor([]string{name})), name)
	}
}
