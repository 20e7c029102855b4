package planner

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/simulate/preset"
	"github.com/agentx/agentx/internal/fixtures"
)

// close compares a number with that of a vector; exact without a tolerance.
func same(t *testing.T, want, got, tolerance float64) {
	t.Helper()
	if tolerance == 0 || want == 0 {
		require.Equal(t, want, got)
		return
	}
	require.InEpsilon(t, want, got, tolerance)
}

// switchesOf returns the switches of a preset with a predictor that exists.
func switchesOf(t testing.TB, name string) preset.Switches {
	s, ok := preset.Named(name)
	require.True(t, ok)
	s.Predictor = "kalman"
	return s
}

// Covers S-33.
func TestTrafficVectors(t *testing.T) {
	type in struct {
		Window    int64 `json:"window_s"`
		Completed []struct {
			ISL, OSL int
			TTFT     *float64 `json:"ttft_ms"`
			Gap      *float64 `json:"mean_gap_ms"`
		}
		Offered []struct{ ISL, OSL int }
	}
	fixtures.EachSimulate(t, "traffic", fixtures.SimulateCounts{2, 2, 2}, func(t *testing.T, c fixtures.SimulateCase, in in, want map[string]*float64) {
		w := newWindow(0, switchesOf(t, c.Preset).TrafficNumReq)
		for _, r := range in.Offered {
			w.arrived(r.ISL, r.OSL)
		}
		for _, r := range in.Completed {
			one := Completion{Arrival: 1e9, Prompt: r.ISL, Tokens: r.OSL}
			if r.TTFT != nil {
				one.HasFirst, one.First = true, one.Arrival+int64(*r.TTFT*1e6)
				one.Last = one.First
			}
			if r.Gap != nil {
				one.Last = one.First + int64(*r.Gap*1e6)*int64(r.OSL-1)
			}
			w.Completed(one)
		}
		w.End = in.Window * 1e9
		require.Equal(t, float64(in.Window), w.Seconds())
		number := func(n int) *float64 { v := float64(n); return &v }
		got := map[string]*float64{
			"num_req": number(w.Requests), "avg_isl": w.isl(), "avg_osl": w.osl(), "avg_ttft_ms": w.ttftMS(), "ttft_count": number(w.TTFTs),
			"avg_itl_ms": w.itlMS(), "itl_count": number(w.ITLs),
		}
		for key, v := range want {
			require.Equal(t, v, got[key], key)
		}
	})
}

// Covers S-42.
func TestRegressionVectors(t *testing.T) {
	type in struct {
		Kind    string
		Samples [][]float64
		Query   [][]float64
	}
	type want struct {
		Fitted    bool
		Intercept float64
		Coef      []float64
		Predict   []float64
	}
	kinds := map[string]kind{"prefill": prefillKind, "decode": decodeKind, "agg": aggKind}
	fixtures.EachSimulate(t, "regression", fixtures.SimulateCounts{6, 6, 6}, func(t *testing.T, c fixtures.SimulateCase, in in, want want) {
		k := kinds[in.Kind]
		var list []sample
		for _, row := range in.Samples {
			s := sample{wall: row[len(row)-1]}
			copy(s.x[:], row[:len(row)-1])
			list = append(list, s)
		}
		l := fit(k, list, Default().MinObservations)
		require.Equal(t, want.Fitted, l.Fitted)
		if !l.Fitted {
			return
		}
		same(t, want.Intercept, l.Intercept, c.Tol)
		for i, v := range want.Coef {
			same(t, v, l.Coef[i], c.Tol)
		}
		for i, q := range in.Query {
			q = append(q, 0)
			same(t, want.Predict[i], l.predict(q[0], q[1]), c.Tol)
		}
	})
}

// Covers S-43.
func TestCapacityVectors(t *testing.T) {
	type in struct {
		Kind      string
		Intercept float64
		Coef      []float64
		ISL, OSL  float64
		MBT       int
		KV        int     `json:"max_kv_tokens"`
		Seqs      int     `json:"max_num_seqs"`
		ITL       float64 `json:"itl_s"`
		TTFT      float64 `json:"ttft_s"`
		Balance   string
	}
	type want struct {
		Chunks   []float64
		Context  float64
		KVCap    int `json:"kv_cap"`
		MaxBatch int `json:"max_batch"`
		Batch    int
		Wall     float64 `json:"wall_s"`
		RPS      float64
		Meets    bool `json:"meets_sla"`
		Steady   int
		PR8280   int `json:"pr8280"`
	}
	fixtures.EachSimulate(t, "capacity", fixtures.SimulateCounts{13, 13, 13}, func(t *testing.T, c fixtures.SimulateCase, in in, want want) {
		l := Line{Intercept: in.Intercept, Fitted: true}
		copy(l.Coef[:], in.Coef)
		e := Engine{MaxBatchedTokens: in.MBT, MaxKV: in.KV, MaxSeqs: in.Seqs}
		var got Capacity
		switch in.Kind {
		case "prefill":
			full, rest := chunksOf(in.ISL, float64(in.MBT))
			var chunks []float64
			for range int(full) {
				chunks = append(chunks, float64(in.MBT))
			}
			require.Equal(t, want.Chunks, append(chunks, rest))
			same(t, want.RPS, prefillCapacity(l, in.ISL, e, 1).RPS, c.Tol)
			return
		case "decode":
			got = decodeCapacity(l, in.ISL, in.OSL, e, 0, in.ITL)
			require.Equal(t, want.MaxBatch, heldBatch(e, 0, want.Context))
		case "agg":
			got = aggCapacity(l, aggInput{isl: in.ISL, osl: in.OSL, fresh: in.ISL, ttft: in.TTFT, itl: in.ITL, engine: e, balance: preset.Choice(in.Balance)})
			require.Equal(t, preset.Choice(in.Balance), switchesOf(t, c.Preset).Balance)
			require.Equal(t, want.KVCap, int(float64(in.KV)/want.Context))
		default:
			for rule, x := range map[preset.Choice]int{"steady": want.Steady, preset.BalancePR8280: want.PR8280} {
				n, ok := largest(in.MBT-1, func(x int) bool { return balanced(rule, x, in.ISL, in.OSL, in.MBT) })
				require.Equal(t, []any{x, true}, []any{n, ok}, rule)
			}
			return
		}
		require.Equal(t, []any{want.MaxBatch, want.Batch, want.Meets}, []any{got.MaxBatch, got.Batch, got.Meets})
		same(t, want.Wall, got.Seconds, c.Tol)
		same(t, want.RPS, got.RPS, c.Tol)
	})
}

// Covers S-41.
func TestBootstrapVectors(t *testing.T) {
	type in struct {
		MBT, Granularity int
		Seqs             int `json:"max_num_seqs"`
		KV               int `json:"max_kv_tokens"`
	}
	type want struct {
		Tokens []int
		N      int
		First  [][2]int
		Last   [2]int
	}
	fixtures.EachSimulate(t, "bootstrap", fixtures.SimulateCounts{3, 3, 3}, func(t *testing.T, c fixtures.SimulateCase, in in, want want) {
		if want.Tokens != nil {
			require.Equal(t, want.Tokens, prefillPoints(in.MBT, in.Granularity))
			return
		}
		list := decodePoints(in.Seqs, in.KV, in.Granularity)
		require.Len(t, list, want.N)
		for i, b := range want.First {
			require.Equal(t, batch{b[0], b[1]}, list[i])
		}
		require.Equal(t, batch{want.Last[0], want.Last[1]}, list[len(list)-1])
	})
	require.Equal(t, []int{100, 1111, 2122, 3133, 4144, 5155, 6166, 7177, 8188}, prefillPoints(8192, 8))
	require.Len(t, decodePoints(256, 1048576, 8), 29)
}

// modelOf returns a model of a line, whatever its samples say.
func modelOf(k kind, intercept float64, coef ...float64) *model {
	m := newModel(k, Default())
	m.fitted = Line{Intercept: intercept, Fitted: true}
	copy(m.fitted.Coef[:], coef)
	return m
}

// Covers S-44.
func TestEstimateVectors(t *testing.T) {
	type in struct {
		Kind        string
		Intercept   float64
		Coef        []float64
		Queued, Hit float64
		AvgISL      float64 `json:"avg_isl"`
		MBT         int
		AvgDecode   float64 `json:"avg_num_decode"`
		AvgPrefill  float64 `json:"avg_prefill_tokens"`
		AvgLength   float64 `json:"avg_decode_len"`
		KV          float64 `json:"scheduled_kv"`
		QueuedKV    float64 `json:"queued_kv"`
	}
	kinds := map[string]kind{"": prefillKind, "decode": decodeKind, "agg": aggKind}
	fixtures.EachSimulate(t, "estimate", fixtures.SimulateCounts{4, 4, 4}, func(t *testing.T, c fixtures.SimulateCase, in in, want struct{ S float64 }) {
		m := modelOf(kinds[in.Kind], in.Intercept, in.Coef...)
		for _, zero := range []float64{0, 0, 1} { // leading zeros count for nothing
			m.prompt.add(zero * in.AvgISL)
			m.length.add(zero * in.AvgLength)
			m.prefill.add(zero * in.AvgPrefill)
			m.decodes.add(zero * in.AvgDecode)
		}
		if in.Kind == "" {
			same(t, want.S, m.ttft(in.Queued, in.Hit, in.MBT, 0), c.Tol)
		} else {
			same(t, want.S, m.itl(in.KV+in.QueuedKV), c.Tol)
		}
	})
}

// Covers S-45.
func TestThroughputVectors(t *testing.T) {
	type in struct {
		Mode        string
		Count       float64 `json:"predicted_count"`
		Window      float64 `json:"window_s"`
		RPS         float64 `json:"engine_rps"`
		Least       int     `json:"min_endpoint"`
		LoadScaling bool    `json:"load_scaling"`
	}
	type want struct {
		Replicas        int
		Reason          Reason
		Prefill, Decode struct{ Reason Reason }
	}
	fixtures.EachSimulate(t, "throughput", fixtures.SimulateCounts{5, 5, 5}, func(t *testing.T, c fixtures.SimulateCase, in in, want want) {
		config := Default()
		config.Predictor, config.LoadScaling = constant, in.LoadScaling
		if in.Mode == "disagg" {
			p := flat(t, config, Disaggregated, 3)
			p.models[0] = newModel(prefillKind, config)
			p.window = traffic(in.Count, in.Window)
			tick := throughputTickOf(t, p, Workers{Active: []int{0}}, Workers{Active: []int{0}})
			require.Equal(t, []Reason{want.Prefill.Reason, want.Decode.Reason}, []Reason{tick.Pools[0].ThroughputReason, tick.Pools[1].ThroughputReason})
			require.Equal(t, []any{modelNotReady, 1, 1, false}, []any{tick.ThroughputReason, tick.Pools[0].Target, tick.Pools[1].Target, tick.Pools[1].Decided})
			return
		}
		config.MinEndpoint = in.Least
		p := flat(t, config, Aggregated, in.RPS)
		p.window = traffic(in.Count, in.Window)
		tick := throughputTickOf(t, p, Workers{Active: []int{0}})
		require.Equal(t, in.RPS, tick.Pools[0].Capacity.RPS)
		require.Equal(t, want.Reason, tick.ThroughputReason)
		require.Equal(t, want.Reason, tick.Pools[0].ThroughputReason)
		if in.LoadScaling {
			require.Equal(t, []any{want.Replicas, 1}, []any{tick.Pools[0].Floor, tick.Pools[0].Target})
		} else {
			require.Equal(t, want.Replicas, tick.Pools[0].Target)
		}
	})
}

// Covers S-46.
func TestBudgetVectors(t *testing.T) {
	type in struct {
		Prefill, Decode int
		GPUPrefill      int `json:"gpu_prefill"`
		GPUDecode       int `json:"gpu_decode"`
		Budget          int
		Least           int `json:"min_endpoint"`
	}
	fixtures.EachSimulate(t, "budget", fixtures.SimulateCounts{4, 4, 4}, func(t *testing.T, c fixtures.SimulateCase, in in, want struct{ Replicas []int }) {
		require.Equal(t, want.Replicas, budget{[]int{in.GPUPrefill, in.GPUDecode}, []int{in.Least, in.Least}, -1, in.Budget}.clamp([]int{in.Prefill, in.Decode}))
	})
	for _, c := range []struct {
		want, gpus    []int
		budget, least int
		result        []int
	}{
		{[]int{9}, []int{1}, -1, 1, []int{9}},
		{[]int{9}, []int{2}, 7, 1, []int{3}},
		{[]int{9}, []int{2}, 1, 1, []int{0}},
		{[]int{3, 3}, []int{2, 2}, 3, 1, []int{0, 0}},
		{[]int{9, 4}, []int{1, 0}, 3, 1, []int{3, 4}},
		{[]int{4, 9}, []int{0, 1}, 3, 1, []int{1, 3}},
	} {
		require.Equal(t, c.result, budget{c.gpus, []int{c.least, c.least}[:len(c.gpus)], -1, c.budget}.clamp(c.want), "%+v", c)
	}
}

// Covers S-45.
func TestPredictorVectors(t *testing.T) {
	type in struct {
		Predictor string
		Series    []float64
	}
	fixtures.EachSimulate(t, "predictor", fixtures.SimulateCounts{3, 0, 0}, func(t *testing.T, c fixtures.SimulateCase, in in, want struct{ Next float64 }) {
		config := Default()
		k := predictor{config: &config, kalman: in.Predictor == kalman, start: firstCovariance}
		for _, v := range in.Series {
			k.add(v)
		}
		next, ok := k.next()
		require.True(t, ok)
		same(t, want.Next, next, c.Tol)
		k.kalman = false
		next, _ = k.next()
		require.Equal(t, in.Series[len(in.Series)-1], next)
	})
	config := Default()
	k := predictor{config: &config, kalman: true, start: firstCovariance}
	_, ok := k.next()
	require.False(t, ok)
	for _, v := range []float64{100, 80, 60, 40, 20, 0} { // falls below 0
		k.add(v)
	}
	next, _ := k.next()
	require.Zero(t, next)
}

// Covers S-40.
func TestTickVectors(t *testing.T) {
	type in struct {
		Load       float64 `json:"load_interval_s"`
		Throughput float64 `json:"throughput_interval_s"`
		Until      float64 `json:"until_s"`
	}
	type want struct{ Ticks []json.RawMessage }
	fixtures.EachSimulate(t, "ticks", fixtures.SimulateCounts{2, 0, 0}, func(t *testing.T, c fixtures.SimulateCase, in in, want want) {
		config := Default()
		config.LoadScaling, config.LoadInterval, config.ThroughputInterval = true, in.Load, in.Throughput
		k := newClock(config, preset.TickNominal)
		var got []string
		for k.at() <= int64(math.Round(in.Until*1e9)) {
			load, throughput := k.due()
			names := []string{}
			if throughput {
				names = append(names, "throughput")
			}
			if load {
				names = append(names, "load")
			}
			at := k.at()
			require.Equal(t, at, k.tick(3))
			line, err := json.Marshal([]any{float64(at) / 1e9, names})
			require.NoError(t, err)
			got = append(got, string(line))
		}
		require.Len(t, got, len(want.Ticks))
		for i, line := range want.Ticks {
			require.JSONEq(t, string(line), got[i])
		}
	})
}
