package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/preset"
)

// row is a Mooncake row whose blocks of 64 tokens are numbered from id on.
func row(ms, in, out, id int) json.RawMessage {
	ids := make([]int, (in+63)/64)
	for k := range ids {
		ids[k] = id + k
	}
	text, _ := json.Marshal(map[string]any{"timestamp": ms, "input_length": in, "output_length": out, "hash_ids": ids})
	return text
}

// disaggOf returns a fleet of one prefill and one decode worker.
func disaggOf(t *testing.T, config string, rows ...json.RawMessage) Options {
	in := engineIn{Engine: json.RawMessage(config), Prefill: 1, Decode: 1, TraceBlock: 64, Rows: rows}
	s, _ := structureOf(t, rows, 64)
	return optionsOf(t, in, preset.Default, s)
}

// Of blocks that the destination has, the hand-off is free.
//
// Covers S-25.
func TestHandOffsOfWhatTheDestinationLacks(t *testing.T) {
	for mode, moved := range map[string]int64{"full_prompt": 1000, "destination_missing": 64} {
		o := disaggOf(t, fmt.Sprintf(`{"kv_bytes_per_token":1000000,"kv_transfer_gb_s":1,"kv_transfer_timing":%q}`, mode), row(0, 1000, 2, 0), row(5000, 1000, 2, 0))
		got, err := Run(context.Background(), o)
		require.NoError(t, err)
		timing := o.Pools[0].Timing
		step := timing.Decode(1000, 1000, 1)
		all := int64(1000)
		if mode != "full_prompt" { // whole blocks
			all = 1024
		}
		require.Equal(t, timing.Prefill(1000)+all*1e6+step, got.Requests[0].First, mode)
		second := got.Requests[1]
		require.Equal(t, 5000*1e6+timing.Prefill(40)+moved*1e6+step, second.First, mode)
		require.Equal(t, []int{960, 960, 960, 960}, []int{second.Reused, second.Prefill.Reused, second.ReusedMax, second.Resident})
	}
}

// A prompt that is handed over takes no budget of the decode pool.
//
// Covers S-25.
func TestLongPromptsAreHandedOff(t *testing.T) {
	o := disaggOf(t, `{"max_num_batched_tokens":100}`, row(0, 50_000, 3, 0))
	for _, plain := range []bool{true, false} {
		o.Plain = plain
		o.Load = disaggOf(t, `{}`, row(0, 50_000, 3, 0)).Load
		got, err := Run(context.Background(), o)
		require.NoError(t, err)
		one := got.Requests[0]
		timing := o.Pools[0].Timing
		require.Equal(t, one.Prefill.First+timing.Decode(50_000, 50_000, 1), one.First)
		require.Equal(t, 500*timing.Prefill(100), one.Prefill.First)
		require.Equal(t, []int64{500, 3}, []int64{got.Workers[0][0].Passes, got.Workers[1][0].Passes})
	}
}

// A request that one of the pools cannot hold ends there.
//
// Covers S-17, S-25.
func TestRefusalsOfPools(t *testing.T) {
	for _, c := range []struct {
		prefill, decode int // blocks
		status          engine.Status
		worker          int
		passes          int64
	}{
		{10, 100, engine.Rejected, -1, 0}, {100, 10, engine.Rejected, 0, 0}, {100, 100, engine.Done, 0, 5}, {100, 16, engine.KVExhausted, 0, 25},
	} {
		output := 5
		if c.status == engine.KVExhausted {
			output = 50
		}
		o := disaggOf(t, `{}`, row(0, 1000, output, 0), row(60_000, 100, 1, 500))
		o.Pools[0].Engine.Blocks, o.Pools[1].Engine.Blocks = c.prefill, c.decode
		got, err := Run(context.Background(), o)
		require.NoError(t, err)
		one, other := got.Requests[0], got.Requests[1]
		require.Equal(t, c.status, one.Status, c)
		require.Equal(t, c.worker, one.Worker, c)
		require.Equal(t, int(c.passes), one.Tokens, c)
		require.Equal(t, engine.Done, other.Status)
		require.Equal(t, c.passes > 0, one.First > 0)
	}
}

// Covers S-26.
func TestDeadEndsOfPools(t *testing.T) {
	stuck := func(prefill, decode int) error {
		o := disaggOf(t, `{}`, row(0, 1000, 5, 0), row(0, 30, 1, 500))
		o.Switches, _ = preset.Named(preset.April)
		o.Pools[0].Engine.Blocks, o.Pools[1].Engine.Blocks = prefill, decode
		_, err := Run(context.Background(), o)
		return err
	}
	const at = "session 0 turn 0 on %s worker 0: prompt of 1000 tokens, waiting; session 1 turn 0 on prefill worker 0: prompt of 30 tokens, waiting"
	require.EqualError(t, stuck(10, 100), "dead end at 0.000000 s: 2 requests cannot end; "+fmt.Sprintf(at, "prefill"))
	require.EqualError(t, stuck(100, 10), "dead end at 0.032587 s: 2 requests cannot end; session 0 turn 0 on decode worker 0: prompt of 1000 tokens, waiting; "+
		"session 1 turn 0 on decode worker 0: prompt of 30 tokens, waiting")
}

func TestPoolsThatCannotBeUsed(t *testing.T) {
	for message, change := range map[string]func(*Options){
		"a fleet of 0 pools: want one, or prefill and decode":                         func(o *Options) { o.Pools = nil },
		"a fleet of 3 pools: want one, or prefill and decode":                         func(o *Options) { o.Pools = append(o.Pools, o.Pools[0]) },
		"workers 0: want at least 1":                                                  func(o *Options) { o.Pools[1].Workers = 0 },
		`engine_type "trtllm" in a disaggregated fleet: want vllm or sglang`:          func(o *Options) { o.Pools[0].Engine.Type = engine.TRTLLM },
		"block_size 64 of the prefill engine, 16 of the decode engine: want the same": func(o *Options) { o.Pools[1].Engine.BlockSize = 16 },
		"engine: max_num_seqs 0: want 1 to 1073741824":                                func(o *Options) { o.Pools[1].Engine.MaxSeqs = 0 },
		"a fleet needs a load: option Load is nil":                                    func(o *Options) { o.Load = nil },
	} {
		o := disaggOf(t, `{}`, row(0, 1000, 5, 0))
		change(&o)
		_, err := Run(context.Background(), o)
		require.EqualError(t, err, message)
	}
}

// A hand-off that ends with a pass of its worker takes part in the pass that follows at once.
//
// Covers S-25, S-27.
func TestHandOffsAtTheEndOfAPass(t *testing.T) {
	for _, mode := range []string{"full_prompt", "destination_missing"} {
		for _, plain := range []bool{true, false} {
			o := disaggOf(t, fmt.Sprintf(`{"kv_bytes_per_token":125000,"kv_transfer_gb_s":1,"kv_transfer_timing":%q}`, mode), row(0, 128, 500, 0), row(200, 128, 2, 100))
			timing := engine.NewTiming(o.Pools[0].Engine, &engine.Table{
				PrefillISL: []float64{0, 128}, PrefillTTFT: []float64{0, 128}, DecodeKV: []float64{0}, DecodeContext: []float64{0}, DecodeITL: [][]float64{{2}},
			})
			o.Pools[0].Timing, o.Pools[1].Timing, o.Plain = timing, timing, plain
			got, err := Run(context.Background(), o)
			require.NoError(t, err)
			require.Equal(t, []int64{146e6, 346e6, 348e6}, []int64{got.Requests[0].First, got.Requests[1].First, got.Requests[1].Last}, mode)
		}
	}
}

// With sglang the prefill pool computes a prompt when the decode pool has blocks for it, which a prompt that is refused gives back.
//
// Covers S-25.
func TestSGLangReservesFirst(t *testing.T) {
	for _, plain := range []bool{true, false} {
		o := disaggOf(t, `{"engine_type":"sglang","num_gpu_blocks":20}`, row(0, 640, 200, 0), row(100, 640, 2, 100), row(200, 128, 2, 200))
		o.Plain = plain
		got, err := Run(context.Background(), o)
		require.NoError(t, err)
		one, two, three := got.Requests[0], got.Requests[1], got.Requests[2]
		require.Zero(t, one.Prefill.Admitted)
		require.GreaterOrEqual(t, two.Prefill.Admitted, one.Last, "10 blocks, of which the first leaves 6")
		require.GreaterOrEqual(t, three.Prefill.Admitted, two.Prefill.Admitted, "first come, first served")
		o.Load = disaggOf(t, `{}`, row(0, 640, 200, 0), row(100, 640, 2, 100), row(200, 128, 2, 200)).Load
		o.Pools[0].Engine.MaxModelLen = 640
		got, err = Run(context.Background(), o)
		require.NoError(t, err)
		require.Equal(t, []engine.Status{engine.Rejected, engine.Rejected, engine.Done}, []engine.Status{got.Requests[0].Status, got.Requests[1].Status, got.Requests[2].Status})
	}
}
