package replay

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/mock"
	"github.com/agentx/agentx/replay/conductor"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/wire"
)

// under returns the switches of a preset, without a cap on idle time of trees.
func under(t *testing.T, name string) *preset.Switches {
	t.Helper()
	s, ok := preset.Named(name)
	require.True(t, ok)
	s.TreeIdleCap = nil
	return &s
}

// The preset decides about the affinity header and about streams that stop before their end.
//
// Covers T-40.
func TestSwitchesOfTheWire(t *testing.T) {
	var affinity atomic.Int64
	url, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if _, ok := r.Header["X-Session-Affinity"]; ok {
			affinity.Add(1)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"text\":\"a\"}]}\n\n")
	}))
	for name, want := range map[string]struct {
		completed int
		affinity  int64
	}{"default": {0, 5}, "aiperf-0.13": {5, 5}, "agentx-1.0.12": {5, 0}} {
		affinity.Store(0)
		o := optionsFor(t, cachetest.Demo(t), url)
		o.Requests, o.Switches = 5, under(t, name)
		s := play(t, t.Context(), o).Summary
		require.Equal(t, want.completed, s.Completed, name)
		require.Equal(t, 5-want.completed, s.Errors[wire.StreamTruncated], name)
		require.Equal(t, want.affinity, affinity.Load(), name)
	}
}

// By the words of AIPerf an error of llama.cpp is a failure, after which the session goes on; by those of servers it is an overflow,
// which ends the session. Without words nothing but a pattern tells.
//
//
func TestWordsOfAnOverflow(t *testing.T) {
	url, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		http.Error(w, `{"error":{"message":"request (9000 tokens) exceeds the available context size (8192 tokens)"}}`, http.StatusBadRequest)
	}))
	c := cachetest.Prepare(t, cachetest.TraceLine("a", 64, 64, 64), "code")
	play := func(words preset.Choice, patterns ...*regexp.Regexp) (failed, overflowed int) {
		o := optionsFor(t, c, url)
		o.Switches, o.OverflowPatterns, o.Backoff = under(t, preset.AgentX), patterns, Backoff{First: Off}
		o.Switches.OverflowWords = words
		s, _ := Run(t.Context(), o) // no request completes, which is an error
		return s.Errors[wire.HTTPStatus], s.Buckets.ContextOverflow
	}
	failed, overflowed := play(preset.WordsOfAIPerf)
	require.Equal(t, []int{3, 0}, []int{failed, overflowed})
	failed, overflowed = play("servers")
	require.Equal(t, []int{0, 1}, []int{failed, overflowed})
	failed, overflowed = play(preset.NoWords, regexp.MustCompile("available context"))
	require.Equal(t, []int{0, 1}, []int{failed, overflowed})
	failed, overflowed = play(preset.NoWords)
	require.Equal(t, []int{3, 0}, []int{failed, overflowed})
}

// The preflight and the run agree about an error object behind text.
func TestLenientPreflight(t *testing.T) {
	url, _ := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: {\"choices\":[{\"text\":\"a\"}]}\n\ndata: {\"error\":\"late\"}\n\ndata: [DONE]\n\n")
	}))
	for name, completed := range map[string]int{"default": 0, "aiperf-0.13": 3, "agentx-1.0.12": 3} {
		o := optionsFor(t, cachetest.Demo(t), url)
		o.Requests, o.SkipPreflight, o.Switches = 3, false, under(t, name)
		s, err := Run(t.Context(), o)
		var refused *PreflightError
		require.Equal(t, completed == 0, errors.As(err, &refused), "%s: %v", name, err)
		require.Equal(t, completed, s.Completed, name)
	}
}

// With CountGrace a request that ends in the grace is in the headline, and one that is cancelled then is not.
//
// Covers T-39.
func TestCountGrace(t *testing.T) {
	for name, want := range map[string]map[measure.Bucket]int{
		"default":       {measure.Profiling: 2, measure.CancelledAtEnd: 1},
		"aiperf-0.13":   {measure.Profiling: 2, measure.CancelledAtEnd: 1},
		"agentx-1.0.12": {measure.Profiling: 2, measure.CancelledAtEnd: 1},
	} {
		s := &simulation{script: func(d conductor.Dispatch) (time.Duration, time.Duration, wire.Category) {
			return []time.Duration{time.Second, 15 * time.Second, time.Hour}[d.Lane], 0, ""
		}}
		o := Options{Concurrency: 3, Duration: 10 * time.Second, Grace: 10 * time.Second, Trees: 3, Switches: under(t, name)}
		require.NoError(t, s.loop(o, turnsOf{0}).run())
		require.Equal(t, want, s.buckets(), name)
		for _, r := range s.records {
			require.Equal(t, map[bool]float64{true: 10}[r.End.Seconds() > 10], r.Deadline.Seconds(), "%s: %v", name, r.End.Seconds())
		}
	}
}

// A summary that is made again from the files of a run is the same, byte for byte, under each preset and with each switch of
// the numbers by itself. Preset and deviations stand in it.
//
// Covers T-44, T-55.
func TestSummaryOfEachPresetIsMadeAgain(t *testing.T) {
	_, url := mocked(t, mock.Config{})
	o := optionsFor(t, cachetest.Demo(t), url)
	o.Requests, o.Fields.Extra = 20, json.RawMessage(`{"stream_options":{"continuous_usage_stats":true}}`)
	check := func(name string, s preset.Switches) {
		t.Helper()
		o.Out, o.Preset, o.Switches = filepath.Join(t.TempDir(), "out"), name, &s
		got := play(t, t.Context(), o).Summary
		require.Equal(t, name, got.Run.Preset)
		require.Equal(t, s.Deviations(name), got.Run.Switches)
		require.Contains(t, got.Run.Switches, "tree-idle-cap")
		require.Equal(t, map[bool]string{true: "grace_included", false: "deadline"}[s.CountGrace], got.Headline)
		require.Equal(t, string(s.ThroughputWindow), got.ThroughputWindow.Kind)
		require.Equal(t, map[bool]string{false: "first-chunk", true: "osl-1"}[s.ITLOverAllButOne], got.ITLDivisor.Rule)
		require.Positive(t, got.ITLDivisor.Known+got.ITLDivisor.Unusable, "the server tells the tokens of first messages")
		require.EqualValues(t, got.ThroughputWindow.Requests/got.ThroughputWindow.Seconds, got.RequestRate)
		require.EqualValues(t, got.Measured, got.ThroughputWindow.Requests, "there is no deadline")
		first, err := os.ReadFile(filepath.Join(o.Out, SummaryFile))
		require.NoError(t, err)
		again, about, err := rebuildSummary(o.Out)
		require.NoError(t, err)
		require.Empty(t, about)
		require.Equal(t, got.Run.Preset, again.Run.Preset)
		rebuilt, err := os.ReadFile(filepath.Join(o.Out, SummaryFile))
		require.NoError(t, err)
		require.Equal(t, string(first), string(rebuilt))
	}
	none := preset.Seconds(1e6)
	for _, name := range preset.Names {
		s, _ := preset.Named(name)
		s.TreeIdleCap = &none
		check(name, s)
	}
	for _, change := range []func(s *preset.Switches){
		func(s *preset.Switches) { s.CountGrace = false },
		func(s *preset.Switches) { s.ThroughputWindow = preset.WindowPhase },
		func(s *preset.Switches) { s.ThroughputWindow = preset.WindowBenchmark },
		func(s *preset.Switches) { s.ITLOverAllButOne = true },
	} {
		s := *withoutTreeIdle()
		change(&s)
		check(preset.Default, s)
	}

	data, err := os.ReadFile(filepath.Join(o.Out, RunFile))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(o.Out, RunFile), []byte(strings.Replace(string(data), `"preset": "default"`, `"preset": "later"`, 1)), 0o600))
	_, _, err = rebuildSummary(o.Out)
	require.ErrorContains(t, err, `run.json: preset "later": want one of default, aiperf-0.13, agentx-1.0.12`)
}

// A preset over a cache of another profile is said, and so is a switch that the cache decides.
//
// Covers T-44.
func TestPresetAndProfile(t *testing.T) {
	for _, c := range []struct {
		preset, profile string
		negative        bool // the cache subtracts negative durations
		warning         string
	}{
		{"default", "default", false, ""},
		{"aiperf-0.13", "aiperf", true, ""},
		{"default", "", false, ""},
		{"default", "aiperf", true, "preset default: the cache has the profile aiperf: times follow the preset, prompts follow the profile, and " +
			"the cache was built with negative-duration subtract, which stays in force instead of zero"},
		{"agentx-1.0.12", "aiperf", true, ""},
		{"agentx-1.0.12", "default", false, "preset agentx-1.0.12: the cache has the profile default: times follow the preset, prompts follow the profile, and " +
			"the cache was built with negative-duration zero, which stays in force instead of subtract"},
		{"aiperf-0.13", "default", false, "preset aiperf-0.13: the cache has the profile default: times follow the preset, prompts follow the profile, and " +
			"the cache was built with negative-duration zero, which stays in force instead of subtract"},
	} {
		cache := *cachetest.Demo(t)
		cache.Facts.Rules.SubtractNegative = c.negative
		var said []string
		o := Options{Cache: &cache, URLs: []string{"http://host"}, Preset: c.preset, Warn: func(text string) { said = append(said, text) }}
		o.Provenance.Dataset.Profile = c.profile
		r := newRun(o.WithDefaults())
		r.warnOfProfile()
		r.close()
		if c.warning == "" {
			require.Empty(t, said, "%+v", c)
		} else {
			require.Equal(t, []string{c.warning}, said)
		}
	}
}

// Under a scenario a run that its caller or too many failures end is not valid, whatever was measured.
func TestVerdictOfARun(t *testing.T) {
	_, url := mocked(t, mock.Config{})
	_, failing := mocked(t, mock.Config{Faults: []mock.Fault{{Kind: "status=500", Rate: 1}}})
	for name, c := range map[string]struct {
		change  func(o *Options, interrupt func())
		valid   *bool
		reasons []string
	}{
		"no scenario":                 {func(o *Options, _ func()) { o.Scenario = nil }, nil, nil},
		"no scenario, interrupted":    {func(o *Options, interrupt func()) { o.Scenario = nil; interrupt() }, nil, nil},
		"scenario":                    {func(*Options, func()) {}, new(true), nil},
		"scenario, interrupted":       {func(_ *Options, interrupt func()) { interrupt() }, new(false), []string{"run_cancelled"}},
		"scenario, overridden":        {func(o *Options, _ func()) { o.Scenario.Overridden = []string{"x"} }, new(false), []string{"unsafe_override"}},
		"scenario, failures":          {func(o *Options, _ func()) { o.URLs = []string{failing} }, new(true), nil}, // ordinary errors do not invalidate
		"scenario, too many failures": {func(o *Options, _ func()) { o.URLs, o.FailedRequestThreshold = []string{failing}, 0.5 }, new(false), []string{"run_cancelled"}},
		"scenario, preflight refused": {func(o *Options, _ func()) { o.URLs, o.SkipPreflight = []string{failing}, false }, new(false), []string{"run_cancelled"}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			o := optionsFor(t, cachetest.Demo(t), url)
			o.Requests, o.Scenario = 30, &measure.Scenario{Name: "made-up"}
			c.change(&o, interrupt)
			s, _ := Run(ctx, o) // the error is that of the failures
			require.NotNil(t, s)
			require.Equal(t, c.valid, s.Valid)
			require.Equal(t, c.reasons, s.Reasons)
			require.Equal(t, o.Scenario, s.Run.Scenario)
			if name == "scenario, preflight refused" {
				require.NoDirExists(t, o.Out)
				return
			}
			written, err := measure.ReadInfo(o.Out)
			require.NoError(t, err)
			require.Equal(t, c.valid, written.Facts.Valid)
			require.Equal(t, c.reasons, written.Facts.Reasons)
			again, _, err := rebuildSummary(o.Out)
			require.NoError(t, err)
			require.Equal(t, c.valid, again.Valid)
			require.Equal(t, c.reasons, again.Reasons)
		})
	}
}

// A tree that deadlocks in the warmup is a reason and has a report. With StopOnDeadlock the run ends with it.
func TestDeadlockInTheWarmup(t *testing.T) {
	for _, stops := range []bool{false, true} {
		_, url := mocked(t, mock.Config{})
		o := optionsFor(t, cachetest.Demo(t), url)
		o.Concurrency, o.Warmup, o.Requests, o.StopOnDeadlock, o.Scenario = 16, Warmup{Requests: 60}, 20, stops, &measure.Scenario{Name: "made-up"}
		s, name, _ := playDeadlocked(t, o)
		require.NotEmpty(t, s.Deadlocks) // on each lane that plays the trace
		for _, d := range s.Deadlocks {
			require.Equal(t, measure.WarmupPhase, d.Phase)
			require.Equal(t, name, d.Trace)
		}
		require.Equal(t, len(s.Deadlocks), s.Deadlocked())
		require.Equal(t, new(false), s.Valid)
		if stops {
			require.Equal(t, []string{"run_cancelled", "wedged_tree"}, s.Reasons)
			require.Zero(t, s.Requests)
			continue
		}
		require.Zero(t, s.DeadlockedTrees)
		require.Equal(t, []string{"wedged_tree"}, s.Reasons)
		require.Equal(t, 20, s.Completed)
	}
}
