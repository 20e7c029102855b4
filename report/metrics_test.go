package report

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
)

// A metric of measure.MetricList that the files of AIPerf have has its value there, in their unit.
func TestMetricsOfFilesAreThoseOfTheTable(t *testing.T) {
	n := measure.Numbers{
		Due: 1e9, Queued: 2e8, Admitted: 2e9, Sent: 2.5e9, FirstToken: 3.1e9, LastToken: 9.7e9, End: 9.8e9,
		PromptTokens: measure.Tokens(100), OutputTokens: measure.Tokens(50), ReasoningTokens: measure.Tokens(7), FirstChunkTokens: measure.Tokens(3),
	}
	for _, rules := range []measure.Rules{{}, {AllButOne: true}} {
		for _, m := range measure.MetricList {
			if m.Of == nil || m.Tag == "" || m.Name == "tpot" && !rules.AllButOne {
				continue
			}
			k := slices.IndexFunc(requestMetrics, func(f metric) bool { return f.tag == m.Tag })
			require.GreaterOrEqual(t, k, 0, m.Name)
			want, ok := m.Of(&n, rules)
			got, has := requestMetrics[k].of(&row{Numbers: n}, &rules)
			require.True(t, ok && has, m.Name)
			if m.Unit == slo.Seconds {
				want *= 1e3
			}
			require.InEpsilon(t, want, got.Float64(), 1e-12, m.Name)
		}
	}
}
