package replay

import (
	"encoding/json"
	"math"
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
		"cache: nil: want an open cache":                             func(o *Options) { o.Cache = nil },
		"cache: opened without prompts: want":                        func(o *Options) { o.Cache = structure },
		"grace -1s: want no negative value, or Off":                  func(o *Options) { o.Grace = -time.Second },
		"limits: lane start -1s: want":                               func(o *Options) { o.Limits.LaneStart = -time.Second },
		"limits: trace idle -1s: want":                               func(o *Options) { o.Limits.TraceIdle = -time.Second },
		"wire: overflow regexp 0 is nil":                             func(o *Options) { o.OverflowPatterns = []*regexp.Regexp{nil} },
		"model: want a name":                                         func(o *Options) { o.Model = "" },
		"wire: target has scheme":                                    func(o *Options) { o.URLs = []string{"ftp://127.0.0.1"} },
		"endpoint 4: want 0 to 3":                                    func(o *Options) { o.Endpoint = 4 },
		"marker target 6: want 0 to 5":                               func(o *Options) { o.Marker = payload.SystemSuffix + 1 },
		`fields: length "n": want max_tokens`:                        func(o *Options) { o.Fields.Length = "n" },
		"fields: extra: want a JSON object":                          func(o *Options) { o.Fields.Extra = json.RawMessage(`[1]`) },
		"concurrency -1: want 1 to 65536":                            func(o *Options) { o.Concurrency = -1 },
		"concurrency 65537: want 1 to 65536":                         func(o *Options) { o.Concurrency = MaxConcurrency + 1 },
		"stats interval 1ns: want at least 100ms":                    func(o *Options) { o.StatsInterval = 1 },
		"traces -1: want no negative value":                          func(o *Options) { o.Traces = -1 },
		"max context -2: want":                                       func(o *Options) { o.MaxContext = -2 },
		"max context: ServerContext beside SkipPreflight":            func(o *Options) { o.MaxContext, o.SkipPreflight = ServerContext, true },
		"requests -1: want":                                          func(o *Options) { o.Requests = -1 },
		"trees -1: want":                                             func(o *Options) { o.Trees = -1 },
		"limits: prefill -1: want":                                   func(o *Options) { o.Limits.Prefill = -1 },
		"duration -1s: want":                                         func(o *Options) { o.Duration = -time.Second },
		"timeout -1s: want":                                          func(o *Options) { o.Timeout = -time.Second },
		"limits: system idle -1ns: want":                             func(o *Options) { o.Limits.SystemIdle = Off },
		"order 3: want 0 to 2":                                       func(o *Options) { o.Order = Random + 1 },
		"order random repeats traces":                                func(o *Options) { o.Order = Random },
		"pace: speed -1: want a number above 0":                      func(o *Options) { o.Pace.Speed = -1 },
		"pace: speed NaN: want":                                      func(o *Options) { o.Pace.Speed = math.NaN() },
		"pace: speed +Inf: want":                                     func(o *Options) { o.Pace.Speed = math.Inf(1) },
		"pace: max gap -1s: want no negative value":                  func(o *Options) { o.Pace.MaxGap = -time.Second },
		"start ratios 0.5 to 0.25: they must lie":                    func(o *Options) { o.Start = Start{Sampled: true, Ratios: &resume.Ratios{Min: 0.5, Max: 0.25}} },
		`seed "seven": want a decimal number`:                        func(o *Options) { o.Seed = "seven" },
		"failed request threshold 1.5: want 0 to 1":                  func(o *Options) { o.FailedRequestThreshold = 1.5 },
		"failed request threshold NaN: want 0 to 1":                  func(o *Options) { o.FailedRequestThreshold = math.NaN() },
		`preset "other": want one of default, aiperf-0.13`:           func(o *Options) { o.Preset = "other" },
		"recycle 2: want 0 or 1":                                     func(o *Options) { o.Recycle = RecycleFIFOGuarded + 1 },
		"limits: trace idle -1ns: want":                              func(o *Options) { o.Limits.TraceIdle = Off },
		"warmup: requests 3: warmup-stage is duration: want a":       func(o *Options) { o.Preset, o.Warmup = preset.AIPerf, Warmup{Requests: 3} },
		"warmup: requests 3 and duration 1s: want one of the two":    func(o *Options) { o.Warmup = Warmup{Requests: 3, Duration: time.Second} },
		"warmup: requests -1, duration 0s, grace 0s, lead max 0s:":   func(o *Options) { o.Warmup.Requests = -1 },
		"warmup: requests 0, duration 0s, grace -1ns, lead max 0s:":  func(o *Options) { o.Warmup.Grace = Off },
		"scenario: want a name":                                      func(o *Options) { o.Scenario = &measure.Scenario{} },
		`switches: itl-divisor "osl": want "first-chunk" or "osl-1"`: func(o *Options) { o.Switches = withoutTreeIdle(); o.Switches.ITLDivisor = "osl" },
		"backoff: max -1s: want no negative value":                   func(o *Options) { o.Backoff.Max = -time.Second },
		"URLs: want that of a server":                                func(o *Options) { o.URLs = nil },
		"readiness: timeout -1s, interval 0s: want no negative":      func(o *Options) { o.Readiness.Timeout = -time.Second },
		"readiness: timeout 0s, interval -1s: want no negative":      func(o *Options) { o.Readiness.Interval = -time.Second },
		"readiness: mode 3: want 0 to 2":                             func(o *Options) { o.Readiness.Mode = ReadyByBoth + 1 },
		"cache reset: timeout -1s: want no negative value":           func(o *Options) { o.CacheReset.Timeout = -time.Second },
		`cache reset: path "http://x/y": want a path below`:          func(o *Options) { o.CacheReset.Path = "http://x/y" },
		`cache reset: path "a?b": want a path below`:                 func(o *Options) { o.CacheReset.Path = "a?b" },
		`cache reset: path "a\r\nb": want a path below`:              func(o *Options) { o.CacheReset.Path = "a\r\nb" },
		"wire: header name":                                          func(o *Options) { o.Header = []wire.HeaderField{{Name: "a b"}} },
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
	o := required(cachetest.Demo(t)).withDefaults()
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
	require.Equal(t, o.Backoff, o.withDefaults().Backoff, "defaults stay")
}

func TestOffTurnsDefaultsOff(t *testing.T) {
	o := required(cachetest.Demo(t))
	o.Grace, o.Limits, o.Backoff.First = Off, Limits{LaneStart: Off}, Off
	o = o.withDefaults()
	require.Zero(t, o.Grace)
	require.Equal(t, Limits{}, o.Limits)
	require.Zero(t, o.Backoff.First)
}

// The pressure stage has one bound, and under WarmupStage duration no number of requests.
func TestBoundsOfThePressureStage(t *testing.T) {
	for _, c := range []struct {
		preset string
		stage  preset.WarmupStage
		warmup Warmup
		want   string
	}{
		{"", "", Warmup{Requests: 3}, ""},
		{preset.AIPerf, "", Warmup{Duration: time.Second}, ""},
		{preset.AgentX, "", Warmup{Requests: 3}, ""},
		{preset.AIPerf, "", Warmup{Requests: 3}, "warmup: requests 3: warmup-stage is duration: want a duration"},
		{preset.Default, preset.StageDuration, Warmup{Requests: 3}, "warmup: requests 3: warmup-stage is duration: want a duration"},
		{preset.AIPerf, preset.StageAny, Warmup{Requests: 3}, ""},
		{"", "", Warmup{Requests: 3, Duration: time.Second}, "warmup: requests 3 and duration 1s: want one of the two"},
		{"", "", Warmup{Grace: -1}, "warmup: requests 0, duration 0s, grace -1ns, lead max 0s: want no negative value, or Off for lead max"},
	} {
		o := required(cachetest.Demo(t))
		o.Preset, o.Warmup = c.preset, c.warmup
		if c.stage != "" {
			s, _ := preset.Named(c.preset)
			s.WarmupStage = c.stage
			o.Switches = &s
		}
		if err := o.Validate(); c.want == "" {
			require.NoError(t, err)
		} else {
			require.EqualError(t, err, c.want)
		}
	}
}
