package aiperf

import (
	"encoding/json"
	"math"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/agentx/agentx/internal/fixtures"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/scrape"
	"github.com/agentx/agentx/report"
)

// TestSlicesOfVectors computes a phase and its slices: a counter that restarts, a gauge with a gap, a last slice that is cut.
//
// Covers T-59.
func TestSlicesOfVectors(t *testing.T) {
	type in struct {
		Type    scrape.Type
		Slice   int64 `json:"slice_ns"`
		Start   int64 `json:"start_ns"`
		End     int64 `json:"end_ns"`
		Samples [][2]json.Number
	}
	fixtures.EachCase(t, "server_slices", fixtures.Counts{3, 3, 3}, func(t *testing.T, _ fixtures.Case, in in, want map[string]any) {
		s := samples{width: 1}
		for _, one := range in.Samples {
			at, err := one[0].Int64()
			require.NoError(t, err)
			v, err := one[1].Float64()
			require.NoError(t, err)
			s.at, s.values = append(s.at, at), append(s.values, v)
		}
		phase := span{in.Start, in.End}
		over, ok := s.over(in.Type, phase, true)
		require.True(t, ok)
		list, rates := s.slicesOf(in.Type, nil, phase, in.Slice)
		got := object{}
		if in.Type == scrape.Counter { // of a gauge the vector has its slices alone
			stats := s.statsOf(&scrape.Series{Type: in.Type}, over, rates, phase, &scrape.Endpoint{Answers: []scrape.Answer{{At: in.Start}, {At: in.End}}})
			got = object{{"total", stats.find("total")}, {"rate", stats.find("rate")}}
		}
		got.add("timeslices", list)
		text, err := json.Marshal(got)
		require.NoError(t, err)
		var values map[string]any
		require.NoError(t, json.Unmarshal(text, &values))
		assert.Equal(t, want, values)
	})
}

// TestIntegersStayIntegers writes bounds digit by digit: nanoseconds since 1970 do not fit a float64.
func TestIntegersStayIntegers(t *testing.T) {
	s := samples{at: []int64{1700000000000000001, 1700000000311000123}, values: []float64{5, 9007199254740997}, width: 1}
	list, _ := s.slicesOf(scrape.Counter, nil, span{1700000000000000001, 1700000000311000125}, 1e9)
	text, err := json.Marshal(list)
	require.NoError(t, err)
	assert.Contains(t, string(text), `"start_ns":1700000000000000001,"end_ns":1700000000311000125,"is_complete":false,"total":9007199254740991.0`)
}

// grownPlainly is the slow oracle of growth: it walks through every nanosecond.
func grownPlainly(at []int64, values []float64, born bool, from, to int64) (grown float64, ok bool) {
	value, known := 0.0, born
	for now := int64(0); now <= to; now++ {
		k := slices.Index(at, now)
		if k < 0 {
			continue
		}
		if before := value; known && now > from {
			if values[k] < before {
				before = 0
			}
			grown += values[k] - before
		}
		value, known = values[k], true
	}
	return grown, slices.ContainsFunc(at, func(t int64) bool { return t <= to })
}

// TestGrowthAgainstEveryNanosecond compares counters that restart at random, in random spans.
//
// Covers T-59.
func TestGrowthAgainstEveryNanosecond(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := rapid.SliceOfNDistinct(rapid.Int64Range(0, 40), 0, 12, rapid.ID).Draw(t, "at")
		slices.Sort(at)
		var values []float64
		for range at {
			values = append(values, float64(rapid.IntRange(0, 9).Draw(t, "value")))
		}
		s := samples{at: at, values: values, width: 1, born: rapid.Bool().Draw(t, "born")}
		from := rapid.Int64Range(0, 40).Draw(t, "from")
		to := rapid.Int64Range(from, 45).Draw(t, "to")
		got, ok := s.growth(from, to)
		want, known := grownPlainly(at, values, s.born, from, to)
		if ok != known || ok && got[0] != want {
			t.Fatalf("growth %v %v, want %v %v", got, ok, want, known)
		}
		var inside []float64
		for k := range at {
			if at[k] >= from && at[k] <= to {
				inside = append(inside, values[k])
			}
		}
		if got := s.between(span{from, to}, true); !slices.Equal(got, inside) {
			t.Fatalf("between %v, want %v", got, inside)
		}
	})
}

// TestHistogramRestarts counts what a histogram has after a restart in every one of its values.
func TestHistogramRestarts(t *testing.T) {
	s := samples{at: []int64{1, 2, 3}, width: 4, values: []float64{
		10, 5, 4, 10,
		12, 7, 5, 12,
		3, 1.5, 2, 3,
	}}
	of := func(in span) string {
		list, _ := s.slicesOf(scrape.Histogram, []string{"0.5", "+Inf"}, in, 100)
		text, err := json.Marshal(list[0][3:]) // behind the times
		require.NoError(t, err)
		return string(text)
	}
	assert.Equal(t, `{"count":5,"sum":3.5,"avg":0.7,"buckets":{"0.5":3,"+Inf":5}}`, of(span{1, 3}), "in the order of the bounds")
	assert.Equal(t, `{"count":0,"sum":0.0,"avg":0.0}`, of(span{3, 9}), "nothing was observed")
}

// TestNoNumberIsInfinite leaves out what no JSON number is.
func TestNoNumberIsInfinite(t *testing.T) {
	s := samples{at: []int64{1, 2}, width: 1, values: []float64{-math.MaxFloat64, math.MaxFloat64}}
	_, ok := s.over(scrape.Counter, span{1, 2}, true)
	assert.False(t, ok)
	_, ok = (&samples{at: []int64{1, 2}, width: 1, values: []float64{math.MaxFloat64, math.MaxFloat64}}).over(scrape.Gauge, span{1, 2}, true)
	assert.False(t, ok)
	tiny := samples{at: []int64{1, 2}, width: 2, values: []float64{0, 0, math.SmallestNonzeroFloat64, math.MaxFloat64}}
	list, _ := tiny.slicesOf(scrape.Summary, nil, span{1, 2}, 100)
	require.Len(t, list, 1)
	assert.Equal(t, report.Float(0), list[0].find("avg"))
}

// A gauge of a phase in which no answer came has the value of the answer before it; a slice of it has none.
func TestGaugeOfAShortPhase(t *testing.T) {
	s := samples{at: []int64{10, 20, 40}, values: []float64{1, 3, 9}, width: 1}
	require.Equal(t, []float64{3}, s.inside(span{25, 30}))
	list, _ := s.slicesOf(scrape.Gauge, nil, span{25, 30}, 100)
	require.Empty(t, list)
	require.Empty(t, s.inside(span{5, 8}), "nothing is known yet")

	dir, info := writeScraped(t, scraped), runOf()
	info.Phases[1].Start, info.Phases[1].Duration = info.Phases[1].Start.Add(-400*time.Millisecond), 0.2 // 0.6 to 0.8 s
	info.Phases = append(info.Phases, measure.PhaseSpan{Name: "next", Start: info.Phases[1].Start.Add(300 * time.Millisecond)})
	require.NoError(t, ofServers(dir, info, false, 0).writeServer())
	var compact figuresText
	require.NoError(t, compact.UnmarshalJSON([]byte(readFile(t, filepath.Join(dir, serverJSON)))))
	require.Contains(t, string(compact), `"stats":{"avg":3.0,"min":3.0,"max":3.0,"std":0.0,"p1":3.0,`)
}

// What is too large for a number, such as a deviation of values that are not, is left out.
func TestFiguresAreFinite(t *testing.T) {
	text, err := json.Marshal(spread("", []float64{-1e300, 1e300}))
	require.NoError(t, err)
	require.NotContains(t, string(text), "std")
}
