package planner

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/agentx/agentx/internal/jsonobject"
)

// The modes.
const (
	Aggregated    = "agg"
	Disaggregated = "disagg"
)

// The optimization targets.
const (
	TargetSLA        = "sla"        // latencies below their limits
	targetThroughput = "throughput" // queues and KV use within fixed bounds
	TargetLatency    = "latency"    // the same, with tighter bounds
)

// The predictors.
const (
	kalman   = "kalman"
	constant = "constant"
)

// Config is the configuration of a planner: doc/spec/simulate.md 11.1. Default has the values of keys that the user leaves out.
type Config struct {
	Mode                 string  `json:"mode"`
	Target               string  `json:"optimization_target"`
	TTFT                 float64 `json:"ttft_ms"` // the limits of sla
	ITL                  float64 `json:"itl_ms"`
	ThroughputScaling    bool    `json:"enable_throughput_scaling"`
	LoadScaling          bool    `json:"enable_load_scaling"`
	ThroughputInterval   float64 `json:"throughput_interval"` // seconds
	LoadInterval         float64 `json:"load_interval"`       // seconds, shorter
	MaxGPUBudget         int     `json:"max_gpu_budget"`      // negative: none
	MinEndpoint          int     `json:"min_endpoint"`        // workers of a pool
	Sensitivity          float64 `json:"sensitivity"`         // the share of a limit below which a worker can go
	MinObservations      int     `json:"min_observations"`
	MaxSamples           int     `json:"max_samples"`
	BucketCount          int     `json:"bucket_count"`
	BenchmarkGranularity int     `json:"benchmark_granularity"`
	Predictor            string  `json:"predictor"` // "": that of the preset
}

// Default returns the default configuration of a planner.
func Default() Config {
	return Config{
		Mode: Aggregated, Target: TargetSLA, TTFT: 500, ITL: 50, ThroughputScaling: true, ThroughputInterval: 180, LoadInterval: 5,
		MaxGPUBudget: 8, MinEndpoint: 1, Sensitivity: 0.8, MinObservations: 5, MaxSamples: 64, BucketCount: 16, BenchmarkGranularity: 8,
	}
}

// Resolve returns the configuration as it runs: a target other than sla scales by load alone.
func (c Config) Resolve() Config {
	if c.Target != TargetSLA {
		c.LoadScaling, c.ThroughputScaling = true, false
	}
	return c
}

// pools returns the names of the pools of a mode, in their order.
func (c Config) pools() []string {
	if c.Mode == Disaggregated {
		return []string{"prefill", "decode"}
	}
	return []string{"agg"}
}

// Validate returns an error about each key whose value cannot be used, joined.
func (c Config) Validate() error {
	k := jsonobject.Check{Of: "planner"}
	k.Word("mode", c.Mode, Aggregated, Disaggregated)
	k.Word("optimization_target", c.Target, TargetSLA, targetThroughput, TargetLatency)
	k.Word("predictor", c.Predictor, kalman, constant, "")
	k.Count("max_gpu_budget", c.MaxGPUBudget, math.MinInt32, maxCount)
	k.Count("min_endpoint", c.MinEndpoint, 1, maxCount)
	k.Count("min_observations", c.MinObservations, 2, maxCount)
	k.Count("max_samples", c.MaxSamples, c.MinObservations, maxCount)
	k.Count("bucket_count", c.BucketCount, 1, maxCount)
	k.Count("benchmark_granularity", c.BenchmarkGranularity, 1, maxCount)
	number := func(key string, v, most float64) {
		k.Number(key, v, v > 0 && v <= most, "a number above 0, at most %g", most)
	}
	number("ttft_ms", c.TTFT, 1e12)
	number("itl_ms", c.ITL, 1e12)
	number("sensitivity", c.Sensitivity, 1)
	number("throughput_interval", c.ThroughputInterval, 1e8)
	number("load_interval", c.LoadInterval, 1e8)
	switch {
	case c.LoadInterval > 0 && c.LoadInterval < 0.001:
		k.Wrong("load_interval %g s: want 0.001 or more", c.LoadInterval)
	case c.LoadInterval > 0 && c.LoadInterval >= c.ThroughputInterval && c.ThroughputInterval > 0:
		k.Wrong("load_interval %g s: want a shorter time than throughput_interval %g s", c.LoadInterval, c.ThroughputInterval)
	}
	if r := c.Resolve(); !r.LoadScaling && !r.ThroughputScaling {
		k.Wrong("enable_load_scaling and enable_throughput_scaling are both false: set one of them to true, or the planner never decides")
	}
	return k.Err()
}

// maxCount bounds every count.
const maxCount = 1 << 20

// checkBudget returns an error for a budget that cannot hold the least fleet.
func (c Config) checkBudget(gpus []int) error {
	least := 0
	for _, g := range gpus {
		least += c.MinEndpoint * g
	}
	if c.MaxGPUBudget >= 0 && c.MaxGPUBudget < least {
		return fmt.Errorf("planner: max_gpu_budget %d: min_endpoint %d, the least workers of %s, needs %d GPUs", c.MaxGPUBudget, c.MinEndpoint, strings.Join(c.pools(), " and "), least)
	}
	return nil
}

// upstream are the keys of Dynamo's planner that mean one of ours.
var upstream = map[string]string{
	"ttft": "ttft_ms", "itl": "itl_ms", "load_predictor": "predictor", "max_num_fpm_samples": "max_samples",
	"throughput_adjustment_interval": "throughput_interval", "load_adjustment_interval": "load_interval",
	"throughput_adjustment_interval_seconds": "throughput_interval", "load_adjustment_interval_seconds": "load_interval",
	"load_min_observations": "min_observations", "fpm_sample_bucket_size": "bucket_count",
}

// Keys of Dynamo's planner that have rules of their own.
const (
	keySensitivity = "load_scaling_down_sensitivity" // percent
	keyReport      = "report_filename"               // the page has a flag of its own
	keySweeping    = "pre_deployment_sweeping_mode"  // the engine's own timing is swept, always
	keyEnvironment = "environment"                   // where the fleet runs
	keyBackend     = "backend"                       // which engine it has
)

// Parse returns base with the keys of a JSON object, upstream's spellings included. It refuses keys that do not exist, with the nearest
// name, and does not validate the values.
func Parse(data []byte, base Config) (Config, error) {
	err := jsonobject.Read("planner", data, &base, translate)
	return base, err
}

// translate returns a key in our spelling; "" for one that changes nothing.
func translate(key string, value json.RawMessage) (name string, own json.RawMessage, err error) {
	known := jsonobject.Keys[Config]()
	switch {
	case slices.Contains(known, key):
		return key, value, nil
	case upstream[key] != "":
		return upstream[key], value, nil
	case key == keySweeping && string(value) != `"rapid"`:
		return "", nil, fmt.Errorf(`%s %s: want "rapid"`, key, value)
	case key == keyReport, key == keySweeping, key == keyEnvironment, key == keyBackend:
		return "", nil, nil
	case key == keySensitivity:
		var percent float64
		if err := json.Unmarshal(value, &percent); err != nil {
			return "", nil, fmt.Errorf("%s: %w", key, err)
		}
		own, err = json.Marshal(percent / 100)
		return "sensitivity", own, err
	}
	known = append(slices.Collect(maps.Keys(upstream)), append(known, keySensitivity)...)
	slices.Sort(known)
	return "", nil, jsonobject.Unknown(key, known)
}
