package measure

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/slo"
)

// leveled returns the summary of ten requests, with TTFT 500 ms and latency 2.5 s, under service levels.
func leveled(t *testing.T, change func(a *Aggregate), levels ...string) *Summary {
	var list []slo.Condition
	for _, text := range levels {
		c, err := ParseCondition(text)
		require.NoError(t, err)
		list = append(list, c)
	}
	a := NewAggregate(Rules{}, list...)
	for k := range 200 {
		r := good(k%4, float64(k), 0, 0.5, 2.5, 5)
		r.Tree = 10 + k
		a.Add(r)
	}
	if change != nil {
		change(a)
	}
	s := a.Summary(RunInfo{Lanes: 4, Facts: &Facts{PhaseDuration: 300}})
	return &s
}

// The conclusion begins with the levels, the one with the least to spare first, and goes on with the gravest remarks.
//
//
func TestConclusion(t *testing.T) {
	cut := func(n int) func(a *Aggregate) {
		return func(a *Aggregate) {
			for range n {
				a.Add(bad(CancelledAtEnd, "cancelled"))
			}
		}
	}
	for _, c := range []struct {
		levels []string
		change func(a *Aggregate)
		want   string
	}{
		{nil, nil, "4.96 output tokens/s from 4 lanes, TTFT p95 500 ms, ITL p95 500 ms; no service level was set."},
		{[]string{"latency.p95<5s", "ttft.p95<600ms"}, nil, "Met ttft.p95<600ms (500 ms, 17 % to spare) and latency.p95<5s (2.50 s, 50 % to spare)."},
		{[]string{"ttft.p95<400ms", "latency.p95<5s"}, nil, "Missed ttft.p95<400ms (500 ms, 25 % over), but met latency.p95<5s (2.50 s, 50 % to spare)."},
		{[]string{"ttft.p95<501ms"}, nil, "Met ttft.p95<501ms (500 ms, under 1 % to spare)."},
		{[]string{"request_rate>0.5", "ttft.p95<600ms"}, nil, "Met ttft.p95<600ms (500 ms, 17 % to spare) and request_rate>0.5 (0.99/s, 99 % to spare)."},
		{[]string{"ttft<1s"}, nil, "100 % of the requests meet ttft<1s."},
		{[]string{"error-rate<0"}, nil, "Missed error-rate<0 (0 %)."},
		{[]string{"ttft.p95<1s"}, cut(50), "Met ttft.p95<1s (500 ms, 50 % to spare); 50 of 250 requests are in no figure (50 cut off at the end), so tails are cut."},
	} {
		require.Equal(t, c.want, leveled(t, c.change, c.levels...).Conclusion(), "%v", c.levels)
	}
	s := leveled(t, nil)
	s.Remarks = nil
	for k, level := range []Level{Broken, Warning, Note, Warning, Warning} {
		s.Remarks = append(s.Remarks, Remark{Kind: fmt.Sprint("k", k), Level: level, Text: fmt.Sprintf("k%d: text %d", k, k)})
	}
	require.Contains(t, s.Conclusion(), "; text 0; text 1; see also k3, k4.")
	empty := NewAggregate(Rules{}).Summary(RunInfo{})
	require.Equal(t, "The run was killed, or is not over: its figures are of what it had written; no request of the headline ended well.", empty.Conclusion())
	s.Remarks = append(s.Remarks, Remark{Kind: "interrupted", Level: Warning, Text: "interrupted: the run was stopped"})
	require.Regexp(t, `^The run was stopped; 4\.96 output tokens/s .*; text 0; see also k1, k3, k4\.$`, s.Conclusion(), "what cuts a run stands first")
}

// The figures of the result are those of the summary, with the intervals that are known, per GPU where their number is.
//
//
func TestResult(t *testing.T) {
	s := leveled(t, func(a *Aggregate) { a.Add(bad(CancelledAtEnd, "cancelled")); a.Add(bad(Profiling, "timeout")) }, "ttft.p95<400ms", "ttft<1s")
	s.Run.Options = []Option{{Name: "gpus", Value: []byte("8")}, {Name: "label", Value: []byte(`"b"`)}}
	require.Equal(t, []any{8, "b", ""}, []any{s.Run.GPUs(), s.Run.Option("label"), s.Run.Option("note")})
	r := s.Result(func(name string) (low, high Number) {
		if name == "ttft.p95" {
			return 0.4, 0.6
		}
		return Missing, Missing
	})
	var lines []string
	for _, f := range r.Figures {
		if f.Name != "" && f.Title != "output tokens per GPU" {
			figure, err := ParseFigure(f.Name)
			require.NoError(t, err)
			require.Equal(t, s.Figure(figure), f.Value, f.Name)
		}
		lines = append(lines, fmt.Sprintf("%s | %s | %s | %s | %v", f.Title, f.Text(), f.Range(), f.Note, f.Met != nil && *f.Met))
	}
	require.Equal(t, []string{
		"output tokens per GPU | 0.62/s |  | 4.96/s from 8 GPUs | false", "requests | 0.99/s |  |  | false", "TTFT p50 | 500 ms |  |  | false", "TTFT p95 | 500 ms | 400 ms to 600 ms |  | false",
		"ITL p50 | 500 ms |  |  | false", "ITL p95 | 500 ms |  |  | false", "prompt cached | 40.8 % |  |  | false", "failed | 1 of 202 |  |  | false",
		"left out | 1 of 202 |  | 1 cut off at the end | false", "goodput | 0.99/s |  | 99.5 % of the requests meet ttft<1s | false", "ttft.p95<400ms | 500 ms | 400 ms to 600 ms |  | false",
	}, lines)
	require.Equal(t, s.Conclusion(), r.Conclusion)
	s.Fidelity.PrefixReuse.Sent = 0.5
	require.Equal(t, "ideal 50.0 %", s.Result(nil).Figures[6].Note)
	require.True(t, math.IsInf((&LevelResult{Value: Missing}).spare(), 1))
}
