package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// harnessPair is one command line, which both tools run against servers that answer alike.
type harnessPair struct {
	name    string
	traces  func(t *testing.T) string // a directory
	flags   string
	answers answers
	primers bool // the warmup has nothing but primers: it has planned instants too
	same    bool // the harness equals itself, so agentx must equal it
}

// harnessPairs take half a minute each, and as long again for every further run of the harness. Their durations end where nothing is due.
var harnessPairs = []harnessPair{
	{name: "lanes4", traces: publicTraces, flags: "--concurrency 4 --benchmark-duration 25 --warmup-requests-per-lane 2"},
	{name: "lanes8", traces: publicTraces, flags: "--concurrency 8 --benchmark-duration 19 --warmup-requests-per-lane 3 --trace-idle-gap-cap-seconds 2"},
	{name: "burst", traces: publicTraces, flags: "--concurrency 6 --benchmark-duration 20 --warmup-requests-per-lane 1 --burst-phase-starts"},
	{name: "wrap", traces: publicTraces, flags: "--concurrency 20 --benchmark-duration 20 --scenario inferencex-agentx-mvp --streaming --no-gpu-telemetry --random-seed 42", primers: true, same: true},
	{name: "recycle", traces: recycledTraces, flags: "--concurrency 3 --benchmark-duration 20 --warmup-requests-per-lane 1"},
	{name: "subagents", traces: subagentTraces, same: true,
		flags: "--concurrency 1 --benchmark-duration 25 --warmup-requests-per-lane 1 --trajectory-start-min-ratio 0 --trajectory-start-max-ratio 0.2"},
	{name: "errors", traces: recycledTraces, flags: "--concurrency 6 --benchmark-duration 19 --warmup-requests-per-lane 1 --failed-request-threshold 1",
		answers: answers{every: 3, faults: []string{"status", "cut", "busy", "empty", "words", "overflow", "cut"}}},
	{name: "grace", traces: recycledTraces, flags: "--concurrency 4 --benchmark-duration 16 --warmup-requests-per-lane 1 --benchmark-grace-period 4",
		answers: answers{stall: 5, stalled: time.Minute}},
}

// duration returns how long the phase of a pair sends.
func (p *harnessPair) duration() time.Duration {
	words := strings.Fields(p.flags)
	seconds, _ := strconv.Atoi(words[slices.Index(words, "--benchmark-duration")+1])
	return time.Duration(seconds) * time.Second
}

// publicTraces copies the traces of ../shared.
func publicTraces(t *testing.T) string {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(sharedCorpus+"traces")))
	return dir
}

// recycledTraces are shorter than a run.
func recycledTraces(t *testing.T) string {
	dir := t.TempDir()
	for k := range 9 {
		writeTrace(t, dir, k+1, []turn{{0, 0.2, 10}, {1 + 0.37*float64(k), 0.2, 14}, {3 + 0.53*float64(k), 0.2, 18}, {4.5 + 0.61*float64(k), 0.2, 21}})
	}
	return dir
}

// subagentTraces have turns with children that run while their parent does, and one that it waits for.
func subagentTraces(t *testing.T) string {
	dir := t.TempDir()
	for k := range 3 {
		by := 0.41 * float64(k)
		writeTrace(t, dir, k+1, []turn{{0, 0.5, 10}, {3 + by, 0.5, 12}, {6, 0.5, 14}, {16 + by, 0.5, 16}, {19, 0.5, 18}},
			agent{6.6, []turn{{0, 0.5, 6}, {2.5 + by, 0.5, 8}, {5.1, 0.5, 10}}}, agent{6.7, []turn{{0, 0.5, 5}, {4.2 + by, 0.5, 7}}}, agent{20, []turn{{0, 0.5, 6}, {2, 0.5, 9}}})
	}
	return dir
}

// agentx-harness 1.0.12 and agentx run the same command lines. Both send the same requests at the same planned instants, as far as the
// harness does twice, with the same bodies to the last byte but for the digits of markers; what both write is equal in every member that
// is no time; and what agentx computes from the rows of the harness is what the harness wrote.
func TestHarness(t *testing.T) {
	harness := os.Getenv("HARNESS")
	if harness == "" {
		t.Skip("needs an installed harness: make test-harness")
	}
	if _, err := os.Stat(sharedCorpus); err != nil {
		t.Skip("needs the traces of ../shared")
	}
	t.Setenv("TZ", "UTC") // the harness writes local times
	t.Setenv("AGENTX_CORPUS", sharedCorpus+"aiperf-coding-42-o200k_base.u32le")
	t.Setenv("AGENTX_NO_PREFLIGHT", "true")
	t.Setenv("AGENTX_CACHE", t.TempDir())
	for _, p := range harnessPairs {
		t.Run(p.name, func(t *testing.T) { p.compare(t, harness) })
	}
}

// compare plays a pair, the harness again where agentx differs from it, and compares what both wrote.
func (p *harnessPair) compare(t *testing.T, harness string) {
	ctx, stop := context.WithTimeout(t.Context(), 8*time.Minute)
	defer stop()
	traces := p.traces(t)
	wait := p.startTheirs(ctx, t, harness, traces)
	ours := p.playOurs(t, traces)
	theirs := []*harnessRun{wait()}
	d := distanceOf(theirs[0], ours, p)
	t.Logf("harness %v, agentx %v: %v", theirs[0], ours, &d)
	nearest := 0
	if d.size() > 0 && !p.same {
		nearest, d = p.repeat(ctx, t, harness, traces, ours, &theirs)
	}
	d.tell(t, p.same)
	for k, r := range append(theirs, ours) {
		r.keep(t, fmt.Sprint(k))
	}
	equal := d.size()+d.leftOut+d.edge == 0
	compareFiles(t, theirs[nearest], ours, p, equal)
	found, n := compareRecount(t, theirs[nearest])
	t.Logf("%d numbers of the harness computed again from its rows", n)
	tell(t, "recount", found)
	for _, reader := range harnessReaders {
		t.Run(reader.name, func(t *testing.T) { reader.compare(t, theirs[nearest], ours, equal) })
	}
}

// repeat plays the harness again, twice at most, until agentx is no farther from one of its runs than two of them are from each other. It
// returns the run that is nearest to agentx.
func (p *harnessPair) repeat(ctx context.Context, t *testing.T, harness, traces string, ours *harnessRun, theirs *[]*harnessRun) (nearest int, near distance) {
	near = distanceOf((*theirs)[0], ours, p)
	most := 0
	for k := 1; k < 3 && near.size() > most; k++ {
		again := p.startTheirs(ctx, t, harness, traces)()
		for _, r := range *theirs {
			d := distanceOf(r, again, p)
			t.Logf("harness and harness: %v", &d)
			most = max(most, d.size())
		}
		*theirs = append(*theirs, again)
		if d := distanceOf(again, ours, p); d.size() < near.size() {
			nearest, near = k, d
		}
		t.Logf("harness %v, agentx, nearest: %v", again, &near)
	}
	assert.LessOrEqual(t, near.size(), most, "agentx differs from the harness more than it does from itself")
	return nearest, near
}
