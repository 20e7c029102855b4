package replay

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/internal/mock"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/payload"
)

// Results of another run are an error, or are replaced as a whole with Overwrite.
func TestResultsAreNotOverwritten(t *testing.T) {
	_, url := mocked(t, mock.Config{})
	o := optionsFor(t, cachetest.Demo(t), url)
	o.Requests = 3
	play(t, t.Context(), o)
	_, err := Run(t.Context(), o)
	require.ErrorIs(t, err, ErrResultsExist)
	require.ErrorContains(t, err, o.Out+": results exist already: summary.json")
	require.Len(t, readRecords(t, o.Out), 3)
	o.Overwrite, o.Requests = true, 2
	play(t, t.Context(), o)
	require.Len(t, readRecords(t, o.Out), 2)
}

// A run whose results cannot be written asks the server for nothing.
func TestNothingIsAskedWithoutResults(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	o := optionsFor(t, cachetest.Demo(t), server.URL)
	o.SkipPreflight, o.CacheReset.Enabled, o.Readiness.Timeout = false, true, time.Minute
	for _, out := range []string{file, filepath.Join(file, "a", "b")} {
		o.Out = out
		_, err := Run(t.Context(), o)
		require.EqualError(t, err, "results: mkdir "+out+": not a directory")
	}
	o.Out = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(o.Out, RecordsFile), []byte("{}"), 0o600))
	_, err := Run(t.Context(), o)
	require.ErrorIs(t, err, ErrResultsExist)
	require.Zero(t, asked)
}

// A run whose results were replaced by another run leaves the new ones alone.
func TestResultsThatAnotherRunReplaced(t *testing.T) {
	_, url := mocked(t, mock.Config{})
	o := optionsFor(t, cachetest.Demo(t), url)
	first := newRun(o.withDefaults())
	defer first.close()
	require.NoError(t, first.open(t.Context()))
	o.Requests, o.Overwrite = 3, true
	play(t, t.Context(), o)
	want, err := os.ReadFile(filepath.Join(o.Out, SummaryFile))
	require.NoError(t, err)
	require.ErrorContains(t, first.results.write(first.results.summary(measure.Facts{})), "another run has replaced the results")
	got, err := os.ReadFile(filepath.Join(o.Out, SummaryFile))
	require.NoError(t, err)
	require.Equal(t, string(want), string(got))
}

// A run tells where its results are, and who follows its records gets every one.
func TestOpenedResultsAreFollowed(t *testing.T) {
	_, url := mocked(t, mock.Config{})
	o := optionsFor(t, cachetest.Demo(t), url)
	o.Requests, o.UniqueOut = 20, true
	require.NoError(t, os.Mkdir(o.Out, 0o777)) // so the run takes another name
	opened, followed, tick := make(chan string, 1), make(chan []int, 1), make(chan time.Time)
	o.Opened = func(dir string) { opened <- dir }
	ctx, end := context.WithCancel(t.Context())
	go func() {
		var credits []int
		for r, err := range measure.Follow(ctx, <-opened, tick) {
			if r != nil && err == nil {
				credits = append(credits, r.Credit)
			}
		}
		followed <- credits
	}()
	_, err := Run(t.Context(), o)
	require.NoError(t, err)
	end()
	got, want := <-followed, []int(nil)
	for _, r := range readRecords(t, o.Out+"-2") {
		want = append(want, r.Credit)
	}
	require.Len(t, want, 20)
	require.Equal(t, want, got)
}

// Runs that want the same new directory each get their own.
func TestUniqueDirectories(t *testing.T) {
	o := Options{Out: filepath.Join(t.TempDir(), "results", "now"), UniqueOut: true, Cache: cachetest.Demo(t), URLs: []string{unreachable}}
	var runs sync.WaitGroup
	got := make([]string, 8)
	for k := range got {
		runs.Go(func() {
			p := newRun(o.withDefaults())
			defer p.close()
			if err := p.results.open(); err != nil {
				got[k] = err.Error()
				return
			}
			got[k] = p.results.info.Out
			_ = p.results.closeRecords()
		})
	}
	runs.Wait()
	want := []string{o.Out}
	for n := 2; n <= len(got); n++ {
		want = append(want, fmt.Sprintf("%s-%d", o.Out, n))
	}
	require.ElementsMatch(t, want, got)
	for _, dir := range got {
		require.FileExists(t, filepath.Join(dir, RunFile))
	}
}

// run.json exists before the first request is sent, and is completed at the end.
func TestRunFileIsWrittenFirst(t *testing.T) {
	c := cachetest.Demo(t)
	_, url := mocked(t, mock.Config{})
	o := optionsFor(t, c, url+"?key=very-secret")
	o.Requests = 1
	o.Provenance = measure.Run{Version: "1.2", Options: []measure.Option{{Name: "x", Value: []byte(`"<a>"`), From: "flag"}}}
	p := newRun(o.withDefaults())
	defer p.close()
	require.NoError(t, p.prepare(t.Context()))
	require.NoError(t, p.open(t.Context()))
	require.NoError(t, p.start())
	read := func() (info measure.RunInfo) {
		data, err := os.ReadFile(filepath.Join(o.Out, RunFile))
		require.NoError(t, err)
		require.NotContains(t, string(data), "very-secret")
		require.NoError(t, json.Unmarshal(data, &info))
		return info
	}
	before := read()
	require.Equal(t, c.Manifest.Key, before.Dataset.Key)
	require.Equal(t, c.Path(), before.Dataset.Path)
	require.Equal(t, url, before.URL)
	require.Equal(t, "some/model", before.Model)
	require.NotEmpty(t, before.Host)
	require.Nil(t, before.End)
	require.Nil(t, before.Facts)
	s, err := p.play(t.Context())
	require.NoError(t, err)
	require.NoError(t, p.results.write(s))
	after := read()
	require.NotNil(t, after.Facts)
	require.False(t, after.End.Before(after.Start))
	require.JSONEq(t, string(jsonOf(t, after.Run)), string(jsonOf(t, s.Run)))
	first, err := os.ReadFile(filepath.Join(o.Out, SummaryFile))
	require.NoError(t, err)
	_, _, err = rebuildSummary(o.Out)
	require.NoError(t, err)
	again, err := os.ReadFile(filepath.Join(o.Out, SummaryFile))
	require.NoError(t, err)
	require.Contains(t, string(first), `"<a>"`)
	require.Equal(t, string(first), string(again))
}

// The summary of a killed run has what its records say, and the rest is reported as missing.
func TestRebuildOfARunThatWasKilled(t *testing.T) {
	_, url := mocked(t, mock.Config{})
	o := optionsFor(t, cachetest.Demo(t), url)
	o.Requests = 30
	whole := play(t, t.Context(), o)
	file := filepath.Join(o.Out, RecordsFile)
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	info := measure.RunInfo{Lanes: 4, Out: o.Out}
	require.NoError(t, os.WriteFile(filepath.Join(o.Out, RunFile), jsonOf(t, info), 0o600))
	require.NoError(t, os.WriteFile(file, data[:len(data)-100], 0o600))
	require.NoError(t, os.Remove(filepath.Join(o.Out, SummaryFile)))

	s, about, err := rebuildSummary(o.Out)
	require.NoError(t, err)
	require.Len(t, about, 2)
	require.Contains(t, about[0], "records.jsonl: the last line is cut off")
	require.Contains(t, about[1], "the run has not ended, or was killed")
	require.Equal(t, 29, s.Requests)
	require.InDelta(t, whole.Trees, s.Trees, 1, "but for that of the last record")
	require.True(t, s.PhaseDuration.IsMissing())
	require.Nil(t, s.Branches)
	written, err := os.ReadFile(filepath.Join(o.Out, SummaryFile))
	require.NoError(t, err)
	for _, null := range []string{`"branches":null`, `"wedged_trees":null`, `"phase_duration":null`, `"cpu":null`, `"end":null`} {
		require.Contains(t, string(written), null)
	}

	lines := strings.SplitAfter(string(data), "\n")
	lines[3] = "{\n"
	require.NoError(t, os.WriteFile(file, []byte(strings.Join(lines, "")), 0o600))
	_, _, err = rebuildSummary(o.Out)
	require.ErrorContains(t, err, "records.jsonl: line 4: ")

	require.NoError(t, os.Remove(filepath.Join(o.Out, RunFile)))
	require.NoError(t, os.WriteFile(file, data, 0o600))
	s, about, err = rebuildSummary(o.Out)
	require.NoError(t, err, "the records are enough")
	require.Contains(t, about[0], "there is no run.json")
	require.Equal(t, whole.TTFT, s.TTFT)
	require.Equal(t, whole.Buckets, s.Buckets)
	require.NoError(t, os.Remove(file))
	_, _, err = rebuildSummary(o.Out)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func jsonOf(t *testing.T, v any) []byte {
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return data
}

// A server that does not do what requests ask for is warned of once for each kind of deviation. A deviation that the fields
// of the bodies ask for is only counted.
func TestDeviationsAreReported(t *testing.T) {
	url, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if !strings.HasPrefix(r.URL.Path, "/moved") {
			http.Redirect(w, r, "/moved", http.StatusPermanentRedirect)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"choices":[{"text":"a"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
	}))
	for name, c := range map[string]struct {
		fields payload.Fields
		said   []string
	}{
		"as asked":      {payload.Fields{}, []string{"answers shorter", "answers not streamed", "prompts whose token count differs", "requests sent twice"}},
		"not as strict": {payload.Fields{OmitIgnoreEOS: true}, []string{"answers not streamed", "prompts whose token count differs", "requests sent twice"}},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var said []string
			o := optionsFor(t, cachetest.Demo(t), url)
			o.Requests, o.Fields = 20, c.fields
			o.Warn = func(about string) { mu.Lock(); defer mu.Unlock(); said = append(said, about) }
			p := play(t, t.Context(), o)
			require.Equal(t, 20, p.Completed)
			require.Equal(t, 20, p.Deviations["short_output"].Requests)
			require.Equal(t, 20, p.Deviations["not_streamed"].Requests)
			require.Equal(t, 20, p.Deviations["prompt_count"].Requests)
			require.Equal(t, 20, p.Deviations["redirected"].Requests)
			require.Equal(t, measure.Deviation{}, p.Deviations["no_usage"])
			mu.Lock()
			defer mu.Unlock()
			require.Len(t, said, len(c.said), said)
			for k, want := range c.said {
				require.True(t, strings.HasPrefix(said[k], want), said[k])
				require.Contains(t, said[k], "trace ")
			}
		})
	}
}

// The bodies of the preflight and of the run have the fields that were chosen.
func TestFieldsArrive(t *testing.T) {
	var mu sync.Mutex
	var bodies []map[string]any
	url, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body map[string]any
		if json.NewDecoder(r.Body).Decode(&body) == nil {
			delete(body, "prompt")
			mu.Lock()
			bodies = append(bodies, body)
			mu.Unlock()
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
	}))
	o := optionsFor(t, cachetest.Demo(t), url)
	o.Endpoint, o.Requests, o.SkipPreflight, o.Concurrency = payload.Completions, 3, false, 1 // one lane: bodies and records in one order
	o.Fields = payload.Fields{Length: payload.MaxCompletionTokens, OmitIgnoreEOS: true, OmitStreamOptions: true, Extra: json.RawMessage(`{"top_k":1}`)}
	p := play(t, t.Context(), o)
	require.Equal(t, 3, p.Completed)
	require.Len(t, bodies, 4)
	for k, body := range bodies {
		want := map[string]any{"model": o.Model, "stream": true, "top_k": 1.0, "max_completion_tokens": 1.0}
		if k > 0 {
			want["max_completion_tokens"] = float64(p.records[k-1].MaxTokens)
		}
		require.Equal(t, want, body)
	}
}

// The token count of the first message is recorded if it was asked for.
func TestUsageOfTheFirstMessage(t *testing.T) {
	url, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"text\":\"abc\"}],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":3}}\n\n"+
			"data: {\"choices\":[{\"text\":\"d\",\"finish_reason\":\"length\"}],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":4}}\n\ndata: [DONE]\n\n")
	}))
	for extra, want := range map[string]measure.Count{``: 0, `{"stream_options":{"continuous_usage_stats":false}}`: 0, `{"stream_options":{"continuous_usage_stats":true}}`: measure.Tokens(3)} {
		o := optionsFor(t, cachetest.Demo(t), url)
		o.Requests, o.Fields.Extra = 3, json.RawMessage(extra)
		for _, r := range play(t, t.Context(), o).records {
			require.Equal(t, want, r.FirstChunkTokens, extra)
		}
	}
}

// The means of an occupancy are those of counting what is busy in every second.
func TestOccupancy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type span struct{ lane, from, to int }
		const lanes = 3
		o := newOccupancy(lanes)
		var trees, requests []span
		var events []conductor.Event
		add := func(kind conductor.EventKind, at, lane int) {
			events = append(events, conductor.Event{Kind: kind, At: time.Duration(at) * time.Second, Lane: lane})
		}
		for lane := range lanes {
			from := rapid.IntRange(0, 5).Draw(t, "from")
			to := from + rapid.IntRange(1, 20).Draw(t, "length")
			trees = append(trees, span{lane, from, to})
			add(conductor.TreeOpened, from, lane)
			for range rapid.IntRange(1, 5).Draw(t, "requests") {
				sent := rapid.IntRange(from, to-1).Draw(t, "sent")
				end := rapid.IntRange(sent+1, to).Draw(t, "end")
				requests = append(requests, span{lane, sent, end})
				add(conductor.TurnSent, sent, lane)
				add(conductor.TurnReturned, end, lane)
			}
			add(conductor.TreeDrained, to, lane)
		}
		slices.SortStableFunc(events, func(a, b conductor.Event) int { return int(a.At - b.At) })
		last := 0
		for _, e := range events {
			o.onEvent(e)
		}
		for _, r := range requests {
			last = max(last, r.from)
		}
		var sum [3]int
		for at := range last {
			in := func(s span) bool { return s.from <= at && at < s.to }
			busy := map[int]bool{}
			for _, s := range trees {
				if in(s) {
					sum[0]++
				}
			}
			for _, r := range requests {
				if in(r) {
					sum[2]++
					busy[r.lane] = true
				}
			}
			sum[1] += len(busy)
		}
		got := o.load()
		require.EqualValues(t, last, got.Seconds)
		if last == 0 {
			require.True(t, got.Playing.IsMissing() && got.InFlight.IsMissing() && got.Requests.IsMissing())
			return
		}
		for k, n := range []measure.Number{got.Playing, got.InFlight, got.Requests} {
			require.InDelta(t, float64(sum[k]), float64(n)*float64(last), 1e-6)
		}
	})
}

// Two lanes play one trace each, on virtual time: a request of a second, a gap of three, another request.
func TestLoadOfARun(t *testing.T) {
	c := recorded(t, recording("a", call{at: 0, took: 1}, call{at: 4, took: 1}), recording("b", call{at: 0, took: 1}, call{at: 4, took: 1}))
	o := optionsFor(t, c, unreachable)
	o.Concurrency, o.Pace = 2, Pace{}
	v, err := virtually(t, o, second)
	require.NoError(t, err)
	require.Equal(t, &measure.Load{Seconds: 4, Playing: 2, InFlight: 0.5, Requests: 0.5, MaxRequests: 2}, v.results.info.Facts.Load)
	require.Equal(t, measure.LaneUse{Configured: 2, Playing: 2, InFlight: 0.5}, v.summary.Fidelity.Lanes)
	require.Positive(t, v.results.info.Facts.Cores)
}

// Sequences of windows share what they share token by token, however the windows are cut and in whatever order they come.
func TestPrefixTrie(t *testing.T) {
	const corpus = 12
	rapid.Check(t, func(t *rapid.T) {
		c := prefixCount{&prefixTrie{nodes: make([]prefixNode, 1), children: map[prefixKey]int32{}, corpusSize: corpus}, new(measure.Prompts)}
		var ends []int32
		var spelled [][]uint32
		for range rapid.IntRange(1, 8).Draw(t, "prompts") {
			var places []uint32
			node := int32(0)
			for range rapid.IntRange(0, 4).Draw(t, "windows") {
				w := mmapcache.Window{Start: rapid.Uint32Range(0, 2).Draw(t, "start") * 5, Tokens: rapid.Uint32Range(0, corpus+3).Draw(t, "tokens")}
				node = c.window(node, w)
				for k := range w.Tokens {
					places = append(places, (w.Start+k)%corpus)
				}
			}
			ends, spelled = append(ends, node), append(spelled, places)
		}
		for k, end := range ends {
			want := 0
			for _, earlier := range spelled[:k] {
				same := 0
				for same < min(len(earlier), len(spelled[k])) && earlier[same] == spelled[k][same] {
					same++
				}
				want = max(want, same)
			}
			require.EqualValues(t, len(spelled[k]), c.nodes[end].depth)
			require.EqualValues(t, want, c.send(end, 1, false))
		}
	})
}
