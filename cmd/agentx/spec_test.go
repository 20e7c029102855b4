package main

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/internal/settings"
	"github.com/agentx/agentx/replay"
	"github.com/agentx/agentx/replay/preset"
)

// TestSpecificationNamesEveryVerbAndFlag compares doc/spec/cli.md, and the tables of settings and switches that it refers to, with the commands:
// each has what the other has.
func TestSpecificationNamesEveryVerbAndFlag(t *testing.T) {
	text := specification(t, "cli.md")
	named := map[string]bool{"help": true}
	for _, document := range []string{"replay.md", "simulate.md"} {
		_, table, _ := strings.Cut(specification(t, document), "\n### 0.3 ")
		table, _, _ = strings.Cut(table, "\n#")
		for _, m := range regexp.MustCompile("(?m)^\\| `([a-z][a-z0-9-]*)` \\|").FindAllStringSubmatch(table, -1) {
			named[m[1]] = true
		}
	}
	flags, verbs := map[string]bool{"help": true}, map[string]bool{}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Hidden {
			return
		}
		if cmd.HasParent() && cmd.Name() != "help" {
			verbs[cmd.Name()] = true
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) { flags[f.Name] = true })
		cmd.PersistentFlags().VisitAll(func(f *pflag.Flag) { flags[f.Name] = true })
		for _, child := range cmd.Commands() {
			walk(child)
		}
	}
	walk(newRoot())
	for _, m := range regexp.MustCompile(`--([a-z][a-z0-9-]*[a-z0-9])`).FindAllStringSubmatch(text, -1) {
		named[m[1]] = true
	}
	assert.Equal(t, flags, named)
	for verb := range verbs {
		assert.Regexp(t, "`(agentx (cache )?)?"+verb+"[ `]", text)
	}
}

// TestSpecificationNamesEveryOption compares the options that --set takes with the tables that describe them.
func TestSpecificationNamesEveryOption(t *testing.T) {
	_, table, _ := strings.Cut(specification(t, "reconstruction.md"), "\n## 11. ")
	for _, name := range append(rules.Names(), "backend") {
		assert.Contains(t, table, "`"+name+"`")
	}
	_, table, _ = strings.Cut(specification(t, "replay.md"), "\n### 0.3 ")
	table, _, _ = strings.Cut(table, "\n### ")
	for _, s := range settings.Replay(new(replay.Options)) {
		row := "| `" + s.Name + "` |"
		if s.Group == settings.Switches {
			for _, name := range preset.Names {
				row += " " + inTable(s.Kind, s.Under[name]) + " |"
			}
		}
		assert.True(t, s.Plain || strings.Contains(table, row), row)
	}
}

// inTable is a value as the tables write it: words as code, durations with a blank.
func inTable(k settings.Kind, v any) string {
	switch text := k.Text(v); v.(type) {
	case time.Duration:
		return strings.TrimSuffix(text, "s") + " s"
	case string:
		if _, err := strconv.ParseFloat(text, 64); err != nil {
			return "`" + text + "`"
		}
		return text
	case bool:
		if text != "true" && text != "false" {
			return "`" + text + "`"
		}
		return text
	default:
		return text
	}
}

// specification reads a document of doc/spec.
func specification(t *testing.T, name string) string {
	text, err := os.ReadFile("../../doc/spec/" + name)
	require.NoError(t, err)
	return string(text)
}
