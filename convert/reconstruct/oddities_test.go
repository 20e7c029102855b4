package reconstruct

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/trace"
)

func TestOddities(t *testing.T) {
	request := func(at string, in, ids int, more string) string {
		list := strings.TrimSuffix(strings.Repeat("7,", ids), ",")
		return fmt.Sprintf(`{"t":%s,"type":"n","model":"m","in":%d,"out":1,"hash_ids":[%s]%s}`, at, in, list, more)
	}
	agent := func(at, more string, requests ...string) string {
		return fmt.Sprintf(`{"t":%s,"type":"subagent","agent_id":"x","status":"completed"%s,"requests":[%s]}`, at, more, strings.Join(requests, ","))
	}
	plain := request("0", 130, 2, "")
	list := func(entries ...string) string { return strings.Join(entries, ",") }
	tests := []struct {
		name, requests string
		size           int
		want           trace.Oddities
	}{
		{"nothing", list(plain, request("0", 130, 3, ""), request("1", 128, 2, ""), request("2", 63, 0, ""), request("3", 63, 1, ""), agent("9", "", plain), request("4", 0, 0, `,"api_time":0`)), 64, nil},
		{"short lists", list(plain, request("1", 11300, 5, ""), request("2", 64, 0, "")), 64,
			trace.Oddities{{Kind: "short_hash_ids", Count: 2, First: "requests[1]: 5 hash_ids for in = 11300, which has 176 blocks of 64"}}},
		{"long lists", list(request("1", 64, 2, ""), request("2", 130, 4, "")), 64,
			trace.Oddities{{Kind: "long_hash_ids", Count: 2, First: "requests[0]: 2 hash_ids for in = 64 and blocks of 64"}}},
		{"a block size", request("0", 130, 1, ""), 100, trace.Oddities{{Kind: "block_size", Count: 1, First: "block_size 100"}}},
		{"a large block size", request("0", 130, 0, ""), 8192, trace.Oddities{{Kind: "block_size", Count: 1, First: "block_size 8192"}}},
		{"blocks of one token", request("0", 2, 2, ""), 1, nil},
		{"negative times", list(request("-2", 130, 2, `,"api_time":-1,"think_time":-3`), agent("-1", `,"duration_ms":-5`, request("-1", 130, 2, ""))), 64, trace.Oddities{
			{Kind: "negative_t", Count: 3, First: "requests[0]: t = -2"},
			{Kind: "negative_api_time", Count: 1, First: "requests[0]: api_time = -1"},
			{Kind: "negative_think_time", Count: 1, First: "requests[0]: think_time = -3"},
			{Kind: "negative_duration", Count: 1, First: "requests[1]: duration_ms = -5"},
		}},
		{"backward times", list(request("5", 130, 2, ""), agent("1", "", request("3", 130, 2, ""), request("2", 130, 2, "")), request("4", 130, 2, "")), 64, trace.Oddities{
			{Kind: "backward_t", Count: 2, First: "requests[1].requests[1]: t = 2, below t = 3"},
		}},
		{"a negative completion", strings.Replace(plain, `"out":1`, `"out":-1`, 1), 64, trace.Oddities{{Kind: "negative_out", Count: 1, First: "requests[0]: out = -1"}}},
		{"milliseconds", request("1763805600000", 130, 2, ""), 64, trace.Oddities{{Kind: "t_since_1970", Count: 1, First: "requests[0]: t = 1763805600000"}}},
		{"nothing to play", "", 64, trace.Oddities{{Kind: "no_requests", Count: 1, First: "requests: []"}}},
		{"a subagent with nothing to play", list(plain, agent("1", "")), 64, trace.Oddities{{Kind: "empty_subagent", Count: 1, First: `requests[1]: agent_id "x"`}}},
		{"a subagent above all requests", list(agent("0", "", plain), plain), 64, trace.Oddities{{Kind: "dropped_subagent", Count: 1, First: `requests[0]: agent_id "x"`}}},
	}
	for _, c := range tests {
		t.Run(c.name, func(t *testing.T) {
			tr, err := weka.Scan(fmt.Appendf(nil, `{"id":"t","models":[],"block_size":%d,"hash_id_scope":"local","requests":[%s]}`, c.size, c.requests), rules.Default())
			require.NoError(t, err)
			_, notes, err := MakePlan(tr, rules.Default())
			require.NoError(t, err)
			for _, o := range notes.Oddities {
				assert.NotEqual(t, o.Kind, trace.OddityText(o.Kind), "it has no text")
			}
			assert.Equal(t, c.want, notes.Oddities)
		})
	}
}

// A row of a session that is older than the row before it gets the time of that row.
func TestBackwardMooncakeRowsAreAnOddity(t *testing.T) {
	m := weka.NewMooncake(0, rules.Default())
	for _, at := range []int{5000, 3000, 4000} {
		require.NoError(t, m.Add(fmt.Appendf(nil, `{"timestamp":%d,"input_length":1,"output_length":1,"hash_ids":[0],"session_id":"s"}`, at)))
	}
	traces, err := m.Traces()
	require.NoError(t, err)
	_, notes, err := MakePlan(traces[0], rules.Default())
	require.NoError(t, err)
	assert.Equal(t, trace.Oddities{{Kind: "backward_t", Count: 2, First: "requests[1]: timestamp 3000, after one of 5000"}}, notes.Oddities)
}
