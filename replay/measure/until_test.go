package measure

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

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
