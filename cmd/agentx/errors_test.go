package main

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/capture/carry"
)

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
