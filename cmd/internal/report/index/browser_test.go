package index

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/report/live"
	"github.com/agentx/agentx/cmd/internal/report/page/pagetest"
	"github.com/agentx/agentx/replay/measure"
)

// The index in a browser: heads sort, words filter, ticks make a command, or on a server a link to the comparison, and a run that ends appears
// without a click, while ticks stay.
//
//
func TestIndexInABrowser(t *testing.T) {
	pagetest.NeedBrowser(t)
	root := writeRuns(t)
	text, err := HTML(root, root)
	require.NoError(t, err)
	b := pagetest.OpenHTML(t, string(text), 1400, 900)
	rows := `[...document.querySelectorAll("tbody tr")].map((row) => row.querySelector("th").firstChild.textContent)`
	press := func(title string) {
		pagetest.Eval[bool](b, `[...document.querySelectorAll("thead button")].find((e) => e.textContent === "`+title+`").click() === undefined`)
	}
	require.Equal(t, []string{"open", "sweep/c0016", "sweep/c0004", "it's damaged", "before"}, pagetest.Eval[[]string](b, rows))
	press("ttft p95")
	require.Equal(t, []string{"open", "before", "sweep/c0004", "sweep/c0016", "it's damaged"}, pagetest.Eval[[]string](b, rows))
	press("ttft p95")
	require.Equal(t, []string{"sweep/c0016", "sweep/c0004", "open", "before", "it's damaged"}, pagetest.Eval[[]string](b, rows))
	require.Equal(t, "descending", pagetest.Eval[string](b, `[...document.querySelectorAll("th")].find((e) => e.textContent === "ttft p95").getAttribute("aria-sort")`))
	tick := func(n string) {
		pagetest.Eval[bool](b, `document.querySelectorAll("tbody input")[`+n+`].click() === undefined`)
	}
	tick("0")
	tick("4")
	require.Equal(t, `In this directory: agentx report 'it'\''s damaged' sweep/c0016 --compare Copy`, pagetest.Eval[string](b, `document.querySelector(".choice").textContent`))
	b.Looks("index")
	pagetest.Eval[bool](b, `(() => { const e = document.querySelector("input[type=search]"); e.value = "C00 SWEEP"; return e.dispatchEvent(new Event("input")); })()`)
	require.Equal(t, []string{"sweep/c0016", "sweep/c0004"}, pagetest.Eval[[]string](b, rows))
	require.True(t, pagetest.Eval[bool](b, `document.querySelector("tbody input").checked`))
	b.RequireQuiet()

	require.NoError(t, os.Chtimes(filepath.Join(root, "open", measure.RecordsFile), time.Now(), time.Now()))
	site, err := live.Serve("--listen", "127.0.0.1:0", "", NewServer(root, time.Now).Handler())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, site.Close()) })
	b = pagetest.Open(t, site.URL(), 1400, 900)
	require.Equal(t, "playing", pagetest.Eval[string](b, `document.querySelector("tbody th .below").textContent`))
	tick("1")
	tick("2")
	require.Equal(t, "compare?runs=3,2", pagetest.Eval[string](b, `document.querySelector(".choice a").getAttribute("href")`))
	writeRun(t, filepath.Join(root, "new"), 9, 0.25, true)
	require.True(t, pagetest.Eval[bool](b, `new Promise((done) => new MutationObserver(() => { if (document.querySelector("tbody").textContent.includes("new")) done(true); }).observe(document.querySelector("tbody"), { childList: true }))`))
	require.Equal(t, 2, pagetest.Eval[int](b, `document.querySelectorAll("tbody input:checked").length`))
	pagetest.Eval[bool](b, `document.querySelector(".choice a").click() === undefined`)
	require.Equal(t, "Comparison: c0004, c0016", pagetest.Eval[string](pagetest.Open(t, site.URL()+"compare?runs=3,2", 1400, 900), `document.querySelector("h1").textContent`))
	b.RequireQuiet()
}
