package reconstruct

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/trace"
)

// MakePlan refuses what no reader makes: a trace is a plain struct that anybody may fill.
func TestMakePlanChecksFirst(t *testing.T) {
	for want, change := range map[string]func(*trace.Trace){
		`trace "a": requests[0]: in = 99999999999, out = 1: larger than 16777216 tokens`: func(t *trace.Trace) { t.Entries[0].In = 99_999_999_999 },
		`trace "a": block_size: block size 0: want 1 to 1048576 tokens`:                  func(t *trace.Trace) { t.BlockSize = 0 },
		`trace "a": requests[0].t: 1e+300 seconds: beyond 1e+15`:                         func(t *trace.Trace) { t.Entries[0].T = 1e300 },
		`trace "a": requests[0].hash_ids: runs [{7 -1}] of a list of -1 ids: want runs that are as long as possible, of that many ids together`: func(t *trace.Trace) {
			t.Entries[0].IDs = trace.IDs{Runs: []trace.Run{{First: 7, N: -1}}, Len: -1}
		},
	} {
		tr := &trace.Trace{ID: "a", BlockSize: 64, Scope: trace.ScopeLocal, Models: []string{"m"}, Entries: []trace.Entry{{Request: trace.Request{In: 10, Out: 1}}}}
		_, _, err := MakePlan(tr, rules.Rules{})
		require.NoError(t, err)
		change(tr)
		plan, _, err := MakePlan(tr, rules.Rules{})
		require.EqualError(t, err, want)
		require.Nil(t, plan)
	}
}
