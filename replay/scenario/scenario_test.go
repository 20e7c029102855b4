package scenario

import (
	"bytes"
	"crypto/rand"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDefaults(t *testing.T) {
	defaults, err := InferenceXAgentX().Defaults(bytes.NewReader(bytes.Repeat([]byte{0xff}, 8)))
	require.NoError(t, err)
	require.Equal(t, map[string]string{
		"Start": "sampled", "StartMinRatio": "0", "StartMaxRatio": "1", "Warmup": "primers", "SystemIdleCap": "10s",
		"Marker": "first_turn_prefix", "Duration": "1800s", "MarkerPermitsWrap": "true",
		"Seed": "9223372036854775807", // 63 bits
	}, asMap(t, defaults))
	_, err = InferenceXAgentX().Defaults(iotest.ErrReader(assert.AnError))
	require.ErrorIs(t, err, assert.AnError)
}

// The scenario of the harness draws nothing.
//
// Covers T-72.
func TestDefaultsOfTheHarness(t *testing.T) {
	defaults, err := AgentX().Defaults(iotest.ErrReader(assert.AnError))
	require.NoError(t, err)
	require.Equal(t, map[string]string{
		"Start": "sampled", "StartMinRatio": "0.25", "StartMaxRatio": "0.75", "Warmup": "requests=10", "WarmupGrace": "1800s", "SystemIdleCap": "10s",
		"TraceIdleCap": "300s", "Marker": "first_turn_prefix", "Duration": "3600s", "MarkerPermitsWrap": "true", "Seed": "42", "FailedRequestThreshold": "0.1",
		"TCPUserTimeout": "900s", "StatsInterval": "30s", "limit-traces": "393", "slice-duration": "1s", "CoverageGate": "true", "CoverageBy": "latencies",
	}, asMap(t, defaults))
}

// The harness locks what the other scenario does, but for a cap of traces and bounds beside the duration. It plays one load, and
// looks at its coverage.
//
// Covers T-72.
func TestCheckOfTheHarness(t *testing.T) {
	free := played()
	free.CoverageGate, free.TraceIdleCap, free.Requests, free.Trees, free.Once, free.Until = true, time.Minute, 1, 1, true, true
	require.Empty(t, AgentX().Check(free))
	worst := free
	worst.IgnoreDelays, worst.Speed, worst.GapCap, worst.SystemIdleCap, worst.Marker, worst.Duration = true, 2, time.Second, 0, "off", 899*time.Second
	worst.Unstreamed, worst.EndsEarly, worst.CoverageGate, worst.Sweep = []string{"a"}, []string{"b"}, false, "--concurrency 1,2"
	require.Equal(t, []string{
		"ignore_delays: IgnoreDelays is true: want false: leave out --asap",
		"speed: Speed is 2: want 1: leave out --speed",
		"gap_cap: GapCap is 1s: want off: leave out --max-gap; TreeIdleCap may be set",
		"system_idle_cap: SystemIdleCap is off: want 10s: leave out SystemIdleCap",
		"marker: Marker is off: want first_turn_prefix: leave out --marker",
		"streaming: a: want streamed answers: leave it out",
		"ignore_eos: b: want ignore_eos true and a length in every body: leave it out",
		"duration: Duration is 899s: want at least 900s: leave out --duration, for 3600s",
		"coverage_gate: CoverageGate is false: want true: leave out CoverageGate",
		"sweep: --concurrency 1,2 is several runs: want one run: give one number of lanes",
	}, lines(AgentX().Check(worst)))
}

func asMap(t *testing.T, list []Value) map[string]string {
	values := map[string]string{}
	for _, v := range list {
		require.NotContains(t, values, v.Name)
		values[v.Name] = v.Value
	}
	return values
}

func TestSeedsHave63RandomBits(t *testing.T) {
	const draws = 200
	seen, ones := map[uint64]bool{}, uint64(0)
	for range draws {
		text, err := DrawSeed(rand.Reader)
		require.NoError(t, err)
		seed, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
		ones |= seed
		seen[seed] = true
	}
	require.Len(t, seen, draws)
	require.Equal(t, uint64(1)<<63-1, ones)
}

// played are settings that InferenceXAgentX allows.
func played() Settings {
	return Settings{Speed: 1, TraceCap: "load", SystemIdleCap: 10 * time.Second, Marker: "first_turn_prefix", Duration: 1800 * time.Second}
}

func TestCheck(t *testing.T) {
	for name, c := range map[string]struct {
		change func(p *Settings)
		want   []string
	}{
		"the defaults":       {func(*Settings) {}, nil},
		"the least duration": {func(p *Settings) { p.Duration = 900 * time.Second }, nil},
		"a cap of trees":     {func(p *Settings) { p.TraceIdleCap, p.TraceCap = 300*time.Second, "run" }, nil},

		"no delays":          {func(p *Settings) { p.IgnoreDelays = true }, []string{"ignore_delays: IgnoreDelays is true: want false: leave out --asap"}},
		"fast":               {func(p *Settings) { p.Speed = 7.5 }, []string{"speed: Speed is 7.5: want 1: leave out --speed"}},
		"slow":               {func(p *Settings) { p.Speed = .5 }, []string{"speed: Speed is 0.5: want 1: leave out --speed"}},
		"short gaps":         {func(p *Settings) { p.GapCap = time.Minute }, []string{"gap_cap: GapCap is 60s: want off: leave out --max-gap; TreeIdleCap may be set"}},
		"compressed traces":  {func(p *Settings) { p.TraceIdleCap = time.Minute }, []string{"trace_idle_cap: TraceIdleCap is 60s, and TraceCap is load: want off: leave out TraceIdleCap; TreeIdleCap may be set"}},
		"another system cap": {func(p *Settings) { p.SystemIdleCap = 11 * time.Second }, []string{"system_idle_cap: SystemIdleCap is 11s: want 10s: leave out SystemIdleCap"}},
		"no system cap":      {func(p *Settings) { p.SystemIdleCap = 0 }, []string{"system_idle_cap: SystemIdleCap is off: want 10s: leave out SystemIdleCap"}},
		"another marker":     {func(p *Settings) { p.Marker = "system_prefix" }, []string{"marker: Marker is system_prefix: want first_turn_prefix: leave out --marker"}},
		"no marker":          {func(p *Settings) { p.Marker = "off" }, []string{"marker: Marker is off: want first_turn_prefix: leave out --marker"}},
		"no stream":          {func(p *Settings) { p.Unstreamed = []string{`--extra-body has "stream":false`} }, []string{`streaming: --extra-body has "stream":false: want streamed answers: leave it out`}},
		"answers may end": {func(p *Settings) { p.EndsEarly = []string{"--no-ignore-eos", "--max-tokens-field none"} }, []string{
			"ignore_eos: --no-ignore-eos: want ignore_eos true and a length in every body: leave it out",
			"ignore_eos: --max-tokens-field none: want ignore_eos true and a length in every body: leave it out",
		}},
		"short":       {func(p *Settings) { p.Duration = 899500 * time.Millisecond }, []string{"duration: Duration is 899.5s: want at least 900s: leave out --duration, for 1800s"}},
		"no duration": {func(p *Settings) { p.Duration = 0 }, []string{"duration: Duration is off: want at least 900s: leave out --duration, for 1800s"}},
		"requests":    {func(p *Settings) { p.Requests = 1 << 30 }, []string{"early_bound: --requests may end the run before its duration: want no bound beside --duration: leave it out"}},
		"trees":       {func(p *Settings) { p.Trees = 1 }, []string{"early_bound: --trees may end the run before its duration: want no bound beside --duration: leave it out"}},
		"until":       {func(p *Settings) { p.Until = true }, []string{"early_bound: --until may end the run before its duration: want no bound beside --duration: leave it out"}},
		"once":        {func(p *Settings) { p.Once = true }, []string{"early_bound: --once may end the run before its duration: want no bound beside --duration: leave it out"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := played()
			c.change(&p)
			conflicts := InferenceXAgentX().Check(p)
			require.Equal(t, c.want, lines(conflicts))
			require.True(t, Overridable(conflicts))
		})
	}
}

func lines(conflicts []Conflict) (list []string) {
	for _, c := range conflicts {
		list = append(list, c.Error())
	}
	return list
}

// All conflicts are found at once, each once, and every reason has one.
func TestCheckFindsEveryConflict(t *testing.T) {
	worst := Settings{
		IgnoreDelays: true, Speed: 2, GapCap: time.Second, TraceIdleCap: time.Second, TraceCap: "load", Marker: "off",
		Unstreamed: []string{"a"}, EndsEarly: []string{"b", "c"}, Requests: 1, Trees: 1, Once: true, Until: true,
	}
	conflicts := append(InferenceXAgentX().Check(worst), InferenceXAgentX().CheckDataset(Dataset{SHA256: []string{"0"}, Truncated: []string{"max_isl=1"}}, nil)...)
	conflicts = append(conflicts, InferenceXAgentX().CheckDataset(Dataset{SHA256: []string{"0"}, Synthetic: "demo"}, nil)...)
	var reasons []string
	for _, c := range conflicts {
		reasons = append(reasons, string(c.Reason))
	}
	require.Equal(t, strings.Fields(`ignore_delays speed gap_cap trace_idle_cap system_idle_cap marker streaming ignore_eos ignore_eos
		duration early_bound early_bound early_bound early_bound unknown_corpus input_truncation synthetic_dataset`), reasons)
}

// A scenario is data: another one has other bounds.
func TestCheckUsesTheBoundsOfTheScenario(t *testing.T) {
	short := InferenceXAgentX()
	short.MinDuration, short.SystemIdle, short.Marker = time.Second, time.Minute, "off"
	p := played()
	p.Duration, p.SystemIdleCap, p.Marker = time.Second, time.Minute, "off"
	require.Empty(t, short.Check(p))
	require.Len(t, InferenceXAgentX().Check(p), 3)
}
