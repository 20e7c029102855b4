package html

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/report/page/pagetest"
)

// section names the chart whose title begins so.
func plotOf(b *pagetest.Tab, title string) string {
	id := "plot-" + fmt.Sprint(len(title))
	found := pagetest.Eval[bool](b, fmt.Sprintf(`(() => {
		const figure = [...document.querySelectorAll("figure")].find((f) => f.querySelector("h3").textContent.startsWith(%q));
		if (figure) figure.querySelector(".plot").id = %q;
		return Boolean(figure);
	})()`, title, id))
	if !found {
		panic("no chart " + title)
	}
	return "#" + id
}

// timeIt returns how many milliseconds an expression takes until everything is drawn.
const timeIt = `(async () => {
	const begun = performance.now();
	%s;
	await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
	return performance.now() - begun;
})()`

// A hand that drags over one chart of a run changes all the others and the numbers; a click shows a lane and a request.
//
//
func TestRunInABrowser(t *testing.T) {
	dir, _ := newSample(2000).write(t)
	html, _ := pageOf(t, dir)
	b := pagetest.OpenHTML(t, html, 1280, 900)
	b.Picture("run-light")
	numbers := func() string { return pagetest.Eval[string](b, `document.querySelector("table").textContent`) }
	before := numbers()
	load := plotOf(b, "Load")
	b.Drag(load, 0.3, 0.6, 0)
	require.NotEqual(t, before, numbers())
	require.Contains(t, pagetest.Eval[string](b, `location.hash`), "#t=")
	b.Picture("run-selected")
	b.Click(load, 0.5, 2)
	require.Equal(t, before, numbers())

	lanes := plotOf(b, "16 lanes")
	b.Click(lanes, 0.5, 1)
	assert.Contains(t, pagetest.Eval[string](b, `document.querySelector(".lanebar").textContent`), "Lane ")
	b.Picture("run-lane")
	b.Dark(true)
	b.Picture("run-dark")
	b.Resize(400, 900)
	b.Picture("run-400-dark")
	b.Dark(false)
	b.Picture("run-400")
	assert.LessOrEqual(t, pagetest.Eval[int64](b, `document.documentElement.scrollWidth`), int64(400))
	b.RequireQuiet()
}

// How long a large page takes to open, and a selection to be drawn: figures, no bounds. AGENTX_PAGE names another page.
func TestSpeedInABrowser(t *testing.T) {
	path := os.Getenv("AGENTX_PAGE")
	if path == "" {
		dir, _ := newSample(41_400).write(t)
		html, _ := pageOf(t, dir)
		path = t.TempDir() + "/" + File
		require.NoError(t, os.WriteFile(path, []byte(html), 0o600))
	}
	b := pagetest.Open(t, "file://"+path, 1280, 900)
	t.Logf("open: %.0f ms to the end of the script, %.0f ms until it was parsed", pagetest.Eval[float64](b, `performance.timing.domContentLoadedEventEnd - performance.timing.navigationStart`),
		pagetest.Eval[float64](b, `performance.timing.domInteractive - performance.timing.navigationStart`))
	for _, place := range []string{"0", "600", "1500", "document.body.scrollHeight"} {
		pagetest.Eval[bool](b, fmt.Sprintf(`(scrollTo(0, %s), true)`, place))
		b.Settle()
		for _, part := range [][2]float64{{0.2, 0.8}, {0.3, 0.5}, {0.31, 0.32}} {
			ms := pagetest.Eval[float64](b, fmt.Sprintf(timeIt, fmt.Sprintf(`(() => { const { time } = document.querySelector(".plot").chart, w = time.whole, l = w.to - w.from; time.set(w.from + %v * l, w.from + %v * l); })()`, part[0], part[1])))
			t.Logf("at %s, %v of the run: %.0f ms", place, part, ms)
		}
		ms := pagetest.Eval[float64](b, fmt.Sprintf(timeIt, `document.querySelector(".plot").chart.time.reset()`))
		t.Logf("at %s, everything: %.0f ms", place, ms)
	}
	b.RequireQuiet()
}
