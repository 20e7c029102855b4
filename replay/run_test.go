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
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/internal/mock"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
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
		require.Equal(t, r.RecordedISL, *r.PromptTokens)
		require.Equal(t, r.MaxTokens, *r.OutputTokens)
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
		require.EqualValues(t, r.RecordedISL+int64(tokens), *r.PromptTokens)
	}
}

// TestServerFindsWhatWasSentBefore: without a marker the second pass finds all of it in the server's cache; with one
// only what stands before the first user message, or nothing.
func TestServerFindsWhatWasSentBefore(t *testing.T) {
	c := cachetest.Demo(t)
	blocks := func(tokens int64) int64 { return tokens / mock.BlockTokens * mock.BlockTokens }
	for _, target := range []payload.MarkerTarget{payload.NoMarker, payload.FirstTurnPrefix, payload.SystemPrefix} {
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
			switch target {
			case payload.FirstTurnPrefix:
				want = blocks(before(t, c, r))
				require.Less(t, want, blocks(r.RecordedISL))
			case payload.SystemPrefix:
				want = 0
			}
			require.Equal(t, want, *r.CachedTokens, "%s, %s", r.Trace, target)
		}
		require.Equal(t, 16, again)
	}
}

// before returns the tokens that stand before the first user message of a root's first turn.
func before(t *testing.T, c *mmapcache.Cache, r measure.Record) (n int64) {
	require.NoError(t, c.EachTurn(t.Context(), mmapcache.Selection{Trace: r.Trace, Session: r.Session, Turn: new(int)}, mmapcache.IDs, func(tree *mmapcache.RenderedTrace, _, turn int) error {
		var p mmapcache.Prompt
		tree.Prompt(turn, &p)
		for k := 0; p.Messages[k].Role != mmapcache.User; k++ {
			n += int64(len(p.AppendTokenIDs(nil, k)))
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

// TestGapsArePlayed: every turn is due at the end of the one before and the gap, children where they were recorded.
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
		ends[key{r.Session, r.Turn}] = r.End
	}
	for i := range c.Structure.Traces.Len() {
		plan := c.Structure.Plan(i)
		s, err := newSchedule(plan, o.Pace, c.Facts.Rules)
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
				require.InDelta(t, due, r.Due, 1e-9)
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

// faults are the categories that every fault of the mock ends in.
var faults = map[string]wire.Category{
	"refuse": wire.Connection, "reset": wire.Connection, "reset-mid": wire.Connection, "cut-chunk": wire.Connection,
	"status=NNN": wire.HTTPStatus, "status-plain=NNN": wire.HTTPStatus,
	"stall": wire.Timeout, "stall-mid": wire.Timeout,
	"empty": wire.NoContent, "not-json": wire.NoContent, "garbage": wire.StreamTruncated, "cut": wire.StreamTruncated,
	"error-event": wire.StreamEvent, "error-payload": wire.StreamPayload,
	"overflow": wire.ContextOverflow,
}

func TestEveryFaultEndsInItsCategory(t *testing.T) {
	c := cachetest.Demo(t)
	require.Len(t, faults, len(mock.FaultKinds))
	for _, kind := range mock.FaultKinds {
		t.Run(kind.Name, func(t *testing.T) {
			want, ok := faults[kind.Name]
			require.True(t, ok, "a fault this test does not know")
			_, url := mocked(t, mock.Config{Faults: []mock.Fault{{Kind: strings.ReplaceAll(kind.Name, "NNN", "500"), Rate: 1}}})
			o := optionsFor(t, c, url)
			o.Requests = 12
			if want == wire.Timeout {
				o.Timeout = 30 * time.Millisecond
			}
			p := play(t, context.Background(), o)
			require.Equal(t, 12, p.Requests)
			require.Zero(t, p.Completed)
			if want == wire.ContextOverflow {
				require.Equal(t, 12, p.Buckets.ContextOverflow)
				require.Empty(t, p.Errors)
				for _, r := range p.records {
					require.Zero(t, r.Turn, "a session that overflowed went on")
				}
			} else {
				require.Equal(t, map[wire.Category]int{want: 12}, p.Errors)
			}
			for _, r := range p.records {
				require.NotEmpty(t, r.Error.Message)
			}
		})
	}
}

func TestSomeFaultsLeaveTheOthersAlone(t *testing.T) {
	config := mock.Config{Seed: 7}
	for name, category := range faults {
		if category != wire.Timeout && category != wire.ContextOverflow {
			config.Faults = append(config.Faults, mock.Fault{Kind: strings.ReplaceAll(name, "NNN", "429"), Rate: 0.05})
		}
	}
	server, url := mocked(t, config)
	p := play(t, context.Background(), optionsFor(t, cachetest.Demo(t), url))
	require.Equal(t, 197, p.Requests, "errors end no session")
	require.Greater(t, p.Completed, 50)
	played := map[wire.Category]int{}
	for name, category := range faults {
		played[category] += int(server.Stats().Faults[strings.ReplaceAll(name, "NNN", "429")])
	}
	for _, category := range []wire.Category{wire.HTTPStatus, wire.NoContent, wire.StreamTruncated, wire.StreamEvent, wire.StreamPayload} {
		require.Positive(t, played[category])
		require.Equal(t, played[category], p.Errors[category], category)
	}
	require.Positive(t, p.Errors["connection"])
	require.Positive(t, p.Resent, "on a kept connection that was closed instead of an answer")
	require.Equal(t, played[wire.Connection], p.Errors["connection"]+p.Resent)
	require.EqualValues(t, 197+p.Resent, server.Stats().Requests, "nothing else is sent again")
}

// nobody is where nobody listens.
const nobody = "http://127.0.0.1:1"

func TestServerThatIsDown(t *testing.T) {
	p := play(t, context.Background(), optionsFor(t, cachetest.Demo(t), nobody))
	require.Equal(t, 197, p.Requests)
	require.Equal(t, map[wire.Category]int{"connection": 197}, p.Errors)
	require.True(t, p.TTFT.P50.IsMissing())
}

func TestServerThatGoesAway(t *testing.T) {
	server := mock.New(mock.Config{})
	var requests atomic.Int64
	away := make(chan struct{})
	url, stop := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		absorb(r)
		switch n := requests.Add(1); {
		case n == 20:
			close(away)
			fallthrough
		case n > 20:
			<-r.Context().Done()
		default:
			server.ServeHTTP(w, r)
		}
	}))
	go func() {
		<-away
		stop()
	}()
	p := play(t, context.Background(), optionsFor(t, cachetest.Demo(t), url))
	require.Equal(t, 197, p.Requests)
	require.Equal(t, map[wire.Category]int{"connection": 197 - p.Completed}, p.Errors)
	require.Positive(t, p.Completed)
	require.LessOrEqual(t, p.Completed, 19)
}

// absorb reads the body of a request, and leaves it to be read again. Only then does a server notice that its client,
// or it itself, closes the connection.
func absorb(r *http.Request) {
	body, _ := io.ReadAll(r.Body) // half a body is refused by who reads it
	r.Body = io.NopCloser(bytes.NewReader(body))
}

// gate is a server that answers nobody before it is opened.
type gate struct {
	server  *mock.Server
	arrived chan struct{} // one for every request
	opened  chan struct{}
}

func newGate() *gate {
	return &gate{mock.New(mock.Config{}), make(chan struct{}, 10_000), make(chan struct{})}
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	absorb(r)
	g.arrived <- struct{}{}
	select {
	case <-g.opened:
		g.server.ServeHTTP(w, r)
	case <-r.Context().Done():
	}
}

// interruption is a context that ends when the test sends on it, and tells the test by receiving.
type interruption struct {
	context.Context
	now chan struct{}
}

func (i interruption) Done() <-chan struct{} { return i.now }

func TestInterruptDrainsAndWritesTheResults(t *testing.T) {
	g := newGate()
	url, _ := serve(t, g)
	o := optionsFor(t, cachetest.Demo(t), url)
	o.Concurrency, o.Duration, o.Grace = 5, 1000*time.Hour, time.Hour
	i := interruption{context.Background(), make(chan struct{})}
	go func() {
		for range o.Concurrency {
			<-g.arrived
		}
		i.now <- struct{}{} // the player has it
		close(g.opened)
	}()
	p := play(t, i, o)
	require.Equal(t, 5, p.Requests, "nothing is sent after an interrupt")
	require.Equal(t, 5, p.Completed)
	require.Empty(t, g.arrived)
}

func TestInterruptCancelsWhatOutlastsTheGrace(t *testing.T) {
	g := newGate()
	url, _ := serve(t, g)
	o := optionsFor(t, cachetest.Demo(t), url)
	o.Concurrency, o.Duration, o.Grace = 5, 1000*time.Hour, time.Millisecond
	ctx, interrupt := context.WithCancel(context.Background())
	go func() {
		for range o.Concurrency {
			<-g.arrived
		}
		interrupt()
	}()
	p := play(t, ctx, o)
	require.Equal(t, measure.Buckets{CancelledAtEnd: 5}, p.Buckets)
	require.Empty(t, p.Errors)
	for _, r := range p.records {
		require.Equal(t, wire.Cancelled, r.Error.Category)
	}
}

func TestDeadlines(t *testing.T) {
	s := time.Second
	e := deadlines{duration: 10 * s, grace: 3 * s}
	require.False(t, e.reached(10*s-1))
	require.True(t, e.reached(10*s))
	require.False(t, e.reached(11*s), "it is reached once")
	require.Equal(t, 13*s, e.cancelAt)
	e.interrupt(12 * s)
	require.Equal(t, 13*s, e.cancelAt, "an interrupt makes no grace longer")

	e = deadlines{duration: 100 * s, grace: 50 * s}
	require.True(t, e.reached(100*s))
	e.interrupt(105 * s)
	require.Equal(t, 135*s, e.cancelAt, "but shorter")

	e = deadlines{}
	require.False(t, e.reached(1<<60), "no bound of time")
	e.interrupt(7 * s)
	require.Equal(t, 7*s+1, e.cancelAt)

	e = deadlines{duration: 5 * s, grace: 0}
	require.True(t, e.reached(5*s))
	require.Equal(t, 5*s+1, e.cancelAt, "0 would mean never")

	e = deadlines{duration: 5 * s, grace: time.Hour}
	e.interrupt(1 * s)
	require.Equal(t, 31*s, e.cancelAt, "an interrupt has a grace of half a minute at most")
	require.False(t, e.reached(6*s), "it ended before")
}

func TestDeadlineWithCooldown(t *testing.T) {
	server := mock.New(mock.Config{})
	const duration = 60 * time.Millisecond
	var begun sync.Map // trace and session whose first request has been answered
	url, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		absorb(r)
		if _, again := begun.LoadOrStore(r.Header.Get("X-Correlation-ID"), true); again {
			select {
			case <-time.After(duration): // past the deadline, whenever it was sent
			case <-r.Context().Done():
			}
		}
		server.ServeHTTP(w, r)
	}))
	o := optionsFor(t, cachetest.Demo(t), url)
	o.Duration, o.Grace = duration, time.Hour
	p := play(t, context.Background(), o)
	require.Positive(t, p.Buckets.Cooldown)
	require.Zero(t, p.Buckets.CancelledAtEnd)
	require.Equal(t, p.Requests, p.Completed)
	for _, r := range p.records {
		require.Less(t, r.Due, duration.Seconds())
		require.Equal(t, r.End > duration.Seconds(), r.Bucket == measure.Cooldown)
	}
}

func TestDeadlineCancelsWhatOutlastsTheGrace(t *testing.T) {
	_, url := mocked(t, mock.Config{Faults: []mock.Fault{{Kind: "stall", Rate: 1}}})
	o := optionsFor(t, cachetest.Demo(t), url)
	o.Duration, o.Grace = 10*time.Millisecond, time.Millisecond
	p := play(t, context.Background(), o)
	require.Equal(t, measure.Buckets{CancelledAtEnd: 4}, p.Buckets)
	require.Zero(t, p.Measured)
}

func TestResultsThatCannotBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	o := optionsFor(t, cachetest.Demo(t), nobody)
	o.Out = filepath.Join(file, "out")
	_, err := Run(context.Background(), o)
	require.ErrorContains(t, err, "results: mkdir "+file)

	o.Out = t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(o.Out, RecordsFile), 0o700))
	_, err = Run(context.Background(), o)
	require.ErrorContains(t, err, RecordsFile)
}

func TestDiskThatIsFullIsSaidBesideTheSummary(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("needs /dev/full")
	}
	_, url := mocked(t, mock.Config{})
	o := optionsFor(t, cachetest.Demo(t), url)
	o.Duration, o.Grace = 1000*time.Hour, time.Hour // the error ends it
	r := newRun(o.withDefaults())
	defer r.close()
	require.NoError(t, r.prepare(t.Context()))
	require.NoError(t, r.open())
	require.NoError(t, r.results.closeRecords())
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	r.results.records = measure.NewWriter(full)
	s, err := r.play(t.Context())
	require.NoError(t, err)
	require.ErrorContains(t, r.results.write(s), "no space left")
	require.Positive(t, s.Completed)
	require.Equal(t, s.Requests, s.Completed, "what was in flight ended")
	require.FileExists(t, filepath.Join(o.Out, SummaryFile))
}

func TestResentIsRecorded(t *testing.T) {
	var r measure.Record
	describe(&r, &wire.Result{Resent: true})
	require.True(t, r.Resent)
}

func TestURLThatCannotBeUsed(t *testing.T) {
	o := optionsFor(t, cachetest.Demo(t), "ftp://127.0.0.1:1")
	_, err := Run(context.Background(), o)
	require.ErrorContains(t, err, "ftp")
}

// TestCacheThatIsCutWhileItIsPlayed: the file is emptied when the first request has been read, before it is answered.
func TestCacheThatIsCutWhileItIsPlayed(t *testing.T) {
	for _, c := range []struct {
		file     string
		endpoint payload.Endpoint
		rough    bool
		message  string
	}{
		{"ids.txt", payload.Completions, false, "ids.txt: " + manifest.ErrDamaged.Error()},
		{"text.json", payload.ChatCompletions, false, "text.json: " + manifest.ErrDamaged.Error()},
		{"text.json", payload.ChatCompletions, true, "text.json: " + manifest.ErrDamaged.Error()},
	} {
		t.Run(c.file, func(t *testing.T) {
			whole := cachetest.Demo(t)
			if c.rough {
				whole = cachetest.SplitCharacters(t)
			}
			o, p := playCut(t, whole, c.file, c.endpoint)
			require.ErrorContains(t, p.err, "the cache cannot be read any more")
			require.ErrorContains(t, p.err, c.message)
			p.requireConsistent(t, o)
			require.Equal(t, 2, p.Requests, "the run ends with the first prompt that cannot be read")
			require.Equal(t, 1, p.Completed)
			require.Equal(t, map[wire.Category]int{"internal": 1}, p.Errors)
			require.Contains(t, p.records[1].Error.Message, c.message)
		})
	}
}

func TestStartsThatAreCutWhileTheyArePlayed(t *testing.T) {
	o, p := playCut(t, cachetest.Demo(t), "starts.bin", payload.Completions)
	p.requireConsistent(t, o)
	require.ErrorIs(t, p.err, manifest.ErrDamaged)
	require.ErrorContains(t, p.err, "starts.bin")
	require.LessOrEqual(t, p.Trees, 2+prefetchDepth, "what had been made ready before is played to its end")
	require.Positive(t, p.Completed)
}

// What is done to the tables of a structure once they are open, cutting them or writing over them, is nobody's business.
func TestTablesThatAreCutWhileTheyArePlayed(t *testing.T) {
	o, p := playCut(t, cachetest.Demo(t), "turns.arrow", payload.Completions)
	p.requireConsistent(t, o)
	require.NoError(t, p.err)
	require.Equal(t, p.Requests, p.Completed)
}

type cutRun struct {
	played
	err error
}

// playCut plays a copy of a cache on one lane and empties one of its files on the way.
func playCut(t *testing.T, whole *mmapcache.Cache, file string, endpoint payload.Endpoint) (Options, cutRun) {
	t.Helper()
	c := copyOf(t, whole)
	server := mock.New(mock.Config{})
	var once sync.Once
	url, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		absorb(r)
		once.Do(func() { cut(t, c, file) })
		server.ServeHTTP(w, r)
	}))
	o := optionsFor(t, c, url)
	o.Concurrency, o.Endpoint = 1, endpoint
	s, err := Run(context.Background(), o)
	require.NotNil(t, s)
	return o, cutRun{played{s, readRecords(t, o.Out)}, err}
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

// TestHeaders: what tells requests and sessions apart, and what the caller adds.
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

// A tree in which two turns wait for each other is reported by name when it goes quiet, and its lane goes on.
func TestDeadlockedTreesAreReportedByName(t *testing.T) {
	_, url := mocked(t, mock.Config{})
	o := optionsFor(t, cachetest.Demo(t), url)
	var warned []string
	o.Concurrency, o.Warn = 16, func(about string) { warned = append(warned, about) }
	r := newRun(o.withDefaults())
	require.NoError(t, r.prepare(t.Context()))
	require.NoError(t, r.open())
	var name string
	turn := 0
	for _, l := range r.sampler.lanes {
		root := l.Sessions[0].Turns
		for _, b := range l.Branches {
			child := b.Sessions[0]
			if turn = b.Spawn + 1; name == "" && turn < len(root) && len(root[turn].Joins) == 0 && len(l.Sessions[child].Turns) > 1 {
				root[turn].After = []conductor.TurnRef{{Session: child, Turn: 1}}
				l.Sessions[child].Turns[1].After = []conductor.TurnRef{{Session: 0, Turn: turn}}
				name = l.plan.Trace.ID
			}
		}
		if name != "" {
			break
		}
	}
	require.NotEmpty(t, name)
	s, err := r.play(t.Context())
	require.NoError(t, err)
	require.NoError(t, r.results.write(s))
	r.close()
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
	require.Len(t, warned, 1)
	require.Contains(t, warned[0], fmt.Sprintf("trace %q is wedged", name))
	played{s, readRecords(t, o.Out)}.requireConsistent(t, o)
}

// Every lane has a line, also one that had nothing to play.
func TestLanesAreReported(t *testing.T) {
	_, url := mocked(t, mock.Config{})
	o := optionsFor(t, cachetest.Demo(t), url)
	o.Concurrency, o.Start = 20, Start{Sampled: true}
	p := play(t, context.Background(), o)
	data, err := os.ReadFile(filepath.Join(o.Out, LanesFile))
	require.NoError(t, err)
	var lanes []measure.LaneReport
	for line := range strings.Lines(string(data)) {
		var l measure.LaneReport
		require.NoError(t, json.Unmarshal([]byte(line), &l))
		lanes = append(lanes, l)
	}
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
		if f, ok := first[r.Lane]; !ok || r.Sent < f.Sent {
			first[r.Lane] = r
		}
	}
	later := 0
	for _, r := range first {
		later += min(1, r.Turn)
	}
	require.Greater(t, later, 8)
}

// More lanes than traces need a permission that the caller gives, or a marker; then there is a warning.
func TestMoreLanesThanTraces(t *testing.T) {
	o := optionsFor(t, cachetest.Demo(t), nobody)
	o.Concurrency, o.Requests = 17, 20
	_, err := Run(t.Context(), o)
	require.ErrorContains(t, err, "17 lanes, but 16 distinct traces")
	require.NoDirExists(t, o.Out, "refused before anything was made")
	var warned []string
	o.Marker, o.Warn = payload.FirstTurnPrefix, func(about string) { warned = append(warned, about) }
	r := newRun(o.withDefaults())
	require.NoError(t, r.prepare(t.Context()))
	r.close()
	require.Equal(t, []string{"17 lanes share 16 traces: each tree has a cache-bust marker of its own"}, warned)
}
