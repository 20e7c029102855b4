package runs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/report/page/pagetest"
)

// The page in a browser: the reader chooses the number and the statistic of the charts, and nothing is told to the console.
//
// Covers S-54.
func TestPageInABrowser(t *testing.T) {
	pagetest.NeedBrowser(t)
	runs, gates := play(t, []int{1, 2, 4, 8}, []int{2, 8, 32}, "ttft.p95<400ms")
	b := pagetest.OpenHTML(t, text(t, Options{Title: "Simulated: 12 runs", Runs: runs, Gates: gates, Lead: answers(runs, gates)}), 1280, 900)
	b.Picture("simulate-compare-light")
	title := func() string {
		return pagetest.Eval[string](b, `[...document.querySelectorAll("section .charts")].find((e) => !e.hidden).querySelector("h3").textContent`)
	}
	require.Equal(t, "Time to first token, p95", title())
	press := func(text string) {
		pagetest.Eval[bool](b, `[...document.querySelectorAll("button")].find((e) => e.textContent === "`+text+`").click() === undefined`)
		b.Settle()
	}
	press("p50")
	require.Equal(t, "Time to first token, p50", title())
	axis := `[...document.querySelectorAll("section .charts")].find((e) => !e.hidden).querySelector(".plot").chart.x.name`
	require.Equal(t, "workers", pagetest.Eval[string](b, axis))
	press("concurrency")
	require.Equal(t, "concurrency", pagetest.Eval[string](b, axis))
	b.Dark(true)
	b.Picture("simulate-compare-dark")
	b.Dark(false)
	b.Resize(400, 800)
	b.Settle()
	require.LessOrEqual(t, pagetest.Eval[int](b, `document.documentElement.scrollWidth`), 400)
	b.Picture("simulate-compare-400")
	b.RequireQuiet()
}
