package measure

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/internal/fixtures"
	"github.com/agentx/agentx/replay/preset"
	"github.com/agentx/agentx/replay/wire"
)

// The share of overflows decides strictly above its limit. Ordinary failures dilute it.
//
// Covers T-39.
func TestVectorsOverflowGate(t *testing.T) {
	type in struct {
		Valid, Errored int
		Apart          int `json:"overflow_not_in_errors"`
		Overflows      int
	}
	type want struct {
		Rate     float64
		Exceeded bool
	}
	fixtures.EachCase(t, "overflow_gate", fixtures.Counts{6, 6, 6}, func(t *testing.T, c fixtures.Case, in in, want want) {
		require.Equal(t, in.Overflows, in.Apart, "overflows are in neither of the others")
		switches, ok := preset.Named(c.Preset)
		require.True(t, ok)
		a := NewAggregate(RulesOf(&switches))
		for range in.Valid {
			a.Add(good(0, 1, 0, 0.5, 2, 5))
		}
		for range in.Errored {
			a.Add(bad(Profiling, wire.HTTPStatus))
		}
		for range in.Overflows {
			a.Add(bad(ContextOverflow, wire.ContextOverflow))
		}
		a.Add(bad(CancelledAtEnd, wire.Cancelled)) // counts nowhere
		s := a.Summary(RunInfo{Run: Run{Scenario: &Scenario{Name: "s"}}, Facts: &Facts{}})
		require.InDelta(t, want.Rate, float64(s.OverflowRate), 1e-12)
		require.Equal(t, !want.Exceeded, *s.Valid)
		if want.Exceeded {
			require.Equal(t, []string{"context_overflow_rate_exceeded"}, s.Reasons)
		}
		s = a.Summary(RunInfo{Facts: &Facts{}})
		require.Nil(t, s.Valid, "without a scenario a run is neither")
		require.Nil(t, s.Reasons)
	})
}

// Covers T-39.
func TestVectorsCoverage(t *testing.T) {
	type in struct {
		Start      int64  `json:"phase_start_ns"`
		Expected   int64  `json:"expected_ns"`
		FirstToken *int64 `json:"last_first_token_ns"`
		ITL        *int64 `json:"last_end_with_itl_ns"`
		Content    *int64 `json:"last_content_ns"`
		Threshold  float64
	}
	type want struct {
		Ratios []float64
		Passes bool
	}
	fixtures.EachCase(t, "coverage", fixtures.Counts{6, 0, 6}, func(t *testing.T, c fixtures.Case, in in, want want) {
		require.Equal(t, in.Threshold, coverageThreshold)
		switches, ok := preset.Named(c.Preset)
		require.True(t, ok)
		since := func(at *int64) float64 {
			if at == nil {
				return 0
			}
			return Since(time.Duration(*at - in.Start)).Seconds()
		}
		a := NewAggregate(RulesOf(&switches))
		a.Add(&Record{Bucket: Profiling, Numbers: Numbers{FirstToken: At(since(in.FirstToken))}}) // without tokens: no ITL
		if in.ITL != nil {
			a.Add(&Record{Bucket: Profiling, Numbers: Numbers{FirstToken: At(1), LastToken: At(2), End: At(since(in.ITL)), OutputTokens: Tokens(2)}})
		}
		if in.Content != nil {
			a.Add(&Record{Bucket: CancelledAtEnd, Numbers: Numbers{FirstToken: At(1), LastToken: At(since(in.Content)), End: At(3600), OutputTokens: Tokens(2)}, Error: &Error{Category: wire.Cancelled}})
		}
		run := Run{Scenario: &Scenario{Name: "s", MinDuration: 900}}
		s := a.Summary(RunInfo{Run: run, Facts: &Facts{ExpectedDuration: time.Duration(in.Expected).Seconds()}})
		require.Equal(t, len(want.Ratios) < 3 && c.Preset == preset.AgentX, s.Coverage.Content.IsMissing())
		require.Equal(t, 0.95, s.Coverage.Required)
		require.Equal(t, time.Duration(in.Expected).Seconds(), s.Coverage.Expected)
		for k, got := range []float64{s.Coverage.FirstToken, s.Coverage.ITL, float64(s.Coverage.Content)}[:len(want.Ratios)] {
			require.InDelta(t, want.Ratios[k], got, 1e-15)
		}
		require.Equal(t, want.Passes, *s.Valid)
		if !want.Passes {
			require.Equal(t, []string{"insufficient_profile_metric_coverage"}, s.Reasons)
		}
	})
}

// The gate of coverage looks at phases that were asked to last as long as the scenario wants at least, under the presets that
// have it. What the warmup observed does not count.
//
// Covers T-39.
func TestCoverageGate(t *testing.T) {
	scenario := &Scenario{Name: "s", MinDuration: 900}
	for _, c := range []struct {
		what     string
		preset   string
		scenario *Scenario
		expected float64
		looks    bool
	}{
		{"default", preset.Default, scenario, 900, true},
		{"agentx", preset.AgentX, scenario, 1800, true},
		{"aiperf has none", preset.AIPerf, scenario, 1800, false},
		{"no scenario", preset.Default, nil, 1800, false},
		{"too short", preset.Default, scenario, 899.999999999, false},
		{"no duration", preset.Default, scenario, 0, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			switches, ok := preset.Named(c.preset)
			require.True(t, ok)
			a := NewAggregate(RulesOf(&switches))
			warm := good(0, c.expected, 0, 1, 2, 5)
			warm.Phase, warm.Bucket = WarmupPhase, WarmupBucket
			a.Add(warm)
			a.Add(good(0, 1, 0, 1, 2, 5))
			s := a.Summary(RunInfo{Run: Run{Scenario: c.scenario}, Facts: &Facts{ExpectedDuration: c.expected}})
			require.Equal(t, c.looks, s.Coverage != nil)
			if c.looks {
				require.Equal(t, []string{InsufficientMetrics}, s.Reasons)
			} else {
				require.Nil(t, s.Reasons)
			}
			require.Nil(t, a.Summary(RunInfo{Run: Run{Scenario: c.scenario}}).Coverage, "of a run that was killed nothing is known")
		})
	}
}

// A request that ends a nanosecond after the deadline is cooldown, and headline with CountGrace. Both belong to the verdict; what
// was cancelled does not.
//
// Covers T-39.
func TestCooldownToTheNanosecond(t *testing.T) {
	for _, name := range fixtures.Presets {
		switches, ok := preset.Named(name)
		require.True(t, ok)
		switches.CountGrace = name != preset.Default // which has it, too
		a := NewAggregate(RulesOf(&switches))
		cutoff := Cutoff{Deadline: 900 * time.Second, CountGrace: switches.CountGrace}
		add := func(end time.Duration, category wire.Category) {
			r := good(0, 880, 0, 1, 2, 5)
			r.End, r.Bucket = Since(end), cutoff.Bucket(end, category)
			if category != "" {
				r.Error = &Error{Category: category}
			}
			a.Add(r)
		}
		add(900*time.Second, "")
		add(900*time.Second+1, "")
		add(900*time.Second+1, wire.HTTPStatus)
		add(900*time.Second+1, wire.ContextOverflow)
		add(930*time.Second, wire.Cancelled)
		s := a.Summary(RunInfo{Run: Run{Scenario: &Scenario{Name: "s"}}, Facts: &Facts{}})
		want := Buckets{Profiling: 1, Cooldown: 2, CancelledAtEnd: 1, ContextOverflow: 1}
		headline, cooldown := 1, 1
		if name != preset.Default {
			want.Profiling, want.Cooldown, headline, cooldown = 3, 0, 2, 0
		}
		require.Equal(t, want, s.Buckets, name)
		require.Equal(t, headline, s.Measured, name)
		require.Equal(t, cooldown, s.Cooldown.Measured, name)
		require.EqualValues(t, Number(1)/3, s.ErrorRate)
		require.Equal(t, map[wire.Category]Number{wire.HTTPStatus: Number(1) / 3}, s.ErrorRates)
		require.EqualValues(t, 0.25, s.OverflowRate, "of all but what was cancelled")
		require.Equal(t, []string{OverflowRate}, s.Reasons)
	}
}

// A request that failed has content, but no latency: it covers the phase as a stream alone.
//
// Covers T-39.
func TestCoverageOfFailures(t *testing.T) {
	var l latest
	of := func(expected Time, rules Rules) *Coverage {
		rules.CoverageGate = true
		return l.of(&RunInfo{Run: Run{Scenario: &Scenario{}}, Facts: &Facts{ExpectedDuration: expected.Seconds()}}, rules)
	}
	r := good(0, 90, 0, 1, 5, 5)
	r.Error = &Error{Category: wire.StreamTruncated}
	l.add(r, Rules{})
	require.Equal(t, &Coverage{Content: 0.95, Expected: 100, Required: 0.95}, of(100e9, Rules{}))
	require.GreaterOrEqual(t, of(100e9, Rules{}).largest(), coverageThreshold)
	require.Less(t, of(100e9+1, Rules{}).largest(), coverageThreshold)
	require.Less(t, of(100e9, Rules{LatenciesOnly: true}).largest(), coverageThreshold)
	r.Error = nil
	l.add(r, Rules{})
	require.Equal(t, &Coverage{0.91, 0.951, 0.95, 100, 0.95}, of(100e9, Rules{}))
	require.Equal(t, &Coverage{1, 1, 1, 1, 0.95}, of(1e9, Rules{}))
}

// By latencies the content of a request that failed does not count: a run whose last answers all break off is not valid.
//
//
func TestCoverageByLatencies(t *testing.T) {
	for _, c := range []struct {
		what              string
		firstToken, itl   float64 // until when, in shares of the duration
		broken            float64 // content of a failed answer, too; 0: there is none
		valid, byContents bool
	}{
		{"an ITL in the last twentieth", 0.94, 0.96, 0, true, true},
		{"a first token in the last twentieth", 0.96, 0.94, 0, true, true},
		{"neither", 0.94, 0.94, 0, false, false},
		{"only a stream that breaks off", 0.94, 0.94, 0.99, false, true},
	} {
		for by, want := range map[bool]bool{true: c.valid, false: c.byContents} {
			switches, _ := preset.Named(preset.AgentX)
			switches.CoverByLatencies = by
			a := NewAggregate(RulesOf(&switches))
			at := func(share float64) float64 { return 900 * share }
			a.Add(&Record{Bucket: Profiling, Numbers: Numbers{FirstToken: At(at(c.firstToken))}}) // without a number of tokens: no ITL
			a.Add(&Record{Bucket: Profiling, Numbers: Numbers{FirstToken: At(1), LastToken: At(2), End: At(at(c.itl)), OutputTokens: Tokens(2)}})
			if c.broken > 0 {
				a.Add(&Record{Bucket: Profiling, Numbers: Numbers{FirstToken: At(at(c.broken) - 1), LastToken: At(at(c.broken)), End: At(900), OutputTokens: Tokens(2)}, Error: &Error{Category: wire.StreamTruncated}})
			}
			s := a.Summary(RunInfo{Run: Run{Scenario: &Scenario{Name: "agentx", MinDuration: 900}}, Facts: &Facts{ExpectedDuration: 900}})
			require.Equal(t, want, *s.Valid, "%s, by latencies %v", c.what, by)
			require.Equal(t, map[bool][]string{false: {InsufficientMetrics}}[want], s.Reasons)
			require.InDelta(t, c.firstToken, s.Coverage.FirstToken, 1e-12)
			require.InDelta(t, c.itl, s.Coverage.ITL, 1e-12)
		}
	}
}

// A run below the least duration of its scenario, which is overridden, and one that was cancelled are not valid anyway: their
// coverage is not looked at. Reasons stand in their order.
//
//
func TestCoverageIsNotLookedAt(t *testing.T) {
	switches, _ := preset.Named(preset.AgentX)
	for want, c := range map[string]struct {
		seconds                          float64
		overridden, cancelled, overflows bool
	}{
		"unsafe_override": {seconds: 899, overridden: true},
		"run_cancelled":   {seconds: 900, cancelled: true},
		"unsafe_override context_overflow_rate_exceeded run_cancelled":        {seconds: 900, overridden: true, cancelled: true, overflows: true},
		"context_overflow_rate_exceeded insufficient_profile_metric_coverage": {seconds: 900, overflows: true},
	} {
		a := NewAggregate(RulesOf(&switches))
		a.Add(good(0, 1, 0, 1, 2, 5))
		if c.overflows {
			a.Add(bad(ContextOverflow, wire.ContextOverflow))
		}
		sc := &Scenario{Name: "agentx", MinDuration: 900}
		if c.overridden {
			sc.Overridden = []string{"duration: ..."}
		}
		s := a.Summary(RunInfo{Run: Run{Scenario: sc}, Facts: &Facts{ExpectedDuration: c.seconds, Cancelled: c.cancelled}})
		require.Equal(t, strings.Fields(want), s.Reasons)
		require.Equal(t, strings.Contains(want, InsufficientMetrics), s.Coverage != nil, want)
	}
}

// A part that the others have lost makes a run invalid, also without a scenario.
func TestLostPart(t *testing.T) {
	a := NewAggregate(Rules{})
	s := a.Summary(RunInfo{Facts: &Facts{LostParts: []LostPart{{Number: 3, Host: "n4", Cause: "its connection ended"}}}})
	require.False(t, *s.Valid)
	require.Equal(t, []string{"part_lost"}, s.Reasons)
}

// A verdict says which corpus was played, and what of it was checked.
func TestVerdictNamesTheCorpus(t *testing.T) {
	for pin, want := range map[string]string{
		"name":    "valid       yes (corpus owner/name: its name was checked, its content is recorded)\n",
		"content": "valid       yes (corpus owner/name: its content was checked)\n",
		"":        "valid       yes\n",
	} {
		var b strings.Builder
		info := RunInfo{Run: Run{Scenario: &Scenario{Name: "s", Corpus: "owner/name", PinnedBy: pin}}, Facts: &Facts{}}
		require.NoError(t, NewAggregate(Rules{}).Summary(info).WriteTable(&b, 0))
		require.Contains(t, b.String(), want)
	}
}

// The name of a repository is that of a dataset whose inputs were all fetched from it at one commit.
func TestDatasetOfAHub(t *testing.T) {
	for names, want := range map[string]string{
		"hf://datasets/o/n@c1/data/train.jsonl":                    "o/n c1 data/train.jsonl",
		"hf://datasets/o/n@c1/a hf://datasets/o/n@c1/b":            "o/n c1 a",
		"hf://datasets/o/n@c1/a hf://datasets/o/n@c2/b":            "  ",
		"hf://datasets/o/n@c1/a hf://datasets/o/m@c1/b":            "  ",
		"hf://datasets/o/n@c1/a /tmp/b":                            "  ",
		"/tmp/hf://datasets/o/n@c1/a":                              "  ",
		"/home/me/datasets/semianalysisai/cc-traces-weka-062126/a": "  ",
		"hf://datasets/o/n/a":                                      "  ",
		"":                                                         "  ",
	} {
		var d Dataset
		for name := range strings.FieldsSeq(names) {
			d.Inputs = append(d.Inputs, Input{Name: name})
		}
		repo, commit, file := d.Hub()
		require.Equal(t, want, repo+" "+commit+" "+file, names)
	}
}
