package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A key with a line end, as files have one, is a usage error, and the message does not show the key.
func TestAPIKeyMustFitInAHeader(t *testing.T) {
	t.Setenv("KEY", "hunter2\n")
	f := replayFlags{
		urls: []string{"http://127.0.0.1:1"}, model: "m", payload: "chat", start: "zero", concurrency: 1, speed: 1, timeout: time.Second,
		out: t.TempDir(), apiKeyEnv: "KEY",
	}
	_, err := f.options()
	require.ErrorAs(t, err, &usageError{})
	require.ErrorContains(t, err, "--api-key-env KEY")
	require.NotContains(t, err.Error(), "hunter2")
}
