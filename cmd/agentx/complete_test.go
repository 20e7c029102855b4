package main

import (
	"slices"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"

	"github.com/agentx/agentx/internal/settings"
)

// freeText lists flags whose values cannot be completed.
var freeText = []string{"url", "model", "admin", "session-header", "correlation-header", "header", "reset-cache-path", "until", "listen", "otlp", "extra-body", "overflow-pattern", "prefix", "scrape", "server-name", "start-at", "text"}

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
