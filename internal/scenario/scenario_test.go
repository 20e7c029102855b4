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
	require.Equal(t, map[string]any{
		"start": "sampled", "start-min-ratio": 0.0, "start-max-ratio": 1.0, "warmup": "primers", "system-idle-cap": 10 * time.Second,
		"marker": "first_turn_prefix", "duration": 1800 * time.Second, "marker-permits-wrap": true,
		"seed": "9223372036854775807", // 63 bits
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
	require.Equal(t, map[string]any{
		"start": "sampled", "start-min-ratio": 0.25, "start-max-ratio": 0.75, "warmup": "requests=10", "warmup-grace": 1800 * time.Second, "system-idle-cap": 10 * time.Second,
		"trace-idle-cap": 300 * time.Second, "marker": "first_turn_prefix", "duration": 3600 * time.Second, "marker-permits-wrap": true, "seed": "42", "max-error-rate": 0.1,
		"tcp-user-timeout": 900 * time.Second, "stats-interval": 30 * time.Second, "limit-traces": 393, "slice-duration": 1 * time.Second, "coverage-gate": true, "coverage-by": "latencies",
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
	worst.ASAP, worst.Speed, worst.MaxGap, worst.SystemIdleCap, worst.Marker, worst.Duration = true, 2, time.Second, 0, "off", 899*time.Second
	worst.Unstreamed, worst.EndsEarly, worst.CoverageGate, worst.Sweep = []string{"a"}, []string{"b"}, false, "{concurrency} 1,2"
	require.Equal(t, []string{
		"ignore_delays: {asap} is true: want false: leave out {asap}",
		"speed: {speed} is 2: want 1: leave out {speed}",
		"gap_cap: {max-gap} is 1s: want off: leave out {max-gap}; {tree-idle-cap} may be set",
		"system_idle_cap: {system-idle-cap} is off: want 10s: leave out {system-idle-cap}",
		"marker: {marker} is off: want first_turn_prefix: leave out {marker}",
		"streaming: a: want streamed answers: leave it out",
		"ignore_eos: b: want ignore_eos true and a length in every body: leave it out",
		"duration: {duration} is 899s: want at least 900s: leave out {duration}, for 3600s",
		"coverage_gate: {coverage-gate} is false: want true: leave out {coverage-gate}",
		"sweep: {concurrency} 1,2 is several runs: want one run: give one number of lanes",
	}, lines(AgentX().Check(worst)))
}

func asMap(t *testing.T, list []Value) map[string]any {
	values := map[string]any{}
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

		"no delays":          {func(p *Settings) { p.ASAP = true }, []string{"ignore_delays: {asap} is true: want false: leave out {asap}"}},
		"fast":               {func(p *Settings) { p.Speed = 7.5 }, []string{"speed: {speed} is 7.5: want 1: leave out {speed}"}},
		"slow":               {func(p *Settings) { p.Speed = .5 }, []string{"speed: {speed} is 0.5: want 1: leave out {speed}"}},
		"short gaps":         {func(p *Settings) { p.MaxGap = time.Minute }, []string{"gap_cap: {max-gap} is 60s: want off: leave out {max-gap}; {tree-idle-cap} may be set"}},
		"compressed traces":  {func(p *Settings) { p.TraceIdleCap = time.Minute }, []string{"trace_idle_cap: {trace-idle-cap} is 60s, and {trace-cap} is load: want off: leave out {trace-idle-cap}; {tree-idle-cap} may be set"}},
		"another system cap": {func(p *Settings) { p.SystemIdleCap = 11 * time.Second }, []string{"system_idle_cap: {system-idle-cap} is 11s: want 10s: leave out {system-idle-cap}"}},
		"no system cap":      {func(p *Settings) { p.SystemIdleCap = 0 }, []string{"system_idle_cap: {system-idle-cap} is off: want 10s: leave out {system-idle-cap}"}},
		"another marker":     {func(p *Settings) { p.Marker = "system_prefix" }, []string{"marker: {marker} is system_prefix: want first_turn_prefix: leave out {marker}"}},
		"no marker":          {func(p *Settings) { p.Marker = "off" }, []string{"marker: {marker} is off: want first_turn_prefix: leave out {marker}"}},
		"no stream":          {func(p *Settings) { p.Unstreamed = []string{`{extra-body} has "stream":false`} }, []string{`streaming: {extra-body} has "stream":false: want streamed answers: leave it out`}},
		"answers may end": {func(p *Settings) { p.EndsEarly = []string{"{no-ignore-eos}", "{max-tokens-field} none"} }, []string{
			"ignore_eos: {no-ignore-eos}: want ignore_eos true and a length in every body: leave it out",
			"ignore_eos: {max-tokens-field} none: want ignore_eos true and a length in every body: leave it out",
		}},
		"short":       {func(p *Settings) { p.Duration = 899500 * time.Millisecond }, []string{"duration: {duration} is 899.5s: want at least 900s: leave out {duration}, for 1800s"}},
		"no duration": {func(p *Settings) { p.Duration = 0 }, []string{"duration: {duration} is off: want at least 900s: leave out {duration}, for 1800s"}},
		"requests":    {func(p *Settings) { p.Requests = 1 << 30 }, []string{"early_bound: {requests} may end the run before its duration: want no bound beside {duration}: leave it out"}},
		"trees":       {func(p *Settings) { p.Trees = 1 }, []string{"early_bound: {trees} may end the run before its duration: want no bound beside {duration}: leave it out"}},
		"until":       {func(p *Settings) { p.Until = true }, []string{"early_bound: {until} may end the run before its duration: want no bound beside {duration}: leave it out"}},
		"once":        {func(p *Settings) { p.Once = true }, []string{"early_bound: {once} may end the run before its duration: want no bound beside {duration}: leave it out"}},
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
		ASAP: true, Speed: 2, MaxGap: time.Second, TraceIdleCap: time.Second, TraceCap: "load", Marker: "off",
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
