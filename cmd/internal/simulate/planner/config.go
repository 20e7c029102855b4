package planner

import (
	"cmp"
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
	targetLoad       = "load"       // the same, with bounds of its own
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
	MinGPUBudget         int     `json:"min_gpu_budget"`      // negative: none
	MinEndpoint          int     `json:"min_endpoint"`        // workers of a pool
	PrefillLeast         int     `json:"prefill_min_endpoint,omitempty"`
	DecodeLeast          int     `json:"decode_min_endpoint,omitempty"`
	MaxStep              int     `json:"max_throughput_scaling_replicas"` // of a throughput decision of a pipeline
	Sensitivity          float64 `json:"sensitivity"`                     // the share of a limit below which a worker can go
	MinObservations      int     `json:"min_observations"`
	MaxSamples           int     `json:"max_samples"`
	BucketCount          int     `json:"bucket_count"`
	BenchmarkGranularity int     `json:"benchmark_granularity"`
	Predictor            string  `json:"predictor"`      // "": that of the preset
	KalmanLevel          float64 `json:"kalman_q_level"` // noise
	KalmanTrend          float64 `json:"kalman_q_trend"`
	KalmanValue          float64 `json:"kalman_r"`
	KalmanPoints         int     `json:"kalman_min_points"`              // from which on it foretells
	Log                  bool    `json:"load_predictor_log1p,omitempty"` // it foretells ln(1 + value)

	PrefillUp   int     `json:"prefill_scale_up_queue_tokens,omitempty"` // the bounds of load: tokens, percent of the KV tokens
	PrefillDown int     `json:"prefill_scale_down_queue_tokens,omitempty"`
	DecodeUp    float64 `json:"decode_scale_up_kv_rate,omitempty"`
	DecodeDown  float64 `json:"decode_scale_down_kv_rate,omitempty"`
}

// Default returns the default configuration of a planner.
func Default() Config {
	return Config{
		Mode: Aggregated, Target: TargetSLA, TTFT: 500, ITL: 50, ThroughputScaling: true, ThroughputInterval: 180, LoadInterval: 5,
		MaxGPUBudget: 8, MinGPUBudget: -1, MinEndpoint: 1, MaxStep: 8, Sensitivity: 0.8, MinObservations: 5, MaxSamples: 64, BucketCount: 16, BenchmarkGranularity: 8,
		KalmanLevel: 1, KalmanTrend: 0.1, KalmanValue: 10, KalmanPoints: 5,
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
	k.Word("optimization_target", c.Target, TargetSLA, targetThroughput, TargetLatency, targetLoad)
	k.Word("predictor", c.Predictor, kalman, constant, "")
	k.Count("max_gpu_budget", c.MaxGPUBudget, math.MinInt32, maxCount)
	k.Count("min_endpoint", c.MinEndpoint, 1, maxCount)
	k.Count("min_gpu_budget", c.MinGPUBudget, math.MinInt32, maxCount)
	k.Count("prefill_min_endpoint", c.PrefillLeast, 0, maxCount)
	k.Count("decode_min_endpoint", c.DecodeLeast, 0, maxCount)
	k.Count("max_throughput_scaling_replicas", c.MaxStep, 1, maxCount)
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
	number("kalman_q_level", c.KalmanLevel, 1e12)
	number("kalman_q_trend", c.KalmanTrend, 1e12)
	number("kalman_r", c.KalmanValue, 1e12)
	k.Count("kalman_min_points", c.KalmanPoints, 0, maxCount)
	c.validateBounds(&k)
	r := c.Resolve()
	switch {
	case c.LoadInterval > 0 && c.LoadInterval < 0.001:
		k.Wrong("load_interval %g s: want 0.001 or more", c.LoadInterval)
	case r.LoadScaling && r.ThroughputScaling && c.LoadInterval > 0 && c.LoadInterval >= c.ThroughputInterval && c.ThroughputInterval > 0:
		k.Wrong("load_interval %g s: want a shorter time than throughput_interval %g s", c.LoadInterval, c.ThroughputInterval)
	}
	if !r.LoadScaling && !r.ThroughputScaling {
		k.Wrong("enable_load_scaling and enable_throughput_scaling are both false: set one of them to true, or the planner never decides")
	}
	return k.Err()
}

// validateBounds checks keys that some modes and targets need, and others have no use for.
func (c Config) validateBounds(k *jsonobject.Check) {
	if c.Mode == Aggregated && c.PrefillLeast+c.DecodeLeast > 0 {
		k.Wrong("prefill_min_endpoint and decode_min_endpoint are of mode %s: set min_endpoint", Disaggregated)
	}
	if c.Target != targetLoad {
		return
	}
	if c.Mode == Disaggregated {
		k.Number("prefill_scale_up_queue_tokens", float64(c.PrefillUp), c.PrefillDown >= 0 && c.PrefillUp > c.PrefillDown, "more than prefill_scale_down_queue_tokens, %d", c.PrefillDown)
	}
	k.Number("decode_scale_up_kv_rate", c.DecodeUp, c.DecodeDown >= 0 && c.DecodeUp > c.DecodeDown && c.DecodeUp <= 100, "more than decode_scale_down_kv_rate, %g, at most 100", c.DecodeDown)
}

// maxCount bounds every count.
const maxCount = 1 << 20

// least returns the least workers of each pool.
func (c Config) least() []int {
	if c.Mode == Disaggregated {
		return []int{cmp.Or(c.PrefillLeast, c.MinEndpoint), cmp.Or(c.DecodeLeast, c.MinEndpoint)}
	}
	return []int{c.MinEndpoint}
}

// checkBudget returns an error for a budget that cannot hold the least fleet.
func (c Config) checkBudget(gpus []int) error {
	least := 0
	for i, n := range c.least() {
		least += n * gpus[i]
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

// keySensitivity is a key of Dynamo's planner, in percent.
const keySensitivity = "load_scaling_down_sensitivity"

// idle are the keys of Dynamo's planner that its replay, or ours, has no use for: where a planner runs, what it writes and asks. Of
// only, one value alone says nothing.
var (
	idleKeys = strings.Fields(`environment namespace global_planner_namespace backend model_name log_dir profile_results_dir report_filename
		report_interval_hours report_output_dir report_write_gzip_log live_dashboard_port control_api_port metric_reporting_prometheus_port
		throughput_metrics_source advisory decode_engine_num_gpu prefill_engine_num_gpu prophet_window_size`)
	only = map[string]string{
		"pre_deployment_sweeping_mode": `"rapid"`, // the engine's own timing is swept, always
		"enable_power_awareness":       "false", "total_gpu_power_limit": "null", "load_predictor_warmup_trace": "null", "speculative_nextn": "0",
		"aic_interpolation": "null", "ais_perf_model": "null",
	}
)

// idlePrefix begins the keys of how a planner asks for metrics.
const idlePrefix = "metric_pulling_prometheus_"

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
	case only[key] != "" && string(value) != only[key]:
		return "", nil, fmt.Errorf(`%s %s: want %s`, key, value, only[key])
	case only[key] != "", slices.Contains(idleKeys, key), strings.HasPrefix(key, idlePrefix):
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
