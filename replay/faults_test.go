package replay

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/manifest"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/mock"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/wire"
)

// faults maps every fault of the mock to the category of its error.
var faults = map[string]wire.Category{
	"refuse": wire.Connection, "reset": wire.Connection, "reset-mid": wire.Connection, "cut-chunk": wire.Connection,
	"status=NNN": wire.HTTPStatus, "status-plain=NNN": wire.HTTPStatus,
	"stall": wire.Timeout, "stall-mid": wire.Timeout,
	"empty": wire.NoContent, "not-json": wire.NoContent, "garbage": wire.StreamTruncated, "cut": wire.StreamTruncated,
	"error-event": wire.StreamEvent, "error-payload": wire.StreamPayload,
	"overflow": wire.ContextOverflow,
	"flood":    wire.Connection, "comments": wire.Timeout,
	// An answer that is complete ends well, whatever it says of itself.
	"trickle": "", "half-events": "", "wrong-counts": "", "odd-counts": "", "usage-twice": "",
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
			if kind.Name == "flood" { // 256 MiB each
				o.Requests = 2
			}
			if want == wire.Timeout {
				o.Timeout = 30 * time.Millisecond
			}
			p := play(t, context.Background(), o)
			if want == "" {
				require.Equal(t, 12, p.Completed)
				require.Equal(t, kind.Name == "odd-counts", p.Deviations["no_usage"].Requests == 12)
				require.Equal(t, kind.Name == "wrong-counts", p.Deviations["long_output"].Requests == 12)
				return
			}
			require.Equal(t, o.Requests, p.Requests)
			require.Zero(t, p.Completed)
			if want == wire.ContextOverflow {
				require.Equal(t, 12, p.Buckets.ContextOverflow)
				require.Empty(t, p.Errors)
				for _, r := range p.records {
					require.Zero(t, r.Turn, "a session that overflowed went on")
				}
			} else {
				require.Equal(t, map[wire.Category]int{want: o.Requests}, p.Errors)
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
		if category != wire.Timeout && category != wire.ContextOverflow && category != "" && name != "flood" {
			config.Faults = append(config.Faults, mock.Fault{Kind: strings.ReplaceAll(name, "NNN", "429"), Rate: 0.05})
		}
	}
	server, url := mocked(t, config)
	p := play(t, context.Background(), optionsFor(t, cachetest.Demo(t), url))
	require.Equal(t, 197, p.Requests, "errors end no session")
	require.Greater(t, p.Completed, 50)
	played := map[wire.Category]int{}
	for name, category := range faults {
		if category == "" {
			continue
		}
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

// unreachable is a URL without a server.
const unreachable = "http://127.0.0.1:1"

func TestServerThatIsDown(t *testing.T) {
	p := play(t, context.Background(), optionsFor(t, cachetest.Demo(t), unreachable))
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

func TestResultsThatCannotBeWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	o := optionsFor(t, cachetest.Demo(t), unreachable)
	o.Out = filepath.Join(file, "out")
	_, err := Run(context.Background(), o)
	require.ErrorContains(t, err, "results: mkdir "+file)

	o.Out = t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(o.Out, RecordsFile), 0o700))
	_, err = Run(context.Background(), o)
	require.ErrorContains(t, err, RecordsFile)
}

func TestFullDiskIsReportedBesideTheSummary(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("needs /dev/full")
	}
	_, url := mocked(t, mock.Config{})
	o := optionsFor(t, cachetest.Demo(t), url)
	o.Duration, o.Grace = 1000*time.Hour, time.Hour // the error ends it
	r := newRun(o.WithDefaults())
	defer r.close()
	require.NoError(t, r.prepare(t.Context()))
	require.NoError(t, r.open(t.Context()))
	require.NoError(t, r.start())
	require.NoError(t, r.results.closeRecords())
	full := func() *os.File {
		f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		require.NoError(t, err)
		return f
	}
	r.results.records = measure.NewWriter(full(), full())
	s, err := r.play(t.Context())
	require.NoError(t, err)
	require.ErrorContains(t, r.results.write(s), "no space left")
	require.Positive(t, s.Completed)
	require.Equal(t, s.Requests, s.Completed, "what was in flight ended")
	require.FileExists(t, filepath.Join(o.Out, SummaryFile))
}

// The file is emptied when the server has read the first request, before it answers.
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

// The tables of a structure are read when it is opened. Later changes to their files do not matter.
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
	records := readRecords(t, o.Out)
	requireIdentified(t, records)
	return o, cutRun{played{s, records}, err}
}
