package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// The official clients of OpenAI and Anthropic get through a capture what they get without one, and the traces have what
// contrib/capture-clients computes from what they sent. AIPerf, where it is installed, reads these traces as conversion does.
//
// Covers C-33, C-41, C-42.
func TestOfficialClients(t *testing.T) {
	python := os.Getenv("CAPTURE_CLIENTS_PYTHON")
	if python == "" {
		t.Skip("needs the clients: make test-capture-clients")
	}
	program := filepath.Join(t.TempDir(), "agentx")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	run := exec.CommandContext(t.Context(), python, "../../contrib/capture-clients/run.py", program, t.TempDir(), os.Getenv("CAPTURE_CLIENTS_RANKS"), os.Getenv("CAPTURE_CLIENTS_AIPERF"))
	run.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	out, err = run.CombinedOutput()
	t.Logf("%s", out)
	require.NoError(t, err)
}
