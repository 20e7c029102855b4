package compare

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/report/interval"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
)

// The mark of a figure says what its interval does: * has no 0, = has none or lies within 1 %, ~ has it. What is open says how many more trees
// would decide: as many as shrink the interval, by the root of their number, to where it has no 0.
//
//
func TestDecisions(t *testing.T) {
	ttft := slo.Figure{Metric: slo.Metric{Name: "ttft", Unit: slo.Seconds, OfEach: true}, Statistic: "p95"}
	for _, c := range []struct {
		ratio, low, high float64 // of the deciding interval
		want             Decision
		more             int
	}{
		{0.10, 0.09, 0.11, Differs, 0}, {-0.10, -0.11, -0.09, Differs, 0}, {0.01, 0.001, 0.02, Differs, 0},
		{0.009, 0.001, 0.02, Small, 0}, {0, -0.009, 0.009, Small, 0}, {0, 0, 0, Small, 0},
		{0.05, -0.05, 0.15, Open, 120}, {-0.05, -0.15, 0.05, Open, 120}, {0.10, -0.01, 0.21, Open, 9}, {-0.05, -0.10, 0.05, Open, 120}, {0.05, -0.05, 0.10, Open, 120},
		{0, -0.02, 0.01, Open, 120}, {0.009, -0.001, 0.019, Open, 1},
	} {
		narrow := interval.Interval{Low: c.ratio - (c.ratio-c.low)/widening, High: c.ratio + (c.high-c.ratio)/widening}
		d := &Difference{}
		d.judge(interval.Difference{A: 1 + c.ratio, B: 1, Relative: narrow}, &pair{Method: Paired, trees: 40}, ttft)
		require.Equal(t, c.want, d.Decision, "%+v", c)
		require.Equal(t, c.want == Differs, d.Differs)
		require.Equal(t, c.more, d.MoreTrees, "%+v", c)
	}
}

// A verdict names the metric where the same holds for all its statistics, else the statistic.
func TestSentences(t *testing.T) {
	figures := map[string]*Figure{}
	for _, f := range judged {
		figures[f.String()] = &Figure{}
	}
	set := func(name string, decision Decision, ratio float64, more int) {
		figures[name].Difference = &Difference{Ratio: measure.Number(ratio), Deciding: &interval.Interval{Low: ratio - 0.01, High: ratio + 0.01}, Decision: decision, MoreTrees: more}
	}
	for _, s := range []string{"mean", "p50", "p95"} {
		set("itl."+s, Differs, 0.10, 0)
		set("latency."+s, Small, 0.001, 0)
	}
	set("ttft.mean", Differs, -0.2, 0)
	set("ttft.p50", Open, 0, 3)
	set("ttft.p95", Open, 0, 40)
	set("output_tokens.mean", Differs, 3, 0)
	require.Equal(t, []string{
		"slower by 10 % (9 to 11 %) in ITL", "faster by 20 % (19 to 21 %) in TTFT mean", "more ×4 (×3.99 to ×4.01) in output tokens",
		"TTFT p50 and TTFT p95 not decided: about 40 more trees would", "less than 1 % in latency",
	}, saidOf(findingsOf(figures)))
}
