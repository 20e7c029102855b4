package replay

import (
	"encoding/json"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/cachetest"
	"github.com/agentx/agentx/mmapcache"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/payload"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/resume"
	"github.com/agentx/agentx/replay/wire"
)

// required are options with nothing but the fields that have no default.
func required(c *mmapcache.Cache) Options {
	return Options{Cache: c, URLs: []string{unreachable}, Model: "m"}
}

func TestOptionsAreValidated(t *testing.T) {
	c := cachetest.Demo(t)
	require.NoError(t, required(c).Validate())
	structure, err := mmapcache.OpenStructure(c.Root, c.Manifest.Parts[mmapcache.StructureKind].Key)
	require.NoError(t, err)
	defer structure.Close()
	for want, change := range map[string]func(o *Options){
		"cache: nil: want an open cache":                           func(o *Options) { o.Cache = nil },
		"cache: opened without prompts: want":                      func(o *Options) { o.Cache = structure },
		"wire: overflow regexp 0 is nil":                           func(o *Options) { o.OverflowPatterns = []*regexp.Regexp{nil} },
		"concurrency -1: want 0 or more":                           func(o *Options) { o.Concurrency = -1 },
		"concurrency 2000000000: want at most":                     func(o *Options) { o.Concurrency = 2_000_000_000 },
		"trees -2: want 0 or more":                                 func(o *Options) { o.Trees = -2 },
		"model is empty: give a name":                              func(o *Options) { o.Model = "" },
		"wire: target has scheme":                                  func(o *Options) { o.URLs = []string{"ftp://127.0.0.1"} },
		"endpoint 4: want 0 to 3":                                  func(o *Options) { o.Endpoint = 4 },
		"marker target 6: want 0 to 5":                             func(o *Options) { o.Marker = payload.SystemSuffix + 1 },
		`fields: length "n": want max_tokens`:                      func(o *Options) { o.Fields.Length = "n" },
		"fields: extra: want a JSON object":                        func(o *Options) { o.Fields.Extra = json.RawMessage(`[1]`) },
		"--max-context: the preflight asks the server":             func(o *Options) { o.MaxContext, o.SkipPreflight = ServerContext, true },
		"--sampler-order repeats traces":                           func(o *Options) { o.Order = Random },
		`seed "seven": want a decimal number`:                      func(o *Options) { o.Seed = "seven" },
		`preset "other": want one of default, aiperf-0.13`:         func(o *Options) { o.Preset = "other" },
		"--warmup: under --warmup-stage the pressure stage has a ": func(o *Options) { o.Preset, o.Warmup = preset.AIPerf, Warmup{Requests: 3} },
		"scenario: the name is empty: give one":                    func(o *Options) { o.Scenario = &measure.Scenario{} },
		"URLs is empty: give the URL of a server":                  func(o *Options) { o.URLs = nil },
		"wire: header name":                                        func(o *Options) { o.Header = []wire.HeaderField{{Name: "a b"}} },
	} {
		t.Run(want, func(t *testing.T) {
			o := required(c)
			change(&o)
			require.ErrorContains(t, o.Validate(), want)
			_, err := Run(t.Context(), o)
			require.ErrorContains(t, err, "replay: "+want)
			_, err = EstimateDuration(o)
			require.ErrorContains(t, err, "replay: "+want)
		})
	}
}

func TestZeroOptionsMeanTheDefaults(t *testing.T) {
	o := required(cachetest.Demo(t)).WithDefaults()
	require.Equal(t, 1, o.Concurrency)
	require.Equal(t, "42", o.Seed)
	require.Equal(t, 30*time.Second, o.Grace)
	require.Equal(t, 6*time.Hour, o.Timeout)
	require.Equal(t, 30*time.Second, o.StatsInterval)
	require.Equal(t, Backoff{First: time.Second, Max: 30 * time.Second}, o.Backoff)
	require.Equal(t, Limits{LaneStart: 300 * time.Second}, o.Limits)
	require.Equal(t, &resume.Ratios{Min: 0.25, Max: 0.75}, o.Start.Ratios)
	require.Equal(t, payload.FirstTurnPrefix, o.Marker)
	require.Len(t, o.NewID(), 36)
	require.Equal(t, o.Backoff, o.WithDefaults().Backoff, "defaults stay")
}

func TestOffTurnsDefaultsOff(t *testing.T) {
	o := required(cachetest.Demo(t))
	o.Grace, o.Limits, o.Backoff.First = Off, Limits{LaneStart: Off}, Off
	o = o.WithDefaults()
	require.Zero(t, o.Grace)
	require.Equal(t, Limits{}, o.Limits)
	require.Zero(t, o.Backoff.First)
}

// The pressure stage has one bound, and under WarmupStage duration no number of requests.
func TestBoundsOfThePressureStage(t *testing.T) {
	for _, c := range []struct {
		preset string
		stage  string
		warmup Warmup
		want   string
	}{
		{"", "", Warmup{Requests: 3}, ""},
		{preset.AIPerf, "", Warmup{Duration: time.Second}, ""},
		{preset.AgentX, "", Warmup{Requests: 3}, ""},
		{preset.AIPerf, "", Warmup{Requests: 3}, "--warmup: under --warmup-stage the pressure stage has a duration: want duration=D"},
		{preset.Default, "duration", Warmup{Requests: 3}, "--warmup: under --warmup-stage the pressure stage has a duration: want duration=D"},
		{preset.AIPerf, "any", Warmup{Requests: 3}, ""},
	} {
		o := required(cachetest.Demo(t))
		o.Preset, o.Warmup = c.preset, c.warmup
		if c.stage != "" {
			s, _ := preset.Named(c.preset)
			s.StageByDuration = c.stage == "duration"
			o.Switches = &s
		}
		if err := o.Validate(); c.want == "" {
			require.NoError(t, err)
		} else {
			require.EqualError(t, err, c.want)
		}
	}
}
