package planner

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/agentx/agentx/internal/jsonobject"
)

// upstream are the keys of Dynamo's planner that mean one of ours.
var upstream = map[string]string{
	"ttft": "ttft_ms", "itl": "itl_ms", "load_predictor": "predictor", "max_num_fpm_samples": "max_samples",
	"throughput_adjustment_interval": "throughput_interval", "load_adjustment_interval": "load_interval",
	"load_min_observations": "min_observations", "fpm_sample_bucket_size": "bucket_count",
}

// Keys of Dynamo's planner that have rules of their own.
const (
	keySensitivity = "load_scaling_down_sensitivity" // percent
	keyReport      = "report_filename"               // the page has a flag of its own
	keySweeping    = "pre_deployment_sweeping_mode"  // the engine's own timing is swept, always
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
	case key == keyReport || key == keySweeping:
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
