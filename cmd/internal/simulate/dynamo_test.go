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

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/fleet"
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

// What Dynamo 1.6.1 made of 27 loads and fleets.
//
// Covers S-30.
func TestConfigurationsOfDynamo(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(dynamoCases, "dynamo-1.6.1-configurations.json"))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("%s is not here", dynamoCases)
	}
	require.NoError(t, err)
	var list []struct {
		dynamoFleet
		Dynamo map[string]float64
	}
	require.NoError(t, json.Unmarshal(text, &list))
	require.Len(t, list, 27)
	inputs := dynamoInputs{made: map[string]*Input{}}
	for _, one := range list {
		c := dynamoConfig(t, one.dynamoFleet, inputs.of(t, one.Trace))
		r, err := Run(context.Background(), c)
		require.NoError(t, err, one.Name)
		got := r.dynamo(r.Summary(), 0)
		worst, where := 0.0, ""
		for _, key := range slices.Sorted(mapsKeys(one.Dynamo)) {
			if strings.HasSuffix(key, "_itl_ms") && key != "mean_itl_ms" {
				continue
			}
			v := toFloat(got[key])
			if d := math.Abs(v-one.Dynamo[key]) / max(math.Abs(one.Dynamo[key]), 1e-12); d > worst {
				worst, where = d, fmt.Sprintf("%s: %v, want %v", key, v, one.Dynamo[key])
			}
		}
		t.Logf("%-45s %.3g %s", one.Name, worst, where)
	}
}

func mapsKeys(m map[string]float64) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func toFloat(v any) float64 {
	b, _ := json.Marshal(v)
	var f float64
	json.Unmarshal(b, &f)
	return f
}

// drawnRows returns Mooncake rows whose prompts all have different lengths, so that a length names a request.
func drawnRows(draw *rand.Rand) string {
	var b strings.Builder
	n, at := 40+draw.IntN(160), 0
	lengths := draw.Perm(12_000)
	every := []int{1, 40, 300, 2000}[draw.IntN(4)]
	sessions, most := draw.IntN(2) == 0, 1+draw.IntN(40)
	for k := range n {
		at += draw.IntN(every)
		length := 1 + lengths[k]
		ids := make([]string, (length+511)/512)
		kind, number := draw.IntN(most), draw.IntN(n/3+1)
		shared := draw.IntN(len(ids) + 1)
		if sessions {
			kind, shared = number%most, max(shared, 1)
		}
		for i := range ids {
			ids[i] = strconv.Itoa(kind*1000 + i)
			if i >= shared {
				ids[i] = strconv.Itoa(1_000_000 + k*1000 + i)
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
		"preemption_mode": pick("lifo", "fifo"), "engine_type": pick(strings.Fields(os.Getenv("DYNAMO_TYPES"))[0], "vllm"),
	}
	one := map[string]any{"trace": trace, "engine": e, "workers": 1 + draw.IntN(4)}
	if draw.IntN(2) == 0 && e["engine_type"] != "trtllm" {
		one["prefill_decode"] = []int{1 + draw.IntN(3), 1 + draw.IntN(3)}
		e["kv_bytes_per_token"], e["kv_transfer_gb_s"], e["kv_transfer_timing"] = pick(1000, 200_000), pick(1, 50), pick("full_prompt", "destination_missing")
	}
	if draw.IntN(2) == 0 {
		one["replay_concurrency"] = 1 + draw.IntN(40)
	} else {
		one["arrival_speedup_ratio"] = pick(1.0, 4.0)
	}
	if draw.IntN(2) == 0 && max(one["workers"].(int), 2) == one["workers"].(int) {
		one["router"] = "kv_router"
		if draw.IntN(2) == 0 {
			one["router_config"] = map[string]any{"router_queue_threshold": pick(0.1, 0.3, 1.0), "router_queue_policy": pick("fcfs", "lcfs", "wspt")}
		}
	}
	return one
}

// Fleets and loads that are drawn at random, played by Dynamo and by agentx: to the nanosecond, with Dynamo's draws among workers of equal cost.
func TestBesideDynamo(t *testing.T) {
	python := os.Getenv("DYNAMO_PYTHON")
	if python == "" {
		t.Skip("DYNAMO_PYTHON names no Python with Dynamo (make test-dynamo)")
	}
	seed, _ := strconv.ParseUint(os.Getenv("DYNAMO_SEED"), 10, 64)
	cases, _ := strconv.Atoi(os.Getenv("DYNAMO_CASES"))
	only := os.Getenv("DYNAMO_ONLY")
	bad := 0
	for k := range cases {
		if only != "" && only != strconv.Itoa(k) {
			continue
		}
		draw := rand.New(rand.NewPCG(seed, uint64(k)))
		path := filepath.Join(t.TempDir(), "rows.jsonl")
		require.NoError(t, os.WriteFile(path, []byte(drawnRows(draw)), 0o666))
		fleet := drawnFleet(draw, path)
		if why := besideDynamo(t, python, path, fleet); why != "" {
			text, _ := json.Marshal(fleet)
			t.Logf("case %d: %s\n   %s", k, why, text)
			bad++
		}
	}
	t.Logf("%d of %d cases differ", bad, cases)
	require.Zero(t, bad)
}

func besideDynamo(t *testing.T, python, path string, drawn map[string]any) string {
	text, err := json.Marshal(drawn)
	require.NoError(t, err)
	cmd := exec.Command(python, "../../../contrib/dynamo/replay.py")
	cmd.Stdin = strings.NewReader(string(text))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	var theirs struct {
		Refused  string
		Requests [][]*float64
	}
	require.NoError(t, json.Unmarshal(out, &theirs))
	if theirs.Refused != "" {
		return "refused: " + theirs.Refused
	}
	byLength := map[int][]*float64{}
	for _, r := range theirs.Requests {
		byLength[int(*r[0])] = r
	}
	var f dynamoFleet
	require.NoError(t, json.Unmarshal(text, &f))
	c := dynamoConfig(t, f, inputOf(t, path))
	wrong := ""
	c.Tie = func(r *fleet.Request, ids []int) int {
		v := byLength[r.Prompt]
		want := v[2]
		if len(f.Pools) > 0 && r.Prefill == nil {
			want = v[3]
		}
		if want == nil || !slices.Contains(ids, int(*want)) {
			if wrong == "" {
				w := -1.0
				if want != nil {
					w = *want
				}
				wrong = fmt.Sprintf("prompt %d: worker %g is none of the cheapest %v", r.Prompt, w, ids)
			}
			return ids[0]
		}
		return int(*want)
	}
	r, err := Run(context.Background(), c)
	if err != nil {
		return err.Error()
	}
	if wrong != "" {
		return wrong
	}
	slices.SortFunc(r.Requests, func(a, b *fleet.Request) int { return int(a.First - b.First) })
	for _, q := range r.Requests {
		v := byLength[q.Prompt]
		if v[4] == nil || q.Status == engine.Rejected {
			if v[4] == nil != (q.Status == engine.Rejected) {
				return fmt.Sprintf("prompt %d: status %s", q.Prompt, q.Status)
			}
			continue
		}
		got := []float64{float64(q.Arrival) / 1e6, float64(q.First) / 1e6, float64(q.Last) / 1e6, float64(q.ReusedMax), float64(q.Worker)}
		want := []float64{*v[1], *v[4], *v[5], *v[6], *v[2]}
		for i := range got {
			if math.Abs(got[i]-want[i]) > 1e-5 {
				return fmt.Sprintf("prompt %d: got %.6f want %.6f", q.Prompt, got, want)
			}
		}
	}
	if len(r.Requests) != len(theirs.Requests) {
		return fmt.Sprintf("%d requests, want %d", len(r.Requests), len(theirs.Requests))
	}
	return ""
}
