package html

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/agentx/agentx/cmd/internal/report/page/pagetest"
)

// plotOf returns the selector of the chart whose title begins so.
func plotOf(t *testing.T, b *pagetest.Tab, title string) string {
	id := "plot-" + fmt.Sprint(len(title))
	found := pagetest.Eval[bool](b, fmt.Sprintf(`(() => {
		const figure = [...document.querySelectorAll("figure")].find((f) => f.querySelector("h3").textContent.startsWith(%q));
		if (figure) figure.querySelector(".plot").id = %q;
		return Boolean(figure);
	})()`, title, id))
	require.True(t, found, "no chart %s", title)
	return "#" + id
}

// redrawTimes are milliseconds from the selection of a part of the run until all is drawn that the window shows, and until the charts near
// it are drawn too: the least and the median of nine times each.
const redrawTimes = `(async () => {
	const charts = [...document.querySelectorAll(".plot")].map((plot) => plot.chart), { time } = charts[0], { from, to } = time.whole, length = to - from;
	const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
	const shown = [], all = [], rank = (times) => times.sort((a, b) => a - b) && [times[0], times[4]];
	for (let i = 0; i < 9; i++) {
		time.set(from + 0.4 * length, from + 0.45 * length);
		for (let wait = 0; wait < 3; wait++) await frame();
		const begun = performance.now();
		time.set(from + %v * length, from + %v * length);
		await frame();
		shown.push(performance.now() - begun);
		while (charts.some((chart) => chart.waiting)) await frame();
		all.push(performance.now() - begun);
	}
	return [...rank(shown), ...rank(all)];
})()`

// topsOfFirstRow are the heights at which the texts of the first row of the first table begin.
const topsOfFirstRow = `[...new Set([...document.querySelectorAll("tbody tr:first-child > *")].slice(0, 9).map((cell) => {
	const text = document.createRange();
	text.selectNode(cell.firstChild);
	return Math.round(text.getBoundingClientRect().top);
}))]`

// A hand that drags over one chart of a run changes all the others and the numbers; a click shows a lane and a request.
//
//
func TestRunInABrowser(t *testing.T) {
	pagetest.NeedBrowser(t)
	dir, _ := newSample(2000).write(t)
	html, _ := pageOf(t, dir)
	b := pagetest.OpenHTML(t, html, 1280, 900)
	b.Picture("run-light")
	numbers := func() string { return pagetest.Eval[string](b, `document.querySelector("table").textContent`) }
	before := numbers()
	height := pagetest.Eval[float64](b, `document.querySelector("table").offsetHeight`)
	load := plotOf(t, b, "Load")
	b.Drag(load, 0.3, 0.6, 0)
	require.NotEqual(t, before, numbers())
	require.Contains(t, pagetest.Eval[string](b, `location.hash`), "#t=")
	b.Picture("run-selected")
	require.Equal(t, height, pagetest.Eval[float64](b, `document.querySelector("table").offsetHeight`), "what is below the table has moved")
	require.Len(t, pagetest.Eval[[]float64](b, topsOfFirstRow), 1, "the numbers of a row are at one height")
	b.Click(load, 0.5, 2)
	require.Equal(t, before, numbers())

	require.Empty(t, pagetest.Eval[string](b, `[...document.querySelectorAll(".plot")].map(({ chart }) => {
		if (!chart.pen) chart.draw();
		const c = new SvgContext(chart.pen.width, chart.height + pictureTop, chart.pen.theme, chart.title);
		drawPicture(c, chart);
		const bad = new DOMParser().parseFromString(c.text(), "image/svg+xml").querySelector("parsererror") || /undefined|NaN/.test(c.text());
		return bad || c.parts.length < 8 ? chart.title + " " : "";
	}).join("")`), "charts whose SVG is not whole")
	lanes := plotOf(t, b, "16 lanes")
	dot := plotOf(t, b, "Request latency")
	require.True(t, pagetest.Eval[bool](b, fmt.Sprintf(`(() => {
		const plot = document.querySelector(%q), { chart } = plot, [mark] = chart.marks, row = mark.x.findIndex((x, i) => x > 0 && mark.shown(i));
		plot.scrollIntoView({ block: "center" });
		const box = plot.getBoundingClientRect();
		reportClick(chart, { clientX: box.left + chart.pen.x.pixel(mark.x[row]), clientY: box.top + chart.pen.y.pixel(mark.y[row]) });
		const card = plot.querySelector(".card"), place = card.getBoundingClientRect();
		return !card.hidden && card.textContent.includes("session") && document.querySelector(%q).chart.marks[0].picked >= 0 && place.left >= 0 && place.right <= innerWidth;
	})()`, dot, lanes)), "the request stands beside its dot, and its bar is marked")
	b.Settle()
	b.Window("run-card")
	pagetest.Eval[bool](b, fmt.Sprintf(`[...document.querySelectorAll(%q)].find((button) => button.textContent === "Show its lane").click() === undefined`, dot+" .card button"))
	b.Settle()
	b.Window("run-card-lane")
	assert.Regexp(t, `^Lane \d`, pagetest.Eval[string](b, `document.querySelector(".lanebar > span:not(.keys)").textContent`))
	pagetest.Eval[bool](b, `[...document.querySelectorAll("button")].find((button) => button.textContent === "All lanes").click() === undefined`)
	b.Key(dot, "\u001b")
	assert.True(t, pagetest.Eval[bool](b, fmt.Sprintf(`document.querySelector(%q).hidden`, dot+" .card")), "Escape closes it")
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
	assert.Equal(t, "figure requests p50 p95 p99", pagetest.Eval[string](b, `[...document.querySelectorAll(".numbers thead th")].filter((th) => th.offsetWidth && th.textContent && th.getBoundingClientRect().right < 400).map((th) => th.textContent).join(" ")`),
		"the figures that decide have room")
	b.RequireQuiet()
}

// How long a large page takes to open, and a selection to be drawn: figures, no bounds. AGENTX_PAGE names other pages, as PATH does folders:
// they take turns, so that what else the machine does is the same for all.
func TestSpeedInABrowser(t *testing.T) {
	pagetest.NeedBrowser(t)
	paths := filepath.SplitList(os.Getenv("AGENTX_PAGE"))
	if len(paths) == 0 {
		dir, _ := newSample(41_400).write(t)
		html, _ := pageOf(t, dir)
		paths = []string{t.TempDir() + "/" + File}
		require.NoError(t, os.WriteFile(paths[0], []byte(html), 0o600))
	}
	tabs := make([]*pagetest.Tab, len(paths))
	for k, path := range paths {
		b := pagetest.Open(t, "file://"+path, 1280, 900)
		tabs[k] = b
		t.Logf("page %d: open: %.0f ms to the end of the script, %.0f ms until it was parsed", k, pagetest.Eval[float64](b, `performance.timing.domContentLoadedEventEnd - performance.timing.navigationStart`),
			pagetest.Eval[float64](b, `performance.timing.domInteractive - performance.timing.navigationStart`))
	}
	for _, place := range []string{"0", "600", "1500", "document.body.scrollHeight"} {
		for _, part := range [][2]float64{{0, 1}, {0.2, 0.8}, {0.3, 0.5}, {0.31, 0.32}} {
			for k, b := range tabs {
				pagetest.Eval[bool](b, fmt.Sprintf(`(scrollTo(0, %s), true)`, place))
				b.Settle()
				before := b.CPU()
				ms := pagetest.Eval[[4]float64](b, fmt.Sprintf(redrawTimes, part[0], part[1]))
				t.Logf("page %d scrolled to %s, %v of the run: %.0f ms (median %.0f) for the window, %.0f ms (%.0f) with what is near; %.0f ms of CPU for two selections",
					k, place, part, ms[0], ms[1], ms[2], ms[3], float64((b.CPU()-before).Milliseconds())/9)
			}
		}
	}
	for _, b := range tabs {
		b.RequireQuiet()
	}
}
