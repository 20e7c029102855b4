package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/preset"
	"github.com/agentx/agentx/mmapcache"
)

// log notes all that a fleet says.
type log struct {
	passes  map[[2]int][]engine.Pass // by pool and worker
	entries []string
}

func (l *log) Released(now int64, r *Request) {
	l.entries = append(l.entries, fmt.Sprint(now, " released ", r.ID, r.Worker))
}

func (l *log) Completed(now int64, r *Request) {
	l.entries = append(l.entries, fmt.Sprint(now, " completed ", r.ID, r.Tokens, r.Status))
}

func (l *log) Pass(pool, worker int, p *engine.Pass) {
	l.passes[[2]int{pool, worker}] = append(l.passes[[2]int{pool, worker}], *p)
}

// listener is a round robin that notes what it knew of blocks when it was asked.
type listener struct {
	roundRobin
	stored, removed uint32
	notes           *[]string
}

func (l *listener) Events(_ int, list []engine.KVEvent) {
	for _, e := range list {
		if e.Removed {
			l.removed += e.Count
		} else {
			l.stored += e.Count
		}
	}
}

func (l *listener) Route(now int64, r *Request) (int, bool) {
	*l.notes = append(*l.notes, fmt.Sprint(now, " routed ", r.ID, l.stored, l.removed))
	return l.roundRobin.Route(now, r)
}

// drawn is a planner that draws its targets.
type drawn struct {
	draw   *rand.Rand
	every  int64
	next   int64
	states []string
}

func (d *drawn) Next() int64 { return d.next }

func (d *drawn) Tick(now int64, s State) (targets []int, err error) {
	d.next = now + d.every
	d.states = append(d.states, fmt.Sprint(now, s))
	if d.draw.IntN(3) == 0 {
		return nil, nil
	}
	for range s.Pools {
		targets = append(targets, (1+d.draw.IntN(5))*min(d.draw.IntN(60), 1)) // now and then none
	}
	return targets, nil
}

// looker looks at the workers at even instants.
type looker struct {
	every, next int64
	seen        []string
}

func (l *looker) Next() int64 { return l.next }

func (l *looker) Sample(at int64, pools [][]WorkerState) {
	l.next = at + l.every
	for k, list := range pools {
		for _, w := range list {
			l.seen = append(l.seen, fmt.Sprint(at, k, w.ID, w.Running, w.Waiting, w.Passes, w.Preemptions, w.Evictions))
		}
	}
}

// randomRows returns sessions whose prompts share beginnings.
func randomRows(draw *rand.Rand) (rows []json.RawMessage) {
	for n := range 1 + draw.IntN(14) {
		in := 1 + draw.IntN(120)
		ids := []int{}
		for k := range (in + 15) / 16 {
			ids = append(ids, k+100*draw.IntN(2)*min(k, 1)+1000*min(k/3, 1)*draw.IntN(3))
		}
		row := map[string]any{"input_length": in, "output_length": 1 + draw.IntN(60), "hash_ids": ids, "timestamp": draw.IntN(400)}
		if draw.IntN(3) == 0 {
			row["timestamp"], row["session_id"] = 50*n, fmt.Sprint("s", draw.IntN(3))
		}
		text, _ := json.Marshal(row)
		rows = append(rows, text)
	}
	return rows
}

// randomFleet returns a small fleet of any rules.
func randomFleet(t *testing.T, draw *rand.Rand) (in engineIn, name string, s *mmapcache.Structure, set map[string]string) {
	config := map[string]any{
		"num_gpu_blocks": 4 + draw.IntN(60), "block_size": []int{1, 2, 8, 16, 24}[draw.IntN(5)], "max_num_seqs": 1 + draw.IntN(6),
		"max_num_batched_tokens": 1 + draw.IntN(100), "preemption_mode": []string{"lifo", "fifo"}[draw.IntN(2)],
		"enable_prefix_caching": draw.IntN(5) > 0, "enable_chunked_prefill": draw.IntN(6) > 0, "speedup_ratio": []float64{1, 0.5, 3, 0}[draw.IntN(4)],
		"engine_type": []string{"vllm", "vllm", "vllm", "trtllm", "sglang"}[draw.IntN(5)],
	}
	if draw.IntN(3) == 0 { // room enough
		config["num_gpu_blocks"], config["max_num_batched_tokens"], config["max_num_seqs"] = 4000, 200, 20
	}
	in.Rows, in.Workers, in.TraceBlock = randomRows(draw), 1+draw.IntN(3), 16
	config["startup_time"] = float64(draw.IntN(3)*draw.IntN(400)) / 1000
	if draw.IntN(3) == 0 {
		config["engine_type"], in.Prefill, in.Decode = []string{"vllm", "vllm", "sglang"}[draw.IntN(3)], 1+draw.IntN(3), 1+draw.IntN(3)
		config["kv_bytes_per_token"], config["kv_transfer_gb_s"] = draw.IntN(3)*200_000, draw.IntN(3)
		config["kv_transfer_timing"] = []string{"full_prompt", "destination_missing"}[draw.IntN(2)]
	}
	if config["engine_type"] == "sglang" {
		config["max_num_batched_tokens"] = max(config["max_num_batched_tokens"].(int), config["block_size"].(int))
	}
	in.Engine, _ = json.Marshal(config)
	if draw.IntN(2) == 0 {
		in.Concurrency = 1 + draw.IntN(5)
	}
	s, _ = structureOf(t, in.Rows, in.TraceBlock)
	set = map[string]string{}
	if draw.IntN(2) == 0 {
		for _, one := range []string{"admission", "full_hit", "alloc", "block_visible", "duplicates", "sampled_block", "first_token", "decode_kv", "impossible", "concurrency_unit"} {
			choices := preset.Choices(one)
			set[one] = choices[draw.IntN(len(choices))]
		}
	}
	return in, preset.Names[draw.IntN(len(preset.Names))], s, set
}

// addTiers gives the engine of a random fleet tiers below a small pool, the switches that they need, and prompts that come again.
func addTiers(t *testing.T, draw *rand.Rand, in *engineIn, set map[string]string) {
	config := map[string]any{}
	require.NoError(t, json.Unmarshal(in.Engine, &config))
	size, _ := config["block_size"].(float64)
	config["num_gpu_blocks"], config["enable_prefix_caching"] = 190/int(size)+draw.IntN(8), true
	in.Rows = slices.Repeat(in.Rows, 3)
	var tiers []map[string]any
	for n := range 1 + draw.IntN(3) {
		tiers = append(tiers, map[string]any{"name": fmt.Sprint(n), "size": fmt.Sprint(draw.IntN(60)), "gb_s": float64(draw.IntN(3)) / 20, "policy": []string{"lru", "fifo"}[draw.IntN(2)]})
	}
	config["kv_tiers"], config["kv_bytes_per_token"], config["engine_type"] = tiers, 200_000, "vllm"
	in.Engine, _ = json.Marshal(config)
	usual, _ := preset.Named(preset.Default)
	for _, one := range []string{"admission", "full_hit", "alloc", "block_visible", "duplicates", "sampled_block"} {
		set[one] = usual.Get(one)
	}
}

// tally counts what random fleets did.
type tally struct {
	loaded, ends, dead, passes, outside, handed, scaled, drained, looks int
}

// playBoth plays a random fleet with skip-ahead and pass by pass, and wants the same of both.
func playBoth(t *testing.T, seed uint64, sum *tally) {
	in, name, s, set := randomFleet(t, rand.New(rand.NewPCG(seed, 2)))
	if seed%8 == 1 || seed%8 == 4 {
		addTiers(t, rand.New(rand.NewPCG(seed, 9)), &in, set)
		s, _ = structureOf(t, in.Rows, in.TraceBlock)
	}
	play := func(plain bool, sampler Sampler) (*Result, *log, *drawn, error) {
		o := optionsOf(t, in, name, s)
		for one, value := range set {
			require.NoError(t, o.Switches.Set(one, value))
		}
		draw := rand.New(rand.NewPCG(seed, 3))
		if in.Prefill > 0 && draw.IntN(2) == 0 { // pools that differ
			config := &o.Pools[1].Engine
			config.Blocks, config.MaxSeqs, config.MaxBatchedTokens = 4+draw.IntN(100), 1+draw.IntN(9), 1+draw.IntN(300)
			if config.Type == engine.SGLang {
				config.MaxBatchedTokens += config.BlockSize
			}
			o.Pools[1].Timing = engine.NewTiming(*config, nil)
		}
		o.Sampler = sampler
		o.Plain, o.Gaps = plain, &engine.Gaps{Exact: map[int64]int64{}}
		planner := &drawn{draw: draw, every: 1 + draw.Int64N(200_000_000)}
		l := &log{passes: map[[2]int][]engine.Pass{}}
		if seed%2 == 0 {
			o.Observer = l
		}
		if planner.next = planner.every; draw.IntN(2) == 0 {
			o.Planner = planner
		}
		for k := range o.Pools {
			if draw.IntN(3) == 0 { // passes and hand-offs of whole milliseconds end at one instant
				o.Pools[k].Timing = engine.NewTiming(o.Pools[k].Engine, &engine.Table{
					PrefillISL: []float64{0, 1000}, PrefillTTFT: []float64{0, 1000}, DecodeKV: []float64{0}, DecodeContext: []float64{0}, DecodeITL: [][]float64{{2}},
				})
			}
			if seed%5 == 0 { // as one pass, of which some lie outside of what was seen
				o.Pools[k].Engine.Timing.Formula = &engine.Formula{Pass: 1, Weights: 2, Token: 0.1, Attention: 1e-4, KV: 0.01,
					Seen: &engine.Seen{New: 100, Prefix: 100, Batch: 3, KV: 300}}
				o.Pools[k].Timing = engine.NewTiming(o.Pools[k].Engine, nil)
			}
			switch seed % 3 {
			case 0:
				o.Pools[k].Router = NewKV(o, k, seed)
			case 1:
				o.Pools[k].Router = &listener{notes: &l.entries}
			}
		}
		got, err := Run(context.Background(), o)
		return got, l, planner, err
	}
	want, wantLog, wantPlanner, wantErr := play(true, nil)
	got, gotLog, planner, err := play(false, nil)
	if seed%4 == 0 { // who looks changes nothing, and sees the same of both
		every := 777_777 + int64(seed%7)*5_000_000
		wantSeen, seen := &looker{every: every}, &looker{every: every}
		want, wantLog, wantPlanner, wantErr = play(true, wantSeen)
		got, gotLog, planner, err = play(false, seen)
		require.Equal(t, wantSeen.seen, seen.seen, "seed %d", seed)
		_, plainLog, _, _ := play(true, nil)
		require.Equal(t, plainLog.entries, gotLog.entries, "seed %d", seed)
		sum.looks += len(seen.seen)
	}
	require.Equal(t, wantErr, err, "seed %d", seed)
	require.Equal(t, wantPlanner.states, planner.states, "seed %d", seed)
	require.Equal(t, wantLog.entries, gotLog.entries, "seed %d", seed)
	for k := range wantLog.passes {
		require.Equal(t, len(wantLog.passes[k]), len(gotLog.passes[k]), "seed %d", seed)
		for j, one := range wantLog.passes[k] {
			if p := one.Prefill; p.Requests < 2 { // what preempted requests took of the pass is given back
				require.Equal(t, p.Tokens*p.Prefix+p.Tokens*(p.Tokens+1)/2, one.Attended, "seed %d worker %v pass %d", seed, k, j)
			}
			require.Equal(t, wantLog.passes[k][j], gotLog.passes[k][j], "seed %d worker %v pass %d", seed, k, j)
		}
	}
	if err != nil {
		var d *DeadEnd
		require.True(t, errors.As(err, &d), "seed %d: %v", seed, err)
		sum.dead++
		return
	}
	require.Equal(t, summaries(want), summaries(got), "seed %d", seed)
	require.Equal(t, want.Gaps, got.Gaps, "seed %d", seed)
	sum.add(in, got)
}

func (s *tally) add(in engineIn, got *Result) {
	s.ends++
	s.passes += int(got.Counts().Passes)
	s.outside += int(got.Counts().Outside)
	for _, tier := range got.Counts().Tiers {
		s.loaded += int(tier.Loaded)
	}
	if in.Prefill > 0 {
		s.handed++
	}
	for _, pool := range got.Workers {
		for _, w := range pool {
			if w.Ordered > 0 && w.Passes > 0 {
				s.scaled++
			}
			if w.Gone < got.Duration && w.Passes > 0 {
				s.drained++
			}
		}
	}
}

// What the fleet says and what comes of its requests is the same with skip-ahead and pass by pass.
//
// Covers S-27.
func TestSkipAheadIsThePlainLoop(t *testing.T) {
	var sum tally
	for seed := range uint64(1000) {
		playBoth(t, seed, &sum)
	}
	playBoth(t, 1<<32+0x41b, &sum) // a token takes its block where a request has ended in the same pass
	t.Logf("%+v", sum)
	require.Greater(t, sum.ends, 600)
	require.Greater(t, sum.dead, 20)
	require.Greater(t, sum.handed, 150)
	require.Greater(t, sum.outside, 1000)
	require.Greater(t, sum.scaled, 100)
	require.Greater(t, sum.drained, 100)
	require.Greater(t, sum.loaded, 1000)
	require.Greater(t, sum.looks, 10_000)
}

// The same for as long as AGENTX_SIMULATE says: make test-simulate.
//
// Covers S-80.
func TestRandomFleets(t *testing.T) {
	length, err := time.ParseDuration(os.Getenv("AGENTX_SIMULATE"))
	if err != nil {
		t.Skip("AGENTX_SIMULATE=1h plays random fleets for an hour")
	}
	var sum tally
	seed := uint64(1 << 32)
	for end := time.Now().Add(length); time.Now().Before(end); seed++ {
		playBoth(t, seed, &sum)
	}
	t.Logf("%d fleets, %+v", seed-1<<32, sum)
}

// summaries returns what came of all requests and workers.
func summaries(r *Result) (list []string) {
	for _, one := range r.Requests {
		list = append(list, fmt.Sprint(one.ID, one.Session, one.Number, one.Arrival, one.Worker, one.Admitted, one.First, one.Second, one.Last, one.Tokens,
			one.Overlap, one.Reused, one.ReusedMax, one.Recomputed, one.Preemptions, one.Admissions, one.Status, one.Loaded, one.LoadWait))
	}
	return append(list, fmt.Sprint(r.Workers, r.Duration))
}
