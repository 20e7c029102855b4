package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/internal/fixtures"
	"github.com/agentx/agentx/mock"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/payload"
)

// orderLog is a mock server that keeps the order of what it is asked: an id for each request of a run, the path of others.
type orderLog struct {
	mu     sync.Mutex
	asked  []string
	server *mock.Server
}

func (l *orderLog) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	what := r.URL.Path
	if r.Header.Get("X-Correlation-ID") != "" {
		what = r.Header.Get("X-Request-ID")
	}
	l.mu.Lock()
	l.asked = append(l.asked, what)
	l.mu.Unlock()
	l.server.ServeHTTP(w, r)
}

// Each run of a list waits, resets the cache, warms up and measures, in this order. No file of the cache is opened for it:
// they are gone.
//
// Covers T-58.
func TestAListPreparesEachRun(t *testing.T) {
	type in struct {
		Step          string
		Concurrencies []int
	}
	type want struct {
		Order       [][2]any
		CacheOpened int `json:"cache_opened"`
	}
	fixtures.EachCase(t, "before_run", fixtures.Counts{7, 7, 7}, func(t *testing.T, v fixtures.Case, in in, want want) {
		if in.Step != "list" {
			t.Skip("no list: TestAttemptsAsInTheVectors")
		}
		require.Equal(t, 1, want.CacheOpened)
		c := copyOf(t, cachetest.Demo(t))
		require.NoError(t, os.RemoveAll(c.Root))
		log := &orderLog{server: mock.New(mock.Config{})}
		url, _ := serve(t, log)
		o := optionsFor(t, c, url)
		o.Preset, o.Switches = v.Preset, nil
		o.Readiness.Timeout, o.CacheReset.Enabled = time.Minute, true
		o.Start.Sampled, o.Warmup.Primers, o.Requests = true, true, 40
		list, err := RunList(context.Background(), o, List{Concurrencies: in.Concurrencies})
		require.NoError(t, err)

		type step struct {
			name        string
			concurrency int
		}
		of := map[string]step{} // by request id
		for _, r := range list.Runs {
			require.Zero(t, r.Exit)
			for _, record := range readRecords(t, filepath.Join(list.Out, r.Dir)) {
				of[record.RequestID] = step{record.Phase, r.Concurrency}
			}
		}
		var order []step
		run := -1
		for _, what := range log.asked {
			s, ok := of[what]
			switch {
			case what == "/reset_prefix_cache":
				s = step{"reset", in.Concurrencies[run]}
			case !ok:
				if run < 0 || order[len(order)-1].name != "wait" {
					run++
				}
				s = step{"wait", in.Concurrencies[run]}
			}
			if len(order) == 0 || order[len(order)-1] != s {
				order = append(order, s)
			}
		}
		var wanted []step
		for _, s := range want.Order {
			wanted = append(wanted, step{s[0].(string), int(s[1].(float64))})
		}
		require.Equal(t, wanted, order)
	})
}

// Each run of a list has the results that it would have alone. Lane i begins with the same trace at the same instant in all
// of them; counters and markers are new.
func TestRunsOfAListAreWhole(t *testing.T) {
	_, url := mocked(t, mock.Config{})
	o := optionsFor(t, cachetest.Demo(t), url)
	o.Start.Sampled, o.Marker, o.Endpoint = true, payload.FirstTurnPrefix, payload.ChatCompletions
	list, err := RunList(context.Background(), o, List{Concurrencies: []int{8, 4}})
	require.NoError(t, err)
	require.Equal(t, o.Out, list.Out)
	require.Equal(t, []string{"c0008", "c0004"}, []string{list.Runs[0].Dir, list.Runs[1].Dir})
	starts := map[int]measure.LaneReport{}
	ids := map[string]bool{}
	for _, r := range list.Runs {
		alone := o
		alone.Out, alone.Concurrency = filepath.Join(o.Out, r.Dir), r.Concurrency
		p := played{r.Summary, readRecords(t, alone.Out)}
		p.requireConsistent(t, alone)
		require.Equal(t, r.Concurrency, p.Concurrency)
		trees := map[int]bool{}
		for _, record := range p.records {
			require.False(t, ids[record.RequestID])
			ids[record.RequestID], trees[record.Tree] = true, true
		}
		require.True(t, trees[0] && trees[15] && !trees[16], "trees are counted anew")
		for _, l := range readLanes(t, alone.Out) {
			if before, ok := starts[l.Lane]; ok {
				require.Equal(t, [2]any{before.Trace, before.TStar}, [2]any{l.Trace, l.TStar})
			}
			starts[l.Lane] = l
		}
	}
	index, err := ReadList(o.Out)
	require.NoError(t, err)
	require.Equal(t, list.WithoutSummaries(), index)
	require.Equal(t, list.Runs[0].Summary.TTFT, index.Runs[0].Headline.TTFT)
}

// flaky is a server that does not reset its cache the second time.
func flaky(t *testing.T) (url string) {
	server, resets := mock.New(mock.Config{}), 0
	url, _ = serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/reset_prefix_cache" {
			if resets++; resets == 2 {
				http.NotFound(w, r)
				return
			}
		}
		server.ServeHTTP(w, r)
	}))
	return url
}

// A run that fails does not end the list, unless that is asked for. The index is written after each run.
func TestAListGoesOnAfterAFailure(t *testing.T) {
	for stop, want := range map[bool][]int{false: {0, 1, 0}, true: {0, 1}} {
		t.Run(fmt.Sprint(stop), func(t *testing.T) {
			o := optionsFor(t, cachetest.Demo(t), flaky(t))
			o.CacheReset.Enabled, o.Requests = true, 5
			begun := 0
			list, err := RunList(context.Background(), o, List{Concurrencies: []int{4, 2, 1}, StopOnFailure: stop, Begin: func(*Options, measure.ListedRun) {
				if index, err := ReadList(o.Out); begun > 0 {
					require.NoError(t, err)
					require.Len(t, index.Runs, begun)
				}
				begun++
			}})
			require.NoError(t, err)
			index, err := ReadList(o.Out)
			require.NoError(t, err)
			var exits []int
			for _, r := range index.Runs {
				exits = append(exits, r.Exit)
			}
			require.Equal(t, want, exits)
			require.JSONEq(t, string(marshal(t, list.WithoutSummaries())), string(marshal(t, index)))
			require.Zero(t, list.Runs[1].Headline.Requests)
			require.Equal(t, "refused", list.Runs[1].Summary.Run.Preparation[0].Outcome)
		})
	}
}

func marshal(t *testing.T, v any) []byte {
	text, err := json.Marshal(v)
	require.NoError(t, err)
	return text
}

// The status of a run is what End says.
func TestEndJudgesTheRunsOfAList(t *testing.T) {
	_, url := mocked(t, mock.Config{})
	o := optionsFor(t, cachetest.Demo(t), url)
	o.Out, o.Requests = "", 5
	list, err := RunList(context.Background(), o, List{Concurrencies: []int{1, 2}, End: func(r measure.ListedRun, s *measure.Summary, err error) int {
		require.NoError(t, err)
		require.Equal(t, 5, s.Requests)
		return 3 * (r.Concurrency - 1)
	}})
	require.NoError(t, err)
	require.Equal(t, []int{0, 3}, []int{list.Runs[0].Exit, list.Runs[1].Exit})
	require.Empty(t, list.Out+list.Runs[0].Dir)
}

// Next is asked before each run, and sees those that have ended; 0 ends the list. A directory that has a run of any concurrency already is
// refused.
func TestNextChoosesTheRunsOfAList(t *testing.T) {
	_, url := mocked(t, mock.Config{})
	o := optionsFor(t, cachetest.Demo(t), url)
	o.Requests = 5
	var seen [][]int
	l := List{Concurrencies: []int{1}, Next: func(runs []measure.ListedRun) int {
		var ended []int
		for _, r := range runs {
			require.Equal(t, 5, r.Summary.Requests)
			ended = append(ended, r.Concurrency)
		}
		seen = append(seen, ended)
		return []int{3, 2, 0}[len(runs)]
	}}
	list, err := RunList(context.Background(), o, l)
	require.NoError(t, err)
	require.Equal(t, [][]int{nil, {3}, {3, 2}}, seen)
	require.Equal(t, []string{"c0003", "c0002"}, []string{list.Runs[0].Dir, list.Runs[1].Dir})
	require.FileExists(t, filepath.Join(o.Out, "c0003", SummaryFile))
	require.NoDirExists(t, filepath.Join(o.Out, "c0001"))

	require.NoError(t, os.Remove(filepath.Join(o.Out, ConcurrenciesFile)))
	_, err = RunList(context.Background(), o, l)
	require.ErrorContains(t, err, "c0002: results exist already")
	require.Len(t, seen, 3, "nothing was asked")
}

// An interrupt ends the run that is played, whose results are written, and no other begins.
func TestAListIsInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	server := mock.New(mock.Config{})
	url, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		cancel()
		server.ServeHTTP(w, r)
	}))
	o := optionsFor(t, cachetest.Demo(t), url)
	list, err := RunList(ctx, o, List{Concurrencies: []int{4, 2}})
	require.NoError(t, err)
	require.Len(t, list.Runs, 1)
	require.Positive(t, list.Runs[0].Headline.Requests)
	require.FileExists(t, filepath.Join(o.Out, "c0004", SummaryFile))
	require.NoDirExists(t, filepath.Join(o.Out, "c0002"))
}

func TestAListIsInterruptedBetweenTwoRuns(t *testing.T) {
	begun := 0
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	_, url := mocked(t, mock.Config{})
	o := optionsFor(t, cachetest.Demo(t), url)
	o.Requests = 5
	_, err := RunList(ctx, o, List{Concurrencies: []int{4, 2}, Begin: func(*Options, measure.ListedRun) { begun++ }, End: func(measure.ListedRun, *measure.Summary, error) int { cancel(); return 0 }})
	require.NoError(t, err)
	require.Equal(t, 1, begun, "between two runs")
}

// A list that is repeated is played from its first to its last run, then again. Each run has a directory of its own and the same draws.
func TestRepeatedRuns(t *testing.T) {
	_, url := mocked(t, mock.Config{})
	for name, c := range map[string]struct {
		concurrencies []int
		want          []string
	}{
		"one concurrency": {[]int{4}, []string{"4 r01 r01", "4 r02 r02", "4 r03 r03"}},
		"several":         {[]int{4, 2}, []string{"4 r01 c0004-r01", "2 r01 c0002-r01", "4 r02 c0004-r02", "2 r02 c0002-r02", "4 r03 c0004-r03", "2 r03 c0002-r03"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := optionsFor(t, cachetest.Demo(t), url)
			o.Start.Sampled, o.Marker, o.Endpoint, o.Requests = true, payload.FirstTurnPrefix, payload.ChatCompletions, 20
			list, err := RunList(t.Context(), o, List{Concurrencies: c.concurrencies, Repeat: 3})
			require.NoError(t, err)
			var got []string
			starts, benchmarks := map[int][]measure.LaneReport{}, map[string]bool{}
			for _, r := range list.Runs {
				got = append(got, r.Name()+" "+r.Dir)
				alone := o
				alone.Out, alone.Concurrency = filepath.Join(o.Out, r.Dir), r.Concurrency
				p := played{r.Summary, readRecords(t, alone.Out)}
				p.requireConsistent(t, alone)
				benchmarks[p.Run.BenchmarkID] = true
				var lanes []measure.LaneReport
				for _, l := range readLanes(t, alone.Out) {
					lanes = append(lanes, measure.LaneReport{Lane: l.Lane, Trace: l.Trace, TStar: l.TStar})
				}
				if before, ok := starts[r.Concurrency]; ok {
					require.Equal(t, before, lanes)
				}
				starts[r.Concurrency] = lanes
			}
			require.Equal(t, c.want, got)
			require.Len(t, benchmarks, len(c.want), "markers are new in every run")
			index, err := ReadList(o.Out)
			require.NoError(t, err)
			require.Equal(t, list.WithoutSummaries(), index)
			_, err = RunList(t.Context(), o, List{Concurrencies: c.concurrencies, Repeat: 2})
			require.ErrorIs(t, err, ErrResultsExist)
		})
	}
}

// Trees that arrive without a cap on open trees can be played again, too.
func TestArrivalsAreRepeated(t *testing.T) {
	_, url := mocked(t, mock.Config{})
	o := optionsFor(t, cachetest.Demo(t), url)
	o.Pace, o.Concurrency, o.Trees, o.Marker, o.Endpoint = Pace{Speed: 1e6}, 0, 3, payload.FirstTurnPrefix, payload.ChatCompletions
	o.Arrivals = Arrivals{Mode: RateArrivals, Rate: 1000}
	list, err := RunList(t.Context(), o, List{Concurrencies: []int{0}, Repeat: 2})
	require.NoError(t, err)
	require.Len(t, list.Runs, 2)
	require.Equal(t, []int{3, 3}, []int{list.Runs[0].Summary.Trees, list.Runs[1].Summary.Trees})
}

func TestListsThatCannotBePlayed(t *testing.T) {
	o := optionsFor(t, cachetest.Demo(t), unreachable)
	for text, list := range map[string][]int{
		"no concurrency":             {},
		"concurrency 8 occurs twice": {8, 4, 8},
	} {
		_, err := RunList(context.Background(), o, List{Concurrencies: list})
		require.ErrorContains(t, err, text)
		require.NoDirExists(t, o.Out)
	}
}

// A directory with results of a run or of a list is refused, unless nothing was sent or it may be written over.
func TestDirectoriesOfLists(t *testing.T) {
	_, url := mocked(t, mock.Config{})
	o := optionsFor(t, cachetest.Demo(t), unreachable)
	o.SkipPreflight, o.Requests = false, 5
	l := List{Concurrencies: []int{2, 1}}
	playList := func(o Options) error {
		list, err := RunList(context.Background(), o, l)
		if err == nil && list.Runs[0].Exit+list.Runs[1].Exit != 0 {
			return errors.New("a run failed")
		}
		return err
	}
	for range 2 { // nothing was sent
		require.ErrorContains(t, playList(o), "a run failed")
	}
	o.URLs = []string{url}
	require.NoError(t, playList(o))
	require.ErrorIs(t, playList(o), ErrResultsExist)
	require.ErrorIs(t, (&List{Concurrencies: []int{7}}).CheckDir(o.Out), ErrResultsExist)
	require.ErrorIs(t, CheckResultsDir(o.Out), ErrResultsExist, "for one run")
	o.Overwrite = true
	require.NoError(t, playList(o))

	_, err := Run(context.Background(), o)
	require.NoError(t, err)
	require.NoFileExists(t, filepath.Join(o.Out, ConcurrenciesFile), "the results are those of one run")
	require.NoError(t, playList(o))
	require.NoFileExists(t, filepath.Join(o.Out, SummaryFile), "the results are those of a list")

	require.NoError(t, os.Remove(filepath.Join(o.Out, ConcurrenciesFile)))
	o.Overwrite = false
	require.ErrorIs(t, playList(o), ErrResultsExist, "one of its runs has results")

	o.UniqueOut = true
	list, err := RunList(context.Background(), o, l)
	require.NoError(t, err)
	require.Equal(t, o.Out+"-2", list.Out)
	require.FileExists(t, filepath.Join(list.Out, "c0001", SummaryFile))
}
