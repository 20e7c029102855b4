package measure

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/slo"
)

// A metric is a row of MetricList, and nothing else: the summary, its figures, conditions and names follow. The specification has the same
// rows.
func TestMetricsFollowFromTheirTable(t *testing.T) {
	text, err := os.ReadFile("../../doc/spec/results.md")
	require.NoError(t, err)
	_, section, _ := strings.Cut(string(text), "### 3.9 ")
	section, _, _ = strings.Cut(section, "\n### ")
	var rows []string
	for _, m := range MetricList {
		key, tag := strings.ReplaceAll(m.Name, "-", "_"), "-"
		if m.OfEach {
			key = m.Key()
		}
		if m.Tag != "" {
			tag = "`" + m.Tag + "`"
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | `%s` | %s | %s |", m.Name, m.Title, key, cmp.Or(string(m.Unit), "share"), tag))
	}
	_, table, _ := strings.Cut(section, "| name | what it is |")
	require.Equal(t, rows, regexp.MustCompile("(?m)^\\| `.*$").FindAllString(table, -1))

	list := MetricList
	defer func() { MetricList = list }()
	MetricList = append(MetricList[:len(MetricList):len(MetricList)], Metric{
		Metric: ofEach("tail", slo.Seconds), Title: "time behind the last token",
		Of: func(n *Numbers, _ Rules) (float64, bool) { return (n.End - n.LastToken).Seconds(), n.LastToken > 0 },
	}, Metric{Metric: ofRun("reads", slo.Share, false), Title: "share of what was read", Value: func(*Summary) Number { return 0.25 }})
	each, err := ParseCondition("tail<200ms")
	require.NoError(t, err)
	all, err := ParseCondition("tail.p95<50ms")
	require.NoError(t, err)
	a := NewAggregate(Rules{}, each, all)
	for k := range 20 {
		a.Add(good(k, 1, 0, 0.5, 2.5, 5))
	}
	s := a.Summary(RunInfo{})
	require.InDelta(t, 0.1, float64(s.Figure(slo.Figure{Metric: MetricNamed("tail").Metric, Statistic: "p95"})), 1e-9)
	require.Equal(t, 20, s.Goodput.Requests)
	require.False(t, *s.Goodput.Conditions[1].Met)
	var b strings.Builder
	require.NoError(t, s.WriteJSON(&b))
	require.Regexp(t, `"other_metrics":\{("[a-z_]+":\{[^}]*\},)*"tail":\{"mean":0.1`, b.String())
	b.Reset()
	require.NoError(t, s.WriteTable(&b, 0))
	require.Contains(t, b.String(), "\ntail            100 ms    100 ms    100 ms")
	require.Contains(t, b.String(), "\nreads       25.0 %\n")
}
