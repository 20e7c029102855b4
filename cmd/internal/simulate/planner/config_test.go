package planner

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/simulate/preset"
)

func TestParse(t *testing.T) {
	got, err := Parse([]byte(`{"mode":"disagg","ttft":2500,"itl":40,"enable_load_scaling":true,"throughput_adjustment_interval":60,
		"load_adjustment_interval":4,"load_scaling_down_sensitivity":70,"report_filename":"x.html","pre_deployment_sweeping_mode":"rapid"}`), Default())
	require.NoError(t, err)
	want := Default()
	want.Mode, want.TTFT, want.ITL, want.LoadScaling, want.ThroughputInterval, want.LoadInterval = Disaggregated, 2500, 40, true, 60, 4
	want.Sensitivity = 0.7
	require.Equal(t, want, got)
	require.NoError(t, got.Validate())
	for text, message := range map[string]string{
		`[]`:                       "planner: want a JSON object, not []",
		`null`:                     "planner: want a JSON object, not null",
		`{"ttft":1,"ttft_ms":2}`:   "planner: ttft and ttft_ms are the same key",
		`{"thrughput_interval":1}`: `planner: unknown key "thrughput_interval"; did you mean "throughput_interval"?`,
		`{"pre_deployment_sweeping_mode":"thorough"}`: `planner: pre_deployment_sweeping_mode "thorough": want "rapid"`,
	} {
		_, err := Parse([]byte(text), Default())
		require.EqualError(t, err, message)
	}
	_, err = Parse([]byte(`{"ttft":"fast"}`), Default())
	require.ErrorContains(t, err, "planner: ttft_ms: want a number, not a text")
}

func TestValidate(t *testing.T) {
	require.NoError(t, Default().Validate())
	for want, change := range map[string]func(c *Config){
		`planner: mode "both": want agg or disagg`:                                                                                         func(c *Config) { c.Mode = "both" },
		`planner: predictor "arima": want kalman or constant`:                                                                              func(c *Config) { c.Predictor = "arima" },
		"planner: min_endpoint 0: want 1 to 1048576":                                                                                       func(c *Config) { c.MinEndpoint = 0 },
		"planner: sensitivity 1.5: want a number above 0, at most 1":                                                                       func(c *Config) { c.Sensitivity = 1.5 },
		"planner: load_interval 0.0001 s: want 0.001 or more":                                                                              func(c *Config) { c.LoadInterval = 0.0001 },
		"planner: load_interval 180 s: want a shorter time than throughput_interval 180 s":                                                 func(c *Config) { c.LoadScaling, c.LoadInterval = true, 180 },
		"planner: enable_load_scaling and enable_throughput_scaling are both false: set one of them to true, or the planner never decides": func(c *Config) { c.ThroughputScaling = false },
	} {
		c := Default()
		change(&c)
		require.EqualError(t, c.Validate(), want)
	}
	c := Default()
	c.Mode, c.MinEndpoint, c.TTFT, c.ITL = "x", 0, -5, 0
	require.EqualError(t, c.Validate(), "planner: mode \"x\": want agg or disagg\nplanner: min_endpoint 0: want 1 to 1048576\n"+
		"planner: ttft_ms -5: want a number above 0, at most 1e+12\nplanner: itl_ms 0: want a number above 0, at most 1e+12")
	_, err := Parse([]byte(`{"itlMS":1,"ttft":1,"ttft_ms":2}`), Default())
	require.EqualError(t, err, "planner: unknown key \"itlMS\"; did you mean \"itl_ms\"?\nplanner: ttft and ttft_ms are the same key")
	c = Default()
	c.Target, c.ThroughputScaling = TargetLatency, true
	require.Equal(t, []bool{true, false}, []bool{c.Resolve().LoadScaling, c.Resolve().ThroughputScaling})
}

// Deadlines that follow the last event, each with a clock of its own or both with one.
//
// Covers S-40.
func TestTicksAfterTheLastEvent(t *testing.T) {
	config := Default()
	config.LoadScaling, config.LoadInterval, config.ThroughputInterval = true, 5, 10
	for rule, want := range map[preset.Choice][][2]int64{ // at, planner's time
		preset.TickNominal:         {{5, 5}, {10, 10}, {15, 15}, {20, 20}},
		preset.TickLastEvent:       {{5, 4}, {9, 9}, {10, 10}, {14, 14}},
		preset.TickLastEventShared: {{5, 4}, {9, 9}, {14, 14}, {19, 19}},
	} {
		k := newClock(config, rule)
		for i, w := range want {
			at := k.at()
			now := k.tick(4e9) // nothing happens after 4 s
			require.Equal(t, w, [2]int64{at / 1e9, now / 1e9}, "%s tick %d", rule, i)
		}
	}
	config.ThroughputInterval = 6 // a deadline that drifts into the past comes at once
	k := newClock(config, preset.TickLastEventShared)
	k.tick(1e9)
	require.Equal(t, int64(5e9+1), k.at())
}

// A tick of eight engines that had 4,000 passes since the last one, which it learns from.
func BenchmarkTick(b *testing.B) {
	config := Default()
	config.LoadScaling = true
	p := flat(b, config, Aggregated, 3.5)
	pass, now := passOf(1, 1000, 0), int64(0)
	for b.Loop() {
		for id := range 8 {
			for i := range 500 {
				pass.Start, pass.End, pass.Decode.Tokens = now+int64(i)*1e7, now+int64(i+1)*1e7, 1000*id+i
				p.Passed(0, id, pass)
			}
		}
		now += 5e9
		if _, _, err := p.Tick(0, []Workers{workers(8)}); err != nil {
			b.Fatal(err)
		}
	}
}
