package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/mmapcache/cachestore"
)

// scaleFiles is how many files the traces of the test of scale lie in.
const scaleFiles = 16

// scaleMemory bounds the anonymous memory of a conversion, in bytes, whatever its corpus.
const scaleMemory = 200e6

// scaleRun is what a conversion took.
type scaleRun struct {
	Key, Path string
	Traces    int
	Turns     int
	Bytes     int64
	Wall, CPU float64
	Shards    struct{ Total, Found int }
	anonymous int64 // at its peak, bytes
}

// A corpus of many made-up traces is converted within the memory of one of 600, by one builder and by several. It prints what both
// cost per trace. AGENTX_SCALE is the number of traces: make test-scale.
//
// Covers D-4.
func TestScale(t *testing.T) {
	traces, err := strconv.Atoi(os.Getenv("AGENTX_SCALE"))
	if err != nil {
		t.Skip("takes minutes, and gigabytes of disk: make test-scale SCALE=60000")
	}
	s := scale{T: t, dir: t.TempDir()}
	s.agentx = filepath.Join(s.dir, "agentx")
	out, err := exec.Command("go", "build", "-o", s.agentx, ".").CombinedOutput()
	require.NoError(t, err, string(out))
	t.Log("traces  builders  wall s  cpu s  cpu ms/trace  anonymous MB  disk kB/trace  shards  open ms  first prompt ms")
	s.report(1, s.convert(s.corpus("small", 600, 1), "root-600", 1))
	large := s.corpus("large", traces, scaleFiles)
	for _, builders := range []int{1, 2, 4, 8} {
		s.report(builders, s.convert(large, fmt.Sprintf("root-%d", builders), builders))
	}
	if _, err := os.Stat("/proc/self/status"); err != nil {
		t.Log("anonymous memory was not measured: there is no /proc")
	}
}

type scale struct {
	*testing.T
	dir, agentx string
}

// corpus makes traces as files of equal length.
func (s scale) corpus(name string, traces, files int) string {
	dir := filepath.Join(s.dir, name)
	require.NoError(s, os.Mkdir(dir, 0o777))
	for k := range files {
		out, err := exec.Command(s.agentx, "synth", "--traces", strconv.Itoa(traces/files), "--first", strconv.Itoa(k*(traces/files)), "--quiet",
			"--output", filepath.Join(dir, fmt.Sprintf("%02d.jsonl.zst", k))).CombinedOutput()
		require.NoError(s, err, string(out))
	}
	return dir
}

// convert converts with several builders at once. Nothing may be built twice, and each builder stays within its memory.
func (s scale) convert(input, root string, builders int) []scaleRun {
	root = filepath.Join(s.dir, root)
	runs, done := make([]scaleRun, builders), make(chan error, builders)
	for k := range runs {
		go func() { done <- s.builder(&runs[k], input, root, k, builders) }()
	}
	for range runs {
		require.NoError(s, <-done)
	}
	built := 0
	for _, r := range runs {
		built += r.Shards.Total - r.Shards.Found
		assert.Equal(s, runs[0].Path, r.Path)
		assert.Less(s, r.anonymous, int64(scaleMemory), "anonymous memory, in bytes")
	}
	assert.Equal(s, runs[0].Shards.Total, built, "shards that were built")
	return runs
}

// builder runs one builder and watches its memory.
func (s scale) builder(r *scaleRun, input, root string, number, of int) error {
	cmd := exec.Command(s.agentx, "convert", input, "--cache", root, "--json", "--quiet", "--part", fmt.Sprintf("%d/%d", number, of))
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			if err != nil {
				return fmt.Errorf("%w: %s", err, &errs)
			}
			return json.Unmarshal([]byte(out.String()), r)
		case <-tick.C:
			r.anonymous = max(r.anonymous, anonymousOf(cmd.Process.Pid))
		}
	}
}

// anonymousOf returns the anonymous memory of a process, in bytes; 0 where it is unknown.
func anonymousOf(pid int) int64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	_, rest, _ := strings.Cut(string(status), "RssAnon:")
	var kib int64
	_, _ = fmt.Sscan(rest, &kib)
	return kib * 1024
}

// report prints what the builders of a corpus took, and how long it takes to open it and to render a trace.
func (s scale) report(builders int, runs []scaleRun) {
	wall, cpu, anonymous := 0.0, 0.0, int64(0)
	for _, r := range runs {
		wall, cpu, anonymous = max(wall, r.Wall), cpu+r.CPU, max(anonymous, r.anonymous)
	}
	r := runs[0]
	root := filepath.Dir(filepath.Dir(r.Path))
	begin := time.Now()
	c, err := cachestore.Open(s.Context(), root, r.Key)
	require.NoError(s, err)
	open := time.Since(begin)
	_, err = c.Render(r.Traces/2, mmapcache.Text)
	require.NoError(s, err)
	first := time.Since(begin)
	require.NoError(s, c.Close())
	s.Logf("%6d  %8d  %6.1f  %5.1f  %12.2f  %12.0f  %13.1f  %6d  %7.1f  %15.1f", r.Traces, builders, wall, cpu, 1000*cpu/float64(r.Traces),
		float64(anonymous)/1e6, float64(r.Bytes)/1e3/float64(r.Traces), r.Shards.Total, float64(open.Microseconds())/1e3, float64(first.Microseconds())/1e3)
}
