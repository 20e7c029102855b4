package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The commands of the README's example run as they are typed, in one shell, with an empty home, and leave a page. Only the port is another.
func TestReadme(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := l.Addr().String()
	require.NoError(t, l.Close())
	script := "trap 'kill $!' EXIT\n"
	for line := range strings.Lines(string(readme)) {
		if command, ok := strings.CutPrefix(line, "    $ "); ok {
			script += strings.ReplaceAll(command, "127.0.0.1:8000", address)
		}
	}
	require.Equal(t, 4, strings.Count(script, "agentx "), script)
	dir := t.TempDir()
	sh := exec.CommandContext(t.Context(), "sh", "-ec", strings.Replace(script, "--duration 20s", "--duration 1s --wait-ready 10s", 1))
	sh.Dir, sh.Env = dir, append(os.Environ(), "HOME="+dir, "XDG_CACHE_HOME=", "AGENTX_CACHE=", "AGENTX_SCRAPE=off")
	out, err := sh.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "16 traces, 30 sessions, 197 turns, 1,318,406 prompt tokens in 3,649 blocks\n")
	require.FileExists(t, filepath.Join(dir, "results", "report.html"), "%s", out)
	for _, line := range []string{"197 turns", "results/report.html"} {
		require.Contains(t, string(readme), line)
		require.Contains(t, string(out), line)
	}
}
