package router

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/agentx/agentx/internal/jsonobject"
	"github.com/agentx/agentx/simulate/preset"
)

// Config is the configuration of a KV router: doc/spec/simulate.md 8.2 to 8.4. Default returns the one of keys that the user leaves out.
type Config struct {
	PrefillLoadScale    float64  `json:"prefill_load_scale"`           // of cost credit
	OverlapCredit       float64  `json:"overlap_score_credit"`         // of cost credit
	OverlapCreditDecay  float64  `json:"overlap_score_credit_decay"`   // of cost credit
	ActiveRequestWeight float64  `json:"decode_active_request_weight"` // of cost credit
	OverlapWeight       float64  `json:"overlap_score_weight"`         // of cost weight
	DecodeOverlapCredit float64  `json:"decode_overlap_score_credit"`  // of a decode pool
	Temperature         float64  `json:"router_temperature"`           // 0: the lowest cost wins
	QueueThreshold      *float64 `json:"router_queue_threshold"`       // nil: no request waits in the router
	QueuePolicy         string   `json:"router_queue_policy"`          // who leaves the queue first
	PrefillLoadModel    string   `json:"router_prefill_load_model"`    // whether prefills in flight decay with time
}

// The policies of the queue and the models of prefill load.
const (
	FCFS       = "fcfs"   // first come, first served
	LCFS       = "lcfs"   // last come, first served
	WSPT       = "wspt"   // the fewest new tokens first
	LoadNone   = "none"   // a prefill counts in full until its first token
	LoadEngine = "engine" // the oldest prefill of a worker decays over the duration that the engine's timing gives
)

// costKeys are the keys that one cost function alone reads.
var costKeys = map[string]preset.Choice{
	"prefill_load_scale": preset.CostCredit, "overlap_score_credit": preset.CostCredit, "overlap_score_credit_decay": preset.CostCredit,
	"decode_active_request_weight": preset.CostCredit, "overlap_score_weight": preset.CostWeight,
}

// Default returns the configuration of a router of which nothing is said. With cost weight, requests wait in the router.
func Default(cost preset.Choice) Config {
	c := Config{PrefillLoadScale: 1, OverlapCredit: 1, OverlapWeight: 1, QueuePolicy: FCFS, PrefillLoadModel: LoadNone}
	if cost == preset.CostWeight {
		threshold := 4.0
		c.QueueThreshold = &threshold
	}
	return c
}

// Parse returns the default with the keys of a JSON object. It refuses keys that do not exist, with the nearest name, and
// keys that the cost function does not read.
func Parse(data []byte, cost preset.Choice) (Config, error) {
	c := Default(cost)
	keys, err := jsonobject.Members(data)
	if err != nil {
		return c, fmt.Errorf("router: %w", err)
	}
	known := jsonobject.Keys[Config]()
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if !slices.Contains(known, key) {
			errs = append(errs, fmt.Errorf("router: %w", jsonobject.Unknown(key, known)))
		}
		if of := costKeys[key]; of != "" && of != cost {
			errs = append(errs, fmt.Errorf("router: %s belongs to router_cost %s; router_cost is %s", key, of, cost))
		}
	}
	if len(errs) > 0 {
		return c, errors.Join(errs...)
	}
	if err := jsonobject.Decode(data, &c); err != nil {
		return c, fmt.Errorf("router: %w", err)
	}
	return c, c.Validate()
}

// Validate returns an error about each key whose value cannot be used, joined.
func (c Config) Validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf("router: "+format, args...)) }
	for _, n := range []struct {
		key   string
		value float64
	}{
		{"prefill_load_scale", c.PrefillLoadScale}, {"overlap_score_credit", c.OverlapCredit},
		{"overlap_score_credit_decay", c.OverlapCreditDecay}, {"decode_active_request_weight", c.ActiveRequestWeight},
		{"overlap_score_weight", c.OverlapWeight}, {"decode_overlap_score_credit", c.DecodeOverlapCredit},
		{"router_temperature", c.Temperature}, {"router_queue_threshold", c.threshold()},
	} {
		if !(n.value >= 0 && n.value <= maxValue) && !(n.key == "router_queue_threshold" && c.QueueThreshold == nil) {
			wrong("%s %g: want 0 to %g", n.key, n.value, maxValue)
		}
	}
	if want := []string{FCFS, LCFS, WSPT}; !slices.Contains(want, c.QueuePolicy) {
		wrong("router_queue_policy %q: want %s", c.QueuePolicy, strings.Join(want, " or "))
	}
	if want := []string{LoadNone, LoadEngine}; !slices.Contains(want, c.PrefillLoadModel) {
		wrong("router_prefill_load_model %q: want %s", c.PrefillLoadModel, strings.Join(want, " or "))
	}
	return errors.Join(errs...)
}

// maxValue bounds every number of a configuration, so that costs stay finite.
const maxValue = 1e9

// threshold returns the threshold of the queue; infinity without one.
func (c Config) threshold() float64 {
	if c.QueueThreshold == nil {
		return math.Inf(1)
	}
	return *c.QueueThreshold
}
