package convert

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/convert/text"
)

// Payloads of Dynamo's request traces are a log of requests where that format is named, in any order of their rows; else they are passed over.
func TestPayloadsOfDynamo(t *testing.T) {
	log := write(t, "dynamo.jsonl", []byte(`{"event":{"schema":"dynamo.request.trace.v1","event_type":"request_payload","payload":{"request_id":"1","request":{"model":"m","messages":[{"role":"user","content":"hi"}]},"response":{"choices":[{"message":{"role":"assistant","content":"ho"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":3}}}}}
{"schema":"dynamo.request.trace.v1","event_type":"request_end","event_time_unix_ms":1767366000500,"agent_context":{"session_id":"s"},"request":{"request_id":"1","input_tokens":8,"output_tokens":2,"request_received_ms":1767366000000,"total_time_ms":500}}
{"schema":"dynamo.request.trace.v1","event_type":"request_end","event_time_unix_ms":1767366001250,"agent_context":{"session_id":"s","parent_session_id":"p"},"request":{"request_id":"2","input_tokens":20,"output_tokens":4,"total_time_ms":250}}
{"schema":"dynamo.request.trace.v1","event_type":"request_end","event_time_unix_ms":1767366001250,"agent_context":{"session_id":"s"},"request":{"request_id":"2","input_tokens":20,"output_tokens":4,"total_time_ms":250}}
{"schema":"dynamo.request.trace.v1","event_type":"request_payload","payload":{"request_id":"2","request":{"model":"m","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"ho"},{"role":"user","content":"more"}]},"response":null}}
{"schema":"dynamo.request.trace.v1","event_type":"request_end","event_time_unix_ms":9,"request":{"request_id":"3","input_tokens":7,"output_tokens":1,"total_time_ms":5}}
{"schema":"dynamo.request.trace.v1","event_type":"request_payload","payload":{"request_id":"4","request":{"messages":[{"role":"user","content":"alone"}]}}}
{"schema":"dynamo.request.trace.v1","event_type":"tool_end"}
`))
	o := options(t, log)
	a, err := DryRun(t.Context(), o, 64, true, nil)
	require.NoError(t, err)
	require.Equal(t, "dynamo", a.Format)
	o.Logs.Format = "messages"
	a, err = DryRun(t.Context(), o, 64, true, nil)
	require.NoError(t, err)
	require.Equal(t, 2, a.Sessions)
	assert.Equal(t, map[string]int{"copied_request": 1, "ignored:parent_session_id": 1, "ignored:tool_end": 1, "no_content": 1, "no_output": 2, "no_timestamp": 1}, a.Warnings)
	k := 0
	if a.List[0].ID != "s" {
		k = 1
	}
	got, err := json.Marshal(shape(a.List[k].Turns))
	require.NoError(t, err)
	assert.JSONEq(t, `[{"n":0,"t":0,"end":500,"in":9,"out":3,"roles":"u"},{"n":1,"t":1000,"end":1250,"gap":500,"out":4,"roles":"uau"}]`, string(got))
}

// shape keeps times and sizes of turns.
func shape(turns []text.AnswerTurn) (list []text.AnswerTurn) {
	for _, t := range turns {
		list = append(list, text.AnswerTurn{N: t.N, T: t.T, End: t.End, Gap: t.Gap, In: t.In, Out: t.Out, Roles: t.Roles})
	}
	return list
}
