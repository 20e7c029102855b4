package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/terminal"
)

// Help has no line that is longer than 80 columns where it goes to no terminal, but for words that are.
func TestHelpFitsTheTerminal(t *testing.T) {
	var verbs []string
	for _, cmd := range newRoot().Commands() {
		verbs = append(verbs, cmd.Name())
	}
	for _, args := range [][]string{{}, {"help", "settings"}, {"replay", "--help"}, {"help", "cache", "explain"}} {
		verbs = append(verbs, strings.Join(args, " "))
	}
	for _, verb := range verbs {
		args := strings.Fields(verb)
		if len(args) == 1 {
			args = []string{"help", verb}
		}
		out := new(strings.Builder)
		require.Zero(t, run(args, nil, out, out), verb)
		for line := range strings.Lines(out.String()) {
			line = strings.TrimRight(line, "\n")
			assert.True(t, len(line) <= 80 || len(strings.Fields(line)) < 3, "%s: %d columns: %s", verb, len(line), line)
		}
	}
}

// Paragraphs are filled, second columns stay columns, and what is typed stays what a shell takes.
func TestWrapHelp(t *testing.T) {
	require.Equal(t, `One two three four five.
Six.

  name     means one two
           three four five
  agentx replay A --b c \
        --d e
Flags:
      --x    a word and
             another
`, terminal.Wrap(`One two
three four five. Six.

  name     means one two three
           four five
  agentx replay A --b c --d e
Flags:
      --x    a word and another
`, 26))
	require.Equal(t, "  a-word-that-is-too-long\n      b\n", terminal.Wrap("  a-word-that-is-too-long b\n", 12))
}
