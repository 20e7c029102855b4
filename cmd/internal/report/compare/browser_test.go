package compare

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/report/page/pagetest"
	"github.com/agentx/agentx/replay/capacity"
)

// The page of a comparison in a browser: a drag on one chart changes the table and every chart, the statistic of the frontier is a choice,
// and nothing is told to the console.
//
//
func TestComparisonInABrowser(t *testing.T) {
	pagetest.NeedBrowser(t)
	before, after, wide := newModelled(60), newModelled(60), newModelled(60)
	after.slower, after.seed, after.failed = 1.1, 2, 12
	wide.info.Lanes, wide.info.Model = 16, "another-model"
	wide.set("concurrency", "16")
	c, err := Make(t.Context(), []Source{
		{Dir: before.write(t, "before"), Group: "8 lanes"}, {Dir: after.write(t, "after"), Group: "8 lanes", Note: "kept: ttft.p95 310 ms (2 s)"},
		{Dir: wide.write(t, "wide")},
	}, Options{GPUs: 4, Lead: []string{"capacity 8 lanes: ttft.p95 310 ms (2 s); 16 lanes: ttft.p95 2.31 s"}, Search: &capacity.Answer{
		Outcome: capacity.Found, Lanes: 8, Missed: 9, Probes: []capacity.Probe{{Lanes: 4, Verdict: capacity.Met}, {Lanes: 8, Verdict: capacity.Met}, {Lanes: 16, Verdict: capacity.Missed}, {Lanes: 12, Verdict: capacity.Missed}, {Lanes: 9, Verdict: capacity.Missed}},
	}})
	require.NoError(t, err)
	b := pagetest.OpenHTML(t, htmlOf(t, c), 1280, 900)
	table := func() string { return pagetest.Eval[string](b, `document.querySelector(".figures tbody").textContent`) }
	whole := table()
	require.Contains(t, whole, "✱")
	require.Contains(t, pagetest.Eval[string](b, `document.querySelector(".banner").textContent`), "another-model")
	require.Equal(t, 1, pagetest.Eval[int](b, `[...document.querySelectorAll("main > *")].findIndex((e) => e.className === "banner")`), "behind the title alone")

	require.True(t, pagetest.Eval[bool](b, `[...document.querySelectorAll(".whole")].every((e) => e.scrollHeight === e.clientHeight && e.clientHeight > 420)`), "no row of the means is hidden")

	plot := ".stacked figure:nth-of-type(1) .plot"
	b.Drag(plot, 0.2, 0.6, 0)
	require.Regexp(t, `^#t=`, pagetest.Eval[string](b, `location.hash`))
	require.NotEqual(t, whole, table())
	require.NotContains(t, table(), "✱", "intervals are of whole runs")
	require.Contains(t, pagetest.Eval[string](b, `document.querySelector(".bar").textContent`), "Requests that started in it: before ")
	b.Picture("compare-selected")
	pagetest.Eval[bool](b, `document.querySelector(".bar button").click() === undefined`)
	require.Equal(t, whole, table())

	pagetest.Eval[bool](b, `[...document.querySelectorAll("button")].find((e) => e.textContent === "p95").click() === undefined`)
	b.Settle()
	require.Contains(t, pagetest.Eval[string](b, `document.querySelector(".frontier h3").textContent`), "p95")
	b.Looks("compare")
	b.RequireQuiet()
}

// The page of one series and of several: the answer stands above all, hollow points and lines of limits are in the charts, the reader chooses the
// concurrency of figures and distributions, and no run is left out in silence.
//
//
func TestSeriesInABrowser(t *testing.T) {
	pagetest.NeedBrowser(t)
	rising := map[int]float64{1: 1, 4: 1.1, 16: 1.5, 64: 3}
	old := sweep(t, "old engine", 60, rising, "ttft.p95<400ms", "itl.p95<25ms")
	c, err := Make(t.Context(), old, Options{})
	require.NoError(t, err)
	b := pagetest.OpenHTML(t, htmlOf(t, c), 1280, 900)
	require.Regexp(t, `^4 lanes meet ttft.p95<400ms and itl.p95<25ms; 16 do not \(ttft.p95 4\d\d.ms\)$`, pagetest.Eval[string](b, `document.querySelector(".lead").textContent`))
	require.Equal(t, 4, pagetest.Eval[int](b, `document.querySelectorAll(".runs tbody tr").length`))
	require.Equal(t, "✗ missed", pagetest.Eval[string](b, `document.querySelectorAll(".runs tbody tr")[2].querySelector("td.missed").firstChild.textContent`))
	require.Equal(t, []bool{false, false, true, true}, pagetest.Eval[[]bool](b, `[...document.querySelectorAll(".plot")].find((e) => e.chart.title === "Time to first token").chart.marks[0].hollow`))
	b.Looks("sweep")
	b.RequireQuiet()

	list := append(old, sweep(t, "new engine", 60, map[int]float64{1: 0.9, 4: 1, 16: 1.2}, "ttft.p95<400ms", "itl.p95<25ms")...)
	for k := range 8 {
		list = append(list, sweep(t, "variant "+string(rune('A'+k)), 60, map[int]float64{4: 1 + float64(k)/20, 16: 1.5 + float64(k)/10}, "ttft.p95<400ms", "itl.p95<25ms")...)
	}
	c, err = Make(t.Context(), list, Options{})
	require.NoError(t, err)
	b = pagetest.OpenHTML(t, htmlOf(t, c), 1280, 900)
	columns := `document.querySelectorAll(".figures thead th").length - 1`
	require.Equal(t, 10, pagetest.Eval[int](b, columns), "a column a series")
	require.Zero(t, pagetest.Eval[int](b, `[...document.querySelectorAll(".plot")].flatMap((e) => e.chart.marks).filter((mark) => mark.hidden).length`), "ten series are drawn")
	figures := `document.querySelector(".figures tbody").textContent`
	before := pagetest.Eval[string](b, figures)
	require.Contains(t, before, "▲ better")
	pagetest.Eval[bool](b, `[...document.querySelectorAll("button")].find((e) => e.textContent === "1").click() === undefined`)
	b.Settle()
	require.NotEqual(t, before, pagetest.Eval[string](b, figures))
	pagetest.Eval[bool](b, `[...document.querySelectorAll("button")].find((e) => e.textContent === "16").click() === undefined`)
	b.Settle()
	require.Equal(t, before, pagetest.Eval[string](b, figures))
	b.Looks("series")
	b.RequireQuiet()
}
