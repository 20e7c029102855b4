//go:build unix

package aiperf

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/agentx/agentx/report"
)

// writing is the variable in whose presence the test binary is a process that writes files and is killed.
const writing = "AGENTX_TEST_WRITING"

func TestMain(m *testing.M) {
	if dir := os.Getenv(writing); dir != "" {
		writeStepByStep(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

// writeStepByStep writes the files of a run. Before each step on the disk it prints a line and waits for one.
func writeStepByStep(dir string) {
	in := bufio.NewReader(os.Stdin)
	run, err := report.Open(dir)
	if err == nil {
		_, err = Write(withSteps(func(name, path string) error {
			fmt.Println(name, filepath.Base(path))
			_, err := in.ReadString('\n')
			return err
		}), run, Options{Out: filepath.Join(dir, "out"), Slice: time.Second})
	}
	if err != nil {
		panic(err)
	}
}

// A process that is killed before any of its steps on the disk leaves every file complete or absent: kill -9 of a real process.
func TestKilledAtEveryStep(t *testing.T) {
	run := newRun(t, 7, 40)
	_, err := Write(t.Context(), run, Options{Out: filepath.Join(run.Dir, "whole"), Slice: time.Second})
	require.NoError(t, err)
	whole := files(t, filepath.Join(run.Dir, "whole"))
	out := filepath.Join(run.Dir, "out")
	for steps, ended := 1, false; !ended; steps++ {
		ended = killedAt(t, run.Dir, steps)
		published := 0
		for name, text := range files(t, out) {
			if _, temporary := whole[name]; !temporary {
				require.True(t, strings.HasPrefix(name, "."), "step %d: %s is no temporary file", steps, name)
				continue
			}
			published++
			require.True(t, whole[name] == text, "step %d: %s", steps, name)
		}
		_, ready := files(t, out)[".aiperf_results_ready.json"]
		require.Equal(t, published == len(whole), ready, "step %d", steps)
	}
	require.True(t, maps.Equal(whole, files(t, out)), "what killed processes have left is removed")
}

// killedAt runs a process that writes, and kills it before a step. It reports whether the process ended before.
func killedAt(t *testing.T, dir string, step int) (ended bool) {
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), writing+"="+dir)
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewReader(stdout)
	for range step - 1 {
		if _, err := lines.ReadString('\n'); errors.Is(err, io.EOF) {
			require.NoError(t, cmd.Wait())
			return true
		}
		_, err = io.WriteString(stdin, "\n")
		require.NoError(t, err)
	}
	if _, err := lines.ReadString('\n'); errors.Is(err, io.EOF) {
		require.NoError(t, cmd.Wait())
		return true
	}
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	return false
}
