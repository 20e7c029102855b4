package runs

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/report/page"
	"github.com/agentx/agentx/cmd/internal/report/page/pagetest"
)

// The page in a browser: the reader chooses the number and the statistic of the charts, and nothing is told to the console.
//
// Covers S-54.
func TestPageInABrowser(t *testing.T) {
	pagetest.NeedBrowser(t)
	runs, gates := play(t, []int{1, 2, 4, 8}, []int{2, 8, 32}, "ttft.p95<400ms")
	b := pagetest.OpenHTML(t, text(t, Options{Title: "Simulated: 12 runs", Origin: page.Origin{Facts: [][2]string{{"trace", "t.jsonl"}, {"agentx", "v1"}}, Command: "agentx simulate t.jsonl --workers=1,2,4,8"}, Runs: runs, Gates: gates, Lead: answers(runs, gates)}), 1280, 900)
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
	b.Looks("simulate-compare")
	b.RequireQuiet()
}
