//go:build unix

package main

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// Who reads the log of a capture may go away, as head does after its lines: the traffic stays.
//
// Covers C-27.
func TestCaptureOutlivesTheReaderOfItsLog(t *testing.T) {
	upstream := httptest.NewServer(http.NotFoundHandler())
	defer upstream.Close()
	log, stderr, err := os.Pipe()
	require.NoError(t, err)
	cmd := exec.Command("agentx", "capture", "--upstream", upstream.URL, "--out", t.TempDir(), "--limit", "disk_free=1000000G")
	cmd.Stderr = stderr
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill() }()
	require.NoError(t, stderr.Close())
	lines := bufio.NewScanner(stdout)
	require.True(t, lines.Scan())
	address := strings.TrimPrefix(lines.Text(), "listening ")
	require.NoError(t, log.Close())
	for range 2 {
		// the first one begins a session that is not recorded, which the log says
		reply, err := http.Post(address+"/s/a/v1/messages", "application/json", strings.NewReader(`{"messages":[{"role":"user","content":"a"}]}`))
		require.NoError(t, err)
		require.Equal(t, http.StatusNotFound, reply.StatusCode)
		require.NoError(t, reply.Body.Close())
	}
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	last := ""
	for lines.Scan() {
		last = lines.Text()
	}
	require.NoError(t, cmd.Wait())
	require.Equal(t, "2 requests of 1 sessions: 0 recorded in 0 traces, 2 not", last)
}

// A capture that crashes leaves no memory on the disk.
//
// Covers C-39.
func TestNoCores(t *testing.T) {
	noCores()
	var limit syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_CORE, &limit))
	require.Zero(t, limit.Cur)
	require.Zero(t, limit.Max)
}

// The log of a capture has no time of day.
//
// Covers C-38.
func TestTimelessLog(t *testing.T) {
	var b strings.Builder
	timelessLog(&b).Error("a session is not recorded", "trace", "cap-1", "time", "kept in a group only")
	require.Equal(t, "level=ERROR msg=\"a session is not recorded\" trace=cap-1\n", b.String())
}
