package measure

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/internal/fixtures"
	"github.com/agentx/agentx/replay/slo"
)

// Covers T-39.
func TestVectorsPercentile(t *testing.T) {
	type in struct {
		Values []float64
		ITL    []float64 `json:"itl_ms"`
	}
	type want struct {
		Avg, Max, Std float64
		Percentiles   map[string]float64
		ITL           map[string]float64 `json:"itl_s"`
		Interactivity map[string]float64
	}
	rank := map[string]float64{"p1": 1, "p5": 5, "p10": 10, "p25": 25, "p50": 50, "p75": 75, "p90": 90, "p95": 95, "p99": 99}
	fixtures.EachCase(t, "percentile", fixtures.Counts{9, 9, 9}, func(t *testing.T, _ fixtures.Case, in in, want want) {
		if in.ITL != nil { // the reciprocal has the same label
			slices.Sort(in.ITL)
			for name, w := range want.ITL {
				require.InDelta(t, w, Percentile(in.ITL, rank[name])/1e3, 1e-9)
				require.InDelta(t, want.Interactivity[name], 1e3/Percentile(in.ITL, rank[name]), 1e-9)
			}
			return
		}
		s := NewStat(in.Values)
		require.InDelta(t, want.Avg, float64(s.Mean), 1e-9)
		require.InDelta(t, want.Std, float64(s.Std), 1e-9)
		require.EqualValues(t, want.Max, s.Max)
		require.Equal(t, len(in.Values), s.N)
		require.Len(t, want.Percentiles, len(rank))
		for name, w := range want.Percentiles {
			require.InDelta(t, w, Percentile(in.Values, rank[name]), 1e-9, name)
		}
		for name, got := range map[string]Number{"p50": s.P50, "p75": s.P75, "p90": s.P90, "p95": s.P95, "p99": s.P99} {
			require.InDelta(t, want.Percentiles[name], float64(got), 1e-9, name)
		}
	})
}

func TestStatJSON(t *testing.T) {
	b, err := json.Marshal(NewStat(nil))
	require.NoError(t, err)
	require.JSONEq(t, `{"mean":null,"p50":null,"p75":null,"p90":null,"p95":null,"p99":null,"max":null,"std":null,"n":0}`, string(b))
	b, err = json.Marshal(NewStat([]float64{0.5}))
	require.NoError(t, err)
	require.JSONEq(t, `{"mean":0.5,"p50":0.5,"p75":0.5,"p90":0.5,"p95":0.5,"p99":0.5,"max":0.5,"std":0,"n":1}`, string(b))
	for in, want := range map[string]float64{"null": math.NaN(), "2.5": 2.5} {
		var n Number
		require.NoError(t, json.Unmarshal([]byte(in), &n))
		require.Equal(t, math.IsNaN(want), n.IsMissing())
		if !n.IsMissing() {
			require.EqualValues(t, want, n)
		}
	}
	require.Error(t, json.Unmarshal([]byte(`"x"`), new(Number)))
	require.True(t, Number(math.Inf(1)).IsMissing())
}

func conditions(t require.TestingT, texts ...string) (list []slo.Condition) {
	for _, text := range texts {
		c, err := ParseCondition(text)
		require.NoError(t, err)
		list = append(list, c)
	}
	return list
}

func aggregate(levels []slo.Condition, records ...*Record) Summary {
	a := NewAggregate(Rules{}, levels...)
	for _, r := range records {
		a.Add(r)
	}
	return a.Summary(RunInfo{SLO: levels})
}

func inTree(tree int, r *Record) *Record {
	r.Tree = tree
	return r
}

// Goodput equals a recount, by hand and by the plain words of doc/spec/results.md 3.9 over random records.
//
//
func TestGoodput(t *testing.T) {
	levels := conditions(t, "ttft<0.5s", "itl<=0.5s", "latency.max<3s", "error-rate<1%", "goodput>0.1")
	// From 1 to 6: 5 s. ttft 0.5 misses, 0.25 meets; itl (2.5-0.5)/4 and (1.25-0.25)/2 are 0.5.
	slow, fast, silent := good(0, 1, 0, 0.5, 2.5, 5), good(1, 2, 0, 0.25, 1.25, 3), good(2, 4, 0, 0.25, 2, 5)
	silent.OutputTokens = 0
	after := good(1, 20, 0, 1, 2, 2)
	after.Bucket = Cooldown
	warm := good(5, 0, 0, 9, 9, 2)
	warm.Phase, warm.Bucket = WarmupPhase, WarmupBucket
	s := aggregate(levels, inTree(0, slow), inTree(1, fast), inTree(2, silent), inTree(3, good(1, 3, 0, 0.25, 1.25, 3)), inTree(3, after), warm,
		inTree(4, bad(CancelledAtEnd, "cancelled")), inTree(5, bad(Profiling, "timeout")), inTree(6, bad(ContextOverflow, "context_overflow")))
	g := s.Goodput
	require.Equal(t, 2, g.Requests, "fast, and the first of tree 3")
	require.Equal(t, 1, g.Unknown)
	require.EqualValues(t, 2.0/5, g.Rate)
	require.EqualValues(t, 2.0/5, g.Share, "four ended well, one failed")
	require.Equal(t, 1, g.Trees, "tree 1: tree 3 has a slow request in the cooldown")
	require.EqualValues(t, 1.0/6, g.TreeShare, "of seven, the end of the run cut one")
	require.Equal(t, []string{"ttft<500ms", "itl<=500ms", "latency.max<3s", "error-rate<0.01", "goodput>0.1"},
		[]string{g.Conditions[0].Text, g.Conditions[1].Text, g.Conditions[2].Text, g.Conditions[3].Text, g.Conditions[4].Text})
	require.Equal(t, []int{3, 3, 0}, []int{g.Conditions[0].Requests, g.Conditions[1].Requests, g.Conditions[2].Requests})
	require.Nil(t, g.Conditions[0].Met)
	require.Equal(t, []bool{true, false, true}, []bool{*g.Conditions[2].Met, *g.Conditions[3].Met, *g.Conditions[4].Met})
	require.EqualValues(t, 2.5, g.Conditions[2].Value)
	require.EqualValues(t, 2.0/5, g.Conditions[4].Value)

	var b strings.Builder
	require.NoError(t, s.WriteTable(&b, 0))
	require.Contains(t, b.String(), "goodput     0.40 requests/s: 40.0 % of the requests, 16.7 % of the trees meet ttft<500ms, itl<=500ms, 1 without a value\n")
	require.Contains(t, b.String(), "levels      latency.max<3s: 2.50 s, met\n            error-rate<0.01: 16.7 %, not met\n")

	require.Nil(t, aggregate(nil, fast).Goodput)
	b.Reset()
	few := aggregate(conditions(t, "latency.p95<3s"), inTree(0, fast))
	require.NoError(t, few.WriteTable(&b, 0))
	require.Contains(t, b.String(), "levels      latency.p95<3s: 1.25 s?, met\n")

	none := aggregate(levels)
	require.True(t, none.Goodput.Rate.IsMissing() && none.Goodput.Share.IsMissing() && none.Goodput.TreeShare.IsMissing())
	require.False(t, *none.Goodput.Conditions[2].Met, "what is not known is not met")
}

//
func TestGoodputEqualsARecount(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		levels := conditions(t, "ttft<0.3s", "itl<0.2s", "latency>0.1s", "output_tokens>=2")
		var records []*Record
		for range rapid.IntRange(1, 40).Draw(t, "records") {
			at := float64(rapid.IntRange(0, 100).Draw(t, "at"))
			r := good(0, at, 0, rapid.Float64Range(0.01, 1).Draw(t, "ttft"), rapid.Float64Range(1, 3).Draw(t, "latency"), rapid.SampledFrom([]int64{0, 1, 9, 20, 30}).Draw(t, "tokens"))
			switch rapid.IntRange(0, 9).Draw(t, "kind") {
			case 0:
				r.Error = &Error{Category: "timeout"}
			case 1:
				r.OutputTokens = 0
			case 2:
				r.Bucket = Cooldown
			case 3:
				r.Bucket, r.Error = CancelledAtEnd, &Error{Category: "cancelled"}
			}
			records = append(records, inTree(rapid.IntRange(0, 9).Draw(t, "tree"), r))
		}
		requests, judged, trees := 0, 0, map[int]string{}
		for _, r := range records {
			meets := r.Error == nil && r.FirstToken.Seconds()-r.Sent.Seconds() < 0.3 && r.LastToken.Seconds()-r.Sent.Seconds() > 0.1 &&
				r.OutputTokens != 0 && r.OutputTokens.N() >= 2 && (r.LastToken.Seconds()-r.FirstToken.Seconds())/float64(r.OutputTokens.N()-1) < 0.2
			if r.Bucket == Profiling {
				judged++
				if meets {
					requests++
				}
			}
			switch was := trees[r.Tree]; {
			case r.Bucket == CancelledAtEnd:
				trees[r.Tree] = "cut"
			case was == "cut":
			case !meets:
				trees[r.Tree] = "bad"
			case was == "":
				trees[r.Tree] = "good"
			}
		}
		count := map[string]int{}
		for _, is := range trees {
			count[is]++
		}
		s := aggregate(levels, records...)
		require.Equal(t, requests, s.Goodput.Requests)
		require.Equal(t, count["good"], s.Goodput.Trees)
		equal(t, float64(requests)/float64(judged), s.Goodput.Share)
		equal(t, float64(count["good"])/float64(count["good"]+count["bad"]), s.Goodput.TreeShare)
		equal(t, float64(requests)/float64(s.ThroughputWindow.Seconds), s.Goodput.Rate)
	})
}

func equal(t require.TestingT, want float64, got Number) {
	if math.IsNaN(want) || math.IsInf(want, 0) {
		require.True(t, got.IsMissing())
		return
	}
	require.EqualValues(t, want, got)
}

// Every metric of the list has a figure in the summary that equals the samples of its function.
func TestMetricList(t *testing.T) {
	records := []*Record{good(0, 1, 0.25, 0.5, 2.5, 5), good(1, 2, 0, 0.25, 1.25, 3)}
	first := int64(2)
	records[0].FirstChunkTokens = Tokens(first)
	s := aggregate(conditions(t, "ttft<0.5s"), records...)
	for _, m := range MetricList {
		if m.Value != nil {
			require.False(t, m.Value(&s).IsMissing(), m.Name)
			require.Equal(t, m.Value(&s), s.Figure(slo.Figure{Metric: m.Metric}), m.Name)
			continue
		}
		var samples []float64
		for _, r := range records {
			v, ok := m.Of(&r.Numbers, Rules{})
			require.True(t, ok, m.Name)
			samples = append(samples, v)
		}
		require.Equal(t, NewStat(samples), *m.Stat(&s.Metrics), m.Name)
		for _, name := range slo.Statistics {
			f, err := ParseFigure(m.Name + "." + name)
			require.NoError(t, err)
			require.False(t, s.Figure(f).IsMissing(), f)
		}
	}
	require.EqualValues(t, 0.5, s.TPOT.Mean, "2/4 and 1/2: of all tokens but one")
	require.InDelta(t, (2.0/3+0.5)/2, float64(s.ITL.Mean), 1e-15, "2/3: the first message has two tokens")
	_, err := ParseFigure("tttft.p95")
	require.EqualError(t, err, `no metric "tttft": did you mean ttft?`)
}

// target returns a metric with an interval.
func target(metric, unit string, share Number, value, low, high float64) UntilTarget {
	t := UntilTarget{Metric: metric, Unit: unit, Share: share}
	t.SetInterval(value, low, high)
	return t
}

func TestUntilTarget(t *testing.T) {
	for text, c := range map[string]struct {
		UntilTarget
		within bool
	}{
		"ttft.p95 1.84 s ± 4.09 %":                 {target("ttft.p95", "s", 0.041, 1.84, 1.84*(1-0.0409), 1.84*(1+0.03)), true},
		"ttft.p95 1.84 s ± 4.11 %":                 {target("ttft.p95", "s", 0.041, 1.84, 1.84*(1-0.03), 1.84*(1+0.0411)), false},
		"prompt_tokens.mean 12.3k tokens ± 50.0 %": {target("prompt_tokens.mean", "tokens", 0.5, 12_300, 6150, 18_450), true},
		"lateness.p50 0 s ± 0 %":                   {target("lateness.p50", "s", 0.01, 0, 0, 0), true},
		"lateness.p50 0 s":                         {target("lateness.p50", "s", 0.01, 0, 0, 1), false},
		"itl.p50 20.0 ms":                          {UntilTarget{Metric: "itl.p50", Unit: "s", Share: 1, Value: 0.02, Low: Missing, High: Missing, Margin: Missing}, false},
		"itl.mean not known":                       {UntilTarget{Metric: "itl.mean", Unit: "s", Share: 1, Value: Missing, Margin: Missing}, false},
	} {
		require.Equal(t, text, c.String())
		require.Equal(t, c.within, c.Within(), text)
		data, err := json.Marshal(c.UntilTarget)
		require.NoError(t, err)
		require.NotContains(t, string(data), "Inf")
	}
}

func TestUntilRows(t *testing.T) {
	narrow, wide := target("ttft.p95", "s", 0.05, 1.84, 1.764, 1.916), target("itl.mean", "s", 0.01, 0.02, 0.018, 0.022)
	none := UntilTarget{Metric: "itl.p50", Unit: "s", Share: 0.1, Value: 0.02, Margin: Missing, Why: "12 trees: an interval needs 20"}
	for want, u := range map[string]*Until{
		"": nil,
		"until       ttft.p95 1.84 s ± 4.13 % after 14 min 30 s\n": {Reached: true, After: 870.2, Targets: []UntilTarget{narrow}},
		"until       ttft.p95 1.84 s ± 4.13 % after 1 h 0 min 0 s, within 5 % at the end\n            itl.mean 20.0 ms ± 10.0 % after 1 h 0 min 0 s, not within 1 %\n": {After: 3600, Targets: []UntilTarget{narrow, wide}},
		"until       itl.p50 20.0 ms after 59.4 s, not known to 10 %: 12 trees: an interval needs 20\n":                                                                {After: 59.4, Targets: []UntilTarget{none}},
	} {
		var b strings.Builder
		u.row(&b)
		require.Equal(t, want, b.String())
	}
}

func TestClock(t *testing.T) {
	for want, s := range map[string]float64{"400 ms": 0.4, "59.6 s": 59.6, "1 min 0 s": 60.2, "14 min 30 s": 870, "1 h 0 min 5 s": 3605, "30 h 1 min 0 s": 30*3600 + 60} {
		require.Equal(t, want, clock(s))
	}
}

// Counted samples have the distribution of the list of them, to the last bit.
func TestCountsHaveTheirStat(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.SampledFrom([]int64{1, 5, 1 << 20}).Draw(t, "most")
		counts, samples := Counts{7: 0}, []float64{}
		for _, v := range rapid.SliceOfN(rapid.Int64Range(-2, most), 1, 400).Draw(t, "samples") {
			counts[v]++
			samples = append(samples, float64(v))
		}
		require.Equal(t, NewStat(samples), counts.Stat())
	})
	require.Zero(t, Counts{}.Stat().N)
}
