package router

import (
	"encoding/json"
	"fmt"

	"github.com/agentx/agentx/cmd/internal/simulate/preset"
	"github.com/agentx/agentx/internal/jsonobject"
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
	fcfs       = "fcfs"   // first come, first served
	lcfs       = "lcfs"   // last come, first served
	wspt       = "wspt"   // the fewest new tokens first
	loadNone   = "none"   // a prefill counts in full until its first token
	loadEngine = "engine" // the oldest prefill of a worker decays over the duration that the engine's timing gives
)

// costKeys are the keys that one cost function alone reads.
var costKeys = map[string]preset.Choice{
	"prefill_load_scale": preset.CostCredit, "overlap_score_credit": preset.CostCredit, "overlap_score_credit_decay": preset.CostCredit,
	"decode_active_request_weight": preset.CostCredit, "overlap_score_weight": preset.CostWeight,
}

// Default returns the default configuration of a router. With cost weight, requests wait in the router.
func Default(cost preset.Choice) Config {
	c := Config{PrefillLoadScale: 1, OverlapCredit: 1, OverlapWeight: 1, QueuePolicy: fcfs, PrefillLoadModel: loadNone}
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
	err := jsonobject.Read("router", data, &c, func(key string, value json.RawMessage) (string, json.RawMessage, error) {
		if of := costKeys[key]; of != "" && of != cost {
			return key, value, fmt.Errorf("%s is a key of router-cost %s, and router-cost is %s: leave the key out, or change router-cost", key, of, cost)
		}
		return key, value, nil
	})
	if err != nil {
		return c, err
	}
	return c, c.Validate()
}

// Validate returns an error about each key whose value cannot be used, joined.
func (c Config) Validate() error {
	k := jsonobject.Check{Of: "router"}
	number := func(key string, v float64) { k.Number(key, v, v >= 0 && v <= maxValue, "0 to %g", maxValue) }
	number("prefill_load_scale", c.PrefillLoadScale)
	number("overlap_score_credit", c.OverlapCredit)
	number("overlap_score_credit_decay", c.OverlapCreditDecay)
	number("decode_active_request_weight", c.ActiveRequestWeight)
	number("overlap_score_weight", c.OverlapWeight)
	number("decode_overlap_score_credit", c.DecodeOverlapCredit)
	number("router_temperature", c.Temperature)
	if c.QueueThreshold != nil {
		number("router_queue_threshold", *c.QueueThreshold)
	}
	k.Word("router_queue_policy", c.QueuePolicy, fcfs, lcfs, wspt)
	k.Word("router_prefill_load_model", c.PrefillLoadModel, loadNone, loadEngine)
	return k.Err()
}

// maxValue bounds every number of a configuration, so that costs stay finite.
const maxValue = 1e9
