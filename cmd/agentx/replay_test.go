package main

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

// A key with a line end, as files have one, is a usage error, and the message does not show the key.
func TestAPIKeyMustFitInAHeader(t *testing.T) {
	t.Setenv("KEY", "hunter2\n")
	var f replayFlags
	f.register(&cobra.Command{})
	f.set.Settle()
	f.o.URLs, f.o.Model, f.o.Out, f.apiKeyEnv = []string{"http://127.0.0.1:1"}, "m", t.TempDir(), "KEY"
	f.options()
	err := f.wrong()
	require.ErrorAs(t, err, &usageError{})
	require.ErrorContains(t, err, "--api-key-env KEY")
	require.NotContains(t, err.Error(), "hunter2")
}
