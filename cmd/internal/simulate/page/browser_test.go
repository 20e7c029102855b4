package page

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/report/page/pagetest"
	"github.com/agentx/agentx/cmd/internal/simulate"
	"github.com/agentx/agentx/cmd/internal/simulate/planner"
)

// plotOf returns the selector of the chart whose title begins so.
func plotOf(t *testing.T, b *pagetest.Tab, title string) string {
	id := fmt.Sprintf("plot-%d", len(title))
	found := pagetest.Eval[bool](b, fmt.Sprintf(`(() => {
		const figure = [...document.querySelectorAll("figure")].find((f) => f.querySelector("h3").textContent.startsWith(%q));
		if (figure) figure.querySelector(".plot").id = %q;
		return Boolean(figure);
	})()`, title, id))
	require.True(t, found, "no chart %s", title)
	return "#" + id
}

// rangesOf returns the ranges that the charts over time show, each once.
const rangesOf = `[...new Set([...document.querySelectorAll(".plot")].filter((p) => p.chart.pen).map((p) => p.chart.pen.from + " " + p.chart.pen.to))]`

// drawAll draws every chart, also those below the window.
const drawAll = `(document.querySelectorAll(".plot").forEach((p) => p.chart.draw()), true)`

// A hand that drags over one chart moves all, of runs with a planner and without; a click shows a request.
//
// Covers S-51.
func TestSimulationsInABrowser(t *testing.T) {
	pagetest.NeedBrowser(t)
	for name, c := range map[string]simulate.Config{
		"agg": plannedConfig(planner.Aggregated), "disagg": plannedConfig(planner.Disaggregated), "sampled": sampledConfig(8), "long": longConfig(),
	} {
		t.Run(name, func(t *testing.T) {
			_, html := made(t, c)
			b := pagetest.OpenHTML(t, html, 1280, 900)
			pagetest.Eval[bool](b, drawAll)
			require.Len(t, pagetest.Eval[[]string](b, rangesOf), 1)
			t.Logf("%d bytes; all charts are drawn in %.0f ms", len(html), pagetest.Eval[float64](b, `(() => { const begin = performance.now(); `+drawAll+`; return performance.now() - begin; })()`))
			whole := pagetest.Eval[[]string](b, rangesOf)
			rate := plotOf(t, b, "Request rate")
			b.Drag(rate, 0.3, 0.6, 0)
			pagetest.Eval[bool](b, drawAll)
			require.Len(t, pagetest.Eval[[]string](b, rangesOf), 1, "one range of all charts")
			require.NotEqual(t, whole, pagetest.Eval[[]string](b, rangesOf))
			require.Contains(t, pagetest.Eval[string](b, `location.hash`), "#t=")
			b.Point(rate, 0.5)
			b.Picture("simulate-" + name + "-selected")
			b.Click(rate, 0.5, 2)
			require.Empty(t, pagetest.Eval[string](b, `location.hash`))
			requests := plotOf(t, b, "Time to first token of each")
			clickPoint(b, requests)
			require.Contains(t, pagetest.Eval[string](b, `document.querySelector(".request").textContent`), "session, turn")
			b.Looks("simulate-" + name)
			b.RequireQuiet()
		})
	}
}

// clickPoint clicks on the first request that a chart has a point of.
func clickPoint(b *pagetest.Tab, plot string) {
	pagetest.Eval[bool](b, fmt.Sprintf(`(() => {
		const plot = document.querySelector(%q), chart = plot.chart, mark = chart.marks[0];
		plot.scrollIntoView({block: "center"});
		chart.draw();
		const row = mark.keep.indexOf(1), box = plot.getBoundingClientRect();
		chart.pointed({px: chart.pen.x.pixel(mark.x[row]), py: chart.pen.y.pixel(mark.y[row])});
		return true;
	})()`, plot))
	b.Settle()
}
