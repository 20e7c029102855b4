package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/simulate/preset"
	"github.com/agentx/agentx/internal/fixtures"
	"github.com/agentx/agentx/mmapcache"
)

// Every switch of the engine and of loads changes a vector under some preset.
//
// Covers S-01.
func TestEverySwitchOfAnEngineMatters(t *testing.T) {
	cases, err := fixtures.Simulate("engine")
	require.NoError(t, err)
	var inputs []engineIn
	var structures []*mmapcache.Structure
	add := func(in engineIn) {
		s, _ := structureOf(t, in.Rows, in.TraceBlock)
		inputs, structures = append(inputs, in), append(structures, s)
	}
	for _, c := range cases {
		var in engineIn
		require.NoError(t, json.Unmarshal(c.In, &in))
		if in.Router == "" && in.Prefill == 0 && c.Preset != "dynamo-2026-08" {
			add(in)
		}
	}
	wide := `{"timestamp":0,"input_length":1024,"output_length":2,"hash_ids":[%d,1]}`
	add(engineIn{Engine: json.RawMessage(`{}`), TraceBlock: 512, Workers: 1, Rows: []json.RawMessage{
		json.RawMessage(fmt.Sprintf(wide, 1<<32)), json.RawMessage(fmt.Sprintf(wide, 0)),
	}})
	play := func(k int, name, one, value string) string {
		o := optionsOf(t, inputs[k], name, structures[k])
		require.NoError(t, o.Switches.Set(one, value))
		if one == "id_width" || one == "concurrency_unit" { // these act on the load
			again := optionsOfSwitches(t, inputs[k], o.Switches, structures[k])
			o.Load = again.Load
		}
		got, err := Run(context.Background(), o)
		if err != nil {
			return err.Error()
		}
		return fmt.Sprint(summaries(got), got.Gaps)
	}
	for _, one := range []string{
		"admission", "full_hit", "alloc", "block_visible", "duplicates", "sampled_block", "first_token", "decode_kv", "concurrency_unit", "impossible", "id_width",
	} {
		require.True(t, slices.ContainsFunc(preset.Names, func(name string) bool {
			for k := range inputs {
				choices := preset.Choices(one)
				if play(k, name, one, choices[0]) != play(k, name, one, choices[1]) {
					return true
				}
			}
			return false
		}), "%s changes nothing", one)
	}
}

// Every switch of a router changes what comes of a small run.
//
// Covers S-01.
func TestEverySwitchOfARouterMatters(t *testing.T) {
	in := engineIn{Engine: json.RawMessage(`{"max_num_batched_tokens":256}`), Workers: 3, TraceBlock: 512, Router: "kv_router"} // cost weight has a queue
	for k := range 120 {
		ids := []int{k % 5}
		for len(ids) < 1+k%7 {
			ids = append(ids, 10*len(ids)+k%3)
		}
		row, err := json.Marshal(map[string]any{"timestamp": 8 * k, "input_length": 512*len(ids) - k, "output_length": 1 + k%50, "hash_ids": ids})
		require.NoError(t, err)
		in.Rows = append(in.Rows, row)
	}
	s, _ := structureOf(t, in.Rows, in.TraceBlock)
	for _, one := range []string{"router_cost", "router_tie", "kv_events"} {
		var came []string
		for _, value := range preset.Choices(one) {
			o := optionsOf(t, in, preset.Default, s)
			require.NoError(t, o.Switches.Set(one, value))
			o.Pools[0].Router = NewKV(o, 0, 42)
			got, err := Run(context.Background(), o)
			require.NoError(t, err)
			came = append(came, fmt.Sprint(summaries(got)))
		}
		require.False(t, came[0] == came[1], "%s changes nothing", one)
	}
}
