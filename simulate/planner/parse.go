package planner

import (
	"encoding/json"
	"errors"
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
	keys, err := jsonobject.Members(data)
	if err != nil {
		return base, fmt.Errorf("planner: %w", err)
	}
	own := map[string]json.RawMessage{}
	said := map[string]string{} // own key: as it was written
	known := jsonobject.Keys[Config]()
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		name, value, err := translate(key, keys[key], known)
		other, twice := said[name]
		switch {
		case err != nil:
			errs = append(errs, err)
		case name == "":
		case twice:
			errs = append(errs, fmt.Errorf("planner: %s and %s are the same key", other, key))
		default:
			own[name], said[name] = value, key
		}
	}
	if len(errs) > 0 {
		return base, errors.Join(errs...)
	}
	merged, err := json.Marshal(own)
	if err != nil {
		return base, err
	}
	if err := jsonobject.Decode(merged, &base); err != nil {
		return base, fmt.Errorf("planner: %w", err)
	}
	return base, nil
}

// translate returns a key in our spelling; "" for one that changes nothing.
func translate(key string, value json.RawMessage, known []string) (name string, own json.RawMessage, err error) {
	switch {
	case slices.Contains(known, key):
		return key, value, nil
	case upstream[key] != "":
		return upstream[key], value, nil
	case key == keyReport:
		return "", nil, nil
	case key == keySweeping:
		if string(value) != `"rapid"` {
			return "", nil, fmt.Errorf(`planner: %s %s: want "rapid"`, key, value)
		}
		return "", nil, nil
	case key == keySensitivity:
		var percent float64
		if err := json.Unmarshal(value, &percent); err != nil {
			return "", nil, fmt.Errorf("planner: %s: %w", key, err)
		}
		own, err = json.Marshal(percent / 100)
		return "sensitivity", own, err
	}
	known = append(slices.Collect(maps.Keys(upstream)), append(known, keySensitivity)...)
	slices.Sort(known)
	return "", nil, fmt.Errorf("planner: %w", jsonobject.Unknown(key, known))
}
