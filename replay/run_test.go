package replay

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/mock"
	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/wire"
)

func TestServerCountsThePromptsThatWereRecorded(t *testing.T) {
	server, url := mocked(t, mock.Config{})
	o := optionsFor(t, cachetest.Demo(t), url)
	p := play(t, context.Background(), o)
	require.Equal(t, 197, p.Requests)
	require.Equal(t, 197, p.Completed)
	require.Equal(t, 16, p.Trees)
	sum := int64(0)
	for _, r := range p.records {
		require.Equal(t, r.RecordedISL, r.PromptTokens.N())
		require.Equal(t, r.MaxTokens, r.OutputTokens.N())
		sum += r.RecordedISL
	}
	require.EqualValues(t, 1318406, sum)
	require.EqualValues(t, sum, server.Stats().PromptTokens)
	require.EqualValues(t, sum, p.PromptTokens)
	require.EqualValues(t, p.Requests, server.Stats().Requests)
}

func TestMarkerIsCountedByTheServer(t *testing.T) {
	_, url := mocked(t, mock.Config{})
	o := optionsFor(t, cachetest.Demo(t), url)
	o.Marker = payload.FirstTurnPrefix
	pieces := o.Cache.Arenas.Marker
	for _, r := range play(t, context.Background(), o).records {
		tokens := len(pieces.Open) + len(pieces.Close) + len(pieces.Newlines)
		for _, digit := range payload.NewMarker("id-1", r.Pass, r.Lane, r.Trace) { // digits differ in length
			tokens += len(pieces.Hex[strings.IndexRune("0123456789abcdef", digit)])
		}
		require.EqualValues(t, r.RecordedISL+int64(tokens), r.PromptTokens.N())
	}
}

// Without a marker the second pass over a trace finds its whole prompts in the server's prefix cache. With a marker it
// finds only what stands before it.
func TestServerFindsWhatWasSentBefore(t *testing.T) {
	c := cachetest.Demo(t)
	blocks := func(tokens int64) int64 { return tokens / mock.BlockTokens * mock.BlockTokens }
	for _, target := range []payload.MarkerTarget{payload.NoMarker, payload.FirstTurnPrefix, payload.SystemPrefix, payload.FirstTurnSuffix, payload.SystemSuffix} {
		_, url := mocked(t, mock.Config{})
		o := optionsFor(t, c, url)
		o.Concurrency, o.Trees, o.Marker = 1, 32, target
		again := 0
		for _, r := range play(t, context.Background(), o).records {
			if r.Pass == 0 || r.Turn > 0 || r.Parent != "" {
				continue
			}
			again++
			want := blocks(r.RecordedISL)
			if target != payload.NoMarker {
				want = blocks(before(t, c, r, target.Place()) + alike(c, r, target.Place()))
			}
			require.Equal(t, want, r.CachedTokens.N(), "%s, %s", r.Trace, target)
		}
		require.Equal(t, 16, again)
	}
}

// alike returns the tokens with which the marker of a tree begins like that of the tree that played its trace before.
func alike(c *mmapcache.Cache, r measure.Record, place mmapcache.MarkerPlace) int64 {
	pieces := c.Arenas.Marker
	n := len(pieces.Open)
	if place.After {
		n += len(pieces.Newlines)
	}
	now, then := payload.NewMarker("id-1", r.Pass, r.Lane, r.Trace), payload.NewMarker("id-1", r.Pass-1, r.Lane, r.Trace)
	for k := 0; now[k] == then[k]; k++ {
		n += len(pieces.Hex[strings.IndexByte("0123456789abcdef", now[k])])
	}
	return int64(n)
}

// before returns the tokens that stand before the marker of a root's first turn.
func before(t *testing.T, c *mmapcache.Cache, r measure.Record, place mmapcache.MarkerPlace) (n int64) {
	require.NoError(t, c.EachTurn(t.Context(), mmapcache.Selection{Trace: r.Trace, Session: r.Session, Turn: new(int)}, mmapcache.IDs, func(tree *mmapcache.RenderedTrace, _, turn int) error {
		var p mmapcache.Prompt
		tree.Prompt(turn, &p)
		for k, m := range p.Messages {
			at := m.Role == mmapcache.User || place.System && m.Role == mmapcache.System
			if at && !place.After {
				break
			}
			n += int64(len(p.AppendTokenIDs(nil, k)))
			if at {
				break
			}
		}
		return nil
	}))
	return n
}

func TestChatIsAnsweredLikeCompletions(t *testing.T) {
	_, url := mocked(t, mock.Config{})
	o := optionsFor(t, cachetest.Demo(t), url)
	o.Endpoint, o.Marker, o.Out = payload.ChatCompletions, payload.FirstTurnPrefix, ""
	s, err := Run(context.Background(), o)
	require.NoError(t, err)
	require.Equal(t, 197, s.Completed)
	require.Empty(t, s.Records)
}

// Every turn is due its gap after the end of the turn before it, and after the requests that it waits for.
func TestGapsArePlayed(t *testing.T) {
	_, url := mocked(t, mock.Config{})
	c := cachetest.Demo(t)
	o := optionsFor(t, c, url)
	o.Concurrency, o.Pace = 16, Pace{Speed: 1000}
	p := play(t, context.Background(), o)
	require.Equal(t, 197, p.Completed)
	type key struct {
		session string
		turn    int
	}
	ends := map[key]float64{}
	for _, r := range p.records {
		ends[key{r.Session, r.Turn}] = r.End.Seconds()
	}
	for i := range c.Traces() {
		plan := cachetest.Plan(c, i)
		s, err := newSchedule(plan, view{pace: o.Pace}, c.Facts.Rules)
		require.NoError(t, err)
		for _, r := range p.records {
			if r.Trace != plan.Trace.ID || r.Turn == 0 {
				continue
			}
			for n, session := range plan.Sessions {
				if session.ID != r.Session {
					continue
				}
				turn := s.Sessions[n].Turns[r.Turn]
				due := ends[key{r.Session, r.Turn - 1}] + turn.Delay.Seconds()
				for _, b := range turn.Joins {
					for _, child := range s.Branches[b].Sessions {
						due = max(due, ends[key{plan.Sessions[child].ID, int(plan.Sessions[child].Turns) - 1}])
					}
				}
				for _, a := range turn.After {
					due = max(due, ends[key{plan.Sessions[a.Session].ID, a.Turn}])
				}
				require.InDelta(t, due, r.Due.Seconds(), 1e-9)
			}
		}
	}
}

func TestBounds(t *testing.T) {
	_, url := mocked(t, mock.Config{})
	c := cachetest.Demo(t)
	for name, bound := range map[string]struct {
		set  func(*Options)
		want func(*testing.T, played)
	}{
		"requests":                       {func(o *Options) { o.Requests = 123 }, func(t *testing.T, p played) { require.Equal(t, 123, p.Requests) }},
		"trees":                          {func(o *Options) { o.Trees = 21 }, func(t *testing.T, p played) { require.Equal(t, 21, p.Trees) }},
		"once":                           {func(*Options) {}, func(t *testing.T, p played) { require.Equal(t, 197, p.Requests) }},
		"traces":                         {func(o *Options) { o.Traces = 3 }, func(t *testing.T, p played) { require.Equal(t, 3, p.Trees) }},
		"of several the first: requests": {func(o *Options) { o.Requests, o.Trees, o.Duration, o.Once = 5, 9, time.Hour, true }, func(t *testing.T, p played) { require.Equal(t, 5, p.Requests) }},
		"of several the first: trees":    {func(o *Options) { o.Trees, o.Requests, o.Duration, o.Once = 4, 1000, time.Hour, true }, func(t *testing.T, p played) { require.Equal(t, 4, p.Trees) }},
		"of several the first: once":     {func(o *Options) { o.Trees, o.Requests, o.Duration, o.Once = 40, 1000, time.Hour, true }, func(t *testing.T, p played) { require.Equal(t, 197, p.Requests) }},
		"more lanes than traces": {func(o *Options) { o.Concurrency = 40 }, func(t *testing.T, p played) {
			require.Equal(t, 16, p.Lanes.Started)
			require.Equal(t, 197, p.Requests)
		}},
		"more lanes than traces, again and again": {func(o *Options) { o.Concurrency, o.Requests, o.AllowWrap = 40, 300, true }, func(t *testing.T, p played) {
			require.Equal(t, 40, p.Lanes.Started)
			require.Equal(t, 300, p.Completed)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			o := optionsFor(t, c, url)
			bound.set(&o)
			bound.want(t, play(t, context.Background(), o))
		})
	}
}

// absorb reads the body of a request and leaves it to be read again. A server notices a closed connection only after it
// has read the body.
func absorb(r *http.Request) {
	body, _ := io.ReadAll(r.Body) // the next reader refuses half a body
	r.Body = io.NopCloser(bytes.NewReader(body))
}

func TestResentIsRecorded(t *testing.T) {
	var r measure.Record
	fillRecord(&r, &wire.Result{Transfer: wire.Transfer{Resent: true}})
	require.True(t, r.Resent)
}

// A run in which no trace can be played ends before anything is made.
func TestNoTraceCanBePlayed(t *testing.T) {
	o := optionsFor(t, cachetest.Demo(t), unreachable)
	r := newRun(o.WithDefaults())
	defer r.close()
	for trace := range 16 {
		r.sampler.skipped[trace] = true
	}
	require.ErrorContains(t, r.prepare(t.Context()), "replay: none of 16 traces can be played: see the warnings")
	require.NoDirExists(t, o.Out)
}

func TestURLThatCannotBeUsed(t *testing.T) {
	o := optionsFor(t, cachetest.Demo(t), "ftp://127.0.0.1:1")
	_, err := Run(context.Background(), o)
	require.ErrorContains(t, err, "ftp")
}

func TestTwoRunsShareACache(t *testing.T) {
	_, url := mocked(t, mock.Config{})
	c := cachetest.Demo(t)
	type result struct {
		s   *measure.Summary
		err error
	}
	results := make(chan result)
	var all []Options
	for range 2 {
		o := optionsFor(t, c, url)
		all = append(all, o)
		go func() {
			s, err := Run(context.Background(), o)
			results <- result{s, err}
		}()
	}
	for range all {
		r := <-results
		require.NoError(t, r.err)
		require.Equal(t, 197, r.s.Completed)
	}
	what := func(o Options) (keys []string) {
		for _, r := range readRecords(t, o.Out) {
			keys = append(keys, r.Session+"#"+strings.Repeat("+", r.Turn))
		}
		sort.Strings(keys)
		return keys
	}
	require.Equal(t, what(all[0]), what(all[1]))
}

// Requests carry the ids of request and session, and the header of the caller.
func TestHeaders(t *testing.T) {
	server := mock.New(mock.Config{})
	var mu sync.Mutex
	var bad error
	url, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		if r.Header.Get("X-Session-Affinity") != r.Header.Get("X-Correlation-ID") || r.Header.Get("X-Request-ID") == "" ||
			r.Header.Get("X-Extra") != "1" || r.Header.Get("Authorization") != "Bearer secret" || r.URL.Path != "/v1/completions" {
			bad = errors.New("a header is missing: " + r.URL.Path)
		}
		mu.Unlock()
		server.ServeHTTP(w, r)
	}))
	o := optionsFor(t, cachetest.Demo(t), url)
	o.Header, o.APIKey, o.Requests = []wire.HeaderField{{Name: "X-Extra", Value: "1"}}, "secret", 20
	o.NewID = nil // random ones
	p := play(t, context.Background(), o)
	require.Equal(t, 20, p.Completed)
	require.NoError(t, bad)
	require.Len(t, p.records[0].RequestID, 36)
}

// waitForEachOther makes two turns of a tree wait for each other: the turn of the root after one that spawns, and a turn of a
// child. It returns the trace and the turn of the root.
func waitForEachOther(r *run) (name string, turn int) {
	for _, l := range r.sampler.lanes {
		root := l.Sessions[0].Turns
		for _, b := range l.Branches {
			child := b.Sessions[0]
			if turn = b.Spawn + 1; turn < len(root) && len(root[turn].Joins) == 0 && len(l.Sessions[child].Turns) > 1 {
				root[turn].After = []conductor.TurnRef{{Session: child, Turn: 1}}
				l.Sessions[child].Turns[1].After = []conductor.TurnRef{{Session: 0, Turn: turn}}
				return l.plan.Trace.ID, turn
			}
		}
	}
	return "", 0
}

// playDeadlocked plays a run in which two turns of a tree wait for each other. It returns the trace of the tree, and the turn of
// its root.
func playDeadlocked(t *testing.T, o Options) (s *measure.Summary, name string, turn int) {
	r := newRun(o.WithDefaults())
	defer r.close()
	require.NoError(t, r.prepare(t.Context()))
	require.NoError(t, r.open(t.Context()))
	require.NoError(t, r.start())
	name, turn = waitForEachOther(r)
	require.NotEmpty(t, name)
	s, err := r.play(t.Context())
	require.NoError(t, err)
	require.NoError(t, r.results.write(s))
	return s, name, turn
}

// A tree in which two turns wait for each other is reported by name, and its lane goes on.
func TestDeadlockedTreesAreReportedByName(t *testing.T) {
	_, url := mocked(t, mock.Config{})
	o := optionsFor(t, cachetest.Demo(t), url)
	var warned []string
	o.Concurrency, o.Warn = 16, func(about string) { warned = append(warned, about) }
	s, name, turn := playDeadlocked(t, o)
	require.EqualValues(t, 1, s.DeadlockedTrees)
	require.Equal(t, []string{"wedged_tree"}, s.Reasons)
	require.Nil(t, s.Valid)
	require.Equal(t, 16, s.Branches.TreesDrained)
	require.Less(t, s.Requests, 197)
	require.Len(t, s.Deadlocks, 1)
	w := s.Deadlocks[0]
	require.Equal(t, name, w.Trace)
	require.Equal(t, "returned", w.Last.Kind)
	require.NotEmpty(t, w.Root)
	require.Len(t, w.Blocked, 2)
	require.Equal(t, []string{w.Blocked[1].Session + "#1"}, w.Blocked[0].WaitsFor)
	require.Equal(t, []string{fmt.Sprintf("%s#%d", name, turn)}, w.Blocked[1].WaitsFor)
	require.Equal(t, "predecessor", w.Blocked[0].BlockedBy)
	require.Len(t, warned, 2)
	require.Contains(t, warned[0], "buffered answers") // the mock sends each at once
	require.Contains(t, warned[1], fmt.Sprintf("trace %q is deadlocked", name))
	played{s, readRecords(t, o.Out)}.requireConsistent(t, o)
}

func readLanes(t *testing.T, dir string) (lanes []measure.LaneReport) {
	data, err := os.ReadFile(filepath.Join(dir, LanesFile))
	require.NoError(t, err)
	for line := range strings.Lines(string(data)) {
		var l measure.LaneReport
		require.NoError(t, json.Unmarshal([]byte(line), &l))
		lanes = append(lanes, l)
	}
	return lanes
}

// Every lane has a line in the file of lanes, even a lane that had nothing to play.
func TestLanesAreReported(t *testing.T) {
	_, url := mocked(t, mock.Config{})
	o := optionsFor(t, cachetest.Demo(t), url)
	o.Concurrency, o.Start = 20, Start{Sampled: true}
	p := play(t, context.Background(), o)
	lanes := readLanes(t, o.Out)
	require.Len(t, lanes, 20)
	requests, trees := 0, 0
	for k, l := range lanes {
		require.Equal(t, k, l.Lane)
		requests, trees = requests+l.Requests, trees+l.Trees
		if k < 16 {
			require.False(t, l.FirstRequest.IsMissing())
			require.False(t, l.TStar.IsMissing())
			require.False(t, l.Finished.IsMissing())
		} else {
			require.Empty(t, l.Trace)
			require.Zero(t, l.Trees)
			require.True(t, l.FirstRequest.IsMissing())
		}
	}
	require.Equal(t, p.Requests, requests)
	require.Equal(t, 16, trees)
	require.Less(t, p.Requests, 197)
	first := map[int]measure.Record{} // by lane: what was before t* is not sent
	for _, r := range p.records {
		if f, ok := first[r.Lane]; !ok || r.Sent.Seconds() < f.Sent.Seconds() {
			first[r.Lane] = r
		}
	}
	later := 0
	for _, r := range first {
		later += min(1, r.Turn)
	}
	require.Greater(t, later, 8)
}

// More lanes than traces need AllowWrap, or a marker, of which there is a warning.
func TestMoreLanesThanTraces(t *testing.T) {
	o := optionsFor(t, cachetest.Demo(t), unreachable)
	o.Concurrency, o.Requests = 17, 20
	_, err := Run(t.Context(), o)
	require.ErrorContains(t, err, "17 lanes, but 16 distinct traces")
	require.NoDirExists(t, o.Out, "refused before anything was made")
	var warned []string
	o.Marker, o.Warn = payload.FirstTurnPrefix, func(about string) { warned = append(warned, about) }
	r := newRun(o.WithDefaults())
	require.NoError(t, r.prepare(t.Context()))
	r.close()
	require.Equal(t, []string{"17 lanes share 16 traces: each tree has a cache-bust marker of its own"}, warned)
}
