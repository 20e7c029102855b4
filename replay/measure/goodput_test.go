package measure

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/replay/slo"
)

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
