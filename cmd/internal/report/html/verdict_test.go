package html

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/report/page/pagetest"
	"github.com/agentx/agentx/replay/measure"
	"github.com/agentx/agentx/replay/slo"
	"github.com/agentx/agentx/replay/wire"
	"github.com/agentx/agentx/report"
)

// The verdict says what the summary says: validity, the client, failures, service levels, what the run was to know.
func TestVerdictOfAPage(t *testing.T) {
	s := newSample(400)
	a, info := measure.NewAggregate(measure.Rules{}), s.info()
	for k := range s.records {
		s.records[k].Due = measure.At(max(0, s.records[k].Due.Seconds()-1)) // late by a second
		a.Add(&s.records[k])
	}
	no := false
	info.Scenario, info.Facts.Valid, info.Facts.Cancelled = &measure.Scenario{Name: "s", Overridden: []string{"speed is 2"}}, &no, true
	info.Facts.Until = &measure.Until{After: 90, Targets: []measure.UntilTarget{{Metric: "ttft.p95", Unit: "s", Share: 0.05}, {Metric: "goodput", Unit: "1/s", Share: 0.1, Value: 2, Margin: measure.Missing, Why: "3 trees"}}}
	info.Facts.Until.Targets[0].SetInterval(1.84, 1.8, 1.9)
	info.Options = []measure.Option{{Name: "max-gap", Value: []byte("0.3"), From: "flag"}, {Name: "rate", Value: []byte("3"), From: "flag"}, {Name: "grace", Value: []byte("30"), From: "default"}}
	info.Preset, info.Model, info.Version, info.Commit = "aiperf-0.13", "m", "c0ffee", "c0ffee"
	b := NewBuilder(measure.Rules{})
	_, html, err := b.fit(&About{Info: info, Summary: a.Summary(info)})
	require.NoError(t, err)
	text := drawn(t, string(html))
	for _, want := range []string{
		"invalid: unsafe_override, run_cancelled.", "client_bound: the client", "interrupted: the run was stopped",
		"ttft.p95: 1.84 s ± 3.26 %; ± 5 % was asked, after 90 s of sending.", "goodput: no interval: 3 trees",
		"preset aiperf-0.13", "differs from it in no switch", "scenario s", "overridden speed is 2", "model m", "agentx c0ffee",
	} {
		require.Contains(t, text, want)
	}
	require.Equal(t, "max-gap,0.3 s,flag,rate,3,flag", pagetest.NewEngine(t, string(html)).Eval("chosenOf(page.head).join()"))
	require.NotContains(t, text, "c0ffee, c0ffee", "a version that is the commit is told once")

	info.Facts.Cancelled, info.Scenario.Overridden, info.Part = false, nil, &measure.PartInfo{Number: 1, Of: 4}
	b = NewBuilder(measure.Rules{})
	_, html, err = b.fit(&About{Info: info, Summary: a.Summary(info)})
	require.NoError(t, err)
	text = drawn(t, string(html))
	require.Contains(t, text, "Part 1 of 4, from 0: everything here is of this part alone.")
	require.Contains(t, text, "Not judged: the scenario judges the whole load.")
}

// The service levels of the run count its good requests, and those of report --slo take their place.
func TestGoodRequestsOfAPage(t *testing.T) {
	level := func(text string) slo.Condition {
		c, err := measure.ParseCondition(text)
		require.NoError(t, err)
		return c
	}
	dir, _ := newSample(500).write(t)
	run, err := report.Open(dir)
	require.NoError(t, err)
	run.Info.SLO = []slo.Condition{level("ttft<200ms"), level("itl<=10ms"), level("ttft.p50<1s")}
	_, html, err := Make(run)
	require.NoError(t, err)
	a := measure.NewAggregate(run.Rules(), run.Info.SLO...)
	records, err := measure.OpenRecords(dir)
	require.NoError(t, err)
	require.NoError(t, a.Rebuild(records))
	require.NoError(t, records.Close())
	want := a.Summary(run.Info).Goodput
	require.Positive(t, want.Requests)
	require.Contains(t, drawn(t, string(html)), "ttft.p50<1s 203 ms 175 ms to 213 ms ✓ met")
	e := pagetest.NewEngine(t, string(html))
	e.Eval(`var requests = new Requests(page)`)
	trees := fmt.Sprintf(", and all requests of %s (%s),", e.Eval("formatCount(a, 'tree')", want.Trees), e.Eval("formatValue(a, '%')", float64(want.TreeShare)))
	shown := fmt.Sprintf("goodput %s: %d requests (%s)%s meet ttft<200ms, itl<=10ms", e.Eval("formatValue(a, '/s')", float64(want.Rate)), want.Requests, e.Eval("formatValue(a, '%')", float64(want.Share)), trees)
	require.Equal(t, shown, e.Eval("goodText(page.head.summary.goodput, true)"))
	seconds := float64(want.Requests) / float64(want.Rate)
	require.Equal(t, strings.Replace(shown, trees, "", 1), e.Eval(`goodText(goodOf(page.head, (name) => requests.counts(0, requests.length)[name], a), false)`, seconds),
		"a selection of everything counts as the summary does, but for trees")

	require.NoError(t, os.Remove(filepath.Join(dir, summaryFile)))
	run.Info.SLO = []slo.Condition{level("ttft.p50<1s")}
	_, html, err = Make(run)
	require.NoError(t, err)
	require.Contains(t, drawn(t, string(html)), "ttft.p50<1s 203 ms 175 ms to 213 ms ✓ met")
	require.NotContains(t, drawn(t, string(html)), "goodput", "every request meets conditions on the run alone")

	run.Info.SLO = nil
	_, html, err = Make(run)
	require.NoError(t, err)
	require.NotContains(t, drawn(t, string(html)), "goodput")
}

// The line of trees that waited says that it leaves out those that never opened, and how many these are.
func TestNameOfTreesThatWaited(t *testing.T) {
	s := newSample(60)
	dir, _ := s.write(t)
	run, err := report.Open(dir)
	require.NoError(t, err)
	_, html, err := Make(run)
	require.NoError(t, err)
	e := pagetest.NewEngine(t, string(html))
	for waiting, want := range map[string]string{
		"null": "trees waiting that opened later", "0": "trees waiting that opened later",
		"1": "trees waiting that opened later; 1 never opened is not drawn", "21": "trees waiting that opened later; 21 never opened are not drawn",
	} {
		require.Equal(t, want, e.Eval("waitingName({waiting: "+waiting+"})"))
	}
	require.Equal(t, "trees waiting that opened later", e.Eval("waitingName(null)"))
}

// Categories of failures of a file that somebody has edited may be many and long: the page says some of them, cut.
func TestCategoriesOfAPageAreBounded(t *testing.T) {
	s, a := newSample(60), measure.NewAggregate(measure.Rules{})
	b := NewBuilder(measure.Rules{})
	for k := range s.records {
		r := &s.records[k]
		r.Error = &measure.Error{Category: wire.Category(fmt.Sprintf("%03d %s", k, strings.Repeat("x", 5000))), Message: "m"}
		r.FirstToken, r.LastToken, r.Phase, r.Bucket = 0, 0, measure.ProfilingPhase, measure.Profiling
		a.Add(r)
		require.NoError(t, b.Add(r))
	}
	_, html, err := b.fit(&About{Info: s.info(), Summary: a.Summary(s.info())})
	require.NoError(t, err)
	text := drawn(t, string(html))
	require.Contains(t, text, "1 000 xxx")
	require.Contains(t, text, "and of 48 more categories")
	require.Less(t, len(text), 20_000)
	e := pagetest.NewEngine(t, string(html))
	require.Less(t, e.Eval(`Math.max(...verdictsOf(page.head).flatMap((line) => [line.text, ...line.more]).map((text) => text.length))`), int64(300))
	require.Equal(t, int64(maxName+1), e.Eval(`Math.max(...page.tables.failures.columns.category.words.map((word) => word.length))`))
}
