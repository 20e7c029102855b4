package reconstruct

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/trace"
)

const small = `{"id":"tr\u0061ce","models":["m","n"],"block_size":64,"hash_id_scope":"local","tool_tokens":10,"system_tokens":5,"totals":{"a":[null,true,false]},"requests":[` +
	`{"t":0.5,"type":"n","model":"m","in":130,"out":30,"hash_ids":[1,2,99,100],"api_time":2.0,"think_time":null,"input_types":["text"],"output_types":[],"stop":"tool_use"},` +
	`{"t":3e0,"agent_id":"a1","subagent_type":"x","status":"completed","duration_ms":4000,"total_tokens":1,"tool_use_count":null,"models":["m"],"tool_tokens":1,"system_tokens":0,"requests":[` +
	`{"t":-3.0,"type":"s","model":"n","in":70,"out":5,"hash_ids":[ 9 ],"ttft":0.5}],"type":"subagent"},` +
	`{"t":10,"type":"n","model":"m","in":262,"out":8,"hash_ids":[1,2,99,100,101],"stop":""},` +
	`{"t":11,"type":"n","model":"m","in":262,"out":8,"hash_ids":[1,2,99,100,101]}]}`

// The zero value of rules plans as the default rules do.
func TestZeroRulesPlanAsTheDefault(t *testing.T) {
	planBy := func(r rules.Rules) string {
		tr, err := weka.Scan([]byte(small), r)
		require.NoError(t, err)
		plan, notes, err := MakePlan(tr, r)
		require.NoError(t, err)
		return fmt.Sprintf("%+v %+v", *plan, notes) // NaN, as there is in a plan, is not equal to itself
	}
	assert.Equal(t, planBy(rules.Default()), planBy(rules.Rules{}))
}

// An empty back-end places as exact does.
func TestEmptyBackendPlacesAsExact(t *testing.T) {
	var starts [2][3]uint32
	edges := &Edges{Starts: []uint64{1 << 9, 1 << 2}, Ends: []uint64{1 << 25, 1 << 18}}
	NewPlacer(rules.Placement{Seed: 42}, 100, edges).Blocks(starts[0][:], "t", 7, 16)
	NewPlacer(rules.Placement{Backend: rules.Exact, Seed: 42}, 100, edges).Blocks(starts[1][:], "t", 7, 16)
	assert.Equal(t, starts[1], starts[0])
}

// expandIDs writes out a list of ids.
func expandIDs(l trace.IDs) (list []int64) {
	for _, r := range l.Runs {
		for k := range r.N {
			list = append(list, r.First+int64(k))
		}
	}
	return list
}
