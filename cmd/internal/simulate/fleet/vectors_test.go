package fleet

import (
	"context"
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/simulate/engine"
	"github.com/agentx/agentx/cmd/internal/simulate/preset"
	"github.com/agentx/agentx/cmd/internal/simulate/workload"
	"github.com/agentx/agentx/convert/reconstruct"
	"github.com/agentx/agentx/convert/rules"
	"github.com/agentx/agentx/convert/weka"
	"github.com/agentx/agentx/internal/fixtures"
	"github.com/agentx/agentx/mmapcache"
)

// engineIn is the input of a vector of the group engine.
type engineIn struct {
	Engine      json.RawMessage
	Rows        []json.RawMessage
	TraceBlock  int `json:"trace_block_size"`
	Workers     int
	Prefill     int     `json:"prefill_workers"`
	Decode      int     `json:"decode_workers"`
	KVBytes     float64 `json:"kv_bytes_per_token"`
	KVRate      float64 `json:"kv_transfer_gb_s"`
	Speedup     float64 `json:"arrival_speedup"`
	Concurrency int
	Router      string
}

// engineWant is its result.
type engineWant struct {
	Duration    int64    `json:"duration_ns"`
	Evictions   int64    `json:"evictions"`
	Output      int64    `json:"output_tokens"`
	Passes      int64    `json:"passes"`
	Preemptions int64    `json:"preemptions"`
	Charged     [][]int  `json:"prefill_charged"`
	ReuseFirst  float64  `json:"reuse_first"`
	ReuseMax    float64  `json:"reuse_max"`
	HitRate     *float64 `json:"avg_kv_hit_rate"`
	Rejected    int
	PerRequest  []struct {
		Arrival   int64   `json:"arrival_ns"`
		First     int64   `json:"first_ns"`
		Second    int64   `json:"second_ns"`
		Last      int64   `json:"last_ns"`
		Times     []int64 `json:"token_ns"`
		Tokens    int
		Reused    int
		ReusedMax *int `json:"reused_max"`
		Preempted int
		Status    string
		Worker    int
		Prefill   *int `json:"prefill_worker"`
	} `json:"per_request"`
}

// structureOf converts Mooncake rows, and returns of each row its session and its number in it.
func structureOf(t testing.TB, rows []json.RawMessage, block int) (*mmapcache.Structure, [][2]int) {
	rules := rules.Default()
	rules.BlockSize = block
	m := weka.NewMooncake(0, rules)
	places := make([][2]int, len(rows))
	sessions, counts := map[string]int{}, []int{}
	for k, row := range rows {
		require.NoError(t, m.Add(row))
		var names struct {
			Session *string `json:"session_id"`
		}
		require.NoError(t, json.Unmarshal(row, &names))
		n := len(counts)
		if names.Session != nil {
			if known, ok := sessions[*names.Session]; ok {
				n = known
			}
			sessions[*names.Session] = n
		}
		if n == len(counts) {
			counts = append(counts, 0)
		}
		places[k] = [2]int{n, counts[n]}
		counts[n]++
	}
	traces, err := m.Traces()
	require.NoError(t, err)
	s := mmapcache.NewStructure()
	for _, trace := range traces {
		plan, _, err := reconstruct.MakePlan(trace, rules)
		require.NoError(t, err)
		require.NoError(t, s.Append(plan))
	}
	return s, places
}

// optionsOf returns the fleet of a vector.
func optionsOf(t testing.TB, in engineIn, name string, s *mmapcache.Structure) Options {
	switches, ok := preset.Named(name)
	require.True(t, ok)
	return optionsOfSwitches(t, in, switches, s)
}

func optionsOfSwitches(t testing.TB, in engineIn, switches preset.Switches, s *mmapcache.Structure) Options {
	config, err := engine.Parse(in.Engine, engine.Default())
	require.NoError(t, err)
	sessions, err := workload.Timed(mmapcache.CacheOf(s, mmapcache.StructureFacts{}), config.BlockSize, switches.IDWidth)
	require.NoError(t, err)
	if config.KVBytesPerToken == 0 {
		config.KVBytesPerToken, config.KVTransferGBPerS = in.KVBytes, in.KVRate
	}
	pool := func(workers int) Pool {
		return Pool{Workers: workers, Engine: config, Timing: engine.NewTiming(config, nil)}
	}
	o := Options{Pools: []Pool{pool(in.Workers)}, Switches: switches}
	if in.Prefill > 0 {
		o.Pools = []Pool{pool(in.Prefill), pool(in.Decode)}
	}
	if in.Concurrency > 0 {
		o.Load, err = sessions.Concurrency(in.Concurrency, switches.ConcurrencyUnit)
	} else {
		if in.Speedup == 0 {
			in.Speedup = 1
		}
		o.Load, err = sessions.Trace(in.Speedup)
	}
	require.NoError(t, err)
	if in.Router != "" {
		o.Switches.RouterTie = "least_dispatched" // the rule with which all vectors were made
		for k := range o.Pools {
			o.Pools[k].Router = NewKV(o, k, 42)
		}
	}
	return o
}

// watcher notes the tokens of every request and what passes were charged for.
type watcher struct {
	prefill int // workers of the prefill pool
	charged [][]int
}

func (w *watcher) Released(int64, *Request)  {}
func (w *watcher) Completed(int64, *Request) {}
func (w *watcher) Pass(pool, worker int, p *engine.Pass) {
	if worker += pool * w.prefill; p.Prefill.Requests > 0 {
		w.charged[worker] = append(w.charged[worker], p.Charged)
	}
}

// Covers S-05, S-06, S-11, S-12, S-13, S-14, S-15, S-17, S-19, S-25.
func TestEngineVectors(t *testing.T) {
	fixtures.EachSimulate(t, "engine", fixtures.SimulateCounts{22, 22, 15}, func(t *testing.T, c fixtures.SimulateCase, in engineIn, want engineWant) {
		s, places := structureOf(t, in.Rows, in.TraceBlock)
		for _, plain := range []bool{true, false} {
			o := optionsOf(t, in, c.Preset, s)
			w := &watcher{prefill: in.Prefill, charged: make([][]int, in.Workers+in.Prefill+in.Decode)}
			o.Plain, o.Observer = plain, w
			got, err := Run(context.Background(), o)
			require.NoError(t, err)
			checkResult(t, got, want, places, o.Pools[0].Engine.BlockSize)
			if want.Charged != nil {
				require.Equal(t, want.Charged, w.charged)
			}
		}
	})
}

func checkResult(t *testing.T, got *Result, want engineWant, places [][2]int, blockSize int) {
	byPlace := map[[2]int]*Request{}
	var input, reused, reusedMax, rejected int
	for _, r := range got.Requests {
		byPlace[[2]int{r.Session, r.Number}] = r
		input, reused, reusedMax = input+r.Prompt, reused+r.Reused, reusedMax+r.ReusedMax
		if r.Status != engine.Done {
			rejected++
		}
	}
	for k, p := range want.PerRequest {
		r := byPlace[places[k]]
		require.NotNil(t, r)
		if p.Times != nil {
			p.Tokens = len(p.Times)
			if p.Tokens > 0 {
				p.First, p.Last = p.Times[0], p.Times[p.Tokens-1]
			}
			if p.Tokens > 1 {
				p.Second = p.Times[1]
			}
		}
		if p.Status == "" {
			p.Status = "done"
		}
		if p.ReusedMax == nil {
			p.ReusedMax = &p.Reused
		}
		require.Equal(t, []any{k, p.Arrival, p.First, p.Second, p.Last, p.Tokens, p.Reused, *p.ReusedMax, p.Preempted, p.Status, p.Worker},
			[]any{k, r.Arrival, r.First, r.Second, r.Last, r.Tokens, r.Reused, r.ReusedMax, r.Preemptions, r.Status.String(), r.Worker})
		if p.Prefill != nil {
			require.Equal(t, *p.Prefill, r.Prefill.Worker)
		}
	}
	require.Equal(t, engine.Counts{Passes: want.Passes, Preemptions: want.Preemptions, Evictions: want.Evictions, Output: want.Output}, publicCounts(got))
	require.Equal(t, want.Duration, got.Duration)
	require.Equal(t, want.Rejected, rejected)
	require.Equal(t, want.ReuseFirst, round6(float64(reused)/float64(input)))
	require.Equal(t, want.ReuseMax, round6(float64(reusedMax)/float64(input)))
	checkHitRate(t, got, want.HitRate, blockSize)
}

// checkHitRate checks the mean of the shares of prompt blocks that a router knew where it sent the requests.
func checkHitRate(t *testing.T, got *Result, want *float64, blockSize int) {
	if want == nil {
		return
	}
	rate := 0.0
	for _, r := range got.Requests {
		rate += float64(r.Overlap) / float64((r.Prompt+blockSize-1)/blockSize)
	}
	require.Equal(t, *want, round6(rate/float64(len(got.Requests))))
}

// publicCounts are the counts of a fleet, of tokens those of the decode pool.
func publicCounts(r *Result) engine.Counts {
	sum := r.Counts()
	sum.Prompt = 0 // no vector has it
	if len(r.Workers) == 2 {
		for _, w := range r.Workers[0] {
			sum.Output -= w.Output
		}
	}
	return sum
}

func round6(v float64) float64 { return math.RoundToEven(v*1e6) / 1e6 }
