package replay

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/bytefmt"
	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/mock"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/wire"
)

// What a soak may use.
const (
	soakLanes      = 200
	soakBytes      = 400      // of live memory for each request: the numbers of the summary, in slices that double
	soakLeft       = 32 << 20 // bytes of live memory that may be left of a run
	soakGoroutines = 8        // for each lane: its request, and both sides of its connection, one of which may be closing
	soakFiles      = 4        // for each lane
)

// TestSoak plays the demo corpus for AGENTX_SOAK, such as 30m, at about 1,000 requests a second, against a mock in this process
// that fails in every way it knows. Nothing may leak: goroutines, connections, memory. Every request has a record, and the counters
// add up. make test-soak runs it.
func TestSoak(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("AGENTX_SOAK"))
	if err != nil {
		t.Skip("AGENTX_SOAK is no duration: make test-soak sets it")
	}
	var faults []mock.Fault
	for _, k := range mock.FaultKinds {
		rate := 0.003
		if slices.Contains([]string{"flood", "comments"}, k.Name) {
			rate = 0.0001 // each sends as fast as it can until the request ends
		}
		faults = append(faults, mock.Fault{Kind: strings.Replace(k.Name, "NNN", "503", 1), Rate: rate})
	}
	server := mock.New(mock.Config{Faults: faults, CacheBlocks: 100_000})
	before := usageNow(t)
	url, stop := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Header.Del("X-Correlation-Id") // the mock remembers every session
		server.ServeHTTP(w, r)
	}))
	o := Options{
		Cache: cachetest.Demo(t), URLs: []string{url}, Model: "m", Marker: payload.FirstTurnPrefix, SkipPreflight: true, Calibrate: true,
		Concurrency: soakLanes, AllowWrap: true, Duration: length, Pace: Pace{Speed: 5, MaxGap: 400 * time.Millisecond}, Start: middle,
		Timeout: 5 * time.Second, Grace: 10 * time.Second, Backoff: Backoff{First: Off}, Switches: withoutTreeIdle(), Out: filepath.Join(t.TempDir(), "out"),
	}
	var samples []soakSample
	o.Progress = func(p Progress) {
		if p.Elapsed >= time.Duration(len(samples)+1)*length/24 && p.Elapsed < length { // afterwards the load falls
			samples = append(samples, soakSample{usageNow(t), p})
			t.Log(samples[len(samples)-1])
		}
	}
	s, err := Run(t.Context(), o)
	require.NoError(t, err)
	stop()
	t.Logf("%d requests, %.0f/s, errors %v, resent %d, lateness p50 %.3f ms, p99 %.3f ms, max %.1f ms, cpu %.0f s (client and mock), sent %s, received %s",
		s.Requests, float64(s.Requests)/float64(s.PhaseDuration), s.Errors, s.Resent, 1e3*s.Lateness.P50, 1e3*s.Lateness.P99, 1e3*s.Lateness.Max,
		s.Client.CPU, bytefmt.Format(s.Client.BytesSent), bytefmt.Format(s.Client.BytesReceived))
	requireNoGrowth(t, samples)
	requireAllRecords(t, o.Out, s)
	requireServed(t, s, server.Stats())
	requireNothingLeft(t, before)
}

// usage is what this process uses at an instant.
type usage struct {
	live              uint64 // bytes of the heap that are in use, after a collection
	goroutines, files int
}

func (u usage) String() string {
	return fmt.Sprintf("live memory %s, %d goroutines, %d files", bytefmt.Format(int64(u.live)), u.goroutines, u.files)
}

func usageNow(t *testing.T) usage {
	runtime.GC()
	runtime.GC() // frees what pools have kept
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	files, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip("the system does not list open files")
	}
	return usage{m.HeapAlloc, runtime.NumGoroutine(), len(files)}
}

// soakSample is the state of a soak.
type soakSample struct {
	usage
	Progress
}

func (s soakSample) String() string {
	return fmt.Sprintf("%v: %d requests, %d in flight, %d errors; %v", s.Elapsed.Round(time.Second), s.Requests, s.InFlight, s.Errors, s.usage)
}

// requireNoGrowth checks the samples: memory grows with the numbers of the summary alone, the rest stays bounded.
func requireNoGrowth(t *testing.T, samples []soakSample) {
	require.Greater(t, len(samples), 5)
	first, last := samples[len(samples)/3], samples[len(samples)-1] // before the first, everything has reached its size
	perRequest := (float64(last.live) - float64(first.live)) / float64(last.Requests-first.Requests)
	t.Logf("live memory grew by %.0f bytes for each of %d requests", perRequest, last.Requests-first.Requests)
	assert.Less(t, perRequest, float64(soakBytes))
	for _, s := range samples {
		assert.Less(t, s.goroutines, soakGoroutines*soakLanes)
		assert.Less(t, s.files, soakFiles*soakLanes)
	}
}

// requireAllRecords reads the records one by one, and compares them with the summary.
func requireAllRecords(t *testing.T, dir string, s *measure.Summary) {
	records, err := measure.OpenRecords(dir)
	require.NoError(t, err)
	defer records.Close()
	seen := make([]bool, s.Requests)
	buckets, failed, completed, chunks := map[measure.Bucket]int{}, map[wire.Category]int{}, 0, 0
	for {
		r, err := records.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		require.Less(t, r.Credit, s.Requests)
		require.False(t, seen[r.Credit], "credit %d twice", r.Credit)
		seen[r.Credit] = true
		require.LessOrEqual(t, r.Due.Seconds(), r.Sent.Seconds())
		require.LessOrEqual(t, r.Sent.Seconds(), r.End.Seconds())
		buckets[r.Bucket]++
		switch headline := r.Bucket == measure.Profiling || r.Bucket == measure.Cooldown; {
		case r.Error == nil:
			completed++
		case headline:
			failed[r.Error.Category]++
		}
		if r.Chunks > 0 && r.Contents.Len() == r.Chunks {
			chunks++
		}
	}
	require.False(t, records.Torn())
	require.False(t, slices.Contains(seen, false), "a request without a record")
	require.Equal(t, s.Errors, failed)
	require.Equal(t, s.Completed, completed)
	require.Equal(t, s.Buckets, measure.Buckets{
		Profiling: buckets[measure.Profiling], Cooldown: buckets[measure.Cooldown],
		CancelledAtEnd: buckets[measure.CancelledAtEnd], ContextOverflow: buckets[measure.ContextOverflow],
	})
	require.Positive(t, chunks)
	sum := 0
	for _, n := range s.Errors {
		sum += n
	}
	require.Equal(t, s.Requests, s.Completed+sum+s.Buckets.CancelledAtEnd+s.Buckets.ContextOverflow)
	b := s.Branches
	require.Equal(t, b.ChildrenResumed+b.ChildrenSpawned, b.ChildrenCompleted+b.ChildrenErrored+b.ChildrenTruncated)
	require.Equal(t, b.TreesOpened, b.TreesDrained+b.TreesReleased)
}

// requireServed compares the counts of the client with those of the server. A request that is sent again arrives twice, one that was
// cancelled, or whose connection broke, perhaps never.
func requireServed(t *testing.T, s *measure.Summary, served mock.Stats) {
	lost := s.Errors[wire.Connection] + s.Errors[wire.Timeout] + s.Buckets.CancelledAtEnd
	require.LessOrEqual(t, int(served.Requests), s.Requests+s.Resent)
	require.GreaterOrEqual(t, int(served.Requests), s.Requests-lost)
	for _, kind := range slices.Sorted(maps.Keys(served.Faults)) {
		if kind != "flood" && kind != "comments" { // which a short soak may miss
			assert.Positive(t, served.Faults[kind], kind)
		}
	}
	require.Greater(t, len(s.Errors), 5)
}

// requireNothingLeft waits until the goroutines, files and memory of a run are gone.
func requireNothingLeft(t *testing.T, before usage) {
	var after usage
	for range 100 {
		debug.FreeOSMemory()
		if after = usageNow(t); after.goroutines <= before.goroutines+2 && after.files <= before.files+2 {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Logf("before: %v; after: %v", before, after)
	require.LessOrEqual(t, after.goroutines, before.goroutines+2) // of the connections that a keep-alive timer closes
	require.LessOrEqual(t, after.files, before.files+2)
	require.Less(t, int64(after.live)-int64(before.live), int64(soakLeft))
}

// TestManyLanes plays 4,096 lanes against a mock in this process that takes four seconds for an answer, so that almost all of them
// have a request in flight. It reports what a lane costs. make test-load runs it.
func TestManyLanes(t *testing.T) {
	if os.Getenv("AGENTX_LOAD") == "" {
		t.Skip("make test-load runs it")
	}
	const lanes = 4096
	server := mock.New(mock.Config{TTFT: 4 * time.Second})
	c := cachetest.Demo(t)
	url, stop := serve(t, server)
	before := usageNow(t)
	stacks := stackBytes()
	var busiest soakSample
	var stack uint64
	o := Options{
		Cache: c, URLs: []string{url}, Model: "m", Marker: payload.FirstTurnPrefix, SkipPreflight: true, Concurrency: lanes, AllowWrap: true,
		Duration: 20 * time.Second, Pace: Pace{ASAP: true}, Switches: withoutTreeIdle(), Backoff: Backoff{First: Off}, Out: filepath.Join(t.TempDir(), "out"),
	}
	o.Progress = func(p Progress) {
		if p.InFlight > busiest.InFlight {
			busiest, stack = soakSample{usageNow(t), p}, stackBytes()-stacks
		}
	}
	s, err := Run(t.Context(), o)
	require.NoError(t, err)
	stop()
	live := busiest.live - before.live
	t.Logf("%v", busiest)
	t.Logf("a lane and its half of the mock: %s of live memory, %s of stacks, %.1f goroutines, %.1f files; resident at its peak %s in all",
		bytefmt.Format(int64(live/lanes)), bytefmt.Format(int64(stack/lanes)), float64(busiest.goroutines)/lanes, float64(busiest.files)/lanes, bytefmt.Format(int64(s.Client.PeakRSS)))
	t.Logf("%d requests, errors %v, %.1f lanes with a request in flight, first requests from %.3f to %.3f s, lateness p50 %.2f ms, p99 %.2f ms, cpu %.1f s (client and mock)",
		s.Requests, s.Errors, s.Fidelity.Lanes.InFlight, s.Lanes.FirstRequest.First, s.Lanes.FirstRequest.Last, 1e3*s.Lateness.P50, 1e3*s.Lateness.P99, s.Client.CPU)
	require.Equal(t, lanes, s.Lanes.Started)
	require.Empty(t, s.Errors)
	require.Greater(t, busiest.InFlight, lanes*9/10)
	require.Less(t, live/lanes, uint64(256<<10))
	requireAllRecords(t, o.Out, s)
}

func stackBytes() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.StackInuse
}
