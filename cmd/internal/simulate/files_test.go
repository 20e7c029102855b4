package simulate

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/simulate/fleet"
	"github.com/agentx/agentx/cmd/internal/simulate/workload"
)

// Each file is there when it is asked for, and one of another run is replaced only where that is allowed.
func TestFiles(t *testing.T) {
	c := Default()
	c.Synthetic = &workload.SyntheticOptions{Sessions: 2, In: 128, Out: 3, Turns: 2, ThinkMS: 5}
	r, err := Run(context.Background(), c)
	require.NoError(t, err)
	s := r.Summary()
	f := Files{Dir: filepath.Join(t.TempDir(), "out"), PerRequest: true, Dynamo: true}
	require.NoError(t, f.Check())
	require.NoError(t, f.Write(r, s, Timing{Wall: 0.5}))
	names := func() (list []string) {
		entries, err := os.ReadDir(f.Dir)
		require.NoError(t, err)
		for _, e := range entries {
			list = append(list, e.Name())
		}
		return list
	}
	assert.Equal(t, []string{dynamoFile, requestsFile, summaryFile, timingFile}, names())
	require.ErrorIs(t, f.Write(r, s, Timing{}), ErrResultsExist)
	text, err := os.ReadFile(filepath.Join(f.Dir, summaryFile))
	require.NoError(t, err)
	var line strings.Builder
	require.NoError(t, s.WriteJSON(&line))
	assert.Equal(t, line.String(), string(text))

	f = Files{Dir: f.Dir, Overwrite: true}
	require.NoError(t, f.Write(r, s, Timing{}))
	assert.Equal(t, []string{summaryFile, timingFile}, names())
}

// Times are whole nanoseconds, null where nothing happened.
func TestRequestLines(t *testing.T) {
	c := Default()
	c.Synthetic = &workload.SyntheticOptions{Sessions: 1, In: 128, Out: 1}
	lines := func() string {
		r, err := Run(context.Background(), c)
		require.NoError(t, err)
		f := Files{Dir: t.TempDir(), PerRequest: true}
		require.NoError(t, f.Write(r, r.Summary(), Timing{}))
		text, err := os.ReadFile(filepath.Join(f.Dir, requestsFile))
		require.NoError(t, err)

		// as one that was written while the run was played
		played := Files{Dir: t.TempDir(), PerRequest: true}
		require.NoError(t, played.Begin())
		c := c
		c.Forget, c.Each = true, played.Add
		r, err = Run(context.Background(), c)
		require.NoError(t, err)
		require.NoError(t, played.Write(r, r.Summary(), Timing{}))
		same, err := os.ReadFile(filepath.Join(played.Dir, requestsFile))
		require.NoError(t, err)
		require.Equal(t, string(text), string(same))
		require.NoError(t, played.Discard())
		require.FileExists(t, filepath.Join(played.Dir, requestsFile))
		return string(text)
	}
	assert.JSONEq(t, `{"session":0,"turn":0,"arrival":0,"admitted":0,"first_token":24198391,"second_token":null,"last_token":24198391,
		"input_tokens":128,"output_tokens":1,"emitted":1,"reused":0,"reused_max":0,"decode_reused":0,"recomputed_tokens":0,"worker":0,"admissions":1,"preemptions":0,"status":"done"}`, lines())
	c.Engine.Config.Blocks = 1
	assert.JSONEq(t, `{"session":0,"turn":0,"arrival":0,"admitted":null,"first_token":null,"second_token":null,"last_token":null,
		"input_tokens":128,"output_tokens":1,"emitted":0,"reused":0,"reused_max":0,"decode_reused":0,"recomputed_tokens":0,"worker":0,"admissions":0,"preemptions":0,"status":"rejected"}`, lines())
}

// What was written of a run that came to no end goes.
func TestDiscardedLines(t *testing.T) {
	f := Files{Dir: t.TempDir(), PerRequest: true}
	require.NoError(t, f.Begin())
	f.Add(&fleet.Request{})
	require.NoError(t, f.Discard())
	list, err := os.ReadDir(f.Dir)
	require.NoError(t, err)
	require.Empty(t, list)
}

// The keys are those of Dynamo's report.
//
// Covers S-34.
func TestDynamo(t *testing.T) {
	c := Default()
	c.Synthetic = &workload.SyntheticOptions{Sessions: 20, In: 128, Out: 30, Rate: 50}
	r, err := Run(context.Background(), c)
	require.NoError(t, err)
	s := r.Summary()
	data, err := json.Marshal(r.dynamo(s, 0.25))
	require.NoError(t, err)
	keys := numbersOf(t, data)
	for _, none := range []string{"power_w", "power_coverage"} {
		require.Contains(t, string(data), `"`+none+`":null`)
	}
	require.Contains(t, string(data), `"kv_eviction_policy":"lru"`)
	want := strings.Fields(`committed_prefill_tokens prefill_worker_seconds decode_worker_seconds prefill_gpus_per_worker decode_gpus_per_worker gpu_hours
		processed_tokens processed_tokens_per_s processed_output_tokens_per_s num_ttft_samples num_tpot_samples num_e2e_latency_samples num_requests completed_requests total_input_tokens total_output_tokens duration_ms wall_time_ms request_throughput_rps
		input_throughput_tok_s output_throughput_tok_s total_throughput_tok_s prefix_cache_reused_ratio first_admission_prefix_cache_reused_ratio`)
	for _, stat := range strings.Fields("mean min max median p75 p90 p95 p99 std") {
		for _, name := range strings.Fields("ttft_ms ttst_ms tpot_ms itl_ms e2e_latency_ms output_token_throughput_per_user") {
			want = append(want, stat+"_"+name)
		}
	}
	slices.Sort(want)
	assert.Equal(t, want, slices.Sorted(maps.Keys(keys)))
	assert.EqualValues(t, 250, keys["wall_time_ms"])
	assert.Equal(t, []float64{20 * 128, 20 * 158, 20 * 158 * 4, 0, 1, 20}, []float64{keys["committed_prefill_tokens"], keys["processed_tokens"],
		keys["processed_tokens_per_s"], keys["prefill_worker_seconds"], keys["decode_gpus_per_worker"], keys["num_tpot_samples"]})
	assert.InEpsilon(t, keys["gpu_hours"]*3600, keys["decode_worker_seconds"], 1e-12)
	assert.InEpsilon(t, float64(s.TokenGap.Mean)*1e3, keys["mean_itl_ms"], 1e-12)
	assert.InEpsilon(t, float64(s.ITL.Mean)*1e3, keys["mean_tpot_ms"], 1e-12)
	assert.InEpsilon(t, float64(s.TTFT.P50)*1e3, keys["median_ttft_ms"], 1e-12)
	var n, sum float64
	for gap, count := range r.Gaps.All() {
		n, sum = n+float64(count), sum+1e9/gap*float64(count)
	}
	assert.EqualValues(t, r.Gaps.Count(), n)
	assert.InEpsilon(t, sum/n, keys["mean_output_token_throughput_per_user"], 1e-12)
	assert.InEpsilon(t, 1000/keys["median_itl_ms"], keys["median_output_token_throughput_per_user"], 2e-3)
	assert.InEpsilon(t, 1000/keys["min_itl_ms"], keys["max_output_token_throughput_per_user"], 1e-3)
	assert.InEpsilon(t, 1000/keys["max_itl_ms"], keys["min_output_token_throughput_per_user"], 1e-3)
}

// numbersOf returns the numbers of an object.
func numbersOf(t *testing.T, data []byte) map[string]float64 {
	var all map[string]any
	require.NoError(t, json.Unmarshal(data, &all))
	numbers := map[string]float64{}
	for key, v := range all {
		if n, ok := v.(float64); ok {
			numbers[key] = n
		}
	}
	return numbers
}
