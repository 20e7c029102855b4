package router

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/preset"
)

func TestParse(t *testing.T) {
	c, err := Parse([]byte(`{"overlap_score_credit":0.5,"router_queue_threshold":2,"router_queue_policy":"wspt"}`), preset.CostCredit)
	require.NoError(t, err)
	threshold := 2.0
	want := Default(preset.CostCredit)
	want.OverlapCredit, want.QueueThreshold, want.QueuePolicy = 0.5, &threshold, wspt
	require.Equal(t, want, c)
	c, err = Parse([]byte(`{"router_queue_threshold":null}`), preset.CostWeight)
	require.NoError(t, err)
	require.Nil(t, c.QueueThreshold)
	require.Equal(t, 4.0, *Default(preset.CostWeight).QueueThreshold)
	require.Nil(t, Default(preset.CostCredit).QueueThreshold)
	data, err := json.Marshal(want)
	require.NoError(t, err)
	require.Contains(t, string(data), `"router_queue_threshold":2`)
}

func TestParseRefuses(t *testing.T) {
	for config, want := range map[string]string{
		`[]`:                               "router: want a JSON object, not []",
		`{"overlap_score_credits":1}`:      `router: unknown key "overlap_score_credits"; did you mean "overlap_score_credit"?`,
		`{"zzz":1}`:                        `router: unknown key "zzz"; the keys are prefill_load_scale, `,
		`{"overlap_score_weight":1}`:       "router: overlap_score_weight is a key of router-cost weight, and router-cost is credit: leave the key out, or change router-cost",
		`{"router_temperature":-1}`:        "router: router_temperature -1: want 0 to 1e+09",
		`{"router_queue_threshold":-1}`:    "router: router_queue_threshold -1: want 0 to 1e+09",
		`{"router_temperature":"hot"}`:     "router: router_temperature: want a number, not a text",
		`{"router_queue_policy":"edf"}`:    `router: router_queue_policy "edf": want fcfs or lcfs or wspt`,
		`{"router_prefill_load_model":""}`: `router: router_prefill_load_model "": want none or engine`,
	} {
		_, err := Parse([]byte(config), preset.CostCredit)
		require.ErrorContains(t, err, want, config)
	}
	_, err := New(Options{})
	require.ErrorContains(t, err, "switch admission")
	switches, _ := preset.Named(preset.Default)
	_, err = New(Options{Switches: switches})
	require.ErrorContains(t, err, "engine: ")
	_, err = New(Options{Switches: switches, Engine: engine.Default()})
	require.ErrorContains(t, err, "router_queue_policy")
}
