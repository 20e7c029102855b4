package simulate

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/fleet"
	"github.com/agentx/agentx/cmd/internal/simulate/planner"
	"github.com/agentx/agentx/cmd/internal/simulate/preset"
	"github.com/agentx/agentx/cmd/internal/simulate/router"
)

// dynamoCases has what Dynamo 1.6.1 made of loads and fleets. It is no part of the project.
const dynamoCases = "../../../../shared/cases/simulate"

// dynamoFleet is a run of Dynamo's replay.
type dynamoFleet struct {
	Name         string
	Trace        string
	Engine       json.RawMessage
	Workers      json.RawMessage // a number; with a planner in mode disagg, that of each pool
	Pools        []int           `json:"prefill_decode"`
	Router       Router
	RouterConfig json.RawMessage `json:"router_config"`
	Concurrency  int             `json:"replay_concurrency"`
	Speedup      float64         `json:"arrival_speedup_ratio"`
}

// dynamoInputs are the inputs of the cases, by the name of their trace, each made once.
type dynamoInputs struct {
	sync.Mutex
	made map[string]*Input
}

// of returns the input of a trace of the cases: a file beside them, or the conversation trace, or its first rows.
func (d *dynamoInputs) of(t *testing.T, trace string) *Input {
	d.Lock()
	defer d.Unlock()
	if in := d.made[trace]; in != nil {
		return in
	}
	name, first, limited := strings.Cut(trace, ", first ")
	path := filepath.Join(dynamoCases, name)
	if strings.HasSuffix(name, ".zst") {
		path = conversation
	}
	if limited {
		n := 0
		_, err := fmt.Sscanf(first, "%d rows", &n)
		require.NoError(t, err)
		path = firstRows(t, path, n)
	}
	in := inputOf(t, path)
	d.made[trace] = in
	return in
}

// firstRows returns a file with the first rows of a compressed one.
func firstRows(t *testing.T, path string, n int) string {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("%s is not here", path)
	}
	require.NoError(t, err)
	defer f.Close()
	z, err := zstd.NewReader(f)
	require.NoError(t, err)
	defer z.Close()
	out := filepath.Join(t.TempDir(), "rows.jsonl")
	w, err := os.Create(out)
	require.NoError(t, err)
	defer w.Close()
	for lines := bufio.NewScanner(z); n > 0 && lines.Scan(); n-- {
		_, err = io.WriteString(w, lines.Text()+"\n")
		require.NoError(t, err)
	}
	return out
}

// dynamoConfig returns the configuration of a run of Dynamo's replay.
func dynamoConfig(t *testing.T, f dynamoFleet, in *Input) Config {
	c := Default()
	c.Input = in
	c.Switches, _ = preset.Named(preset.Dynamo16)
	e, err := engine.Parse(f.Engine, engine.Default())
	require.NoError(t, err)
	one, err := NewEngine(e)
	require.NoError(t, err)
	c.Engine, c.PrefillEngine, c.DecodeEngine = one, one, one
	pools := f.Pools
	if len(pools) == 0 && json.Unmarshal(f.Workers, &c.Workers) != nil {
		require.NoError(t, json.Unmarshal(f.Workers, &pools))
	}
	if len(pools) > 0 {
		c.Workers, c.PrefillWorkers, c.DecodeWorkers = 0, pools[0], pools[1]
	}
	if f.Router != "" {
		c.Router = f.Router
	}
	if f.RouterConfig != nil {
		keys, err := router.Parse(f.RouterConfig, c.Switches.RouterCost)
		require.NoError(t, err)
		c.RouterConfig = &keys
	}
	c.Concurrency = f.Concurrency
	if f.Speedup != 0 {
		c.Speedup = f.Speedup
	}
	return c
}

// What Dynamo 1.6.1 made of 27 loads and fleets: within a millionth where no router draws by chance, else within the spread of our draws.
// Of gaps Dynamo reports sketches, whose percentiles are left out.
//
// Covers S-35.
func TestConfigurationsOfDynamo(t *testing.T) {
	var list []struct {
		dynamoFleet
		Dynamo map[string]float64
	}
	readCases(t, "dynamo-1.6.1-configurations.json", &list)
	require.Len(t, list, 27)
	inputs := dynamoInputs{made: map[string]*Input{}}
	for _, one := range list {
		c := dynamoConfig(t, one.dynamoFleet, inputs.of(t, one.Trace))
		low, high := spreadOf(t, c)
		worst, where := 0.0, ""
		for key, want := range one.Dynamo {
			if strings.HasSuffix(key, "_itl_ms") && key != "mean_itl_ms" {
				continue
			}
			slack := high[key] - low[key] // eight draws do not reach the ends
			if d := max(low[key]-slack-want, want-high[key]-slack) / max(math.Abs(want), 1e-9); d > worst {
				worst, where = d, fmt.Sprintf("%s: %v to %v, want %v", key, low[key], high[key], want)
			}
		}
		t.Logf("%s: %.3g %s", one.Name, worst, where)
		require.LessOrEqual(t, worst, 1e-6, one.Name)
	}
}

// readCases reads a file of the cases.
func readCases(t *testing.T, name string, to any) {
	text, err := os.ReadFile(filepath.Join(dynamoCases, name))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("%s is not here", dynamoCases)
	}
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, to))
}

// spreadOf returns the least and the greatest of each number of Dynamo's report, over eight seeds where a router draws.
func spreadOf(t *testing.T, c Config) (low, high map[string]float64) {
	low, high = map[string]float64{}, map[string]float64{}
	for seed := range uint64(8) {
		c.Seed = seed
		r, err := Run(context.Background(), c)
		require.NoError(t, err)
		text, err := json.Marshal(r.dynamo(r.Summary(), 1))
		require.NoError(t, err)
		for key, v := range numbersOf(t, text) {
			if seed == 0 {
				low[key], high[key] = v, v
			}
			low[key], high[key] = min(low[key], v), max(high[key], v)
		}
		if c.Router != KVRouter {
			break
		}
	}
	return low, high
}

// drawnRows returns Mooncake rows whose prompts all have different lengths, so that a length names a request.
func drawnRows(draw *rand.Rand) string {
	var b strings.Builder
	n, at := 40+draw.IntN(160), 0
	lengths := draw.Perm(12_000)
	every := []int{1, 40, 300, 2000}[draw.IntN(4)]
	sessions, most := draw.IntN(2) == 0, 1+draw.IntN(40)
	if sessions { // whose prompts grow
		slices.Sort(lengths[:n])
	}
	for k := range n {
		at += draw.IntN(every)
		if sessions { // whose rows convert orders by time
			at++
		}
		length := 1 + lengths[k]
		ids := make([]string, (length+511)/512)
		kind, number := draw.IntN(most), draw.IntN(n/3+1)
		shared := draw.IntN(len(ids) + 1)
		own := k
		if sessions { // each prompt extends the one before, so that convert finds one chain
			kind, shared, own = number%most, min(3, len(ids)), number
		}
		for i := range ids {
			ids[i] = strconv.Itoa(kind*1000 + i)
			if i >= shared {
				ids[i] = strconv.Itoa(1_000_000 + own*1000 + i)
			}
		}
		session := ""
		if sessions {
			session = fmt.Sprintf(`,"session_id":"s%d"`, number)
		}
		fmt.Fprintf(&b, `{"timestamp":%d,"input_length":%d,"output_length":%d,"hash_ids":[%s]%s}`+"\n", at, length, 1+draw.IntN([]int{2, 30, 400}[draw.IntN(3)]), strings.Join(ids, ","), session)
	}
	return b.String()
}

// drawnFleet returns a fleet of Dynamo's replay.
func drawnFleet(draw *rand.Rand, trace string) map[string]any {
	pick := func(list ...any) any { return list[draw.IntN(len(list))] }
	size := pick(16, 64, 512).(int)
	e := map[string]any{
		"block_size": size, "num_gpu_blocks": (13_000+draw.IntN(60_000))/size + 2, "max_num_seqs": pick(4, 32, 256),
		"max_num_batched_tokens": pick(512, 2048, 8192), "enable_prefix_caching": draw.IntN(5) > 0, "speedup_ratio": pick(0.5, 1.0, 3.0),
		"preemption_mode": pick("lifo", "fifo"),
	}
	workers := 1 + draw.IntN(4)
	one := map[string]any{"trace": trace, "engine": e, "workers": workers}
	e["engine_type"] = pick("vllm", "vllm", "trtllm", "sglang", "sglang")
	if e["engine_type"] != "trtllm" && draw.IntN(2) == 0 {
		pools := []int{1 + draw.IntN(3), 1 + draw.IntN(3)}
		one["prefill_decode"], workers = pools, max(pools[0], pools[1])
		e["kv_bytes_per_token"], e["kv_transfer_gb_s"], e["kv_transfer_timing"] = pick(1000, 200_000), pick(1, 50), pick("full_prompt", "destination_missing")
	}
	if draw.IntN(2) == 0 {
		one["replay_concurrency"] = 1 + draw.IntN(40)
	} else {
		one["arrival_speedup_ratio"] = pick(1.0, 4.0)
	}
	if draw.IntN(2) == 0 && workers > 1 {
		one["router"] = "kv_router"
		if draw.IntN(2) == 0 {
			one["router_config"] = map[string]any{"router_queue_threshold": pick(0.1, 0.3, 1.0), "router_queue_policy": pick("fcfs", "lcfs", "wspt")}
		}
	}
	return one
}

// Fleets and loads that are drawn at random, played by Dynamo and by agentx: every request to the nanosecond, with Dynamo's choices among
// workers of equal cost.
func TestBesideDynamo(t *testing.T) {
	python := os.Getenv("DYNAMO_PYTHON")
	if python == "" {
		t.Skip("DYNAMO_PYTHON names no Python with Dynamo: make test-dynamo")
	}
	number := func(name string, otherwise uint64) uint64 {
		if n, err := strconv.ParseUint(os.Getenv(name), 10, 64); err == nil {
			return n
		}
		return otherwise
	}
	seed, first, cases := number("DYNAMO_SEED", 1), number("DYNAMO_ONLY", 0), number("DYNAMO_CASES", 60)
	if os.Getenv("DYNAMO_ONLY") != "" {
		cases = first + 1
	}
	differ, worst := 0, 0.0
	for k := first; k < cases; k++ {
		draw := rand.New(rand.NewPCG(seed, k))
		path := filepath.Join(t.TempDir(), "rows.jsonl")
		require.NoError(t, os.WriteFile(path, []byte(drawnRows(draw)), 0o666))
		text, err := json.Marshal(drawnFleet(draw, path))
		require.NoError(t, err)
		theirs := ofDynamo(t, python, text)
		if theirs.Refused != "" {
			t.Logf("case %d: Dynamo refuses it: %s", k, theirs.Refused)
			continue
		}
		ms, why := besideDynamo(t, path, text, theirs)
		if worst = max(worst, ms); why != "" {
			t.Logf("case %d: %s: %s", k, text, why)
			differ++
		}
	}
	t.Logf("%d of %d cases differ; the worst difference of the others is %.3g ms", differ, cases-first, worst)
	require.Zero(t, differ)
}

// dynamoRun is a line of contrib/dynamo/replay.py.
type dynamoRun struct {
	Refused  string
	Requests [][]*float64 // prompt length, arrival, worker, prefill worker, first token, last token, tokens found
}

// ofDynamo returns what Dynamo makes of a fleet.
func ofDynamo(t *testing.T, python string, text []byte) (run dynamoRun) {
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	cmd := exec.CommandContext(ctx, python, "../../../contrib/dynamo/replay.py")
	cmd.Stdin, cmd.Stderr = strings.NewReader(string(text)), os.Stderr
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return dynamoRun{Refused: "it has not ended within 20 s"}
	}
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(out, &run))
	return run
}

// besideDynamo plays a fleet and returns the largest difference of an instant, and the first request that differs by more than rounding.
func besideDynamo(t *testing.T, path string, text []byte, theirs dynamoRun) (worst float64, why string) {
	byLength := map[int][]*float64{}
	for _, r := range theirs.Requests {
		byLength[int(*r[0])] = r
	}
	var f dynamoFleet
	require.NoError(t, json.Unmarshal(text, &f))
	c := dynamoConfig(t, f, inputOf(t, path))
	c.Tie = func(r *fleet.Request, ids []int) int {
		want := byLength[r.Prompt][2]
		if len(f.Pools) > 0 && r.Prefill == nil {
			want = byLength[r.Prompt][3]
		}
		if want != nil && slices.Contains(ids, int(*want)) {
			return int(*want)
		}
		if why == "" && want != nil {
			why = fmt.Sprintf("prompt %d: worker %g is none of the cheapest %v", r.Prompt, *want, ids)
		}
		return ids[0]
	}
	r, err := Run(context.Background(), c)
	if err != nil || why != "" {
		return 0, fmt.Sprint(why, err)
	}
	slices.SortFunc(r.Requests, func(a, b *fleet.Request) int { return int(a.First - b.First) })
	for _, q := range r.Requests {
		v := byLength[q.Prompt]
		if q.Status == engine.Rejected || v[4] == nil {
			if q.Status != engine.Rejected || v[4] != nil {
				return worst, fmt.Sprintf("prompt %d: status %s", q.Prompt, q.Status)
			}
			continue
		}
		got := []float64{float64(q.Arrival) / 1e6, float64(q.First) / 1e6, float64(q.Last) / 1e6, float64(q.Front().ReusedMax), float64(q.Worker)}
		want := []float64{*v[1], *v[4], *v[5], *v[6], *v[2]}
		for i := range got {
			d := math.Abs(got[i] - want[i])
			if d > 1e-5 {
				return worst, fmt.Sprintf("prompt %d: arrival, first, last, found, worker %.6f, want %.6f", q.Prompt, got, want)
			}
			worst = max(worst, d)
		}
	}
	if len(r.Requests) != len(theirs.Requests) {
		why = fmt.Sprintf("%d requests, want %d", len(r.Requests), len(theirs.Requests))
	}
	return worst, why
}

// dynamoTick is a tick of Dynamo's planner: of each pool the active and the starting workers.
type dynamoTick struct {
	At              float64 `json:"at_ms"`
	Prefill, Decode [2]int
	Load            planner.Reason
	Throughput      planner.Reason
}

// The planner of Dynamo 1.6.1 over the first 3,000 rows of the conversation trace: instants, workers and reasons of every tick.
//
// Covers S-36.
func TestPlannerOfDynamo(t *testing.T) {
	var list []struct {
		dynamoFleet
		Planner json.RawMessage
		Ticks   []dynamoTick
	}
	readCases(t, "dynamo-1.6.1-planner.json", &list)
	require.Len(t, list, 9)
	inputs := dynamoInputs{made: map[string]*Input{}}
	for _, one := range list {
		one.Engine = json.RawMessage(strings.Replace(string(one.Engine), `, "startup_time": null`, "", 1))
		c := dynamoConfig(t, one.dynamoFleet, inputs.of(t, one.Trace))
		p, err := planner.Parse(one.Planner, planner.Default())
		require.NoError(t, err, one.Name)
		c.Planner = &p
		r, err := Run(context.Background(), c)
		require.NoError(t, err, one.Name)
		require.Len(t, r.Planned.Ticks, len(one.Ticks), one.Name)
		for k, want := range one.Ticks {
			tick := r.Planned.Ticks[k]
			got := dynamoTick{At: float64(tick.At) / 1e6, Load: tick.LoadReason, Throughput: tick.ThroughputReason}
			for i, pool := range tick.Pools {
				*[]*[2]int{&got.Decode, &got.Prefill}[len(tick.Pools)-1-i] = [2]int{pool.Active, pool.Starting}
			}
			require.Equal(t, want, got, one.Name)
		}
	}
}

// What Dynamo 1.6.1 makes of the first 1,000 rows of the conversation trace, four times as fast, with a queue in its router; and of a burst
// with a tight pool. Its router draws among workers of equal cost: each figure is the least and the greatest of some runs.
//
// Covers S-35.
func TestRoutedByDynamo(t *testing.T) {
	inputs := dynamoInputs{made: map[string]*Input{}}
	play := func(f dynamoFleet, key string, within float64, figures ...float64) {
		f.Router = KVRouter
		low, high := spreadOf(t, dynamoConfig(t, f, inputs.of(t, f.Trace)))
		for _, want := range figures {
			require.Greater(t, want, low[key]*(1-within), "%s of %s", key, f.Engine)
			require.Less(t, want, high[key]*(1+within), "%s of %s", key, f.Engine)
		}
	}
	for keys, ttft := range map[string][]float64{
		`{"router_queue_threshold":0.3,"router_queue_policy":"fcfs"}`: {834.2},
		`{"router_queue_threshold":0.3,"router_queue_policy":"lcfs"}`: {870.5},
		`{"router_queue_threshold":0.3,"router_queue_policy":"wspt"}`: {740, 747},
		`{"router_queue_threshold":1.0,"router_queue_policy":"wspt"}`: {706, 712},
	} {
		play(dynamoFleet{
			Trace: "mooncake-conversation.jsonl.zst, first 1000 rows", Engine: json.RawMessage(`{"block_size":512}`), Workers: json.RawMessage("4"),
			RouterConfig: json.RawMessage(keys), Speedup: 4,
		}, "mean_ttft_ms", 1e-3, ttft...)
	}
	for engine, want := range map[string][]float64{ // tokens reused by prompt tokens, p95 of TPOT
		`{"engine_type":"sglang","num_gpu_blocks":512}`: {0.05617, 234.083},
		`{"engine_type":"sglang","num_gpu_blocks":300}`: {0.03212, 152.889},
		`{"engine_type":"trtllm","num_gpu_blocks":512}`: {0.06129, 156.943},
		`{"engine_type":"trtllm","num_gpu_blocks":300}`: {0.04129, 118.958},
	} {
		f := dynamoFleet{Trace: "burst.jsonl", Engine: json.RawMessage(engine), Workers: json.RawMessage("2")}
		play(f, "prefix_cache_reused_ratio", 1e-3, want[0])
		play(f, "p95_tpot_ms", 1e-3, want[1])
	}
}
