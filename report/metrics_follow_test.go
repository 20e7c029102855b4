package report_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
	"github.com/agentx/agentx/report"
	"github.com/agentx/agentx/report/compare"
	"github.com/agentx/agentx/report/gate"
	"github.com/agentx/agentx/report/html"
	"github.com/agentx/agentx/report/live"
	"github.com/agentx/agentx/report/markdown"
	"github.com/agentx/agentx/report/page/pagetest"
	"github.com/agentx/agentx/report/until"
)

// requireColumns requires that the page of a run has a column of every metric of a request, and a ratio of every metric of a run.
func requireColumns(t *testing.T, dir string) {
	run, err := report.Open(dir)
	require.NoError(t, err)
	_, text, err := html.Make(run)
	require.NoError(t, err)
	e := pagetest.NewEngine(t, string(text))
	e.Eval(`var requests = new Requests(page), sums = requests.counts(0, requests.length)`)
	for _, m := range measure.MetricList {
		if m.OfEach {
			require.Equal(t, true, e.Eval(`requests.metrics[a].every(Number.isFinite)`, m.Name), m.Name)
			require.Equal(t, true, e.Eval(`page.head.metrics.some(({ name }) => name === a)`, m.Name), m.Name)
		} else {
			require.Equal(t, true, e.Eval(`Number.isFinite(ratioOf(page.head.ratios[a], 1, (column) => sums[column]))`, m.Name), m.Name)
		}
	}
	require.Equal(t, []any{10.0, 1.0}, []any{e.Number("sums.prompt_tokens / 3"), e.Number("requests.metrics.ttft[0]")})
}

// Comparisons, pages of runs and of pipelines, gates, --until and live metrics know the metrics of measure.MetricList, and no others.
func TestMetricsFollowFromTheirTable(t *testing.T) {
	dir := t.TempDir()
	w, err := measure.Create(dir)
	require.NoError(t, err)
	s := live.NewState(measure.Rules{}, 1)
	for k := range 3 {
		r := measure.Record{
			Phase: measure.ProfilingPhase, Bucket: measure.Profiling, Credit: k, Tree: k, Trace: "t", Session: "t", SourceKind: "main", RequestID: strconv.Itoa(k),
			CorrelationID: "c", RootID: "c",
			Numbers: measure.Numbers{
				Due: 1e9, Admitted: 1e9, Sent: 1e9, FirstToken: 2e9, LastToken: 3e9, End: 3e9, Status: 200, MaxTokens: 5,
				PromptTokens: measure.Tokens(10), CachedTokens: measure.Tokens(5), OutputTokens: measure.Tokens(5),
			},
		}
		require.NoError(t, w.Write(&r))
		s.Add(&r)
	}
	require.NoError(t, w.Close())
	require.NoError(t, os.WriteFile(filepath.Join(dir, measure.RunFile), []byte(`{"slo":[{"metric":"ttft","statistic":"","sign":"<","limit":2,"unit":"s","of_each":true}]}`), 0o600))
	run, err := compare.Read(compare.Source{Dir: dir})
	require.NoError(t, err)

	var text strings.Builder
	require.NoError(t, (&markdown.Document{Run: run}).Write(&text))
	var figures, histograms []string
	for _, m := range measure.MetricList {
		require.Contains(t, text.String(), "| "+m.Title+" |")
		statistics := []string{""}
		if m.OfEach {
			statistics = slo.Statistics
		}
		for _, statistic := range statistics {
			name := slo.Figure{Metric: m.Metric, Statistic: statistic}.String()
			figures = append(figures, name)
			require.False(t, run.Figures[name].Value.IsMissing(), name)
			_, err := gate.Parse(name + "<+5%")
			require.NoError(t, err)
			_, err = until.Parse(name + "=5%")
			require.Equal(t, m.OfEach && statistic != "max", err == nil, name)
		}
		if m.Live != "" {
			histograms = append(histograms, "agentx_"+m.Key())
		}
	}
	require.Len(t, run.Figures, len(figures))
	requireColumns(t, dir)
	for _, m := range measure.MetricList { // each is in the table of comparisons, or left out by its row
		named := slices.ContainsFunc(compare.TableFigures, func(f slo.Figure) bool { return f.Name == m.Name })
		require.Equal(t, !m.OfEach || m.Compared != "", named, m.Name)
	}
	s.Look(time.Now())
	recent, err := json.Marshal(s.Status().Recent)
	require.NoError(t, err)
	for _, m := range measure.MetricList {
		if m.Live != "" {
			require.Contains(t, string(recent), `"`+m.Key()+`":{"n":3`)
		}
	}
	metrics, err := s.Metrics()
	require.NoError(t, err)
	var found []string
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\S+) histogram$`).FindAllSubmatch(metrics, -1) {
		found = append(found, string(m[1]))
	}
	require.Equal(t, slices.Sorted(slices.Values(histograms)), slices.Sorted(slices.Values(found)))
}
