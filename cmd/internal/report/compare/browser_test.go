package compare

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/report/page/pagetest"
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
	}, Options{GPUs: 4, Lead: []string{"capacity 8 lanes: ttft.p95 310 ms (2 s); 16 lanes: ttft.p95 2.31 s"}})
	require.NoError(t, err)
	b := pagetest.OpenHTML(t, htmlOf(t, c), 1280, 900)
	b.Picture("compare-light")
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
	b.Dark(true)
	b.Picture("compare-dark")
	b.Dark(false)
	b.Resize(400, 800)
	b.Settle()
	require.LessOrEqual(t, pagetest.Eval[int](b, `document.documentElement.scrollWidth`), 400)
	b.Picture("compare-400")
	b.RequireQuiet()
}
