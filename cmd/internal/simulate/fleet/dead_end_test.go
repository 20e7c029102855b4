package fleet

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/simulate/preset"
)

func deadEndOf(t *testing.T, engine, presetName string, rows ...string) error {
	in := engineIn{Engine: json.RawMessage(engine), Workers: 2, TraceBlock: 64}
	for _, row := range rows {
		in.Rows = append(in.Rows, json.RawMessage(row))
	}
	s, _ := structureOf(t, in.Rows, in.TraceBlock)
	_, err := Run(context.Background(), optionsOf(t, in, presetName, s))
	return err
}

// Covers S-26.
func TestDeadEndsNameTheirRequests(t *testing.T) {
	const small = `{"timestamp":0,"input_length":64,"output_length":2,"hash_ids":[9]}`
	const large = `{"timestamp":1000,"input_length":200,"output_length":2,"hash_ids":[1,2,3,4],"session_id":"a"}`
	const later = `{"timestamp":1000,"input_length":10,"output_length":2,"hash_ids":[1],"session_id":"a"}`
	require.EqualError(t, deadEndOf(t, `{"num_gpu_blocks":3}`, preset.April, small, large, later),
		"dead end at 1.000000 s: 1 requests cannot end, 1 turns are not released; session 1 turn 0 on worker 1: prompt of 200 tokens, waiting")
	require.NoError(t, deadEndOf(t, `{"num_gpu_blocks":3}`, preset.Default, small, large, later))
	require.EqualError(t, deadEndOf(t, `{"max_num_batched_tokens":100,"enable_chunked_prefill":false}`, preset.Default, small, large, later),
		"dead end at 1.000000 s: 1 requests cannot end, 1 turns are not released; session 1 turn 0 on worker 1: prompt of 200 tokens, waiting; without chunked prefill no pass computes a prompt of more than max_num_batched_tokens 100")
	require.NoError(t, deadEndOf(t, `{}`, preset.April, small, large, later))
}

func TestARunCanBeEmptyOrCancelled(t *testing.T) {
	in := engineIn{Engine: json.RawMessage(`{}`), Workers: 1, TraceBlock: 64}
	s, _ := structureOf(t, nil, 64)
	got, err := Run(context.Background(), optionsOf(t, in, preset.Default, s))
	require.NoError(t, err)
	require.Empty(t, got.Requests)
	in.Rows = []json.RawMessage{json.RawMessage(`{"timestamp":0,"input_length":64,"output_length":2,"hash_ids":[9]}`)}
	s, _ = structureOf(t, in.Rows, 64)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err = Run(ctx, optionsOf(t, in, preset.Default, s))
	require.ErrorIs(t, err, context.Canceled)
	o := optionsOf(t, in, preset.Default, s)
	o.Pools[0].Workers = 0
	_, err = Run(context.Background(), o)
	require.EqualError(t, err, "workers 0: want at least 1")
}

// The figures of Dynamo 1.6.1.
//
// Covers S-01.
func TestFirstTokenAtPrefill(t *testing.T) {
	rows := []json.RawMessage{json.RawMessage(`{"timestamp":0,"input_length":8844,"output_length":173,"hash_ids":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17]}`)}
	twin := json.RawMessage(`{"timestamp":0,"input_length":128,"output_length":3,"hash_ids":[0]}`)
	for _, c := range []struct {
		engine      string
		rows        []json.RawMessage
		first, last int64
		reused      int
	}{
		{`{}`, rows, 195716909, 1261794345, 0},
		{`{"num_gpu_blocks":100}`, []json.RawMessage{twin, twin}, 19432160, 35199283, 64},
	} {
		in := engineIn{Engine: json.RawMessage(c.engine), Workers: 1, TraceBlock: 512, Rows: c.rows}
		s, _ := structureOf(t, c.rows, 512)
		got, err := Run(context.Background(), optionsOf(t, in, preset.Dynamo16, s))
		require.NoError(t, err)
		one := got.Requests[len(got.Requests)-1]
		require.Equal(t, []int64{c.first, c.last, int64(c.reused)}, []int64{one.First, one.Last, int64(one.Reused)})
	}
}
