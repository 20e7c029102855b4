package replay

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/internal/mock"
	"github.com/agentx/agentx/replay/measure"
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
