package gate

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/report/compare"
	"github.com/agentx/agentx/cmd/internal/report/interval"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
)

func parse(t *testing.T, text string) *Gate {
	t.Helper()
	g, err := Parse(text)
	require.NoError(t, err)
	return &g
}

//
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		text   string
		value  measure.Number
		reason string
		passed bool
	}{
		{"ttft.p95<2s", 1.99, "ttft.p95 is 1.99 s", true},
		{"ttft.p95<2s", 2, "ttft.p95 is 2.00 s", false},
		{"ttft.p95<=2s", 2, "ttft.p95 is 2.00 s", true},
		{"itl.max<50ms", 0.0515, "itl.max is 51.5 ms", false},
		{"error-rate<1%", 0.012, "error-rate is 1.20 %", false},
		{"error-rate<=0", 0, "error-rate is 0 %", true},
		{"request_rate>3", 2.5, "request_rate is 2.50/s", false},
		{"output_tokens.mean>=100", 99, "output_tokens.mean is 99", false},
		{"goodput>3", measure.Missing, "goodput is not known: the run has no service levels, which --slo gives it", false},
		{"itl.p50<1s", measure.Missing, "itl.p50 is not known of this run", false},
	} {
		v := parse(t, c.text).judge(c.value)
		require.Equal(t, c.reason, v.Reason, c.text)
		require.Equal(t, c.passed, v.Passed, c.text)
		require.Equal(t, c.text, v.String())
	}
	old := Verdict{Gate: ErrorRate, Limit: 0.1}
	require.Equal(t, "error-rate=0.1", old.String())
}

// comparison returns a comparison of two runs with one figure.
func comparison(name string, base, value float64, interval *interval.Interval, why string) *compare.Comparison {
	d := &compare.Difference{Ratio: measure.Number((value - base) / base), Interval: interval, Method: compare.NoInterval}
	verdict := compare.Verdict{Run: 1, Method: compare.NoInterval, Why: why}
	if interval != nil {
		d.Method, verdict.Method, verdict.Trees = compare.Paired, compare.Paired, 43
	}
	return &compare.Comparison{Verdicts: []compare.Verdict{verdict}, Runs: []compare.Run{
		{Figures: map[string]*compare.Figure{name: {Value: measure.Number(base)}}},
		{Figures: map[string]*compare.Figure{name: {Value: measure.Number(value), Difference: d}}},
	}}
}

// A difference fails only where its whole interval does, so that noise fails nothing.
//
//
func TestJudgeAgainst(t *testing.T) {
	between := func(low, high float64) *interval.Interval { return &interval.Interval{Low: low, High: high} }
	for _, c := range []struct {
		text        string
		base, value float64
		interval    *interval.Interval
		reason      string
		passed      bool
	}{
		{"ttft.p95<+5%", 1, 1.2, between(-0.02, 0.42), "ttft.p95 is 1.20 s, +20.0 % from 1.00 s; its 95 % interval goes from -2.0 % to +42.0 % (paired, over 43 trees)", true},
		{"ttft.p95<+5%", 1, 1.2, between(0.049, 0.42), "ttft.p95 is 1.20 s, +20.0 % from 1.00 s; its 95 % interval goes from +4.9 % to +42.0 % (paired, over 43 trees)", true},
		{"ttft.p95<+5%", 1, 1.2, between(0.05, 0.42), "ttft.p95 is 1.20 s, +20.0 % from 1.00 s; its 95 % interval goes from +5.0 % to +42.0 % (paired, over 43 trees)", false},
		{"ttft.p95<=+5%", 1, 1.2, between(0.05, 0.42), "ttft.p95 is 1.20 s, +20.0 % from 1.00 s; its 95 % interval goes from +5.0 % to +42.0 % (paired, over 43 trees)", true},
		{"ttft.p95>-5%", 1, 0.8, between(-0.3, -0.04), "ttft.p95 is 800 ms, -20.0 % from 1.00 s; its 95 % interval goes from -30.0 % to -4.0 % (paired, over 43 trees)", true},
		{"ttft.p95>-5%", 1, 0.8, between(-0.3, -0.06), "ttft.p95 is 800 ms, -20.0 % from 1.00 s; its 95 % interval goes from -30.0 % to -6.0 % (paired, over 43 trees)", false},
		{"ttft.p95<+5%", 1, 1.04, nil, "ttft.p95 is 1.04 s, +4.0 % from 1.00 s; no interval: 12 trees: an interval needs 20", true},
		{"ttft.p95<+5%", 1, 1.2, nil, "ttft.p95 is 1.20 s, +20.0 % from 1.00 s; no interval: 12 trees: an interval needs 20", false},
		{"token_hit_rate>-5%", 0.5, 0.6, nil, "token_hit_rate is 60.0 %, +20.0 % relative from 50.0 %; no interval: 12 trees: an interval needs 20", true},
		{"error-rate<+5%", 0, 0.1, nil, "error-rate is 10.0 %, without bound from 0 %; no interval: 12 trees: an interval needs 20", false},
	} {
		g := parse(t, c.text)
		comparison := comparison(g.figure.String(), c.base, c.value, c.interval, "12 trees: an interval needs 20")
		v := g.judgeAgainst(comparison)
		require.Equal(t, c.reason, v.Reason, c.text)
		require.Equal(t, c.passed, v.Passed, c.text)
		require.EqualValues(t, c.value, *v.Value)
		require.EqualValues(t, c.base, *v.Base)
	}
	g := parse(t, "ttft.p95<+5%")
	some := comparison("ttft.p95", 1, 1.2, between(-0.02, 0.42), "")
	some.Runs[1].Figures["ttft.p95"].Difference.Trees = 43
	require.Equal(t, "ttft.p95 is 1.20 s after 1.00 s, and +20.0 % over 43 common trees; its 95 % interval goes from -2.0 % to +42.0 % (paired, over 43 trees)",
		g.judgeAgainst(some).Reason)
	g = parse(t, "itl.p95<+5%")
	missing := comparison("itl.p95", 1, math.NaN(), nil, "")
	missing.Runs[1].Figures["itl.p95"].Difference = nil
	require.Equal(t, "itl.p95 is not known of both runs", g.judgeAgainst(missing).Reason)
}

func TestParse(t *testing.T) {
	g := parse(t, "output_token_rate>-2.5%")
	require.Equal(t, slo.More, g.sign)
	require.Equal(t, -0.025, g.limit)
	require.True(t, g.Relative)
	var names []string
	for _, m := range measure.MetricNames() {
		names = append(names, m.Name)
	}
	for text, want := range map[string]string{
		"ttft<2s":            "ttft: want a statistic of it, such as ttft.p95",
		"ttft.p95<+5":        `"+5": want a difference in per cent, such as +5% or -3%`,
		"ttft.p95<+x%":       `"+x%": want a difference in per cent, such as +5% or -3%`,
		"ttft.p95<5%":        `"5%": want a time with its unit, such as 2s or 50ms`,
		"throughput>1":       `no metric "throughput": want one of ` + strings.Join(names, ", "),
		"error-rate":         "want NAME<VALUE or NAME>VALUE, such as 'ttft.p95<2s', against another run 'ttft.p95<+5%', or error-rate=X",
		"request_rate<+Inf%": `"+Inf%": want a difference in per cent, such as +5% or -3%`,
	} {
		_, err := Parse(text)
		require.EqualError(t, err, want, text)
	}
}

// A gate says which requests its figure is not over, and fails where these are too many, although the figure holds.
//
//
func TestGateOnWhatIsUnseen(t *testing.T) {
	s := &measure.Summary{Requests: 40, Buckets: measure.Buckets{Profiling: 38, CancelledAtEnd: 2}, Unseen: measure.Unseen{Requests: 2, Share: 0.05}}
	s.Measured = 38
	for share, passed := range map[float64]bool{0.05: true, 0.049: false, 1: true, 0: false} {
		v := parse(t, "ttft.p95<2s").judge(1)
		v.look("", s, share)
		require.Equal(t, passed, v.Passed, share)
		require.Contains(t, v.Reason, "ttft.p95 is 1.00 s; of 40 requests 2 cut off at the end (5.00 % in no figure)")
		v.look("before", s, share)
		require.Contains(t, v.Reason, "; of 40 requests of before 2 cut off at the end (5.00 % in no figure)")
	}
	v := parse(t, "ttft.p95<2s").judge(3)
	v.look("", s, 1)
	require.False(t, v.Passed, "the figure does not hold")
	v.look("", s, 0.04)
	require.Contains(t, v.Reason, ", more than the 4.00 % of --gate-unseen")
	s.Measured = 37 // one failed: it has no latency, and the rate of errors is over it
	for text, passed := range map[string]bool{"ttft.p95<2s": false, "error-rate<200%": true, "request_rate<2": true} {
		v := parse(t, text).judge(1)
		v.look("", s, 0.05)
		require.Equal(t, passed, v.Passed, text)
		require.Equal(t, !passed, strings.Contains(v.Reason, "; of 40 requests 1 failed and have none, 2 cut off at the end (5.00 % in no figure), more than the 5.00 % of --gate-unseen"), v.Reason)
	}
	v = parse(t, "ttft.p95<2s").judge(1)
	v.look("", &measure.Summary{Requests: 19, Buckets: measure.Buckets{Profiling: 19}, Metrics: measure.Metrics{Measured: 19, TTFT: measure.Stat{N: 19}}}, 0)
	require.True(t, v.Passed)
	require.Equal(t, "ttft.p95 is 1.00 s; it is of few samples, 19", v.Reason)
	v = parse(t, "request_rate<2").judge(1)
	v.look("", &measure.Summary{Remarks: []measure.Remark{{Kind: "killed"}}}, 0)
	require.Equal(t, "request_rate is 1/s; of requests that were in flight when the run was killed nothing is known", v.Reason)
	for _, none := range []*measure.Summary{nil, {Requests: 40, Buckets: measure.Buckets{Profiling: 40}, Metrics: measure.Metrics{Measured: 40}}} {
		v = parse(t, "ttft.p95<2s").judge(1)
		v.look("", none, 0)
		require.True(t, v.Passed)
		require.Equal(t, "ttft.p95 is 1.00 s", v.Reason)
	}
}

// A gate that passes says that the run is not valid, or was stopped, and passes all the same.
//
//
func TestGateOnRunThatIsNotValid(t *testing.T) {
	stopped := "the run was stopped before its bound, 3 s after the start of the phase"
	for want, s := range map[string]measure.Summary{
		"passed": {Valid: new(true)},
		"passed, but the run is not valid: backlog_grew": {Valid: new(false), Reasons: []string{measure.BacklogGrew}},
		"passed, but " + stopped:                         {Remarks: []measure.Remark{{Kind: "interrupted", Text: stopped}}},
	} {
		v := parse(t, "request_rate<2").judge(1)
		v.look("before", &measure.Summary{Valid: new(false)}, 0)
		v.look("", &s, 0)
		require.True(t, v.Passed)
		require.Equal(t, want, v.Outcome())
		v = parse(t, "request_rate<2").judge(3)
		v.look("", &s, 0)
		require.Equal(t, "failed", v.Outcome())
	}
}
