package replay

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/mock"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/merge"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/wire"
)

// The command names settings so.
func init() { preset.Prefix = "--" }

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) {
		cachetest.RemoveRoot()
		os.Exit(status)
	}))
}

// copyOf copies a cache to a root of its own, for tests that damage it.
func copyOf(t *testing.T, c *mmapcache.Cache) *mmapcache.Cache {
	t.Helper()
	dir := t.TempDir()
	for kind, part := range c.Manifest.Parts {
		require.NoError(t, os.CopyFS(filepath.Join(dir, kind, part.Key), os.DirFS(filepath.Join(c.Root, kind, part.Key))))
	}
	require.NoError(t, os.CopyFS(filepath.Join(dir, mmapcache.DatasetKind, c.Manifest.Key), os.DirFS(c.Path())))
	return cachetest.Open(t, dir, c.Manifest.Key)
}

// cut empties a file of a cache while it is in use.
func cut(t *testing.T, c *mmapcache.Cache, name string) {
	found := false
	require.NoError(t, filepath.WalkDir(c.Root, func(path string, d fs.DirEntry, err error) error {
		if d.Name() == name {
			found = true
			return os.Truncate(path, 0)
		}
		return err
	}))
	require.True(t, found)
}

// serve runs a handler on the loopback interface until stop is called or the test ends.
func serve(t testing.TB, h http.Handler) (url string, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var open sync.WaitGroup
	s := &http.Server{Handler: h, ConnState: func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed, http.StateHijacked:
			open.Done()
		}
	}}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(l) }() // ends with ErrServerClosed
	stop = sync.OnceFunc(func() { _ = s.Close() })
	t.Cleanup(func() {
		stop()
		<-done
		open.Wait()
	})
	return "http://" + l.Addr().String(), stop
}

// mocked starts a mock server.
func mocked(t testing.TB, config mock.Config) (*mock.Server, string) {
	s := mock.New(config)
	url, _ := serve(t, s)
	return s, url
}

// optionsFor are options that play a cache on four lanes without gaps and pauses.
func optionsFor(t testing.TB, c *mmapcache.Cache, url string) Options {
	var ids atomic.Int64
	return Options{
		Cache: c, URLs: []string{url}, Model: "some/model", Endpoint: payload.Completions, Marker: payload.NoMarker, Concurrency: 4, Pace: Pace{ASAP: true},
		Limits: Limits{LaneStart: Off}, Switches: withoutTreeIdle(), Grace: Off, Backoff: Backoff{First: Off}, SkipPreflight: true, Scrape: Scrape{Off: true},
		Out: filepath.Join(t.TempDir(), "out"), NewID: func() string { return fmt.Sprintf("id-%d", ids.Add(1)) },
	}
}

// played is the summary and the records of a run.
type played struct {
	*measure.Summary
	records []measure.Record
}

// play runs a replay and checks that its results are consistent.
func play(t *testing.T, ctx context.Context, o Options) played {
	t.Helper()
	s, err := Run(ctx, o)
	require.NoError(t, err)
	p := played{s, readRecords(t, o.Out)}
	p.requireConsistent(t, o)
	return p
}

func readRecords(t testing.TB, dir string) (list []measure.Record) {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, RecordsFile))
	require.NoError(t, err)
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var r measure.Record
		require.NoError(t, json.Unmarshal(lines.Bytes(), &r))
		list = append(list, r)
	}
	require.NoError(t, lines.Err())
	return list
}

// requireIdentified checks that every record, however its request ended, has its number in its phase, its place in its tree and
// its instants (H37, H26).
func requireIdentified(t testing.TB, records []measure.Record) {
	t.Helper()
	credits := map[string][]int{}
	for _, r := range records {
		credits[r.Phase] = append(credits[r.Phase], r.Credit)
		require.NotEmpty(t, r.RootID, "%+v", r)
		require.NotEmpty(t, r.CorrelationID, "%+v", r)
		require.Equal(t, r.Parent == "", r.ParentID == "", "%+v", r)
		require.Equal(t, r.Parent == "", r.Depth == 0, "%+v", r)
		require.Equal(t, r.Parent == "", r.RootID == r.CorrelationID, "%+v", r)
		require.Equal(t, r.Depth == 1, r.RootID == r.ParentID, "%+v", r)
		require.LessOrEqual(t, r.Due.Seconds(), r.Admitted.Seconds())
		require.LessOrEqual(t, r.Admitted.Seconds(), r.Sent.Seconds())
		require.LessOrEqual(t, r.Sent.Seconds(), r.End.Seconds())
		require.Equal(t, r.Error != nil && r.Error.Category == wire.Cancelled, r.CancelledAt > 0, "%+v", r)
	}
	for phase, list := range credits {
		slices.Sort(list)
		for k, n := range list {
			require.Equal(t, k, n, "%s: credits are the numbers from 0", phase)
		}
	}
}

// requireContents reads the instants of the content messages of all records. The first, the second and the last are those of the
// record.
func requireContents(t testing.TB, dir string) {
	t.Helper()
	records, err := measure.OpenRecords(dir)
	require.NoError(t, err)
	defer records.Close()
	var r *measure.Record
	for r, err = records.Next(); err == nil; r, err = records.Next() {
		var instants []int64
		for at := range r.Contents.All() {
			instants = append(instants, int64(r.Sent)+int64(at))
		}
		require.Len(t, instants, r.Chunks)
		if n := len(instants); n > 0 {
			require.Equal(t, int64(r.FirstToken), instants[0])
			require.Equal(t, int64(r.LastToken), instants[n-1])
			if n > 1 {
				require.Equal(t, int64(r.SecondToken), instants[1])
			}
		}
	}
	require.ErrorIs(t, err, io.EOF)
	require.NoError(t, records.ContentsError())
	require.False(t, records.Torn())
}

// requireConsistent compares summary, summary.json and records with each other, and with the rules of a replay.
func (p played) requireConsistent(t *testing.T, o Options) {
	t.Helper()
	written, err := os.ReadFile(filepath.Join(o.Out, SummaryFile))
	require.NoError(t, err)
	var again measure.Summary
	require.NoError(t, json.Unmarshal(written, &again))
	require.Equal(t, p.Requests, again.Requests)
	require.Equal(t, p.Buckets, again.Buckets)

	_, missing, err := rebuildSummary(o.Out)
	require.NoError(t, err)
	require.Empty(t, missing)
	rebuilt, err := os.ReadFile(filepath.Join(o.Out, SummaryFile))
	require.NoError(t, err)
	require.Equal(t, string(written), string(rebuilt), "made again from the records")
	requireContents(t, o.Out)
	requireIdentified(t, p.records)

	require.Len(t, p.records, p.Requests)
	b, failed := p.Buckets, 0
	for _, n := range p.Errors {
		failed += n
	}
	require.Equal(t, p.Requests, b.Profiling+b.Cooldown+b.CancelledAtEnd+b.ContextOverflow)
	require.Equal(t, p.Requests, p.Completed+failed+b.CancelledAtEnd+b.ContextOverflow)
	require.EqualValues(t, p.DeadlockedTrees, p.Branches.TreesDeadlocked)
	c := p.Branches
	require.Equal(t, c.ChildrenResumed+c.ChildrenSpawned, c.ChildrenCompleted+c.ChildrenErrored+c.ChildrenTruncated)
	require.Equal(t, c.ParentsSuspended, c.ParentsResumed+c.JoinsSuppressed)
	require.Equal(t, c.TreesOpened, c.TreesDrained+c.TreesReleased)

	type session struct {
		tree int
		name string
	}
	buckets, errors, completed := map[measure.Bucket]int{}, map[wire.Category]int{}, 0
	ends, next := map[session]float64{}, map[session]int{}
	requests, correlations := map[string]bool{}, map[string]session{}
	turn := map[session]map[int]measure.Record{}
	for _, r := range p.records {
		buckets[r.Bucket]++
		switch {
		case r.Error == nil:
			completed++
		case r.Bucket == measure.Profiling || r.Bucket == measure.Cooldown:
			errors[r.Error.Category]++
		}
		require.GreaterOrEqual(t, r.Sent.Seconds(), r.Due.Seconds())
		require.GreaterOrEqual(t, r.End.Seconds(), r.Sent.Seconds())
		require.False(t, requests[r.RequestID], "a request id twice")
		requests[r.RequestID] = true
		s := session{r.Tree, r.Session}
		if of, ok := correlations[r.CorrelationID]; ok {
			require.Equal(t, of, s, "a correlation id of two sessions")
		}
		correlations[r.CorrelationID] = s
		for _, other := range turn[s] {
			require.Equal(t, other.CorrelationID, r.CorrelationID, "a session with two correlation ids")
		}
		if turn[s] == nil {
			turn[s] = map[int]measure.Record{}
		}
		turn[s][r.Turn] = r
	}
	for s, list := range turn {
		first := slices.Min(slices.Collect(maps.Keys(list)))
		if first > 0 { // only the first tree of a lane may be taken up in the middle
			require.True(t, o.Start.Sampled && s.tree < o.Concurrency, "%v begins with turn %d", s, first)
			next[s] = first
		}
		for k := first; k < first+len(list); k++ {
			r, ok := list[k]
			require.True(t, ok, "turn %d of %v was skipped", k, s)
			require.Equal(t, next[s], k)
			require.LessOrEqual(t, ends[s], r.Sent.Seconds(), "two requests of a session at a time")
			ends[s], next[s] = r.End.Seconds(), k+1
		}
	}
	require.Equal(t, measure.Buckets{
		Profiling: buckets[measure.Profiling], Cooldown: buckets[measure.Cooldown],
		CancelledAtEnd: buckets[measure.CancelledAtEnd], ContextOverflow: buckets[measure.ContextOverflow],
	}, p.Buckets)
	require.Equal(t, errors, p.Errors)
	require.Equal(t, completed, p.Completed)
	require.Equal(t, o.Concurrency, p.Lanes.N)
}

// withoutTreeIdle returns the switches of the preset default without a cap on the idle time of trees.
func withoutTreeIdle() *preset.Switches {
	s, _ := preset.Named(preset.Default)
	s.TreeIdleCap = nil
	return &s
}

// withoutGrace returns the switches of the preset default, but requests that end in the grace are those of the cooldown.
func withoutGrace() *preset.Switches {
	s, _ := preset.Named(preset.Default)
	s.CountGrace = false
	return &s
}

// rebuildSummary computes the summary of a run again and writes it, as agentx report does.
func rebuildSummary(dir string) (*measure.Summary, []string, error) {
	run, err := merge.Open(dir, merge.Options{})
	if err != nil {
		return nil, nil, err
	}
	s, missing, err := Summarize(run, nil)
	if err != nil {
		return nil, nil, err
	}
	return s, missing, WriteSummary(dir, s)
}
